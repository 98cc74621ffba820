"""The controller's requests in Kafka's bytes: every inter-broker protocol version, both ways."""

from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from kio.index import load_response_schema

from klamm.cluster.api_errors import Errors
from klamm.cluster.api_version import ApiVersion
from klamm.cluster.client_requests import MetadataResponse
from klamm.cluster.group_requests import FindCoordinatorResponse
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ControlResponse,
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
from klamm.cluster.types import Broker, EndPoint, LeaderAndIsr, TopicPartition
from klamm.wire.api import Api
from klamm.wire.apis import APIS, BY_REQUEST
from klamm.wire.control_encoder import ControlEncoder, combined_response
from klamm.wire.frames import (
    InvalidRequestFrame,
    RequestKey,
    encoded_response,
    parse_request,
    request_body,
    request_header,
)
from klamm.wire.metadata_apis import on_listener
from klamm.wire.schema import fill

SIZE = struct.calcsize(">i")
IDS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ", "u": "AAAAAAAAAAAAAAAAAAAAAg"}
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
ONE = Broker(1, (EndPoint("a", 9092), EndPoint("b", 9093, "INTERNAL", "SSL")), "r")
TWO = Broker(2, (EndPoint("c", 9094, "INTERNAL", "SASL_PLAINTEXT"),))
LEADER_AND_ISR = LeaderAndIsrRequest(
    9,
    7,
    70,
    (
        LeaderAndIsrPartitionState(T0, 6, 1, 3, (1, 2), 4, (1, 2, 3), (3,), (2,), is_new=True),
        LeaderAndIsrPartitionState(U0, 5, 2, 0, (2,), 1, (2, 1)),
        LeaderAndIsrPartitionState(T1, 5, 2, 0, (2,), 1, (2, 1)),
    ),
    IDS,
    (ONE, TWO),
)
UPDATE_METADATA = UpdateMetadataRequest(
    9,
    7,
    70,
    (
        UpdateMetadataPartitionState(T0, 6, 1, 3, (1, 2), 4, (1, 2, 3), (3,)),
        UpdateMetadataPartitionState(U0, 5, -2, 0, (), 0, (2, 1)),
    ),
    (ONE, TWO),
    IDS,
)
STOP_REPLICA = StopReplicaRequest(
    9,
    7,
    70,
    (
        StopReplicaPartitionState(T0, 4, delete_partition=True),
        StopReplicaPartitionState(U0, -2, delete_partition=True),
        StopReplicaPartitionState(T1, 4, delete_partition=False),
    ),
)
VERSIONS = {
    "2.0": (1, 4, 0),
    "2.1": (1, 4, 0),
    "2.2": (2, 5, 1),
    "2.3": (2, 5, 1),
    "2.4-IV0": (3, 5, 1),
    "2.4": (4, 6, 2),
    "2.5": (4, 6, 2),
    "2.6": (4, 6, 3),
    "2.7": (4, 6, 3),
    "2.8-IV0": (4, 6, 3),
    "2.8": (5, 7, 3),
}


def encoder(protocol: str) -> ControlEncoder:
    return ControlEncoder(ApiVersion(protocol), "INTERNAL")


def received(frame: bytes) -> tuple[RequestKey, Any]:
    """Return the key of a framed request, and the request as a simulated broker receives it."""
    assert struct.unpack_from(">i", frame) == (len(frame) - SIZE,)
    incoming = parse_request(frame[SIZE:])
    assert incoming.client_id == "9"
    api = APIS[incoming.key.api_key, incoming.key.api_version]
    assert isinstance(api, Api)
    return incoming.key, api.request.read(incoming.body)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_a_broker_receives_what_the_controller_sends(protocol: str) -> None:
    leader_and_isr, update_metadata, stop_replica = VERSIONS[protocol]
    is_new = leader_and_isr >= 5
    (sent,) = encoder(protocol).exchanges(LEADER_AND_ISR, 3)
    key, request = received(sent.frame)
    assert key == sent.key == RequestKey(4, leader_and_isr, 3)
    # Topics are grouped from version 2 onward.
    assert {one.topic_partition: one for one in request.partition_states} == {
        one.topic_partition: one
        if leader_and_isr >= 3
        else msgspec.structs.replace(one, adding_replicas=(), removing_replicas=())
        for one in LEADER_AND_ISR.partition_states
    }
    leaders = [(one.id, one.end_points[0].host) for one in request.live_leaders]
    assert leaders == [(1, "b"), (2, "c")]
    assert request.broker_epoch == (70 if leader_and_isr >= 2 else -1)
    assert request.topic_ids == (IDS if is_new else {})

    (sent,) = encoder(protocol).exchanges(UPDATE_METADATA, 4)
    key, request = received(sent.frame)
    assert key == sent.key == RequestKey(6, update_metadata, 4)
    assert request == msgspec.structs.replace(
        UPDATE_METADATA,
        broker_epoch=70 if update_metadata >= 5 else -1,
        topic_ids=IDS if is_new else {},
    )

    parts = [received(one.frame) for one in encoder(protocol).exchanges(STOP_REPLICA, 5)]
    assert {key for key, _ in parts} == {RequestKey(5, stop_replica, 5)}
    if stop_replica >= 3:
        ((_, request),) = parts
        assert set(request.partition_states) == set(STOP_REPLICA.partition_states)
    else:
        assert [
            [(one.topic_partition, one.leader_epoch, one.delete_partition) for one in states]
            for states in (request.partition_states for _, request in parts)
        ] == [[(T0, -1, True), (U0, -1, True)], [(T1, -1, False)]]
    assert {request.broker_epoch for _, request in parts} == {70 if stop_replica >= 1 else -1}


