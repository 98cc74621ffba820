"""The requests between the controller and the brokers, in both directions.

The controller sends LeaderAndIsr, UpdateMetadata and StopReplica; brokers send AlterIsr and
ControlledShutdown. Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import (
    NO_BROKER_EPOCH,
    NO_EPOCH,
    Broker,
    EndPoint,
    LeaderAndIsr,
    TopicPartition,
)
from klamm.wire.api import Api
from klamm.wire.frames import InvalidRequestFrame
from klamm.wire.schema import (
    Values,
    by_topic,
    error_of,
    in_topics,
    topic_id_of,
    uuid_of,
)
from klamm.wire.translations import (
    SAME,
    Field,
    Translation,
    broker,
    each,
    listed_partitions,
    per_partition,
    struct,
)
from klamm.zk.znodes.brokers import SECURITY_PROTOCOLS

if TYPE_CHECKING:
    from kio.schema.alter_partition.v0.request import AlterPartitionRequest

_State = TypeVar(
    "_State", LeaderAndIsrPartitionState, UpdateMetadataPartitionState, StopReplicaPartitionState
)
_INCREMENTAL: Final = 0
"""Type of every LeaderAndIsr request of a ZooKeeper-era controller."""


# -- requests of the controller


def _protocol(code: int) -> str:
    if not 0 <= code < len(SECURITY_PROTOCOLS):
        raise InvalidRequestFrame(f"unknown security protocol {code}")
    return SECURITY_PROTOCOLS[code]


def _read_end_points(live_broker: Any) -> tuple[EndPoint, ...]:
    if hasattr(live_broker, "v0_host"):
        return (EndPoint(live_broker.v0_host, live_broker.v0_port),)
    found = tuple(map(_END_POINT.read, live_broker.endpoints))
    if all(hasattr(one, "listener") for one in live_broker.endpoints):
        return found
    # Before version 3 the name of a listener is that of its security protocol.
    return tuple(msgspec.structs.replace(one, listener_name=one.security_protocol) for one in found)


def _request(
    kind: type[Any], state: type[_State], constants: Values | None = None, **brokers: Field
) -> Translation:
    """Return the translation of LeaderAndIsr or UpdateMetadata.

    Partition states are written in both forms: grouped by topic with the topic ids, and ungrouped
    as in old versions.
    """

    def read_states(body: object) -> tuple[_State, ...]:
        return tuple(_state_of(state, tp, one) for tp, one in _states_of(body))

    same = struct(
        kind,
        constants,
        broker_epoch=_BROKER_EPOCH,
        partition_states=Field(
            None, Translation(read_states, lambda states: {"ungrouped_partition_states": states})
        ),
        topic_ids=Field(None, Translation(_topic_ids_of, lambda _: {})),
        **brokers,
    )

    def write(request: Any) -> Values:
        ids = request.topic_ids
        topics = [
            {"topic_name": name, "topic_id": uuid_of(ids.get(name)), "partition_states": found}
            for name, found in _states_by_topic(request.partition_states).items()
        ]
        return {**same.write(request), "topic_states": topics}

    return same._replace(write=write)


def _read_stopped(body: Any) -> tuple[StopReplicaPartitionState, ...]:
    """Return the partition states of StopReplica. Before version 3 there are no leader epochs."""
    if hasattr(body, "topic_states"):
        return tuple(
            _state_of(StopReplicaPartitionState, tp, state) for tp, state in _states_of(body)
        )
    if hasattr(body, "topics"):
        tps = _STOPPED.read(body.topics)
    else:
        tps = [tp for tp, _ in _ungrouped(body.ungrouped_partitions)]
    return tuple(StopReplicaPartitionState(tp, NO_EPOCH, body.delete_partitions) for tp in tps)


def _write_stopped(states: Sequence[StopReplicaPartitionState]) -> Values:
    """Before version 3 all partitions of a request must have the same ``delete_partition``."""
    return {
        "delete_partitions": any(state.delete_partition for state in states),
        "ungrouped_partitions": states,
        "topics": _STOPPED.write(state.topic_partition for state in states),
        "topic_states": [
            {"topic_name": name, "partition_states": found}
            for name, found in _states_by_topic(states).items()
        ],
    }


def _states_by_topic(states: Iterable[_State]) -> dict[str, list[_State]]:
    topics: dict[str, list[_State]] = {}
    for state in states:
        topics.setdefault(state.topic_partition.topic, []).append(state)
    return topics


def _states_of(body: object) -> Iterator[tuple[TopicPartition, Any]]:
    yield from _ungrouped(getattr(body, "ungrouped_partition_states", ()))
    topics = getattr(body, "topic_states", ())
    yield from in_topics(topics, topic="topic_name", partitions="partition_states")


def _ungrouped(partitions: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    for one in partitions:
        yield TopicPartition(one.topic_name, one.partition_index), one


def _state_of(kind: type[_State], tp: TopicPartition, message: Any) -> _State:
    """Return a partition state; what the version of its message lacks has the default."""
    names = kind.__struct_fields__
    found = {name: getattr(message, name) for name in names if hasattr(message, name)}
    if hasattr(message, "partition_epoch"):
        found["zk_version"] = message.partition_epoch
    return kind(tp, **found)


def _topic_ids_of(body: object) -> dict[str, str]:
    found = {
        topic.topic_name: topic_id_of(getattr(topic, "topic_id", None))
        for topic in getattr(body, "topic_states", ())
    }
    return {name: topic_id for name, topic_id in found.items() if topic_id is not None}


_BROKER_EPOCH: Final = Field("broker_epoch", SAME, NO_BROKER_EPOCH)
_END_POINT: Final = struct(
    EndPoint,
    listener_name="listener",
    security_protocol=Field("security_protocol", Translation(_protocol, SECURITY_PROTOCOLS.index)),
)
_LIVE_BROKER: Final = struct(
    Broker,
    id="id_",
    end_points=Field(
        None,
        Translation(_read_end_points, lambda found: {"endpoints": [*map(_END_POINT.write, found)]}),
    ),
)
_STOPPED: Final = listed_partitions("topics", partitions="partition_indexes").translation
_LEADER_AND_ISR: Final = _request(
    LeaderAndIsrRequest,
    LeaderAndIsrPartitionState,
    {"type_": _INCREMENTAL},
    live_leaders=each("live_leaders", broker("broker_id", host="host_name")),
)
_UPDATE_METADATA: Final = _request(
    UpdateMetadataRequest,
    UpdateMetadataPartitionState,
    live_brokers=each("live_brokers", _LIVE_BROKER),
)
_STOP_REPLICA: Final = struct(
    StopReplicaRequest,
    broker_epoch=_BROKER_EPOCH,
    partition_states=Field(None, Translation(_read_stopped, _write_stopped)),
)


# -- responses, and requests of brokers


def leader_and_isr_response(request: LeaderAndIsrRequest) -> Translation:
    """Return the translation of the response, which has ids instead of names in version 5."""
    names = {topic_id: name for name, topic_id in request.topic_ids.items()}

    def read(body: Any) -> LeaderAndIsrResponse:
        if hasattr(body, "partition_errors"):
            old: LeaderAndIsrResponse = _LEADER_AND_ISR_RESPONSE.read(body)
            return old
        found = {
            TopicPartition(name, one.partition_index): error_of(one.error_code)
            for topic in body.topics
            if (name := names.get(topic_id_of(topic.topic_id) or "")) is not None
            for one in topic.partition_errors
        }
        return LeaderAndIsrResponse(error_of(body.error_code), found)

    def write(response: LeaderAndIsrResponse) -> Values:
        topics = by_topic(
            response.partition_errors,
            lambda partition, error: {"partition_index": partition, "error_code": error},
            partitions="partition_errors",
        )
        ids = [{**one, "topic_id": uuid_of(request.topic_ids.get(one["name"]))} for one in topics]
        return {**_LEADER_AND_ISR_RESPONSE.write(response), "topics": ids}

    return Translation(read, write)


def _alter_isr_request(body: AlterPartitionRequest) -> AlterIsrRequest:
    """Translate AlterIsr: each partition of the sender, which is the leader, with its new ISR."""
    proposed = {
        tp: LeaderAndIsr(body.broker_id, one.leader_epoch, one.new_isr, one.partition_epoch)
        for tp, one in in_topics(body.topics, topic="topic_name")
    }
    return AlterIsrRequest(body.broker_id, body.broker_epoch, proposed)


def _altered_isr(result: LeaderAndIsr | Errors) -> Values:
    if isinstance(result, Errors):
        return {**_ISR.write(LeaderAndIsr(0, 0, ())), "error_code": result}
    return {**_ISR.write(result), "error_code": Errors.NONE}


def _remaining_partitions(tps: Iterable[TopicPartition]) -> list[Values]:
    return [{"topic_name": tp.topic, "partition_index": tp.partition} for tp in tps]


_ERRORS: Final = Field(
    "partition_errors",
    Translation(
        lambda errors: {tp: error_of(one.error_code) for tp, one in _ungrouped(errors)},
        lambda errors: [
            {"topic_name": tp.topic, "partition_index": tp.partition, "error_code": error}
            for tp, error in errors.items()
        ],
    ),
)
_LEADER_AND_ISR_RESPONSE: Final = struct(LeaderAndIsrResponse, partition_errors=_ERRORS)
_ISR: Final = struct(LeaderAndIsr, leader="leader_id", zk_version="partition_epoch")
_SHUTDOWN: Final = struct(ControlledShutdownRequest, broker_epoch=_BROKER_EPOCH)
_REMAINING: Final = struct(
    ControlledShutdownResponse,
    remaining_partitions=Field("remaining_partitions", Translation(write=_remaining_partitions)),
)
_ALTERED_ISRS: Final = struct(
    AlterIsrResponse,
    partitions=per_partition("topics", Translation(write=_altered_isr), topic="topic_name"),
)
APIS: Final = (
    Api(4, range(6), _LEADER_AND_ISR, leader_and_isr_response),
    Api(5, range(4), _STOP_REPLICA, struct(StopReplicaResponse, partition_errors=_ERRORS)),
    Api(6, range(8), _UPDATE_METADATA, struct(UpdateMetadataResponse)),
    Api(7, range(4), _SHUTDOWN, _REMAINING),
    Api(56, range(1), Translation(_alter_isr_request, kind=AlterIsrRequest), _ALTERED_ISRS),
)
