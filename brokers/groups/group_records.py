"""Keys and values of the records in ``__consumer_offsets``.

Every key and value begins with a version of two bytes. Mirrors the functions of
kafka.coordinator.group.GroupMetadataManager for keys and values, and the schemas GroupMetadataKey,
GroupMetadataValue, OffsetCommitKey and OffsetCommitValue. Values of all versions are decoded; the
versions of inter-broker protocol 2.8 are encoded.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from klamm.brokers.groups.group import Group, GroupState, Member
from klamm.brokers.logs.errors import CorruptRecord
from klamm.cluster.group_requests import CommittedOffset, Protocol
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.types import NO_EPOCH, TopicPartition

_OFFSET_KEY: Final = 1
_GROUP_KEY: Final = 2
_VALUE: Final = 3
_EXPIRING_VALUE: Final = 1
_FORMATS: Final = {"h": 2, "i": 4, "q": 8}


class RecordKey(NamedTuple):
    """Key of an offset commit, or, without ``topic_partition``, of a group's metadata."""

    group_id: str
    topic_partition: TopicPartition | None = None


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _bytes(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def offset_key(group_id: str, tp: TopicPartition) -> bytes:
    """Encode the key of an offset commit."""
    key = struct.pack(">h", _OFFSET_KEY) + _string(group_id) + _string(tp.topic)
    return key + struct.pack(">i", tp.partition)


def group_key(group_id: str) -> bytes:
    """Encode the key of a group's metadata."""
    return struct.pack(">h", _GROUP_KEY) + _string(group_id)


def offset_value(committed: CommittedOffset) -> bytes:
    """Encode a committed offset: version 1 if it has an expiration time, otherwise version 3."""
    if committed.expire_timestamp_ms != NO_TIMESTAMP:
        value = struct.pack(">hq", _EXPIRING_VALUE, committed.offset) + _string(committed.metadata)
        return value + struct.pack(">qq", committed.timestamp_ms, committed.expire_timestamp_ms)
    value = struct.pack(">hqi", _VALUE, committed.offset, committed.leader_epoch)
    return value + _string(committed.metadata) + struct.pack(">q", committed.timestamp_ms)


def group_value(group: Group) -> bytes:
    """Encode a group's metadata (version 3), with the assignments of the members."""
    name = group.protocol_name
    parts = [
        struct.pack(">h", _VALUE) + _string(group.protocol_type or ""),
        struct.pack(">i", group.generation_id) + _string(name) + _string(group.leader),
        struct.pack(">qi", group.state_timestamp_ms, len(group.members)),
    ]
    for one in group.members.values():
        parts += [_string(one.member_id), _string(one.group_instance_id)]
        parts += [_string(one.client_id), _string(one.client_host)]
        parts.append(struct.pack(">ii", one.rebalance_timeout_ms, one.session_timeout_ms))
        parts += [_bytes(one.metadata(name)), _bytes(one.assignment)]
    return b"".join(parts)


class _Reader:
    """Reads the fields of a key or value. Raises CorruptRecord if bytes are missing."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise CorruptRecord("A key or value in __consumer_offsets is cut off")
        taken, self._position = self._data[self._position : end], end
        return taken

    def number(self, kind: str) -> int:
        (value,) = struct.unpack(">" + kind, self._take(_FORMATS[kind]))
        return int(value)

    def nullable(self) -> str | None:
        size = self.number("h")
        try:
            return None if size == -1 else self._take(size).decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord(f"A string in __consumer_offsets is malformed: {error}") from error

    def string(self) -> str:
        return self.nullable() or ""

    def blob(self) -> bytes:
        return self._take(self.number("i"))


def decode_key(key: bytes) -> RecordKey:
    """Decode a key. Raises CorruptRecord if it is malformed or has an unknown version."""
    reader = _Reader(key)
    version = reader.number("h")
    if 0 <= version <= _OFFSET_KEY:
        group_id = reader.string()
        return RecordKey(group_id, TopicPartition(reader.string(), reader.number("i")))
    if version == _GROUP_KEY:
        return RecordKey(reader.string())
    raise CorruptRecord(f"Unknown group metadata message version: {version}")


def decode_offset_value(value: bytes) -> CommittedOffset:
    """Decode a committed offset. Raises CorruptRecord."""
    reader = _Reader(value)
    version = reader.number("h")
    if not 0 <= version <= _VALUE:
        raise CorruptRecord(f"Unknown offset message version: {version}")
    return CommittedOffset(
        reader.number("q"),
        reader.number("i") if version >= 3 else NO_EPOCH,
        reader.string(),
        reader.number("q"),
        reader.number("q") if version == _EXPIRING_VALUE else NO_TIMESTAMP,
    )


def decode_group_value(group_id: str, value: bytes) -> Group:
    """Decode a group's metadata: it is Stable, or Empty if it has no members.

    Before version 2, the time of its state is unknown. Raises CorruptRecord.
    """
    reader = _Reader(value)
    version = reader.number("h")
    if not 0 <= version <= _VALUE:
        raise CorruptRecord(f"Unknown group metadata message version: {version}")
    group = Group(group_id, NO_TIMESTAMP)
    group.protocol_type, group.generation_id = reader.string() or None, reader.number("i")
    group.protocol_name, group.leader = reader.nullable(), reader.nullable()
    if version >= 2:
        group.state_timestamp_ms = reader.number("q")
    for _ in range(reader.number("i")):
        group.add(_member(reader, version, group.protocol_name or ""))
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    group.compute_subscribed_topics()
    return group


def _member(reader: _Reader, version: int, protocol: str) -> Member:
    member_id = reader.string()
    instance_id = reader.nullable() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.number("i") if version >= 1 else None
    session_timeout_ms = reader.number("i")
    return Member(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms,
        session_timeout_ms,
        (Protocol(protocol, reader.blob()),),
        reader.blob(),
    )
