"""Kafka's tools as the steps of a scenario run them: klamm's own, in this process, on its cluster.

``--zookeeper`` means the scenario's store and ``--bootstrap-server`` its controller, whatever the
address. What each tool does is admin/'s business.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from admin.command_result import CommandResult
from admin.configs.changes import ConfigChanges, check_resource
from admin.configs.command import ConfigServices, run_configs_command
from admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from admin.configs.configs_admin import ConfigEntry
from admin.configs.effective_configs import (
    BrokerConfigs,
    broker_entries,
    default_entries,
    topic_entries,
)
from admin.configs.zookeeper import ZooKeeperConfigs
from admin.elections.command import run_election_command
from admin.elections.preferred_command import ElectionServices, run_preferred_election_command
from admin.failures import Failure
from admin.reassignments.command import ReassignServices, run_reassign_command
from admin.reassignments.reassign_admin import ReplicaLogDirs
from admin.reassignments.reassignment_json import TopicPartitionReplica
from admin.topics.cluster_topics import ClusterAdmin
from admin.topics.command import Services, run_topic_command
from admin.topics.text import PartitionDescription, TopicDescription
from cluster.api_errors import Errors
from cluster.errors import RequestTimedOut, UsageError
from cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from placement.broker_metadata import BrokerMetadata
from placement.draws import JavaRandom
from runtime.scenarios.driver import ScenarioDriver, ToolResult
from zk.kafka_zk_client import KafkaZkClient
from zk.znodes import DEFAULT_ENTITY


class _Context(NamedTuple):
    """What tools need besides the cluster: the dice of placements, what brokers began with."""

    random: JavaRandom
    config: Mapping[str, str]


class ScenarioTools:
    """The tools by their names at klamm's command line; ``seed`` is that of their placements,
    ``config`` what all brokers were told at their start."""

    def __init__(self, seed: int, config: Mapping[str, str]) -> None:
        self._context = _Context(JavaRandom(seed), config)

    def __call__(self, name: str, args: Sequence[str], driver: ScenarioDriver) -> ToolResult:
        """Run a tool. Raises UsageError if there is none of this name."""
        tool = _TOOLS.get(name)
        if tool is None:
            raise UsageError(f"there is no tool {name}", hint=f"tools: {', '.join(TOOL_NAMES)}")
        result = tool(args, driver, self._context)
        return ToolResult(result.stdout, result.stderr, result.exit_code)


def _topics(args: Sequence[str], driver: ScenarioDriver, context: _Context) -> CommandResult:
    def open_cluster(_: str) -> AbstractContextManager[ClusterAdmin]:
        raise UsageError(
            "a scenario's topics are changed by ZooKeeper, not by --bootstrap-server",
            hint="--zookeeper {zk}",
        )

    services = Services(_opener(driver.store), open_cluster, context.random, _nothing)
    return run_topic_command(args, services)


def _reassign(args: Sequence[str], driver: ScenarioDriver, context: _Context) -> CommandResult:
    services = ReassignServices(
        _opener(driver.store),
        _opener(DriverAdmin(driver)),
        context.random,
        _nothing,
        lambda: driver.elapsed_ms / 1000,
        lambda duration_s: driver.run_for(duration_s * 1000),
    )
    return run_reassign_command(args, services)


def _preferred(args: Sequence[str], driver: ScenarioDriver, _: _Context) -> CommandResult:
    services = ElectionServices(_opener(driver.store), _opener(DriverAdmin(driver)), _nothing)
    return run_preferred_election_command(args, services)


def _elect(args: Sequence[str], driver: ScenarioDriver, _: _Context) -> CommandResult:
    return run_election_command(args, _opener(DriverAdmin(driver)))


def _configs(args: Sequence[str], driver: ScenarioDriver, context: _Context) -> CommandResult:
    admin = DriverAdmin(driver, context.config)
    services = ConfigServices(_opener(driver.store), _opener(admin), _nothing)
    return run_configs_command(args, services)


_TOOLS: Final[Mapping[str, Callable[[Sequence[str], ScenarioDriver, _Context], CommandResult]]] = {
    "topics": _topics,
    "reassign-partitions": _reassign,
    "preferred-replica-election": _preferred,
    "leader-election": _elect,
    "configs": _configs,
}
TOOL_NAMES: Final = tuple(_TOOLS)


def _nothing(_: object) -> None:
    return None


def _opener(opened: Any) -> Any:
    @contextlib.contextmanager
    def open_it(_: str) -> Iterator[Any]:
        yield opened

    return open_it


class DriverAdmin:
    """A scenario's cluster as the tools see it through ``--bootstrap-server``: topics, brokers and
    configs are read from ZooKeeper, and replicas move between no directories. ``config``: what all
    brokers were told at their start."""

    def __init__(self, driver: ScenarioDriver, config: Mapping[str, str] | None = None) -> None:
        self._driver = driver
        self._static = config or {}
        self._zk = KafkaZkClient(driver.store)
        self._configs = ZooKeeperConfigs(self._zk)

    def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Collection[TopicPartition] | None,
        timeout_ms: int,
    ) -> Mapping[TopicPartition, Failure | None]:
        """Ask the controller to elect leaders."""
        asked = None if partitions is None else tuple(partitions)
        response = self._driver.ask(ElectLeadersRequest(election_type, asked, timeout_ms))
        assert isinstance(response, ElectLeadersResponse)
        if response.error is not Errors.NONE:
            raise RequestTimedOut(f"The controller answers {response.error.name}.")
        return {
            tp: None if error.error is Errors.NONE else Failure(error.error, error.message)
            for tp, error in response.partitions.items()
        }

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[TopicPartition, ReplicaAssignment]:
        """What the controller says is being reassigned."""
        asked = None if partitions is None else tuple(partitions)
        response = self._driver.ask(ListPartitionReassignmentsRequest(asked))
        assert isinstance(response, ListPartitionReassignmentsResponse)
        assert response.error.error is Errors.NONE
        return response.partitions

    def alter_partition_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], timeout_ms: int
    ) -> Mapping[TopicPartition, Failure]:
        """Ask the controller to move partitions."""
        response = self._driver.ask(AlterPartitionReassignmentsRequest(targets))
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        assert response.error.error is Errors.NONE
        return {
            tp: Failure(error.error, error.message)
            for tp, error in response.partitions.items()
            if error.error is not Errors.NONE
        }

    def describe_topics(self, topics: Sequence[str]) -> Sequence[TopicDescription]:
        """The topics as ZooKeeper has them."""
        found = self._zk.get_topic_assignments(topics)
        states = self._zk.get_partition_states(
            [tp for topic in found.values.values() for tp in topic.assignment]
        )
        return [
            TopicDescription(
                name,
                topic.topic_id,
                {},
                tuple(
                    PartitionDescription(
                        name,
                        tp.partition,
                        states.values[tp].leader_and_isr.leader,
                        assignment.replicas,
                        states.values[tp].leader_and_isr.isr,
                    )
                    for tp, assignment in topic.assignment.items()
                ),
            )
            for name, topic in found.values.items()
        ]

    def live_brokers(self) -> Sequence[BrokerMetadata]:
        """The registered brokers."""
        found = self._zk.get_all_brokers_and_epochs_in_cluster()
        return [BrokerMetadata(b.broker.id, b.broker.rack) for b in found.values.values()]

    def overrides(
        self, resources: Collection[ConfigResource] | None = None
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """The configs that are set."""
        return self._configs.overrides(resources)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Set configs of topics and brokers. Raises AdminError if one is refused."""
        for resource, wanted in changes.items():
            check_resource(resource)
            ConfigChanges(self._zk, self._zk.topic_exists).alter(resource, wanted)

    def describe_configs(self, resource: ConfigResource) -> Sequence[ConfigEntry]:
        """The configs of a topic, a broker, or of all brokers, as ZooKeeper has them."""
        check_resource(resource)
        of_all = ConfigResource(BROKERS, DEFAULT_ENTITY)
        found = self.overrides(list(dict.fromkeys([resource, of_all])))
        if resource == of_all:
            return default_entries(found[of_all])
        if resource.entity_type == TOPICS:
            return topic_entries(found[resource], BrokerConfigs({}, found[of_all], self._static))
        static = {**self._static, "broker.id": resource.name}
        return broker_entries(BrokerConfigs(found[resource], found[of_all], static))

    def list_topics(self) -> Sequence[str]:
        """The topics that ZooKeeper has."""
        return self._zk.get_all_topics_in_cluster()

    def live_broker_ids(self) -> Sequence[int]:
        """The registered brokers' ids."""
        return [broker.id for broker in self.live_brokers()]

    def describe_replica_log_dirs(
        self, replicas: Collection[TopicPartitionReplica]
    ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs]:
        """No broker says."""
        return {}

    def alter_replica_log_dirs(
        self, log_dirs: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, Failure]:
        """Refused: a scenario's plans name no directory."""
        raise UsageError("a scenario's tools move no directories")
