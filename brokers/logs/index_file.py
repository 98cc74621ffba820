"""The ``.index`` and ``.timeindex`` files of a segment: fixed-size entries in ascending order.

Entries are read into memory at their first use, and each new entry is immediately written to the
file. The file of an active segment is preallocated: it has its maximum size, with zeros after the
last entry. It is trimmed to its entries when the segment is rolled or closed. Mirrors
kafka.log.{AbstractIndex, OffsetIndex, TimeIndex}. Kafka maps the files into memory instead, but
their contents are the same.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from klamm.brokers.storage.disk import Disk, read_whole
from klamm.cluster.records import NO_TIMESTAMP


class IndexFile:
    """Base class of the offset index and the time index.

    ``path`` changes when the segment's folder is renamed. In the file, offsets are relative to
    ``base_offset``; elsewhere they are absolute.
    """

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
        """The bytes of all entries.

        After a crash, the file may not have been trimmed. In this case the bytes end with zeros.
        """
        if self._entries is None:
            self._entries = bytearray(read_whole(self._disk, self.path))
        return self._entries

    @property
    def count(self) -> int:
        """Number of entries in the index."""
        return len(self.entries) // self.entry.size

    @property
    def room(self) -> int:
        """Number of entries that can still be added before the file reaches its maximum size."""
        return (self.max_size_bytes - len(self.entries)) // self.entry.size

    def __getitem__(self, number: int) -> tuple[int, ...]:
        """Return an entry as stored in the file, with an offset relative to ``base_offset``."""
        return self.entry.unpack_from(self.entries, number * self.entry.size)

    def reset(self) -> None:
        """Create the file without entries, preallocated with zeros to its maximum size."""
        self._disk.create(self.path, self.max_size_bytes)
        self._entries = bytearray()

    def trim(self) -> None:
        """Truncate the file to its entries, removing the zeros after them."""
        self._disk.resize(self.path, len(self.entries))

    def preallocate(self) -> None:
        """Extend a trimmed file to its maximum size with zeros."""
        self._disk.resize(self.path, max(self.max_size_bytes, len(self.entries)))

    def release(self) -> None:
        """Drop the entries from memory. The next use reads the file again."""
        self._entries = None

    def is_damaged(self) -> bool:
        """Return True if the file is missing, ends with a partial entry, or is not sorted."""
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
        """Remove entries for ``offset`` and later offsets; preallocate the file again."""
        self.keep(self._count_below(self.offset_field, offset - self.base_offset))

    def keep(self, count: int) -> None:
        """Keep only the first ``count`` entries; preallocate the file again."""
        size_bytes = count * self.entry.size
        del self.entries[size_bytes:]
        self._disk.resize(self.path, size_bytes)
        self.preallocate()

    def _count_below(self, field: int, limit: int) -> int:
        """Return the number of entries in which the value at index ``field`` is below ``limit``."""
        entries, size, unpack = self.entries, self.entry.size, self.entry.unpack_from
        numbers = range(len(entries) // size)
        return bisect_left(numbers, limit, key=lambda number: unpack(entries, number * size)[field])

    def _append(self, data: bytes) -> None:
        if data:
            self._disk.write_at(self.path, len(self.entries), data)
            self.entries.extend(data)


class TimeIndexEntry(NamedTuple):
    """The last offset of a batch, and the largest timestamp of all records up to this offset."""

    timestamp_ms: int
    offset: int


class TimeIndex(IndexFile):
    """Index from timestamps to offsets: 12 bytes per entry, sorted by timestamp and by offset.

    An entry states that no record up to its offset has a larger timestamp.
    """

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">qi")
    offset_field: ClassVar[int] = 1

    @property
    def last(self) -> TimeIndexEntry:
        """The last entry; NO_TIMESTAMP and the base offset if the index has no entries."""
        return self._at(self.count - 1)

    def maybe_append(self, entries: Iterable[TimeIndexEntry]) -> None:
        """Append each entry whose timestamp is larger than all timestamps before it."""
        pack, base_offset = self.entry.pack, self.base_offset
        latest_ms, data = self.last.timestamp_ms, b""
        for timestamp_ms, offset in entries:
            if timestamp_ms > latest_ms:
                latest_ms = timestamp_ms
                data += pack(timestamp_ms, offset - base_offset)
        self._append(data)

    def lookup(self, timestamp_ms: int) -> TimeIndexEntry:
        """Return the last entry whose timestamp is at most ``timestamp_ms``.

        If there is no such entry, return NO_TIMESTAMP and the base offset.
        """
        return self._at(self._count_below(0, timestamp_ms + 1) - 1)

    def _at(self, number: int) -> TimeIndexEntry:
        if number < 0:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        timestamp_ms, relative = self[number]
        return TimeIndexEntry(timestamp_ms, self.base_offset + relative)


class OffsetPosition(NamedTuple):
    """An offset, and the byte position of its batch in the segment's ``.log`` file."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Index from offsets to byte positions: 8 bytes per entry, sorted by offset.

    An entry contains the last offset of a batch and the byte position at which the batch starts.
    About one entry is added for every index.interval.bytes of records.
    """

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">ii")
    offset_field: ClassVar[int] = 0

    @property
    def last(self) -> OffsetPosition:
        """The last entry; the base offset and position 0 if the index has no entries."""
        return self._at(self.count - 1)

    def append(self, entries: Iterable[OffsetPosition]) -> None:
        """Append entries to the index."""
        pack, base_offset = self.entry.pack, self.base_offset
        self._append(b"".join(pack(offset - base_offset, at) for offset, at in entries))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry whose offset is at most ``offset``.

        If there is no such entry, return the base offset and position 0.
        """
        return self._at(self._count_below(0, offset - self.base_offset + 1) - 1)

    def _at(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self[number]
        return OffsetPosition(self.base_offset + relative, position)
