"""Requests and responses between controller, brokers and clients, as plain values.

The controller and the brokers communicate only with these over a Transport. Mirrors the request
schemas of inter-broker protocol 2.8: LeaderAndIsr v5, UpdateMetadata v7, StopReplica v3, AlterIsr
v0, CreateTopics v7, AlterPartitionReassignments v0, ListPartitionReassignments v0,
ControlledShutdown v3, ElectLeaders v2, DescribeLogDirs v2, AlterReplicaLogDirs v1. Requests with
records are in cluster/data_requests.py, other requests of clients in cluster/client_requests.py,
those of constant-rate workloads in cluster/constant_rate.py. Requests to several brokers share
partition states, so these must not be changed after sending.
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
    """Sender or receiver of a message: a role ("broker", "controller", "client") and an id."""

    role: str
    id: int

    def __str__(self) -> str:
        return f"{self.role}-{self.id}"


NO_CORRELATION_ID: Final = -1
"""Correlation id of a message that is not a response to a request."""


class Disconnected(msgspec.Struct, frozen=True):
    """Notification by the transport that the connection to the message's source was lost.

    Messages in flight are lost; it is unknown which of them had arrived.
    """


class Message(msgspec.Struct, frozen=True):
    """One message on a Transport. A response has the correlation id of its request."""

    source: Address
    destination: Address
    correlation_id: int
    body: Request | Response | Disconnected


class SentPartitionState(msgspec.Struct, frozen=True, gc=False):
    """Partition state in a control request. ``leader`` -2: the partition is being deleted."""

    topic_partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]


class LeaderAndIsrPartitionState(SentPartitionState, frozen=True, gc=False):
    """Partition state with which a broker becomes leader or follower."""

    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False


class UpdateMetadataPartitionState(SentPartitionState, frozen=True, gc=False):
    """Partition state for the metadata caches of brokers."""

    offline_replicas: tuple[int, ...] = ()


class StopReplicaPartitionState(msgspec.Struct, frozen=True, gc=False):
    """Replica to stop. ``leader_epoch`` -2: not checked, because its topic is being deleted."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete_partition: bool


class FencedRequest(msgspec.Struct, frozen=True):
    """Base of control requests, with the epochs by which brokers reject stale requests."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class PartitionErrors(msgspec.Struct, frozen=True):
    """``error`` of the whole request, and an error for each of its partitions."""

    error: Errors
    partition_errors: Mapping[TopicPartition, Errors]


class LeaderAndIsrRequest(FencedRequest, frozen=True):
    """Partitions that the receiving broker leads or follows; ``topic_ids`` by topic name."""

    partition_states: Sequence[LeaderAndIsrPartitionState]
    topic_ids: Mapping[str, str]
    live_leaders: tuple[Broker, ...]


class LeaderAndIsrResponse(PartitionErrors, frozen=True):
    """Response to LeaderAndIsr."""


class UpdateMetadataRequest(FencedRequest, frozen=True):
    """Partition states and live brokers for a broker's metadata cache."""

    partition_states: Sequence[UpdateMetadataPartitionState]
    live_brokers: tuple[Broker, ...]
    topic_ids: Mapping[str, str]


class UpdateMetadataResponse(msgspec.Struct, frozen=True):
    """Response to UpdateMetadata, with the ``error`` of the whole request."""

    error: Errors


class StopReplicaRequest(FencedRequest, frozen=True):
    """Replicas that the receiving broker stops, and deletes if ``delete_partition`` is set."""

    partition_states: Sequence[StopReplicaPartitionState]


class StopReplicaResponse(PartitionErrors, frozen=True):
    """Response to StopReplica."""


class AlterIsrRequest(msgspec.Struct, frozen=True):
    """ISRs that a leader proposes (KIP-497): its current state with the new ISR."""

    broker_id: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, LeaderAndIsr]


