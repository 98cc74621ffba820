"""Kafka's tools in scenarios: klamm's implementations, in this process, on the scenario's cluster.

``--zookeeper`` selects the scenario's store and ``--bootstrap-server`` its cluster, regardless of
the address. admin/ implements the tools.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from klamm.admin.admin_channel import is_not_controller, timed_out
from klamm.admin.command_result import CommandResult
from klamm.admin.configs.command import run_configs_command
from klamm.admin.elections.command import run_election_command
from klamm.admin.elections.preferred_command import run_preferred_election_command
from klamm.admin.kafka_admin import KafkaAdmin
from klamm.admin.log_dirs_command import run_log_dirs_command
from klamm.admin.reassignments.command import run_reassign_command
from klamm.admin.tool_services import ToolServices
from klamm.admin.topics.command import run_topic_command
from klamm.brokers.topic_metadata import NO_CONTROLLER_ID
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, PartitionMetadata, TopicMetadata
from klamm.cluster.errors import RequestTimedOut, UsageError
from klamm.cluster.requests import Request, Response
from klamm.cluster.types import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.placement.draws import JavaRandom
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.steps import STEP_TIMEOUT_MS, ToolResult
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import BrokerIdZNode

R = TypeVar("R", bound=Response)

_TOOLS: Final[Mapping[str, Callable[[Sequence[str], ToolServices], CommandResult]]] = {
    "topics": run_topic_command,
    "reassign-partitions": run_reassign_command,
    "preferred-replica-election": run_preferred_election_command,
    "leader-election": run_election_command,
    "configs": run_configs_command,
    "log-dirs": run_log_dirs_command,
}
TOOL_NAMES: Final = tuple(_TOOLS)


class ScenarioTools:
    """The tools by their names on klamm's command line, on the cluster of one scenario."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._random = JavaRandom(spec.seed)

    def __call__(self, name: str, args: Sequence[str], driver: ScenarioDriver) -> ToolResult:
        """Run a tool. Raises UsageError for an unknown name."""
        tool = _TOOLS.get(name)
        if tool is None:
            raise UsageError(f"unknown tool {name}", hint=f"tools: {', '.join(TOOL_NAMES)}")
        spec = self._spec
        admin = KafkaAdmin(DriverChannel(driver), spec.config, spec.pools, spec.partition_limits)
        services = ToolServices(
            open_store=_opener(driver.store),
            open_cluster=_opener(admin),
            before_write=lambda _: None,
            source=self._random,
            now_ms=lambda: driver.elapsed_ms,
            sleep_ms=driver.run_for,
        )
        result = tool(args, services)
        return ToolResult(result.stdout, result.stderr, result.exit_code)


def _opener(opened: Any) -> Any:
    @contextlib.contextmanager
    def open_it(_: str) -> Iterator[Any]:
        yield opened

    return open_it


class DriverChannel:
    """AdminChannel of a scenario's cluster, which runs while a response is awaited."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver

    @property
    def zk(self) -> KafkaZkClient:
        """The scenario's session."""
        return KafkaZkClient(self._driver.store)

    def ask_controller(
        self, call: str, request: Request, kind: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send a request to the controller until the active one responds."""
        while True:
            self.await_controller(call)
            response = self._driver.operator.ask(request)
            assert isinstance(response, kind)
            if not is_not_controller(response):
                return response

    def ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> Mapping[int, R]:
        """Send requests to brokers one at a time, once all are registered or after a timeout."""
        self._driver.run_until(lambda: all(map(self.is_registered, requests)), STEP_TIMEOUT_MS)
        answers: dict[int, R] = {}
        for broker_id in filter(self.is_registered, requests):
            with contextlib.suppress(RequestTimedOut):
                response = self._driver.operator.ask(requests[broker_id], broker_id)
                assert isinstance(response, kind)
                answers[broker_id] = response
        return answers

    def await_controller(self, call: str, timeout_ms: float = STEP_TIMEOUT_MS) -> None:
        """Wait for an active controller."""
        if not self._driver.run_until(
            lambda: self._driver.controller_context() is not None, timeout_ms
        ):
            raise timed_out(call, self.now_ms(), "there is no active controller")

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        """Wait until a broker is registered."""
        wait_ms = STEP_TIMEOUT_MS if timeout_ms is None else timeout_ms
        if not self._driver.run_until(lambda: self.is_registered(broker_id), wait_ms):
            raise timed_out(call, self.now_ms(), f"broker {broker_id} did not respond")

    def await_leaders(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> bool:
        """Wait until each partition has a leader; return False after the timeout."""

        def have_leaders() -> bool:
            states = self.zk.get_partition_states(partitions).values
            return len(states) == len(partitions) and all(
                state.leader_and_isr.leader != NO_LEADER for state in states.values()
            )

        return self._driver.run_until(have_leaders, timeout_ms)

    def is_registered(self, broker_id: int) -> bool:
        """Return True if the broker is registered."""
        return self.zk.path_exists(BrokerIdZNode.path(broker_id))

    def topic_names(self) -> Sequence[str]:
        """Return the topics in ZooKeeper."""
        return sorted(self.zk.get_all_topics_in_cluster())

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return metadata of topics and brokers from ZooKeeper.

        A broker's metadata cache may be behind the conditions that the last step waited for.
        """
        zk = self.zk
        brokers = zk.get_all_brokers_and_epochs_in_cluster().values
        found = zk.get_topic_assignments(topics).values
        states = zk.get_partition_states([tp for one in found.values() for tp in one.assignment])
        controller_id = zk.get_controller_id()
        return MetadataResponse(
            tuple(registered.broker for registered in brokers.values()),
            NO_CONTROLLER_ID if controller_id is None else controller_id,
            tuple(_metadata(topic, found.get(topic), states.values, brokers) for topic in topics),
        )

    def partition_count(self) -> int | None:
        """Return the number of partitions in the controller's context; None without one."""
        context = self._driver.controller_context()
        return None if context is None else len(context.assignments)

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the running reassignments in the controller's context."""
        context = self._driver.controller_context()
        return {} if context is None else context.running_reassignments()

    def now_ms(self) -> int:
        """Return the age of the cluster."""
        return int(self._driver.elapsed_ms)


def _metadata(
    name: str,
    topic: TopicIdReplicaAssignment | None,
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
    brokers: Container[int],
) -> TopicMetadata:
    if topic is None:
        return TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, name)
    partitions = []
    for tp in sorted(topic.assignment):
        replicas = topic.assignment[tp].replicas
        state = states[tp].leader_and_isr if tp in states else LeaderAndIsr(NO_LEADER, 0, ())
        is_alive = state.leader in brokers
        partitions.append(
            PartitionMetadata(
                Errors.NONE if is_alive else Errors.LEADER_NOT_AVAILABLE,
                tp.partition,
                state.leader if is_alive else NO_LEADER,
                state.leader_epoch,
                replicas,
                state.isr,
            )
        )
    return TopicMetadata(Errors.NONE, name, topic.topic_id, tuple(partitions))
