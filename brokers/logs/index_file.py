"""The indexes of a segment, entries of equal size in ascending order: ``.index``, ``.timeindex``.

The entries are held in memory from their first use on, and each is written to the file at once.
The file of an active segment has its largest size from the beginning, zeros after the last entry,
and is cut to its entries when the segment is rolled or closed. Mirrors kafka.log.{AbstractIndex,
OffsetIndex, TimeIndex}, which map the file instead; what is in the file at any time is the same.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from klamm.brokers.storage.disk import Disk, read_whole
from klamm.cluster.records import NO_TIMESTAMP


class IndexFile:
    """One index. ``path`` follows the segment's directory; offsets are relative to
    ``base_offset`` in the file and absolute everywhere else."""

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
        """The entries' bytes, without the zeros after them if this object wrote them."""
        if self._entries is None:
            self._entries = bytearray(read_whole(self._disk, self.path))
        return self._entries

    @property
    def count(self) -> int:
        """How many entries there are."""
        return len(self.entries) // self.entry.size

    @property
    def room(self) -> int:
        """How many more entries the file is meant to hold."""
        return (self.max_size_bytes - len(self.entries)) // self.entry.size

    def __getitem__(self, number: int) -> tuple[int, ...]:
        """An entry as it is in the file, its offset relative."""
        return self.entry.unpack_from(self.entries, number * self.entry.size)

    def reset(self) -> None:
        """No entries: a new file, of the largest size."""
        self._disk.create(self.path, self.max_size_bytes)
        self._entries = bytearray()

    def trim(self) -> None:
        """Cut the file to its entries."""
        self._disk.resize(self.path, len(self.entries))

    def preallocate(self) -> None:
        """Give a file that was cut to its entries room for more."""
        self._disk.resize(self.path, max(self.max_size_bytes, len(self.entries)))

    def release(self) -> None:
        """Forget the entries until somebody asks for them."""
        self._entries = None

    def is_damaged(self) -> bool:
        """True if the file is missing, is not made of entries, or these do not ascend."""
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
        """Forget entries of ``offset`` and later, and give the file all its room again."""
        self.keep(self._count_below(self.offset_field, offset - self.base_offset))

    def keep(self, count: int) -> None:
        """Forget all but the first ``count`` entries, and give the file all its room again."""
        size_bytes = count * self.entry.size
        del self.entries[size_bytes:]
        self._disk.resize(self.path, size_bytes)
        self.preallocate()

    def _count_below(self, field: int, limit: int) -> int:
        """How many entries, the first ones, have less than ``limit`` in this field."""
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
    """Which offset has which time, 12 bytes an entry: the largest timestamp up to this offset is
    this one, and a record with a larger one comes after it. Both fields ascend."""

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">qi")
    offset_field: ClassVar[int] = 1

    @property
    def last(self) -> TimeIndexEntry:
        """The last entry; no time and the segment's first offset if there is none."""
        return self._at(self.count - 1)

    def maybe_append(self, entries: Iterable[TimeIndexEntry]) -> None:
        """Note the largest timestamps so far, those that are larger than the last entry's."""
        pack, base_offset = self.entry.pack, self.base_offset
        latest_ms, data = self.last.timestamp_ms, b""
        for timestamp_ms, offset in entries:
            if timestamp_ms > latest_ms:
                latest_ms = timestamp_ms
                data += pack(timestamp_ms, offset - base_offset)
        self._append(data)

    def lookup(self, timestamp_ms: int) -> TimeIndexEntry:
        """The last entry at or before this time; no time and the first offset if there is none."""
        return self._at(self._count_below(0, timestamp_ms + 1) - 1)

    def _at(self, number: int) -> TimeIndexEntry:
        if number < 0:
            return TimeIndexEntry(NO_TIMESTAMP, self.base_offset)
        timestamp_ms, relative = self[number]
        return TimeIndexEntry(timestamp_ms, self.base_offset + relative)


class OffsetPosition(NamedTuple):
    """An offset and the byte of the segment's file at which its batch begins."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Which offset is where in the segment's file, 8 bytes an entry: the batch at this byte ends
    with this offset. There is one for every index.interval.bytes or so. Both fields ascend."""

    __slots__ = ()

    entry: ClassVar[struct.Struct] = struct.Struct(">ii")
    offset_field: ClassVar[int] = 0

    @property
    def last(self) -> OffsetPosition:
        """The last entry; the segment's beginning if there is none."""
        return self._at(self.count - 1)

    def append(self, entries: Iterable[OffsetPosition]) -> None:
        """Note batches by the offset with which they end and the byte at which they begin."""
        pack, base_offset = self.entry.pack, self.base_offset
        self._append(b"".join(pack(offset - base_offset, at) for offset, at in entries))

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or before ``offset``; the segment's beginning if there is none."""
        return self._at(self._count_below(0, offset - self.base_offset + 1) - 1)

    def _at(self, number: int) -> OffsetPosition:
        if number < 0:
            return OffsetPosition(self.base_offset, 0)
        relative, position = self[number]
        return OffsetPosition(self.base_offset + relative, position)