class AlterIsrResponse(msgspec.Struct, frozen=True):
    """``error`` of the whole request, or the new state or an error for every partition."""

    error: Errors
    partitions: Mapping[TopicPartition, LeaderAndIsr | Errors]


class CreatableTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to create. -1: the broker's default, required if ``assignments`` is given."""

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
    """Result for one topic of a CreateTopicsRequest."""

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
    """New number of partitions of a topic, and the replicas of the added partitions.

    ``total_count``: number of all partitions. ``new_assignments``: replicas of each added
    partition, in order; None: they are assigned automatically.
    """

    total_count: Int32
    new_assignments: tuple[tuple[Int32, ...], ...] | None = None


class ApiError(msgspec.Struct, frozen=True):
    """Result for one item of a request. ``message`` None: the default text of the error."""

    error: Errors = Errors.NONE
    message: str | None = None


class AlterPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Target replicas by partition; None cancels the ongoing reassignment (KIP-455)."""

    reassignments: Mapping[TopicPartition, tuple[int, ...] | None]


class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """``error`` of the whole request, or one for each of its partitions."""

    error: ApiError
    partitions: Mapping[TopicPartition, ApiError] = {}


class ListPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Request for the ongoing reassignments of ``partitions`` (None: of all partitions)."""

    partitions: tuple[TopicPartition, ...] | None = None


class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """``error`` of the whole request, or the assignments of ongoing reassignments."""

    error: ApiError
    partitions: Mapping[TopicPartition, ReplicaAssignment] = {}


class DeleteTopicsRequest(msgspec.Struct, frozen=True):
    """Topics to delete through the controller, by name."""

    topics: tuple[str, ...]
    timeout_ms: int


class DeletableTopicResult(msgspec.Struct, frozen=True):
    """Result for one topic of a DeleteTopicsRequest."""

    name: str
    error: Errors = Errors.NONE


class DeleteTopicsResponse(msgspec.Struct, frozen=True):
    """One result per topic, in the order of the request."""

    topics: tuple[DeletableTopicResult, ...]


class ControlledShutdownRequest(msgspec.Struct, frozen=True):
    """Request of a broker to be drained before it stops; ``broker_epoch`` -1 is not checked."""

    broker_id: int
    broker_epoch: int


class ControlledShutdownResponse(msgspec.Struct, frozen=True):
    """``error`` of the whole request, or the partitions that the broker still leads."""

    error: Errors
    remaining_partitions: tuple[TopicPartition, ...] = ()


class ElectLeadersRequest(msgspec.Struct, frozen=True):
    """Request to elect leaders of ``partitions`` (None: of all partitions that need it)."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int


class ElectLeadersResponse(msgspec.Struct, frozen=True):
    """``error`` of the whole request, and one for every partition."""

    error: Errors
    partitions: Mapping[TopicPartition, ApiError] = {}


class DescribeLogDirsRequest(msgspec.Struct, frozen=True):
    """Request to a broker for its log directories and the logs of ``partitions`` (None: all)."""

    partitions: tuple[TopicPartition, ...] | None = None


class ReplicaLog(msgspec.Struct, frozen=True):
    """Size and lag of a log; ``is_future``: it is the future log of a log directory move."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirResult(msgspec.Struct, frozen=True):
    """A log directory; ``error`` is KAFKA_STORAGE_ERROR if it failed."""

    path: str
    error: Errors
    logs: tuple[ReplicaLog, ...] = ()


class DescribeLogDirsResponse(msgspec.Struct, frozen=True):
    """The log directories of a broker, in the order of its config."""

    log_dirs: tuple[LogDirResult, ...]


class AlterReplicaLogDirsRequest(msgspec.Struct, frozen=True):
    """Request to a broker to move its replicas to log directories, or to create them there."""

    log_dirs: Mapping[TopicPartition, str]


class AlterReplicaLogDirsResponse(msgspec.Struct, frozen=True):
    """Result for each replica; REPLICA_NOT_AVAILABLE: the directory is used on its creation."""

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
