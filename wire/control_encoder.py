"""Encodes the controller's requests to brokers.

Brokers usually get the same request but for the broker epoch. Such a request is encoded once, even
if it is sent to some brokers later than to others. Mirrors the choice of versions in
kafka.controller.AbstractControllerBrokerRequestBatch.
"""

from __future__ import annotations

import functools
import struct
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec
from kio.index import load_request_schema

from klamm.cluster.api_version import ApiVersion
from klamm.cluster.requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    StopReplicaResponse,
)
from klamm.cluster.types import NO_BROKER_EPOCH
from klamm.wire.apis import BY_REQUEST
from klamm.wire.control_reader import VERSION, read_leader_and_isr_response
from klamm.wire.control_writer import values_writer
from klamm.wire.frames import RequestKey, parse_response, request_header
from klamm.wire.metadata_apis import on_listener

_LEADER_AND_ISR, _STOP_REPLICA, _UPDATE_METADATA = 4, 5, 6
_FIRST_VERSION_WITH_BROKER_EPOCH: Final = {
    _LEADER_AND_ISR: 2,
    _STOP_REPLICA: 1,
    _UPDATE_METADATA: 5,
}
_SIZE: Final = struct.Struct(">i")
_BROKER_EPOCH: Final = struct.Struct(">q")
_BROKER_EPOCH_OFFSET: Final = 8
"""The broker epoch follows the controller's id and epoch."""
_BROKER_EPOCH_END: Final = _BROKER_EPOCH_OFFSET + _BROKER_EPOCH.size
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_OFFSET: Final = 4
"""The correlation id follows the API key and version."""
_CORRELATION_ID_END: Final = _CORRELATION_ID_OFFSET + _CORRELATION_ID.size
MAX_KEPT_BYTES: Final = 4 << 20


class Exchange(NamedTuple):
    """One request on a connection, and the key that its response must match.

    ``head``: the beginning of its frame, or the whole. ``rest``: what requests to several brokers
    share.
    """

    key: RequestKey
    head: bytes
    rest: memoryview = memoryview(b"")

    @property
    def frame(self) -> bytes:
        """The whole frame."""
        return b"".join((self.head, self.rest)) if self.rest else self.head


class ControlEncoder:
    """Encodes requests for the brokers of one inter-broker protocol version.

    ``listener_name`` selects the end points of leaders in LeaderAndIsr. ``encoded``: how many
    requests were encoded and not shared. Encoded requests are shared by brokers whose requests have
    the same sequence of partition states, an object that the controller's request batch shares
    between brokers. The last ``max_kept_bytes`` of them are kept, and in any case the last one.
    """

    def __init__(
        self, protocol: ApiVersion, listener_name: str, max_kept_bytes: int = MAX_KEPT_BYTES
    ) -> None:
        self._max_kept_bytes = max_kept_bytes
        self._versions = {
            _LEADER_AND_ISR: protocol.leader_and_isr_version,
            _UPDATE_METADATA: protocol.update_metadata_version,
            _STOP_REPLICA: protocol.stop_replica_version,
        }
        self._listener_name = listener_name
        self._kept: OrderedDict[int, tuple[ControlRequest, bytes]] = OrderedDict()
        self._kept_bytes = 0
        self.encoded = 0

    def exchanges(self, request: ControlRequest, correlation_id: int) -> list[Exchange]:
        """Return the requests to send for ``request``, one after the other.

        There is one, except for StopReplica before version 3, which needs one for the replicas to
        delete and one for the others.
        """
        requests: Sequence[ControlRequest] = [request]
        api = BY_REQUEST[type(request)].key
        version = self._versions[api]
        if isinstance(request, StopReplicaRequest) and version < 3:
            requests = _by_deletion(request)
        key = RequestKey(api, version, correlation_id)
        template = _header(api, version, str(request.controller_id))
        header = b"".join(
            (
                template[:_CORRELATION_ID_OFFSET],
                _CORRELATION_ID.pack(correlation_id),
                template[_CORRELATION_ID_END:],
            )
        )
        return [self._exchange(key, header, one) for one in requests]

    def _exchange(self, key: RequestKey, header: bytes, request: ControlRequest) -> Exchange:
        body = self._shared_body(key, request)
        if key.api_version < _FIRST_VERSION_WITH_BROKER_EPOCH[key.api_key]:
            own, rest = b"", memoryview(body)
        else:
            epoch = _BROKER_EPOCH.pack(request.broker_epoch)
            own, rest = body[:_BROKER_EPOCH_OFFSET] + epoch, memoryview(body)[_BROKER_EPOCH_END:]
        size = _SIZE.pack(len(header) + len(own) + len(rest))
        return Exchange(key, b"".join((size, header, own)), rest)

    def _shared_body(self, key: RequestKey, request: ControlRequest) -> bytes:
        """Return the body of a request without its broker epoch."""
        shared = msgspec.structs.replace(request, broker_epoch=NO_BROKER_EPOCH)
        # The identity of an object in the dictionary is unique, because the request refers to it.
        identity = id(request.partition_states)
        kept = self._kept.get(identity)
        if kept is not None and kept[0] == shared:
            return kept[1]
        body = self._encoded(key, shared)
        self.encoded += 1
        if kept is not None:
            self._kept_bytes -= len(kept[1])
        self._kept[identity] = shared, body
        self._kept_bytes += len(body)
        while self._kept_bytes > self._max_kept_bytes and len(self._kept) > 1:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest)
        return body

    def _encoded(self, key: RequestKey, request: ControlRequest) -> bytes:
        buffer = bytearray()
        schema = load_request_schema(key.api_key, key.api_version)
        values = BY_REQUEST[type(request)].request.write(on_listener(request, self._listener_name))
        values_writer(schema)(buffer, values)
        return bytes(buffer)


@functools.lru_cache
def _header(api_key: int, api_version: int, client_id: str) -> bytes:
    """Return the bytes of a request's header, with the correlation id 0."""
    return request_header(RequestKey(api_key, api_version, 0), client_id)


def combined_response(
    request: ControlRequest, frames: list[tuple[RequestKey, bytes]]
) -> ControlResponse:
    """Translate the responses to the exchanges of ``request``. Raises InvalidRequestFrame."""
    if isinstance(request, LeaderAndIsrRequest) and frames[0][0].api_version == VERSION:
        ((key, frame),) = frames
        names = {topic_id: name for name, topic_id in request.topic_ids.items()}
        response = read_leader_and_isr_response(frame, key.correlation_id, names)
        if response is not None:
            return response
    bodies: list[Any] = [parse_response(key, frame) for key, frame in frames]
    read = BY_REQUEST[type(request)].response_to(request).read
    responses: list[ControlResponse] = [read(body) for body in bodies]
    first, *others = responses
    for other in others:
        assert isinstance(first, StopReplicaResponse) and isinstance(other, StopReplicaResponse)
        errors = {**first.partition_errors, **other.partition_errors}
        first = StopReplicaResponse(first.error or other.error, errors)
    return first


def _by_deletion(request: StopReplicaRequest) -> list[StopReplicaRequest]:
    """Split a request into one that deletes replicas and one that does not."""
    parts = [
        [state for state in request.partition_states if state.delete_partition is deletes]
        for deletes in (True, False)
    ]
    return [
        msgspec.structs.replace(request, partition_states=tuple(part)) for part in parts if part
    ]
