"""Malformed frames of Kafka's protocol, drawn from a seed.

``Frames`` makes valid requests of every API and version that klamm's brokers serve, from kio's
schemas, and damages them: other bytes, other lengths, cut and repeated parts, record batches with a
right checksum and wrong contents.
"""

from __future__ import annotations

import dataclasses
import random
import struct
import types
import typing
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import google_crc32c
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.wire.apis import API_VERSIONS, API_VERSIONS_RANGE, APIS
from klamm.wire.frames import (
    InvalidRequestFrame,
    RequestKey,
    framed,
    parse_request,
    request_body,
    request_header,
)

INTER_BROKER: Final = frozenset({4, 5, 6, 7, 56})
"""APIs by which a controller or a broker changes a broker: valid ones are no malformed frames."""
KEYS: Final = (
    *APIS,
    *((API_VERSIONS, version) for version in API_VERSIONS_RANGE),
)
_NAMES: Final = ("fuzz-a", "fuzz-b", "fuzz-missing", "", "x" * 249, "a/b", "ü", "0", "1")
_NUMBERS: Final = (-1, 0, 0, 1, 1, 2, 50)
_LENGTHS: Final = (-(2**31), -5, -4, -2, -1, 0, 1, 2, 0x7FFF, 2**16, 2**24, 2**31 - 1)
_ENDLESS_VARINTS: Final = (b"\xff" * 5, b"\x80" * 10, b"\xff\xff\xff\xff\x0f", b"\x80" * 200)
_CRC_AT, _CRC_END, _COUNT_AT = 17, 21, 57
_INTEGERS: Final = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4}


class Frame(NamedTuple):
    """What one connection sends. ``kind`` names the damage."""

    kind: str
    sent: bytes


