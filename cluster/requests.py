"""Requests and responses between controller, brokers and clients, as plain values.

The controller and the brokers communicate only by sending these values over a Transport. Mirrors
the request schemas of inter-broker protocol 2.8: LeaderAndIsr v5, UpdateMetadata v7, StopReplica
v3, AlterIsr v0, CreateTopics v7, AlterPartitionReassignments v0, ListPartitionReassignments v0,
ControlledShutdown v3, ElectLeaders v2, DescribeLogDirs v2, AlterReplicaLogDirs v1.

Requests that carry records are in cluster/data_requests.py, other client requests in
cluster/client_requests.py and cluster/group_requests.py, and requests of constant-rate workloads in
cluster/constant_rate.py.
Requests to several brokers share partition state objects, which must not be changed after sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import ClientRequest, ClientResponse
from klamm.cluster.constant_rate import ConstantRateRequest, ConstantRateResponse, RevokeRates
from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.group_requests import GroupRequest, GroupResponse
from klamm.cluster.integers import Int16, Int32
from klamm.cluster.types import (
    Broker,
    ElectionType,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)


class Address(NamedTuple):
    """Address of an actor: a role ("broker", "controller" or "client") and an id."""

    role: str
    id: int

    def __str__(self) -> str:
        return f"{self.role}-{self.id}"


NO_CORRELATION_ID: Final = -1
"""Correlation id of a message that is not a response to a request."""


class Disconnected(msgspec.Struct, frozen=True):
    """Notification from the transport that the connection to the message's source was lost.

    Messages in flight may or may not have arrived.
    """


class Message(msgspec.Struct, frozen=True):
    """One message on a Transport. A response has the correlation id of its request."""

    source: Address
    destination: Address
    correlation_id: int
    body: Request | Response | Disconnected


class SentPartitionState(msgspec.Struct, frozen=True, gc=False):
    """Partition state in a control request. ``leader`` is -2 if the topic is being deleted."""

    topic_partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]


class LeaderAndIsrPartitionState(SentPartitionState, frozen=True, gc=False):
    """Partition state in LeaderAndIsr, which makes a broker the leader or a follower."""

    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False


class UpdateMetadataPartitionState(SentPartitionState, frozen=True, gc=False):
    """Partition state in UpdateMetadata, for the metadata caches of the brokers."""

    offline_replicas: tuple[int, ...] = ()


class StopReplicaPartitionState(msgspec.Struct, frozen=True, gc=False):
    """A partition whose replica on the receiving broker must be stopped.

    A ``leader_epoch`` of -2 means that the topic is being deleted; the broker does not check it.
    """

    topic_partition: TopicPartition
    leader_epoch: int
    delete_partition: bool


class FencedRequest(msgspec.Struct, frozen=True):
    """Base class of control requests, with the epochs by which brokers recognize stale requests."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class PartitionErrors(msgspec.Struct, frozen=True):
    """Base class of responses with a top-level ``error`` and an error for each partition."""

    error: Errors
    partition_errors: Mapping[TopicPartition, Errors]


class LeaderAndIsrRequest(FencedRequest, frozen=True):
    """Tells a broker which partitions to lead or follow. ``topic_ids`` is keyed by topic name."""

    partition_states: Sequence[LeaderAndIsrPartitionState]
    topic_ids: Mapping[str, str]
    live_leaders: tuple[Broker, ...]


class LeaderAndIsrResponse(PartitionErrors, frozen=True):
    """Response to LeaderAndIsr, with an error for each partition."""


class UpdateMetadataRequest(FencedRequest, frozen=True):
    """Sends partition states and live brokers to a broker's metadata cache."""

    partition_states: Sequence[UpdateMetadataPartitionState]
    live_brokers: tuple[Broker, ...]
    topic_ids: Mapping[str, str]


class UpdateMetadataResponse(msgspec.Struct, frozen=True):
    """Response to UpdateMetadata, with a top-level ``error``."""

    error: Errors