def answered(
    protocol: str, request: ControlRequest, *responses: ControlResponse
) -> ControlResponse:
    """Return what the controller reads of a simulated broker's responses to ``request``."""
    frames = []
    sent = encoder(protocol).exchanges(request, 3)
    for exchange, response in zip(sent, responses, strict=True):
        key = exchange.key
        api = APIS[key.api_key, key.api_version]
        assert isinstance(api, Api)
        _, arrived = received(exchange.frame)
        values = api.response_to(arrived).write(response)
        frames.append((key, encoded_response(key, values)[SIZE:]))
    return combined_response(request, frames)


@pytest.mark.parametrize("protocol", VERSIONS)
def test_the_controller_reads_what_a_broker_answers(protocol: str) -> None:
    errors = {T0: Errors.NONE, T1: Errors.STALE_CONTROLLER_EPOCH, U0: Errors.KAFKA_STORAGE_ERROR}
    done = LeaderAndIsrResponse(Errors.NONE, errors)
    assert answered(protocol, LEADER_AND_ISR, done) == done
    stale = UpdateMetadataResponse(Errors.STALE_BROKER_EPOCH)
    assert answered(protocol, UPDATE_METADATA, stale) == stale
    whole = StopReplicaResponse(Errors.NONE, errors)
    if VERSIONS[protocol][2] >= 3:
        assert answered(protocol, STOP_REPLICA, whole) == whole
        return
    deleted = StopReplicaResponse(Errors.NONE, {T0: errors[T0], U0: errors[U0]})
    stopped = StopReplicaResponse(Errors.NONE, {T1: errors[T1]})
    assert answered(protocol, STOP_REPLICA, deleted, stopped) == whole
    failed = StopReplicaResponse(Errors.STALE_BROKER_EPOCH, {})
    combined = answered(protocol, STOP_REPLICA, deleted, failed)
    assert combined == StopReplicaResponse(Errors.STALE_BROKER_EPOCH, deleted.partition_errors)
    combined = answered(protocol, STOP_REPLICA, failed, stopped)
    assert combined == StopReplicaResponse(Errors.STALE_BROKER_EPOCH, stopped.partition_errors)


@pytest.mark.parametrize("protocol", ["2.0", "2.8"])
@pytest.mark.parametrize("deletes", [True, False])
def test_replicas_that_are_all_deleted_or_all_kept_are_one_request(
    protocol: str, deletes: bool
) -> None:
    states = (StopReplicaPartitionState(T0, 4, delete_partition=deletes),)
    request = msgspec.structs.replace(STOP_REPLICA, partition_states=states)
    (sent,) = encoder(protocol).exchanges(request, 5)
    (state,) = received(sent.frame)[1].partition_states
    assert (state.topic_partition, state.delete_partition) == (T0, deletes)


def test_an_error_that_klamm_does_not_know_is_an_unknown_error() -> None:
    key = RequestKey(6, 7, 3)
    frame = encoded_response(key, {"error_code": 107})[SIZE:]
    unknown = UpdateMetadataResponse(Errors.UNKNOWN_SERVER_ERROR)
    assert combined_response(UPDATE_METADATA, [(key, frame)]) == unknown


def test_equal_requests_are_encoded_once_for_all_brokers() -> None:
    shared = encoder("2.8")
    others = [msgspec.structs.replace(UPDATE_METADATA, broker_epoch=epoch) for epoch in (71, 72)]
    for request in (UPDATE_METADATA, *others):
        (sent,) = shared.exchanges(request, 3)
        assert received(sent.frame)[1] == request
    assert shared.encoded == 1
    later = msgspec.structs.replace(
        UPDATE_METADATA, partition_states=UPDATE_METADATA.partition_states[:1]
    )
    for request in (later, UPDATE_METADATA, later):  # some brokers are slower than others
        (sent,) = shared.exchanges(request, 3)
        assert received(sent.frame)[1].partition_states == request.partition_states
    assert shared.encoded == 2
    changed = msgspec.structs.replace(UPDATE_METADATA, live_brokers=(ONE,))
    (sent,) = shared.exchanges(changed, 3)
    assert received(sent.frame)[1] == changed
    assert shared.encoded == 3


