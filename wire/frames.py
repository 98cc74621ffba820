"""Frames of Kafka's network protocol: a size of four bytes, a header, and a request or response.

Mirrors org.apache.kafka.common.network.NetworkReceive and
org.apache.kafka.common.requests.{RequestHeader,RequestContext}.
"""

from __future__ import annotations

import asyncio
import functools
import io
import struct
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import OutOfBoundValue
from kio.static.protocol import Entity

from klamm.cluster.errors import KlammError
from klamm.wire.kio_readers import LimitExceeded, adapt_kio, limited_elements
from klamm.wire.schema import Values, fill

adapt_kio()

_CORRELATION_ID: Final = struct.Struct(">i")
CORRELATION_ID_BYTES: Final = _CORRELATION_ID.size
"""Size of the smallest frame of a response."""
_SMALL_RESPONSE_BYTES: Final = 64
MAX_REQUEST_BYTES: Final = 100 << 20
"""Kafka's default of socket.request.max.bytes."""
MAX_ELEMENTS: Final = 1_000_000
"""Elements in all arrays of one request: LeaderAndIsr of 140,000 partitions has as many."""
_SIZE: Final = struct.Struct(">i")
_FIXED_HEADER: Final = struct.Struct(">hhi")
_ALTER_ISR: Final = 56  # Kafka 3 and kio: AlterPartition


class InvalidRequestFrame(KlammError):
    """A frame that is no request of Kafka's protocol. Like Kafka, the broker hangs up."""


class TooManyElements(InvalidRequestFrame):
    """A request whose arrays have more elements than its reader allows."""


class RequestKey(NamedTuple):
    """The fields with which the header of every version begins."""

    api_key: int
    api_version: int
    correlation_id: int


class IncomingRequest(NamedTuple):
    """A request as it arrived: ``body`` is kio's schema of its API and version."""

    key: RequestKey
    client_id: str | None
    body: Any


async def read_size(
    reader: asyncio.StreamReader, max_bytes: int, min_bytes: int = _FIXED_HEADER.size
) -> int | None:
    """Read the size of a frame. Return None at the end of the stream.

    Raises InvalidRequestFrame if the frame is smaller than ``min_bytes`` or larger than
    ``max_bytes``.
    """
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise InvalidRequestFrame("the connection ended within a request") from None
        return None
    if not min_bytes <= size <= max_bytes:
        raise InvalidRequestFrame(f"a request of {size} bytes: expected {min_bytes} to {max_bytes}")
    return int(size)


async def read_body(reader: asyncio.StreamReader, size: int) -> bytes:
    """Read a frame after its size. Raises InvalidRequestFrame if it is cut off."""
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError:
        raise InvalidRequestFrame("the connection ended within a request") from None


def request_key(frame: bytes) -> RequestKey:
    """Return the API, version and correlation id of a request."""
    return RequestKey._make(_FIXED_HEADER.unpack_from(frame))


_response_schema: Final = functools.cache(load_response_schema)


def parse_request(frame: bytes, max_elements: int = MAX_ELEMENTS) -> IncomingRequest:
    """Parse a request whose API and version are known.

    Raises InvalidRequestFrame, and its subclass TooManyElements if its arrays have more than
    ``max_elements`` elements in all.
    """
    key = request_key(frame)
    schema = load_request_schema(key.api_key, key.api_version)
    buffer = memoryview(frame)
    try:
        with limited_elements(max_elements):
            header, header_size = entity_reader(schema.__header_schema__)(buffer, 0)
            body, _ = entity_reader(schema)(buffer, header_size)
    except LimitExceeded:
        raise TooManyElements(f"a request of more than {max_elements} elements") from None
    except Exception as error:
        # For malformed requests kio raises KeyError, ValueError and others besides its own errors.
        raise InvalidRequestFrame(
            f"a malformed request: API key {key.api_key}, version {key.api_version}"
        ) from error
    return IncomingRequest(key, getattr(header, "client_id", None), body)


def parse_response(key: RequestKey, frame: bytes) -> Any:
    """Parse the response to the request ``key``: kio's schema of its API and version.

    Raises InvalidRequestFrame if the frame is not the response to this request.
    """
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    if correlation_id != key.correlation_id:
        raise InvalidRequestFrame(f"a response to request {correlation_id} instead of {key}")
    parse = _parse_small_response if len(frame) <= _SMALL_RESPONSE_BYTES else _parse_response
    return parse(key.api_key, key.api_version, frame[CORRELATION_ID_BYTES:])


def _parse_response(api_key: int, api_version: int, data: bytes) -> Any:
    """Parse a response without its correlation id."""
    schema = _response_schema(api_key, api_version)
    buffer = memoryview(bytes(CORRELATION_ID_BYTES) + data)
    try:
        _, header_size = entity_reader(schema.__header_schema__)(buffer, 0)
        body, _ = entity_reader(schema)(buffer, header_size)
    except Exception as error:
        # As in parse_request, kio raises errors of many types.
        raise InvalidRequestFrame(
            f"a malformed response: API key {api_key}, version {api_version}"
        ) from error
    return body


# Nearly all responses to UpdateMetadata have the same bytes, and kio's entities are frozen.
_parse_small_response = functools.lru_cache(_parse_response)


def request_header(key: RequestKey, client_id: str) -> bytes:
    """Return the bytes of a request's header."""
    schema = load_request_schema(key.api_key, key.api_version).__header_schema__
    values = {
        "request_api_key": key.api_key,
        "request_api_version": key.api_version,
        "correlation_id": key.correlation_id,
        "client_id": client_id,
    }
    return _encoded(schema, values)


def request_body(key: RequestKey, values: Values) -> bytes:
    """Return the bytes of a request without its header. ``values``: the fields of all versions."""
    return _encoded(load_request_schema(key.api_key, key.api_version), values)


def _encoded(schema: type[Entity], values: Values) -> bytes:
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, fill(schema, values))
    return buffer.getvalue()


def framed(*parts: bytes) -> bytes:
    """Return ``parts`` with their size in front."""
    return b"".join((_SIZE.pack(sum(map(len, parts))), *parts))


def api_name(key: RequestKey) -> str:
    """Return the name of an API in Kafka 2.8, such as "Fetch"."""
    if key.api_key == _ALTER_ISR:
        return "AlterIsr"
    return load_request_schema(key.api_key, key.api_version).__name__.removesuffix("Request")


def encoded_response(key: RequestKey, values: Values) -> bytes:
    """Return the frame of the response to a request. ``values``: the fields of all versions.

    Raises InvalidRequestFrame if a message that quotes the request is too long for the version.
    """
    schema = _response_schema(key.api_key, key.api_version)
    header = _encoded(schema.__header_schema__, {"correlation_id": key.correlation_id})
    try:
        return framed(header, _encoded(schema, values))
    except OutOfBoundValue as error:
        raise InvalidRequestFrame(
            f"no response to API key {key.api_key}, version {key.api_version}: {error}"
        ) from error
