"""Kafka's tools as the steps of a scenario run them: klamm's own, on the scenario's cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from admin.cluster_topics import ClusterAdmin
from admin.elections import ElectionAdmin
from admin.failures import Failure
from admin.preferred_election_command import ElectionServices, run_preferred_election_command
from admin.reassign_admin import ConfigResource, ReassignAdmin, ReplicaLogDirs
from admin.reassign_command import ReassignServices, run_reassign_command
from admin.reassign_json import TopicPartitionReplica
from admin.topic_command import Services, run_topic_command
from admin.topic_text import PartitionDescription, TopicDescription
from cluster.api_errors import Errors
from cluster.errors import UsageError
from cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from cluster.types import ReplicaAssignment, TopicPartition
from placement.broker_metadata import BrokerMetadata
from placement.draws import JavaRandom
from runtime.scenario import ScenarioDriver, ToolResult
from zk.kafka_zk_client import KafkaZkClient
from zk.store import Store


def topic_tool(name: str, args: Sequence[str], store: Store) -> ToolResult:
    """Run kafka-topics with ``--zookeeper`` meaning ``store``."""
    if name != "TopicCommand":
        raise UsageError(f"there is no tool {name} yet")

    @contextlib.contextmanager
    def open_cluster(address: str) -> Iterator[ClusterAdmin]:
        raise UsageError(f"a scenario's tools work on ZooKeeper, not on {address}")
        yield

    services = Services(_opener(store), open_cluster, JavaRandom(0), lambda _: None)
    result = run_topic_command(args, services)
    return ToolResult(result.stdout, result.stderr, result.exit_code)


def election_tool(args: Sequence[str], store: Store) -> ToolResult:
    """Run kafka-preferred-replica-election with ``--zookeeper`` meaning ``store``."""

    @contextlib.contextmanager
    def open_cluster(address: str) -> Iterator[ElectionAdmin]:
        raise UsageError(f"a scenario's tools work on ZooKeeper, not on {address}")
        yield

    services = ElectionServices(_opener(store), open_cluster, lambda _: None)
    result = run_preferred_election_command(args, services)
    return ToolResult(result.stdout, result.stderr, result.exit_code)


def kafka_tool(name: str, args: Sequence[str], driver: ScenarioDriver) -> ToolResult:
    """Run a Kafka tool on a scenario's cluster, by its ZooKeeper or by its controller."""
    if name == "PreferredReplicaLeaderElectionCommand":
        return election_tool(args, driver.store)
    if name != "ReassignPartitionsCommand":
        return topic_tool(name, args, driver.store)

    @contextlib.contextmanager
    def open_cluster(_: str) -> Iterator[ReassignAdmin]:
        yield DriverAdmin(driver)

    services = ReassignServices(
        _opener(driver.store),
        open_cluster,
        JavaRandom(0),
        lambda _: None,
        lambda: 0.0,
        lambda _: None,
    )
    result = run_reassign_command(args, services)
    return ToolResult(result.stdout, result.stderr, result.exit_code)


def _opener(store: Store) -> Any:
    @contextlib.contextmanager
    def open_store(_: str) -> Iterator[Store]:
        yield store

    return open_store


class DriverAdmin:
    """kafka-reassign-partitions' view of a scenario's cluster: nothing is throttled, and replicas
    move between no directories."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._zk = KafkaZkClient(driver.store)

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
        self, resources: Collection[ConfigResource]
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        """Nothing is set."""
        return {resource: {} for resource in resources}

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Mapping[str, str | None]]
    ) -> None:
        """Refused: a scenario's plans have no throttle."""
        raise UsageError("a scenario's tools set no throttles")

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