def test_only_so_many_bytes_of_encoded_requests_are_kept() -> None:
    shared = ControlEncoder(ApiVersion("2.8"), "INTERNAL", 1_000)
    states = UPDATE_METADATA.partition_states
    requests = [
        msgspec.structs.replace(UPDATE_METADATA, partition_states=(*states, *states[:1]))
        for _ in range(20)
    ]
    for request in requests:
        shared.exchanges(request, 3)
    assert shared.encoded == len(requests)
    shared.exchanges(requests[-1], 3)
    assert shared.encoded == len(requests)
    shared.exchanges(requests[0], 3)
    assert shared.encoded == len(requests) + 1


def test_the_last_encoded_requests_are_kept_whichever_are_encoded_again() -> None:
    (sent,) = encoder("2.8").exchanges(UPDATE_METADATA, 3)
    body_bytes = len(sent.frame) - SIZE - len(request_header(sent.key, "9"))
    shared = ControlEncoder(ApiVersion("2.8"), "INTERNAL", 3 * body_bytes)
    states = UPDATE_METADATA.partition_states
    requests = [
        msgspec.structs.replace(UPDATE_METADATA, partition_states=(*states[:1], *states[1:]))
        for _ in range(4)
    ]
    for request in requests:
        shared.exchanges(request, 3)
    for epoch in range(8, 18):  # the same states, but not the same request
        shared.exchanges(msgspec.structs.replace(requests[3], controller_epoch=epoch), 3)
    assert shared.encoded == 14
    for request in requests[1:3]:
        shared.exchanges(request, 3)
    assert shared.encoded == 14
    shared.exchanges(requests[0], 3)
    assert shared.encoded == 15


def test_only_the_last_request_is_kept_if_it_is_too_large() -> None:
    shared = ControlEncoder(ApiVersion("2.8"), "INTERNAL", 0)
    states = UPDATE_METADATA.partition_states
    other = msgspec.structs.replace(UPDATE_METADATA, partition_states=states[:1])
    for request in (UPDATE_METADATA, UPDATE_METADATA, other, UPDATE_METADATA):
        shared.exchanges(request, 3)
    assert shared.encoded == 3


@pytest.mark.parametrize("protocol", VERSIONS)
def test_control_requests_are_encoded_as_kio_does(protocol: str) -> None:
    many = tuple(
        msgspec.structs.replace(
            UPDATE_METADATA.partition_states[0], topic_partition=TopicPartition("m", number)
        )
        for number in range(300)  # a length of more than one byte
    )
    large = msgspec.structs.replace(UPDATE_METADATA, partition_states=many, topic_ids={})
    for request in (LEADER_AND_ISR, UPDATE_METADATA, large, STOP_REPLICA):
        sent, *others = encoder(protocol).exchanges(request, 3)
        if not others:
            write = BY_REQUEST[type(request)].request.write
            values = _with_plain_states(write(on_listener(request, "INTERNAL")))
            expected = request_header(sent.key, "9") + request_body(sent.key, values)
            assert sent.frame[SIZE:] == expected


def _with_plain_states(values: Any) -> Any:
    """Return ``values`` with mappings, which kio's writer takes, in place of partition states."""
    match values:
        case dict():
            return {name: _with_plain_states(value) for name, value in values.items()}
        case LeaderAndIsrPartitionState() | UpdateMetadataPartitionState():
            tp, fields = values.topic_partition, msgspec.structs.asdict(values)
            names = {"topic_name": tp.topic, "partition_index": tp.partition}
            return {**fields, **names, "partition_epoch": values.zk_version}
        case StopReplicaPartitionState():
            tp, fields = values.topic_partition, msgspec.structs.asdict(values)
            return {**fields, "topic_name": tp.topic, "partition_index": tp.partition}
        case [*elements]:
            return [_with_plain_states(element) for element in elements]
    return values


