"""Reads ZooKeeper's big-endian jute records out of bytes.

Values only; which record comes next is the caller's business. Mirrors
org.apache.jute.BinaryInputArchive.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")


class JuteError(ValueError):
    """The bytes end early, or hold what no record does."""


class JuteReader:
    """A place in a buffer, moved on by each read. Every read raises JuteError at the end."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self._data = data
        self.position = position
        self._end = len(data) if end is None else end

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return self._end - self.position

    def adler32(self) -> int:
        """The checksum of all bytes before this place."""
        return zlib.adler32(memoryview(self._data)[: self.position])

    def int32(self) -> int:
        """An int."""
        return int(_INT.unpack_from(self._data, self._advance(4))[0])

    def int64(self) -> int:
        """A long."""
        return int(_LONG.unpack_from(self._data, self._advance(8))[0])

    def boolean(self) -> bool:
        """A boolean: one byte."""
        return self._data[self._advance(1)] != 0

    def buffer(self) -> bytes | None:
        """A buffer; None for length -1."""
        length = self.int32()
        if length < 0:
            return None
        start = self._advance(length)
        return self._data[start : start + length]

    def text(self) -> str:
        """A string; "" for length -1.

        Jute writes each UTF-16 unit of its own: what lies beyond 16 bits comes as two surrogates,
        which are put together here.
        """
        data = self.buffer()
        if not data:
            return ""
        try:
            return data.decode()
        except UnicodeDecodeError:
            units = data.decode("utf-8", "surrogatepass")
            return units.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def count(self) -> int:
        """The length of a vector; 0 for -1."""
        length = self.int32()
        # An element takes a byte at least.
        if length > self.remaining:
            raise JuteError(f"a vector of {length} in {self.remaining} bytes")
        return max(length, 0)

    def skip_acls(self) -> None:
        """Pass over a vector of ACLs."""
        for _ in range(self.count()):
            self.int32()
            self.buffer()
            self.buffer()

    def _advance(self, length: int) -> int:
        start = self.position
        if length > self._end - start:
            raise JuteError(f"{length} bytes wanted, {self._end - start} left")
        self.position = start + length
        return start
