"""Reads large responses to LeaderAndIsr without kio.

A broker responds to LeaderAndIsr with an error for each partition, and a controller may get 100,000
of them at once. kio makes an object of each and takes ten times as long.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping
from typing import Final

from kio.serial.errors import DecodeError
from kio.serial.readers import read_compact_array_length

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import LeaderAndIsrResponse
from klamm.cluster.types import TopicPartition
from klamm.wire.schema import error_of, topic_id_of

VERSION: Final = 5
"""The only version of LeaderAndIsr whose response this module reads: that of Kafka 2.8."""
_BEGIN: Final = struct.Struct(">ibh")
"""Correlation id, number of tagged fields, error."""
_TOPIC_ID_BYTES: Final = 16
_ERROR: Final = struct.Struct(">ihb")
"""Partition, error, number of tagged fields."""


class _Unusual(Exception):
    """A response with tagged fields or a null array."""


def read_leader_and_isr_response(
    frame: bytes, correlation_id: int, topic_names: Mapping[str, str]
) -> LeaderAndIsrResponse | None:
    """Read a response. Return None if it is malformed or unusual: then kio has to read it.

    ``topic_names`` is keyed by topic id. Topics with other ids are skipped.
    """
    try:
        return _read(frame, correlation_id, topic_names)
    except (struct.error, IndexError, ValueError, DecodeError, _Unusual):
        return None


def _read(
    frame: bytes, correlation_id: int, topic_names: Mapping[str, str]
) -> LeaderAndIsrResponse:
    answered_id, tagged, code = _BEGIN.unpack_from(frame)
    if tagged or answered_id != correlation_id:
        raise _Unusual
    errors: dict[TopicPartition, Errors] = {}
    known: dict[int, Errors] = {}
    topics, offset = _array_length(frame, _BEGIN.size)
    for _ in range(topics):
        end = offset + _TOPIC_ID_BYTES
        name = topic_names.get(topic_id_of(uuid.UUID(bytes=_slice(frame, offset, end))) or "")
        partitions, offset = _array_length(frame, end)
        end = offset + partitions * _ERROR.size
        for partition, error, tagged in _ERROR.iter_unpack(_slice(frame, offset, end)):
            if tagged:
                raise _Unusual
            if name is not None:
                if error not in known:
                    known[error] = error_of(error)
                errors[TopicPartition(name, partition)] = known[error]
        offset = _no_tagged_fields(frame, end)
    _no_tagged_fields(frame, offset)
    return LeaderAndIsrResponse(error_of(code), errors)


def _slice(frame: bytes, begin: int, end: int) -> bytes:
    if end > len(frame):
        raise _Unusual
    return frame[begin:end]


def _array_length(frame: bytes, offset: int) -> tuple[int, int]:
    """Return the length of the array that begins at ``offset``, and the offset of its elements."""
    length, size = read_compact_array_length(frame, offset)
    if length is None:
        raise _Unusual
    return length, offset + size


def _no_tagged_fields(frame: bytes, offset: int) -> int:
    if frame[offset]:
        raise _Unusual
    return offset + 1