def test_alter_isr_and_controlled_shutdown_of_a_broker() -> None:
    values = {
        "broker_id": 2,
        "broker_epoch": 70,
        "topics": [
            {
                "topic_name": "t",
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_epoch": 3,
                        "new_isr": (2, 1),
                        "partition_epoch": 5,
                    }
                ],
            }
        ],
    }
    assert _translated(RequestKey(56, 0, 1), values) == AlterIsrRequest(
        2, 70, {T0: LeaderAndIsr(2, 3, (2, 1), 5)}
    )
    for version in range(4):
        epoch = 70 if version >= 2 else -1
        shutdown = ControlledShutdownRequest(2, epoch)
        assert _translated(RequestKey(7, version, 1), values) == shutdown
    response = _response(
        RequestKey(56, 0, 1),
        AlterIsrResponse(
            Errors.NONE, {T0: LeaderAndIsr(2, 3, (2, 1), 6), T1: Errors.FENCED_LEADER_EPOCH}
        ),
    )
    done, refused = response.topics[0].partitions
    assert (done.error_code, done.leader_id, done.leader_epoch, done.isr, done.partition_epoch) == (
        *(Errors.NONE, 2, 3, (2, 1), 6),
    )
    assert (refused.partition_index, refused.error_code) == (1, Errors.FENCED_LEADER_EPOCH)
    # As Kafka's AlterIsrManager gets them, with the defaults of the message.
    assert (refused.leader_id, refused.leader_epoch, refused.isr) == (0, 0, ())
    assert refused.partition_epoch == 0
    left = _response(
        RequestKey(7, 3, 1), ControlledShutdownResponse(Errors.NONE, (U0,))
    ).remaining_partitions
    assert [(one.topic_name, one.partition_index) for one in left] == [U0]


@pytest.mark.parametrize("version", [0, 1])
def test_the_oldest_requests_do_not_tell_which_replicas_are_new(version: int) -> None:
    state = {
        "topic_name": "t",
        "partition_index": 0,
        "controller_epoch": 6,
        "leader": 1,
        "leader_epoch": 3,
        "isr": (1,),
        "partition_epoch": 4,
        "replicas": (1, 2),
        "is_new": True,
    }
    values = {
        "controller_id": 9,
        "controller_epoch": 7,
        "ungrouped_partition_states": [state],
        "live_leaders": [],
    }
    found = _translated(RequestKey(4, version, 1), values)
    expected = LeaderAndIsrPartitionState(T0, 6, 1, 3, (1,), 4, (1, 2), is_new=version == 1)
    assert found == LeaderAndIsrRequest(9, 7, -1, (expected,), {}, ())


@pytest.mark.parametrize(
    ("version", "broker", "end_point"),
    [
        (0, {"v0_host": "a", "v0_port": 1}, EndPoint("a", 1)),
        (2, {"security_protocol": 2}, EndPoint("a", 1, "SASL_PLAINTEXT", "SASL_PLAINTEXT")),
        (3, {"security_protocol": 3}, EndPoint("a", 1, "L", "SASL_SSL")),
        (3, {"security_protocol": 4}, None),
        (3, {"security_protocol": -1}, None),
    ],
)
def test_older_versions_name_the_end_points_of_brokers_otherwise(
    version: int, broker: dict[str, Any], end_point: EndPoint | None
) -> None:
    if version:
        end = {"host": "a", "port": 1, "listener": "L", **broker}
        if version < 3:
            del end["listener"]
        broker = {"endpoints": [end], "rack": None}
    values = {
        "controller_id": 9,
        "controller_epoch": 7,
        "ungrouped_partition_states": [],
        "live_brokers": [{"id_": 1, **broker}],
    }
    if end_point is None:
        with pytest.raises(InvalidRequestFrame, match="unknown security protocol"):
            _translated(RequestKey(6, version, 1), values)
    else:
        expected = UpdateMetadataRequest(9, 7, -1, (), (Broker(1, (end_point,)),), {})
        assert _translated(RequestKey(6, version, 1), values) == expected


def _translated(key: RequestKey, values: dict[str, Any]) -> object:
    """Return the request with ``values`` as the controller receives it."""
    frame = request_header(key, "2") + request_body(key, values)
    api = APIS[key.api_key, key.api_version]
    assert isinstance(api, Api)
    return api.request.read(parse_request(frame).body)


def _response(key: RequestKey, response: object) -> Any:
    api = APIS[key.api_key, key.api_version]
    assert isinstance(api, Api)
    return fill(
        load_response_schema(key.api_key, key.api_version),
        api.response_to(response).write(response),
    )


def test_clients_are_sent_to_the_brokers_on_their_own_listener() -> None:
    both = MetadataResponse((ONE, TWO, Broker(3, (EndPoint("d", 1),))), 1, ())
    internal = on_listener(both, "INTERNAL")
    assert [(one.id, one.end_points[0].host) for one in internal.brokers] == [(1, "b"), (2, "c")]
    found = FindCoordinatorResponse(Errors.NONE, ONE)
    assert on_listener(found, "INTERNAL").coordinator == Broker(1, ONE.end_points[1:], "r")
    assert on_listener(found, "EXTERNAL") == FindCoordinatorResponse(
        Errors.COORDINATOR_NOT_AVAILABLE
    )
    none = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)
    assert on_listener(none, "INTERNAL") == none
