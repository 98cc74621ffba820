"""klamm's implementations of Kafka's tools, run in this process on a scenario's cluster.

``--zookeeper`` selects the scenario's store and ``--bootstrap-server`` its cluster, whatever
address is given. The tools are implemented in tools/.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from klamm.admin.admin_channel import is_not_controller, timed_out
from klamm.admin.configs.config_resource import TOPICS, ConfigResource
from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, PartitionMetadata, TopicMetadata
from klamm.cluster.errors import RequestTimedOut, UsageError
from klamm.cluster.requests import (
    ApiError,
    NewPartitions,
    PartitionResponse,
    Request,
    Response,
    TopicResponse,
)
from klamm.cluster.types import (
    NO_CONTROLLER,
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.lab.checks.admin_history import AdminHistory
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.placement.draws import JavaRandom
from klamm.tools.command_result import CommandResult
from klamm.tools.configs.command import run_configs_command
from klamm.tools.elections.command import run_election_command
from klamm.tools.elections.preferred_command import run_preferred_election_command
from klamm.tools.log_dirs_command import run_log_dirs_command
from klamm.tools.reassignments.command import run_reassign_command
from klamm.tools.tool_output import KafkaTool
from klamm.tools.tool_services import ToolServices
from klamm.tools.topics.command import run_topic_command
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.views.brokers import cached_topics
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import BrokerIdZNode

C = TypeVar("C", bound=TopicResponse | PartitionResponse)
R = TypeVar("R", bound=Response)


TOOLS: Final[Mapping[str, KafkaTool[...]]] = {
    "topics": run_topic_command,
    "reassign-partitions": run_reassign_command,
    "preferred-replica-election": run_preferred_election_command,
    "leader-election": run_election_command,
    "configs": run_configs_command,
    "log-dirs": run_log_dirs_command,
}
"""Kafka's tools, keyed by their names on klamm's command line."""


class ScenarioTools:
    """Runs Kafka's tools, by their names on klamm's command line, on a scenario's cluster."""

    def __init__(self, spec: ClusterSpec) -> None:
        self._spec = spec
        self._random = JavaRandom(spec.seed)

    def __call__(self, name: str, args: Sequence[str], driver: ScenarioDriver) -> CommandResult:
        """Run a tool. Raises UsageError if no tool has this name."""
        tool = TOOLS.get(name)
        if tool is None:
            raise UsageError(f"unknown tool {name}", hint=f"tools: {', '.join(TOOLS)}")
        spec = self._spec
        channel = DriverChannel(driver)
        admin = RecordedAdmin(driver.admin_history, channel, spec)
        services = ToolServices(
            open_store=_opener(driver.store),
            open_cluster=_opener(admin),
            before_write=lambda _: None,
            source=self._random,
            now_ms=lambda: driver.elapsed_ms,
            sleep_ms=driver.run_for,
        )
        return tool(args, services)


def _opener(opened: Any) -> Any:
    @contextlib.contextmanager
    def open_it(_: str) -> Iterator[Any]:
        yield opened

    return open_it


