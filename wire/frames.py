"""Frames of Kafka's network protocol: a size of four bytes, a header, and a request or response.

Mirrors org.apache.kafka.common.network.NetworkReceive and
org.apache.kafka.common.requests.{RequestHeader,RequestContext}.
"""

from __future__ import annotations

import asyncio
import io
import struct
from typing import Any, Final, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from klamm.cluster.errors import KlammError

MAX_REQUEST_BYTES: Final = 100 << 20
"""Kafka's default of socket.request.max.bytes."""
_SIZE: Final = struct.Struct(">i")
_FIXED_HEADER: Final = struct.Struct(">hhi")


class InvalidRequestFrame(KlammError):
    """A frame that is no request of Kafka's protocol. Like Kafka, the broker hangs up."""


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


async def read_frame(reader: asyncio.StreamReader, max_bytes: int) -> bytes | None:
    """Read a frame and return it without its size. Return None at the end of the stream.

    Raises InvalidRequestFrame if the frame is larger than ``max_bytes`` or is cut off.
    """
    try:
        (size,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
        if not _FIXED_HEADER.size <= size <= max_bytes:
            raise InvalidRequestFrame(
                f"a request of {size} bytes: expected {_FIXED_HEADER.size} to {max_bytes}"
            )
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise InvalidRequestFrame("the connection ended within a request") from None
        return None


def request_key(frame: bytes) -> RequestKey:
    """Return the API, version and correlation id of a request."""
    return RequestKey._make(_FIXED_HEADER.unpack_from(frame))


def parse_request(frame: bytes) -> IncomingRequest:
    """Parse a request whose API and version are known. Raises InvalidRequestFrame."""
    key = request_key(frame)
    schema = load_request_schema(key.api_key, key.api_version)
    buffer = memoryview(frame)
    try:
        header, header_size = entity_reader(schema.__header_schema__)(buffer, 0)
        body, _ = entity_reader(schema)(buffer, header_size)
    except Exception as error:
        # For malformed requests kio raises KeyError, ValueError and others besides its own errors.
        raise InvalidRequestFrame(
            f"a malformed request: API key {key.api_key}, version {key.api_version}"
        ) from error
    return IncomingRequest(key, getattr(header, "client_id", None), body)


def response_frame(key: RequestKey, body: Any) -> bytes:
    """Return the frame of a response, whose schema must have the version of the request."""
    buffer = io.BytesIO()
    buffer.write(bytes(_SIZE.size))
    header = body.__header_schema__
    entity_writer(header)(buffer, header(correlation_id=key.correlation_id))
    entity_writer(type(body))(buffer, body)
    frame = buffer.getbuffer()
    _SIZE.pack_into(frame, 0, len(frame) - _SIZE.size)
    return bytes(frame)


def response_schema(key: RequestKey) -> type[Any]:
    """Return kio's schema of the response to a request."""
    return load_response_schema(key.api_key, key.api_version)