class Frames:
    """Draws frames from a random generator."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._damages = (
            self._other_bytes,
            self._other_bytes,
            self._other_length,
            self._endless_varint,
            self._cut,
            self._repeated,
            self._lying_size,
            self._unfinished,
            self._random_bytes,
            self._unknown_api,
            self._huge_array,
            self._lying_batch,
        )

    def draw(self) -> Frame:
        """Return a malformed frame, or one that is by chance valid but belongs to no controller."""
        while True:
            damage = self._rng.choice(self._damages)
            body = damage()
            sent = body if isinstance(body, Frame) else Frame(damage.__name__[1:], framed(body))
            if not _is_valid_inter_broker(sent.sent):
                return sent

    def request(self, api_key: int, version: int) -> bytes:
        """Return a valid request without its size."""
        key = RequestKey(api_key, version, self._rng.randrange(2**31))
        values = self._values(load_request_schema(api_key, version))
        return request_header(key, "fuzz") + request_body(key, values)

    # -- damages

    def _any_request(self) -> bytearray:
        return bytearray(self.request(*self._rng.choice(KEYS)))

    def _other_bytes(self) -> bytes:
        request = self._any_request()
        for _ in range(self._rng.randint(1, 4)):
            # Not the API key and version: those have a damage of their own.
            request[self._rng.randrange(4, len(request))] = self._rng.randrange(256)
        return bytes(request)

    def _other_length(self) -> bytes:
        request = self._any_request()
        length = self._rng.choice(_LENGTHS)
        layout = self._rng.choice((">i", ">h")) if -(2**15) <= length < 2**15 else ">i"
        at = self._rng.randrange(4, len(request))
        written = struct.pack(layout, length)
        request[at : at + len(written)] = written
        return bytes(request)

    def _endless_varint(self) -> bytes:
        request = self._any_request()
        at = self._rng.randrange(8, len(request) + 1)
        request[at : at + self._rng.randrange(3)] = self._rng.choice(_ENDLESS_VARINTS)
        return bytes(request)

    def _cut(self) -> bytes:
        request = self._any_request()
        return bytes(request[: self._rng.randrange(len(request))])

    def _repeated(self) -> bytes:
        request = self._any_request()
        at = self._rng.randrange(8, len(request) + 1)
        part = request[self._rng.randrange(8, len(request) + 1) :][: self._rng.randrange(1, 64)]
        request[at:at] = part * self._rng.randrange(1, 40)
        return bytes(request)

    def _lying_size(self) -> Frame:
        request = bytes(self._any_request())
        size = self._rng.choice((*_LENGTHS, len(request) - 1, len(request) + 1))
        return Frame("lying_size", struct.pack(">i", size) + request)

    def _unfinished(self) -> Frame:
        frame = framed(bytes(self._any_request()))
        return Frame("unfinished", frame[: self._rng.randrange(1, len(frame))])

    def _random_bytes(self) -> Frame:
        noise = self._rng.randbytes(self._rng.randrange(1, 300))
        return Frame("random_bytes", noise if self._rng.random() < 0.3 else framed(noise))

    def _unknown_api(self) -> bytes:
        request = self._any_request()
        key, version = self._rng.randrange(-2, 80), self._rng.randrange(-2, 20)
        struct.pack_into(">hh", request, 0, key, version)
        return bytes(request)

    def _huge_array(self) -> bytes:
        """Arrays of tiny elements: few bytes, many objects."""
        key, version = self._rng.choice(KEYS)
        header = request_header(RequestKey(key, version, 1), "fuzz")
        count = self._rng.choice((1_000, 20_000))
        element = self._rng.choice((b"\0", b"\x01", b"\x01\0", b"\0\0", b"\xff\xfe"))
        length = self._rng.choice((struct.pack(">i", count), b"\xff\xff\x03"))
        return header + self._rng.randbytes(self._rng.choice((0, 0, 4))) + length + element * count

    def _lying_batch(self) -> bytes:
        """Produce a batch whose checksum is right, and whose contents are not."""
        batch = bytearray(self._batch())
        lie = self._rng.randrange(4)
        if lie == 0:
            struct.pack_into(">i", batch, _COUNT_AT, self._rng.choice(_LENGTHS))
        elif lie == 1:
            del batch[self._rng.randrange(_COUNT_AT + 4, len(batch) + 1) :]
            struct.pack_into(">i", batch, 8, len(batch) - 12)
        elif lie == 2:
            batch[self._rng.randrange(_CRC_END, len(batch))] ^= 1 << self._rng.randrange(8)
        else:
            struct.pack_into(">i", batch, 8, self._rng.choice(_LENGTHS))
        struct.pack_into(">I", batch, _CRC_AT, google_crc32c.value(bytes(batch[_CRC_END:])))
        key = RequestKey(0, self._rng.randrange(3, 10), 1)
        partition = {"index": 0, "records": bytes(batch)}
        topics = [{"name": "fuzz-a", "partition_data": [partition]}]
        values = {"acks": -1, "timeout": timedelta(milliseconds=50), "topic_data": topics}
        values["transactional_id"] = None
        return request_header(key, "fuzz") + request_body(key, values)

    # -- values

    def _batch(self) -> bytes:
        builder = DefaultRecordBatchBuilder(
            2, self._rng.randrange(len(COMPRESSIONS)), 0, -1, -1, -1, 1 << 16
        )
        for number in range(self._rng.randrange(1, 5)):
            builder.append(number, 1_700_000_000_000, b"k", b"value" * 20, [])
        return bytes(builder.build())

    def _values(self, schema: type[Any]) -> dict[str, Any]:
        hints = typing.get_type_hints(schema)
        return {
            field.name: self._value(field, hints[field.name])
            for field in dataclasses.fields(schema)
        }

    def _value(self, field: dataclasses.Field[Any], hint: Any) -> Any:
        is_nullable = typing.get_origin(hint) in (typing.Union, types.UnionType)
        if is_nullable:
            if self._rng.random() < 0.3:
                return None
            hint = next(one for one in typing.get_args(hint) if one is not type(None))
        if typing.get_origin(hint) is tuple:
            element = typing.get_args(hint)[0]
            return tuple(self._one(field, element) for _ in range(self._rng.randrange(3)))
        return self._one(field, hint)

    def _one(self, field: dataclasses.Field[Any], hint: Any) -> Any:
        if dataclasses.is_dataclass(hint):
            return self._values(typing.cast("type[Any]", hint))
        match field.metadata.get("kafka_type"):
            case "string":
                return self._rng.choice(_NAMES)
            case "bytes":
                return self._rng.randbytes(self._rng.randrange(20))
            case "records":
                return self._batch()
            case "uuid":
                return uuid.UUID(int=self._rng.getrandbits(128))
            case "bool":
                return self._rng.random() < 0.5
            case "error_code":
                return ErrorCode(0)
            case "timedelta_i32" | "timedelta_i64":
                return timedelta(milliseconds=self._rng.randrange(50))
            case "datetime_i64":
                return datetime(2026, 1, 1, tzinfo=UTC)
            case "float64":
                return 0.0
        return self._rng.choice(_NUMBERS)


def _is_valid_inter_broker(sent: bytes) -> bool:
    """Whether a broker would carry out a frame as a request of its controller."""
    if len(sent) < 12 or struct.unpack_from(">h", sent, 4)[0] not in INTER_BROKER:
        return False
    if struct.unpack_from(">hh", sent, 4) not in APIS:
        return False
    size = struct.unpack_from(">i", sent)[0]
    try:
        parse_request(sent[4 : 4 + max(size, 8)])
    except InvalidRequestFrame:
        return False
    return True