class RecordedAdmin(KafkaAdmin):
    """KafkaAdmin that records in a history what its calls find and achieve in ZooKeeper.

    DriverChannel records requests to the controller, and RecordedStore records writes."""

    def __init__(self, history: AdminHistory, channel: DriverChannel, spec: ClusterSpec) -> None:
        super().__init__(channel, spec.config, spec.pools, spec.partition_limits)
        self._history = history

    def create_partitions(
        self, topics: Mapping[str, NewPartitions], timeout_ms: int, *, validate_only: bool = False
    ) -> Mapping[str, ApiError]:
        """Add partitions to topics, and record the result."""
        called = self._history.call()
        failures = super().create_partitions(topics, timeout_ms, validate_only=validate_only)
        if validate_only:
            return failures
        for topic, wanted in topics.items():
            error = failures[topic].error if topic in failures else Errors.NONE
            self._history.added_partitions(called, topic, wanted.total_count, error)
        return failures

    def incremental_alter_configs(
        self,
        entities: Mapping[ConfigResource, Mapping[str, str | None]],
        *,
        validate_only: bool = False,
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """Change configs of topics and brokers, and record the result if all changes succeeded."""
        called = self._history.call()
        overrides = super().incremental_alter_configs(entities, validate_only=validate_only)
        for entity, wanted in entities.items():
            if entity.entity_type == TOPICS and not validate_only:
                self._history.altered_configs(called, entity.name, wanted)
        return overrides


class DriverChannel:
    """AdminChannel to a scenario's cluster.

    The cluster runs while the channel waits for responses."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver

    @property
    def zk(self) -> KafkaZkClient:
        """The scenario's ZooKeeper session."""
        return KafkaZkClient(self._driver.store)

    def ask_controller(
        self, call: str, request: Request, kind: type[C], timeout_ms: int | None = None
    ) -> C:
        """Send a request to the controller. Retry while the response is NOT_CONTROLLER."""
        while True:
            self.await_controller(call)
            response = self._driver.operator.ask(request)
            assert isinstance(response, kind)
            if not is_not_controller(response):
                return response

    def ask_brokers(
        self, call: str, requests: Mapping[int, Request], kind: type[R]
    ) -> Mapping[int, R]:
        """Send a request to each broker in turn. Return the responses by broker id.

        First waits, up to a timeout, until all these brokers are registered."""
        self._driver.run_until(lambda: all(map(self.is_registered, requests)), STEP_TIMEOUT_MS)
        answers: dict[int, R] = {}
        for broker_id in filter(self.is_registered, requests):
            with contextlib.suppress(RequestTimedOut):
                response = self._driver.operator.ask(requests[broker_id], broker_id)
                assert isinstance(response, kind)
                answers[broker_id] = response
        return answers

    def await_controller(self, call: str, timeout_ms: float = STEP_TIMEOUT_MS) -> None:
        """Wait until a controller is active."""
        if not self._driver.run_until(
            lambda: self._driver.known_assignments() is not None, timeout_ms
        ):
            raise timed_out(call, self.now_ms(), "there is no active controller")

    def await_broker(self, call: str, broker_id: int, timeout_ms: int | None = None) -> None:
        """Wait until a broker is registered."""
        wait_ms = STEP_TIMEOUT_MS if timeout_ms is None else timeout_ms
        if not self._driver.run_until(lambda: self.is_registered(broker_id), wait_ms):
            raise self.no_response(call, [broker_id])

    def no_response(self, call: str, broker_ids: Sequence[int]) -> RequestTimedOut:
        """Return the error to raise if none of these brokers has responded to a call."""
        hint = f"no response from broker {', '.join(map(str, broker_ids))}"
        return timed_out(call, self.now_ms(), hint)

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
        """Return the topics that exist in ZooKeeper and that brokers know."""
        return sorted(set(self.zk.get_all_topics_in_cluster()).difference(self._forgotten()))

    def metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return the metadata of topics and brokers, as read from ZooKeeper.

        It is not read from a broker's metadata cache, which may lack changes that the previous step
        waited for.
        """
        zk = self.zk
        brokers = zk.get_all_brokers_and_epochs_in_cluster().values
        forgotten = self._forgotten()
        known = [topic for topic in topics if topic not in forgotten]
        found = zk.get_topic_assignments(known).values
        states = zk.get_partition_states([tp for one in found.values() for tp in one.assignment])
        controller_id = zk.get_controller_id()
        return MetadataResponse(
            tuple(registered.broker for registered in brokers.values()),
            NO_CONTROLLER if controller_id is None else controller_id,
            tuple(_metadata(topic, found.get(topic), states.values, brokers) for topic in topics),
        )

    def _forgotten(self) -> set[str]:
        """Return the topics that are being deleted and that no broker knows any more.

        The controller has sent UpdateMetadata with the leader LeaderDuringDelete for them.
        """
        context = self._driver.controller_context()
        if context is None or not context.topics_to_be_deleted:
            return set()
        known = self._driver.call_client(lambda _: cached_topics(self._driver.cluster))
        return context.topics_to_be_deleted.difference(known)

    def partition_count(self) -> int | None:
        """Return the number of partitions that the active controller knows.

        Returns None if no controller is active.
        """
        known = self._driver.known_assignments()
        return None if known is None else len(known)

    def running_reassignments(self) -> Mapping[TopicPartition, ReplicaAssignment]:
        """Return the reassignments in progress, as known to the active controller."""
        known = self._driver.known_assignments() or {}
        return {tp: one for tp, one in known.items() if one.is_being_reassigned}

    def now_ms(self) -> int:
        """Return the age of the cluster in milliseconds."""
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
        partitions.append(
            PartitionMetadata.of(
                brokers, tp.partition, state.leader, state.leader_epoch, replicas, state.isr
            )
        )
    return TopicMetadata(Errors.NONE, name, topic.topic_id, tuple(partitions))