class StopReplicaRequest(FencedRequest, frozen=True):
    """Tells a broker to stop replicas, and to delete those with ``delete_partition`` set."""

    partition_states: Sequence[StopReplicaPartitionState]


class StopReplicaResponse(PartitionErrors, frozen=True):
    """Response to StopReplica, with an error for each partition."""


class AlterIsrRequest(msgspec.Struct, frozen=True):
    """A leader's request to change ISRs (KIP-497), with the proposed state of each partition."""

    broker_id: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, LeaderAndIsr]


class AlterIsrResponse(msgspec.Struct, frozen=True):
    """Response to AlterIsr: a top-level ``error``, or each partition's new state or error."""

    error: Errors
    partitions: Mapping[TopicPartition, LeaderAndIsr | Errors]


class CreatableTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic to create.

    A ``num_partitions`` or ``replication_factor`` of -1 means the broker's default. Both must be -1
    if ``assignments`` is given. A client may send a config of None, which is refused.
    """

    name: str
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: Mapping[Int32, tuple[Int32, ...]] = {}
    configs: Mapping[str, str | None] = {}

    @property
    def overrides(self) -> dict[str, str]:
        """The configs that have a value."""
        return {name: value for name, value in self.configs.items() if value is not None}


class CreateTopicsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to the controller to create topics."""

    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32
    validate_only: bool = False


class CreatableTopicResult(msgspec.Struct, frozen=True):
    """Result for one topic in a CreateTopicsResponse."""

    name: str
    error: Errors = Errors.NONE
    error_message: str | None = None
    topic_id: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1


class CreateTopicsResponse(msgspec.Struct, frozen=True):
    """Response to CreateTopics, with one result per topic in the order of the request."""

    topics: tuple[CreatableTopicResult, ...]


class NewPartitions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to add partitions to a topic.

    ``total_count`` is the new total number of partitions. ``new_assignments`` lists the replicas of
    each added partition, in order. If it is None, replicas are assigned automatically.
    """

    total_count: Int32
    new_assignments: tuple[tuple[Int32, ...], ...] | None = None


class ApiError(msgspec.Struct, frozen=True):
    """Error code and message for a whole request, or for one partition in a request.

    If ``message`` is None, Kafka's default message for the error code applies.
    """

    error: Errors = Errors.NONE
    message: str | None = None


NO_SUCH_PARTITION: Final = ApiError(
    Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
)


class AlterPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Request to start or cancel reassignments (KIP-455).

    ``reassignments`` maps a partition to its target replicas, or to None to cancel the ongoing
    reassignment.
    """

    reassignments: Mapping[TopicPartition, tuple[int, ...] | None]


class AlterPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """Response to AlterPartitionReassignments: a top-level ``error``, or an error per partition."""

    error: ApiError
    partitions: Mapping[TopicPartition, ApiError] = {}


class ListPartitionReassignmentsRequest(msgspec.Struct, frozen=True):
    """Request for the ongoing reassignments of ``partitions``, or of all partitions if None."""

    partitions: tuple[TopicPartition, ...] | None = None


class ListPartitionReassignmentsResponse(msgspec.Struct, frozen=True):
    """Response to ListPartitionReassignments: a top-level ``error``, or ongoing reassignments."""

    error: ApiError
    partitions: Mapping[TopicPartition, ReplicaAssignment] = {}


class DeleteTopicsRequest(msgspec.Struct, frozen=True):
    """Request to the controller to delete the topics with these names or topic ids."""

    topics: tuple[str, ...]
    timeout_ms: int
    topic_ids: tuple[str, ...] = ()


class DeletableTopicResult(msgspec.Struct, frozen=True):
    """Result for one topic in a DeleteTopicsResponse.

    ``topic_id`` is set if the topic was named by its id; ``name`` is then None if the id is
    unknown.
    """

    name: str | None
    error: Errors = Errors.NONE
    topic_id: str | None = None


