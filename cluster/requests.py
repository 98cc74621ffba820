"""Requests and responses between controller, brokers and clients, as plain values.

The controller and the brokers know each other only through these and a Transport. Mirrors the
request schemas that an inter-broker protocol of 2.8 uses: LeaderAndIsr v5, UpdateMetadata v7,
StopReplica v3, AlterIsr v0, CreateTopics v7, AlterPartitionReassignments v0,
ListPartitionReassignments v0, ControlledShutdown v3, ElectLeaders v2, DescribeLogDirs v2,
AlterReplicaLogDirs v1. What carries records is in cluster/data_requests.py, what clients ask in
cluster/client_requests.py, those of constant-rate workloads in cluster/constant_rate.py. States
that are the same for every broker are shared between requests, so nothing may change them after
they were sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import ClientRequest, ClientResponse
from klamm.cluster.constant_rate import ConstantRateRequest, ConstantRateResponse, RevokeRates
from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.integers import Int16, Int32
from klamm.cluster.types import (
    Broker,
    ElectionType,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)


class Address(NamedTuple):
    """Who sends or receives a message: a role ("broker", "controller", "client") and an id."""

    role: str
    id: int

    def __str__(self) -> str:
        return f"{self.role}-{self.id}"


NO_CORRELATION_ID: Final = -1
"""Of a message that is no answer to a request."""


class Disconnected(msgspec.Struct, frozen=True):
    """From the transport itself, in the name of the other side: the connection to it is gone.

    What was under way on it is lost, and nobody knows what of it had arrived.
    """


class Message(msgspec.Struct, frozen=True):
    """One message on a Transport. A reply carries the correlation id of its request."""

    source: Address
    destination: Address
    correlation_id: int
    body: Request | Response | Disconnected


class SentPartitionState(msgspec.Struct, frozen=True, gc=False):
    """What the controller sends of a partition. ``leader`` -2 means that it is being deleted."""

    topic_partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]


class LeaderAndIsrPartitionState(SentPartitionState, frozen=True, gc=False):
    """What one broker must know to lead or follow one partition."""

    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False


class UpdateMetadataPartitionState(SentPartitionState, frozen=True, gc=False):
    """What every broker caches of one partition."""

    offline_replicas: tuple[int, ...] = ()


class StopReplicaPartitionState(msgspec.Struct, frozen=True, gc=False):
    """Stop a replica. ``leader_epoch`` -2 marks the deletion of its topic and skips the check."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete_partition: bool


class FencedRequest(msgspec.Struct, frozen=True):
    """What every request of a controller says, so that brokers can refuse an old one's."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class PartitionErrors(msgspec.Struct, frozen=True):
    """``error`` for the whole request; ``partition_errors`` for every partition it named."""

    error: Errors
    partition_errors: Mapping[TopicPartition, Errors]


class LeaderAndIsrRequest(FencedRequest, frozen=True):
    """Which partitions the receiving broker leads and follows; ``topic_ids`` by topic name."""

    partition_states: Sequence[LeaderAndIsrPartitionState]
    topic_ids: Mapping[str, str]
    live_leaders: tuple[Broker, ...]


class LeaderAndIsrResponse(PartitionErrors, frozen=True):
    """How the broker took up its partitions."""


class UpdateMetadataRequest(FencedRequest, frozen=True):
    """Partition states and live brokers for a broker's metadata cache."""

    partition_states: Sequence[UpdateMetadataPartitionState]
    live_brokers: tuple[Broker, ...]
    topic_ids: Mapping[str, str]


class UpdateMetadataResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request."""

    error: Errors


class StopReplicaRequest(FencedRequest, frozen=True):
    """Replicas that the receiving broker stops, some of them to be deleted."""

    partition_states: Sequence[StopReplicaPartitionState]


class StopReplicaResponse(PartitionErrors, frozen=True):
    """Which replicas were stopped."""


class AlterIsrRequest(msgspec.Struct, frozen=True):
    """ISRs that a leader proposes (KIP-497): the state it has, with the new ISR."""

    broker_id: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, LeaderAndIsr]


class AlterIsrResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request, or a new state or an error for every partition."""

    error: Errors
    partitions: Mapping[TopicPartition, LeaderAndIsr | Errors]


class CreatableTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to create. -1 is the broker's default; ``assignments`` excludes both counts."""

    name: str
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: Mapping[Int32, tuple[Int32, ...]] = {}
    configs: Mapping[str, str] = {}


class CreateTopicsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Topics to create through the controller."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32
    validate_only: bool = False


class CreatableTopicResult(msgspec.Struct, frozen=True):
    """What became of one topic of a CreateTopicsRequest."""

    name: str
    error: Errors = Errors.NONE
    error_message: str | None = None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(msgspec.Struct, frozen=True):
    """One result per topic, in the order of the request."""

    topics: tuple[CreatableTopicResult, ...]


class NewPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many partitions a topic is to have; ``new_assignments`` None: placed by the controller.

    ``new_assignments``: the replicas of each partition that is added, in order.
    """

    total_count: Int32
    new_assignments: tuple[tuple[Int32, ...], ...] | None = None


class ApiError(msgspec.Struct, frozen=True):
    """What became of one item of a request. ``message`` None stands for the error's usual text."""

    error: Errors = Errors.NONE
    message: str | None = None


class AlterPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Target replicas by partition; None cancels the reassignment that is under way (KIP-455)."""

    reassignments: Mapping[TopicPartition, tuple[int, ...] | None]


class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request, or one for every partition it named."""

    error: ApiError
    partitions: Mapping[TopicPartition, ApiError] = {}


class ListPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Which of ``partitions``, or of all if that is None, are being reassigned?"""

    partitions: tuple[TopicPartition, ...] | None = None


class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request, or the assignments that are being changed."""

    error: ApiError
    partitions: Mapping[TopicPartition, ReplicaAssignment] = {}


class DeleteTopicsRequest(msgspec.Struct, frozen=True):
    """Topics to delete through the controller, by name."""

    topics: tuple[str, ...]
    timeout_ms: int


class DeletableTopicResult(msgspec.Struct, frozen=True):
    """What became of one topic of a DeleteTopicsRequest."""

    name: str
    error: Errors = Errors.NONE


class DeleteTopicsResponse(msgspec.Struct, frozen=True):
    """One result per topic, in the order of the request."""

    topics: tuple[DeletableTopicResult, ...]


class ControlledShutdownRequest(msgspec.Struct, frozen=True):
    """A broker is about to stop; ``broker_epoch`` -1 is not checked."""

    broker_id: int
    broker_epoch: int


class ControlledShutdownResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request, or the partitions that the broker leads still."""

    error: Errors
    remaining_partitions: tuple[TopicPartition, ...] = ()


class ElectLeadersRequest(msgspec.Struct, frozen=True):
    """Elect leaders of ``partitions``, or of all that need it if that is None."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int


class ElectLeadersResponse(msgspec.Struct, frozen=True):
    """``error`` for the whole request, and one for every partition."""

    error: Errors
    partitions: Mapping[TopicPartition, ApiError] = {}


class DescribeLogDirsRequest(msgspec.Struct, frozen=True):
    """To a broker: its log directories, with the logs of ``partitions`` or all if that is None."""

    partitions: tuple[TopicPartition, ...] | None = None


class ReplicaLog(msgspec.Struct, frozen=True):
    """A log: bytes, how far its end is behind, and whether it is a future one."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirResult(msgspec.Struct, frozen=True):
    """A directory; ``error`` KAFKA_STORAGE_ERROR if it failed."""

    path: str
    error: Errors
    logs: tuple[ReplicaLog, ...] = ()


class DescribeLogDirsResponse(msgspec.Struct, frozen=True):
    """The directories of a broker, in the order of its configuration."""

    log_dirs: tuple[LogDirResult, ...]


class AlterReplicaLogDirsRequest(msgspec.Struct, frozen=True):
    """To a broker: which directory each of its replicas is to move to, or to be made in."""

    log_dirs: Mapping[TopicPartition, str]


class AlterReplicaLogDirsResponse(msgspec.Struct, frozen=True):
    """The answer for each replica; REPLICA_NOT_AVAILABLE: remembered for when it is made."""

    results: Mapping[TopicPartition, Errors]


TopicRequest = CreateTopicsRequest | DeleteTopicsRequest
TopicResponse = CreateTopicsResponse | DeleteTopicsResponse
ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
ReassignmentRequest = AlterPartitionReassignmentsRequest | ListPartitionReassignmentsRequest
PartitionRequest = ReassignmentRequest | ElectLeadersRequest
ReassignmentResponse = AlterPartitionReassignmentsResponse | ListPartitionReassignmentsResponse
PartitionResponse = ReassignmentResponse | ElectLeadersResponse
BrokerRequest = AlterIsrRequest | FetchRequest | ProduceRequest | ControlledShutdownRequest
BrokerResponse = AlterIsrResponse | FetchResponse | ProduceResponse | ControlledShutdownResponse
LogDirRequest = DescribeLogDirsRequest | AlterReplicaLogDirsRequest
LogDirResponse = DescribeLogDirsResponse | AlterReplicaLogDirsResponse
AdminRequest = TopicRequest | PartitionRequest | LogDirRequest
AdminResponse = TopicResponse | PartitionResponse | LogDirResponse
RateRequest = ConstantRateRequest | RevokeRates
Request = ControlRequest | BrokerRequest | AdminRequest | ClientRequest | RateRequest
Response = ControlResponse | BrokerResponse | AdminResponse | ClientResponse | ConstantRateResponse
