"""Reader for jute, ZooKeeper's big-endian serialization format.

Mirrors org.apache.jute.BinaryInputArchive.
"""

from __future__ import annotations

import zlib
from struct import Struct
from typing import Final

_INT: Final = Struct(">i")
_LONG: Final = Struct(">q")


class JuteError(ValueError):
    """The bytes are truncated or are not valid jute."""


class JuteReader:
    """Reader of consecutive jute values in a buffer. Raises JuteError at the end of the buffer."""

    __slots__ = ("_data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self._data = data
        self.position = position

    @property
    def remaining(self) -> int:
        """Number of unread bytes."""
        return len(self._data) - self.position

    def adler32(self) -> int:
        """Return the Adler-32 checksum of all bytes before the current position."""
        return zlib.adler32(memoryview(self._data)[: self.position])

    def int32(self) -> int:
        """Read an int."""
        return int(_INT.unpack_from(self._data, self._advance(4))[0])

    def int64(self) -> int:
        """Read a long."""
        return int(_LONG.unpack_from(self._data, self._advance(8))[0])

    def boolean(self) -> bool:
        """Read a boolean of one byte."""
        return self._data[self._advance(1)] != 0

    def buffer(self) -> bytes | None:
        """Read a byte buffer. A length of -1 means None."""
        length = self.int32()
        if length < 0:
            return None
        start = self._advance(length)
        return self._data[start : start + length]

    def text(self) -> str:
        """Read a string. A length of -1 means "".

        Jute encodes each UTF-16 code unit separately: a character above U+FFFF is stored as two
        surrogates, which this method combines.
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
        """Read the length of a vector. A length of -1 means 0."""
        length = self.int32()
        # An element has at least one byte.
        if length > self.remaining:
            raise JuteError(f"a vector of {length} elements cannot fit in {self.remaining} bytes")
        return max(length, 0)

    def skip_acls(self) -> None:
        """Skip a vector of ACLs."""
        for _ in range(self.count()):
            self.int32()
            self.buffer()
            self.buffer()

    def _advance(self, length: int) -> int:
        start = self.position
        if length > len(self._data) - start:
            raise JuteError(f"{length} bytes expected, {self.remaining} left")
        self.position = start + length
        return start