class DeleteTopicsResponse(msgspec.Struct, frozen=True):
    """Response to DeleteTopics, with one result per topic: those with a name come first."""

    topics: tuple[DeletableTopicResult, ...]


class ControlledShutdownRequest(msgspec.Struct, frozen=True):
    """A broker's request to the controller to move leadership off the broker before it stops.

    The controller does not check a ``broker_epoch`` of -1.
    """

    broker_id: int
    broker_epoch: int


class ControlledShutdownResponse(msgspec.Struct, frozen=True):
    """Response to ControlledShutdown: an ``error``, or the partitions the broker still leads."""

    error: Errors
    remaining_partitions: tuple[TopicPartition, ...] = ()


class ElectLeadersRequest(msgspec.Struct, frozen=True):
    """Request to elect leaders of ``partitions``, or of all that need an election if None."""

    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None
    timeout_ms: int


class ElectLeadersResponse(msgspec.Struct, frozen=True):
    """Response to ElectLeaders, with a top-level ``error`` and an error for each partition."""

    error: Errors
    partitions: Mapping[TopicPartition, ApiError] = {}


class DescribeLogDirsRequest(msgspec.Struct, frozen=True):
    """Request to describe a broker's log directories, and the logs in them.

    If ``partitions`` is not None, only the logs of these partitions are described.
    """

    partitions: tuple[TopicPartition, ...] | None = None


class ReplicaInfo(NamedTuple):
    """Size and lag of a replica's log in a log directory.

    ``is_future`` is True for a future log, to which a log directory move copies the records.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirResult(msgspec.Struct, frozen=True):
    """A broker's log directory. ``error`` is KAFKA_STORAGE_ERROR if the directory has failed."""

    path: str
    error: Errors
    logs: Mapping[TopicPartition, ReplicaInfo] = {}


class DescribeLogDirsResponse(msgspec.Struct, frozen=True):
    """Response to DescribeLogDirs: log directories in the order of the broker's log.dirs."""

    log_dirs: tuple[LogDirResult, ...]


class AlterReplicaLogDirsRequest(msgspec.Struct, frozen=True):
    """Request to a broker to move replicas to the given log directories.

    Replicas that do not exist yet will be created in the given log directory.
    """

    log_dirs: Mapping[TopicPartition, str]


class AlterReplicaLogDirsResponse(msgspec.Struct, frozen=True):
    """Response to AlterReplicaLogDirs, with an error code or NONE for each replica.

    REPLICA_NOT_AVAILABLE means that the replica does not exist yet and will be created in the
    requested log directory.
    """

    results: Mapping[TopicPartition, Errors]


ControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
ControlResponse = LeaderAndIsrResponse | UpdateMetadataResponse | StopReplicaResponse
ControllerRequest = (
    CreateTopicsRequest
    | DeleteTopicsRequest
    | AlterPartitionReassignmentsRequest
    | ListPartitionReassignmentsRequest
    | ElectLeadersRequest
    | AlterIsrRequest
    | ControlledShutdownRequest
)
"""The requests that the controller handles; brokers handle the others."""
TopicResponse = CreateTopicsResponse | DeleteTopicsResponse
PartitionResponse = (
    AlterPartitionReassignmentsResponse | ListPartitionReassignmentsResponse | ElectLeadersResponse
)
LogDirRequest = DescribeLogDirsRequest | AlterReplicaLogDirsRequest
LogDirResponse = DescribeLogDirsResponse | AlterReplicaLogDirsResponse
DataRequest = FetchRequest | ProduceRequest | ConstantRateRequest | RevokeRates
DataResponse = FetchResponse | ProduceResponse | ConstantRateResponse
Request = (
    ControlRequest | ControllerRequest | LogDirRequest | DataRequest | ClientRequest | GroupRequest
)
Response = (
    ControlResponse
    | TopicResponse
    | PartitionResponse
    | AlterIsrResponse
    | ControlledShutdownResponse
    | LogDirResponse
    | DataResponse
    | ClientResponse
    | GroupResponse
)
