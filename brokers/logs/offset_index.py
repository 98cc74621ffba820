"""Where in a segment's file which offset is: ``.index``, 8 bytes an entry.

An entry (relative offset, position) says that the batch at this byte ends with this offset. There
is one for every index.interval.bytes or so. Mirrors kafka.log.OffsetIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import ClassVar, NamedTuple

from brokers.logs.index_file import IndexFile


class OffsetPosition(NamedTuple):
    """An offset and the byte of the segment's file at which its batch begins."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """Both fields of the entries ascend."""

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
