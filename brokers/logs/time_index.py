"""Which offset has which time: ``.timeindex``, 12 bytes an entry.

An entry (timestamp in ms, relative offset) says that the largest timestamp up to this offset is
this one: a record with a larger one comes after it. Mirrors kafka.log.TimeIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from brokers.logs.index_file import IndexFile
from cluster.records import NO_TIMESTAMP


class TimeIndexEntry(NamedTuple):
    """The largest timestamp up to the end of a batch, and the last offset of that batch."""

    timestamp_ms: int
    offset: int


class TimeIndex(IndexFile):
    """Both fields of the entries ascend."""

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
