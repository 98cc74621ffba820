"""Encodes the controller's requests to brokers.

Brokers usually get the same request but for the broker epoch. Such a request is encoded once.
Mirrors the choice of versions in kafka.controller.AbstractControllerBrokerRequestBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.api_version import ApiVersion
from klamm.cluster.requests import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
)
from klamm.cluster.types import NO_BROKER_EPOCH
from klamm.wire.control_apis import (
    control_response,
    leader_and_isr_values,
    stop_replica_values,
    update_metadata_values,
)
from klamm.wire.frames import RequestKey, framed, parse_response, request_body, request_header
from klamm.wire.schema import Values

_LEADER_AND_ISR, _STOP_REPLICA, _UPDATE_METADATA = 4, 5, 6
_FIRST_VERSION_WITH_BROKER_EPOCH: Final = {
    _LEADER_AND_ISR: 2,
    _STOP_REPLICA: 1,
    _UPDATE_METADATA: 5,
}
_BROKER_EPOCH: Final = struct.Struct(">q")
_BROKER_EPOCH_OFFSET: Final = 8
"""The broker epoch follows the controller's id and epoch."""


class Exchange(NamedTuple):
    """One request on a connection, and the key that its response must match."""

    key: RequestKey
    frame: bytes


class ControlEncoder:
    """Encodes requests for the brokers of one inter-broker protocol version.

    ``listener_name`` selects the end points of leaders in LeaderAndIsr. ``encoded``: how many
    requests were encoded and not shared.
    """

    def __init__(self, protocol: ApiVersion, listener_name: str) -> None:
        self._protocol = protocol
        self._listener_name = listener_name
        self._last: dict[int, tuple[ControlRequest, bytes]] = {}
        self.encoded = 0

    def exchanges(self, request: ControlRequest, correlation_id: int) -> list[Exchange]:
        """Return the requests to send for ``request``, one after the other.

        There is one, except for StopReplica before version 3, which needs one for the replicas to
        delete and one for the others.
        """
        requests: Sequence[ControlRequest] = [request]
        match request:
            case LeaderAndIsrRequest():
                api, version = _LEADER_AND_ISR, self._protocol.leader_and_isr_version
            case UpdateMetadataRequest():
                api, version = _UPDATE_METADATA, self._protocol.update_metadata_version
            case StopReplicaRequest():
                api, version = _STOP_REPLICA, self._protocol.stop_replica_version
                if version < 3:
                    requests = _by_deletion(request)
        key = RequestKey(api, version, correlation_id)
        header = request_header(key, str(request.controller_id))
        return [Exchange(key, framed(header, self._body(key, one))) for one in requests]

    def _body(self, key: RequestKey, request: ControlRequest) -> bytes:
        shared = msgspec.structs.replace(request, broker_epoch=NO_BROKER_EPOCH)
        last = self._last.get(key.api_key)
        if last is not None and last[0] == shared:
            body = last[1]
        else:
            body = request_body(key, self._values(shared))
            self._last[key.api_key] = (shared, body)
            self.encoded += 1
        if key.api_version < _FIRST_VERSION_WITH_BROKER_EPOCH[key.api_key]:
            return body
        patched = bytearray(body)
        _BROKER_EPOCH.pack_into(patched, _BROKER_EPOCH_OFFSET, request.broker_epoch)
        return bytes(patched)

    def _values(self, request: ControlRequest) -> Values:
        match request:
            case LeaderAndIsrRequest():
                return leader_and_isr_values(request, self._listener_name)
            case UpdateMetadataRequest():
                return update_metadata_values(request)
            case StopReplicaRequest():
                return stop_replica_values(request)


def combined_response(
    request: ControlRequest, frames: list[tuple[RequestKey, bytes]]
) -> ControlResponse:
    """Translate the responses to the exchanges of ``request``. Raises InvalidRequestFrame."""
    bodies: list[Any] = [parse_response(key, frame) for key, frame in frames]
    first, *others = [control_response(request, body) for body in bodies]
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
