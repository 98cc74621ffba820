"""The ``.index`` and ``.timeindex`` files of a segment: fixed-size entries in ascending order.

Entries are held in memory from their first use on, and each is written to the file at once. The
file of an active segment has its maximum size from the start, with zeros after the last entry; it
is trimmed to its entries when the segment is rolled or closed. Mirrors kafka.log.{AbstractIndex,
OffsetIndex, TimeIndex}, which map the file instead; the file contents are the same at all times.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from klamm.brokers.storage.disk import Disk, read_whole
from klamm.cluster.records import NO_TIMESTAMP


class IndexFile:
    """Base class of both indexes.

    ``path`` follows the segment's directory. Offsets are relative to ``base_offset`` in the file
    and absolute elsewhere."""

    __slots__ = ("_disk", "_entries", "base_offset", "max_size_bytes", "path")

    entry: ClassVar[struct.Struct]
    offset_field: ClassVar[int]

    def __init__(self, path: str, base_offset: int, max_size_bytes: int, disk: Disk) -> None:
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.max_size_bytes = max_size_bytes - max_size_bytes % self.entry.size
        self._entries: bytearray | None = None

    @property
    def entries(self) -> bytearray:
        """The bytes of all entries, without the zeros after them if this object wrote them."""
        if self._entries is None:
            self._entries = bytearray(read_whole(self._disk, self.path))
        return self._entries

    @property
    def count(self) -> int:
        """Number of entries."""
        return len(self.entries) // self.entry.size

    @property
    def room(self) -> int:
        """Number of entries that can still be added."""
        return (self.max_size_bytes - len(self.entries)) // self.entry.size

    def __getitem__(self, number: int) -> tuple[int, ...]:
        """Return an entry as stored, with a relative offset."""
        return self.entry.unpack_from(self.entries, number * self.entry.size)

    def reset(self) -> None:
        """Create the file at its maximum size, without entries."""
        self._disk.create(self.path, self.max_size_bytes)
        self._entries = bytearray()

    def trim(self) -> None:
        """Truncate the file to its entries."""
        self._disk.resize(self.path, len(self.entries))

    def preallocate(self) -> None:
        """Extend a trimmed file to its maximum size."""
        self._disk.resize(self.path, max(self.max_size_bytes, len(self.entries)))

    def release(self) -> None:
        """Drop the entries from memory until their next use."""
        self._entries = None

    def is_damaged(self) -> bool:
        """Return True if the file is missing, has a partial entry, or does not ascend."""
        try:
            entries = self.entries
        except FileNotFoundError:
            return True
        if len(entries) % self.entry.size:
            return True
        last = (-1,) * 2
        for entry in self.entry.iter_unpack(entries):
            if entry[0] <= last[0] or entry[1] <= last[1]:
                return True
            last = entry
        return False

    def truncate_to(self, offset: int) -> None:
        """Remove entries from ``offset`` on, and extend the file to its maximum size."""
        self.keep(self._count_below(self.offset_field, offset - self.base_offset))

    def keep(self, count: int) -> None:
        """Keep the first ``count`` entries, and extend the file to its maximum size."""
        size_bytes = count * self.entry.size
        del self.entries[size_bytes:]
        self._disk.resize(self.path, size_bytes)
        self.preallocate()

    def _count_below(self, field: int, limit: int) -> int:
        """Return the number of leading entries with less than ``limit`` in a field."""
        entries, size, unpack = self.entries, self.entry.size, self.entry.unpack_from
        numbers = range(len(entries) // size)
        return bisect_left(numbers, limit, key=lambda number: unpack(entries, number * size)[field])

    def _append(self, data: bytes) -> None:
        if data:
            self._disk.write_at(self.path, len(self.entries), data)
            self.entries.extend(data)


class TimeIndexEntry(NamedTuple):
    """The largest timestamp up to the end of a batch, and the last offset of that batch."""

    timestamp_ms: int
    offset: int


class TimeIndex(IndexFile):
    """Index from timestamps to offsets, 12 bytes per entry; both fields ascend.

    An entry is the largest timestamp up to an offset: later timestamps come after that offset."""

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">qi")
    offset_field: ClassVar[int] = 1

    @property
    def last(self) -> TimeIndexEntry:
        """The last entry; NO_TIMESTAMP and the base offset if there is none."""
        return self._at(self.count - 1)

    def maybe_append(self, entries: Iterable[TimeIndexEntry]) -> None:
        """Append the entries with timestamps larger than the last entry's."""
        pack, base_offset = self.entry.pack, self.base_offset
        latest_ms, data = self.last.timestamp_ms, b""
        for timestamp_ms, offset in entries:
            if timestamp_ms > latest_ms:
                latest_ms = timestamp_ms
                data += pack(timestamp_ms, offset - base_offset)
        self._append(data)

    def lookup(self, timestamp_ms: int) -> TimeIndexEntry:
        """Return the last entry at or before a time; NO_TIMESTAMP and base offset without one."""
        return self._at(self._count_below(0, timestamp_ms + 1) - 1)

    def _at(self, number: int) -> TimeIndexEntry:
        if number < 0:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        timestamp_ms, relative = self[number]
        return TimeIndexEntry(timestamp_ms, self.base_offset + relative)


class OffsetPosition(NamedTuple):
    """An offset, and the byte position of its batch in the segment's file."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Index from offsets to byte positions, 8 bytes per entry; both fields ascend.

    The batch at the position ends with the offset. There is about one entry for every
    index.interval.bytes."""

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">ii")
    offset_field: ClassVar[int] = 0

    @property
    def last(self) -> OffsetPosition:
        """The last entry; the start of the segment if there is none."""
        return self._at(self.count - 1)

    def append(self, entries: Iterable[OffsetPosition]) -> None:
        """Append entries: the last offset of a batch, and its position."""
        pack, base_offset = self.entry.pack, self.base_offset
        self._append(b"".join(pack(offset - base_offset, at) for offset, at in entries))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or before ``offset``; the segment's start if there is none."""
        return self._at(self._count_below(0, offset - self.base_offset + 1) - 1)

    def _at(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self[number]
        return OffsetPosition(self.base_offset + relative, position)
