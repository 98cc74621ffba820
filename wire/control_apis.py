"""The requests between the controller and the brokers, in both directions.

The controller sends LeaderAndIsr, UpdateMetadata and StopReplica; brokers send AlterIsr and
ControlledShutdown. Mirrors the request and response classes of org.apache.kafka.common.requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    FencedRequest,
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
    listed_in_topics,
    topic_id_of,
    uuid_of,
)
from klamm.wire.translations import (
    SAME,
    Field,
    Translation,
    per_partition,
    struct,
)
from klamm.zk.znodes.brokers import SECURITY_PROTOCOLS

_State = TypeVar(
    "_State", LeaderAndIsrPartitionState, UpdateMetadataPartitionState, StopReplicaPartitionState
)
_INCREMENTAL: Final = 0
"""Type of every LeaderAndIsr request of a ZooKeeper-era controller."""


# -- requests of the controller


def leader_and_isr_values(request: LeaderAndIsrRequest) -> Values:
    """Return the fields of LeaderAndIsr, whose leaders have one end point each."""
    return {
        **_fence_values(request),
        **_states_values(request.partition_states, request.topic_ids),
        "type_": _INCREMENTAL,
        "live_leaders": [_LEADER.write(one) for one in request.live_leaders],
    }


def update_metadata_values(request: UpdateMetadataRequest) -> Values:
    """Return the fields of UpdateMetadata."""
    return {
        **_fence_values(request),
        **_states_values(request.partition_states, request.topic_ids),
        "live_brokers": [
            {
                "id_": broker.id,
                "endpoints": [_end_point_values(one) for one in broker.end_points],
                "rack": broker.rack,
            }
            for broker in request.live_brokers
        ],
    }


def stop_replica_values(request: StopReplicaRequest) -> Values:
    """Return the fields of StopReplica.

    Before version 3 all partitions of a request must have the same ``delete_partition``.
    """
    states = request.partition_states
    topics = _states_by_topic(states)
    return {
        **_fence_values(request),
        "delete_partitions": any(state.delete_partition for state in states),
        "ungrouped_partitions": states,
        "topics": [
            {"name": name, "partition_indexes": [one.topic_partition.partition for one in found]}
            for name, found in topics.items()
        ],
        "topic_states": [
            {"topic_name": name, "partition_states": found} for name, found in topics.items()
        ],
    }


def _fence_values(request: FencedRequest) -> Values:
    return {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
    }


def _states_values(states: Sequence[_State], topic_ids: Mapping[str, str]) -> Values:
    """Return partition states in both forms: grouped by topic, and ungrouped as in old versions."""
    return {
        "ungrouped_partition_states": states,
        "topic_states": [
            {"topic_name": name, "topic_id": uuid_of(topic_ids.get(name)), "partition_states": ones}
            for name, ones in _states_by_topic(states).items()
        ],
    }


def _states_by_topic(states: Iterable[_State]) -> dict[str, list[_State]]:
    topics: dict[str, list[_State]] = {}
    for state in states:
        topics.setdefault(state.topic_partition.topic, []).append(state)
    return topics


def _end_point_values(end_point: EndPoint) -> Values:
    return {
        "host": end_point.host,
        "port": end_point.port,
        "listener": end_point.listener_name,
        "security_protocol": SECURITY_PROTOCOLS.index(end_point.security_protocol),
    }


# -- requests of the controller, as a broker receives them


def _leader_and_isr_request(body: Any) -> LeaderAndIsrRequest:
    """Translate LeaderAndIsr."""
    states = tuple(
        LeaderAndIsrPartitionState(
            tp,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            state.partition_epoch,
            state.replicas,
            getattr(state, "adding_replicas", ()),
            getattr(state, "removing_replicas", ()),
            getattr(state, "is_new", False),
        )
        for tp, state in _states_of(body)
    )
    leaders = tuple(map(_LEADER.read, body.live_leaders))
    return LeaderAndIsrRequest(*_fence_of(body), states, _topic_ids_of(body), leaders)


def _update_metadata_request(body: Any) -> UpdateMetadataRequest:
    """Translate UpdateMetadata."""
    states = tuple(
        UpdateMetadataPartitionState(
            tp,
            state.controller_epoch,
            state.leader,
            state.leader_epoch,
            state.isr,
            state.zk_version,
            state.replicas,
            getattr(state, "offline_replicas", ()),
        )
        for tp, state in _states_of(body)
    )
    brokers = tuple(
        Broker(one.id_, tuple(_end_points_of(one)), getattr(one, "rack", None))
        for one in body.live_brokers
    )
    return UpdateMetadataRequest(*_fence_of(body), states, brokers, _topic_ids_of(body))


def _stop_replica_request(body: Any) -> StopReplicaRequest:
    """Translate StopReplica. Before version 3 there are no leader epochs."""
    if hasattr(body, "topic_states"):
        states = [
            StopReplicaPartitionState(tp, state.leader_epoch, state.delete_partition)
            for tp, state in _states_of(body)
        ]
    else:
        if hasattr(body, "topics"):
            tps = listed_in_topics(body.topics, partitions="partition_indexes")
        else:
            tps = tuple(tp for tp, _ in _ungrouped(body.ungrouped_partitions))
        states = [StopReplicaPartitionState(tp, NO_EPOCH, body.delete_partitions) for tp in tps]
    return StopReplicaRequest(*_fence_of(body), tuple(states))


def _fence_of(body: Any) -> tuple[int, int, int]:
    epoch = getattr(body, "broker_epoch", NO_BROKER_EPOCH)
    return body.controller_id, body.controller_epoch, epoch


def _states_of(body: Any) -> Iterator[tuple[TopicPartition, Any]]:
    yield from _ungrouped(getattr(body, "ungrouped_partition_states", ()))
    topics = getattr(body, "topic_states", ())
    yield from in_topics(topics, topic="topic_name", partitions="partition_states")


def _ungrouped(partitions: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    for one in partitions:
        yield TopicPartition(one.topic_name, one.partition_index), one


def _topic_ids_of(body: Any) -> dict[str, str]:
    found = {
        topic.topic_name: topic_id_of(getattr(topic, "topic_id", None))
        for topic in getattr(body, "topic_states", ())
    }
    return {name: topic_id for name, topic_id in found.items() if topic_id is not None}


def _end_points_of(broker: Any) -> Iterator[EndPoint]:
    if hasattr(broker, "v0_host"):
        yield EndPoint(broker.v0_host, broker.v0_port)
        return
    for one in broker.endpoints:
        if not 0 <= one.security_protocol < len(SECURITY_PROTOCOLS):
            raise InvalidRequestFrame(f"unknown security protocol {one.security_protocol}")
        protocol = SECURITY_PROTOCOLS[one.security_protocol]
        # Before version 3 the name of a listener is that of its security protocol.
        yield EndPoint(one.host, one.port, getattr(one, "listener", protocol), protocol)


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


def _alter_isr_request(body: Any) -> AlterIsrRequest:
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


_LEADER: Final = struct(
    Broker,
    id="broker_id",
    end_points=Field(
        None,
        Translation(
            lambda one: (EndPoint(one.host_name, one.port),),
            lambda found: {"host_name": found[0].host, "port": found[0].port},
        ),
    ),
)
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
_SHUTDOWN: Final = struct(
    ControlledShutdownRequest, broker_epoch=Field("broker_epoch", SAME, NO_BROKER_EPOCH)
)
_REMAINING: Final = struct(
    ControlledShutdownResponse,
    remaining_partitions=Field("remaining_partitions", Translation(write=_remaining_partitions)),
)
_ALTERED_ISRS: Final = struct(
    AlterIsrResponse,
    partitions=per_partition("topics", Translation(write=_altered_isr), topic="topic_name"),
)
APIS: Final = (
    Api(
        4,
        range(6),
        Translation(_leader_and_isr_request, leader_and_isr_values, LeaderAndIsrRequest),
        leader_and_isr_response,
    ),
    Api(
        5,
        range(4),
        Translation(_stop_replica_request, stop_replica_values, StopReplicaRequest),
        struct(StopReplicaResponse, partition_errors=_ERRORS),
    ),
    Api(
        6,
        range(8),
        Translation(_update_metadata_request, update_metadata_values, UpdateMetadataRequest),
        struct(UpdateMetadataResponse),
    ),
    Api(7, range(4), _SHUTDOWN, _REMAINING),
    Api(56, range(1), Translation(_alter_isr_request, kind=AlterIsrRequest), _ALTERED_ISRS),
)
