"""Faults of a disk, as values: how operations on its files fail, and when.

brokers/storage/faults.py makes the operations fail.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from klamm.cluster.errors import UsageError


class FaultKind(StrEnum):
    """How operations on a file fail.

    - ``ENOSPC``: no file can be created or grow, because the disk is full.
    - ``EIO``: every operation fails.
    - ``SHORT_WRITE``: only part of each write reaches the file, because the disk is full.
    - ``FSYNC``: fsync fails, and part of the data written since the last fsync is lost.
    """

    ENOSPC = "enospc"
    EIO = "eio"
    SHORT_WRITE = "short-write"
    FSYNC = "fsync"

    @property
    def errno(self) -> int:
        """The errno of the OSError that a failing operation raises."""
        return errno.ENOSPC if self in NEEDS_ROOM else errno.EIO

    @property
    def reason(self) -> str:
        """The operating system's message for the errno."""
        return os.strerror(self.errno)


NEEDS_ROOM: Final = (FaultKind.ENOSPC, FaultKind.SHORT_WRITE)


@dataclass(frozen=True, slots=True)
class DiskFault:
    """A disk fault that can be armed for a path.

    - ``kind``: how operations fail.
    - ``after_bytes``: number of bytes that can be written before operations start to fail.
    - ``times``: number of operations that fail before the disk works again; if None, operations
      fail until the fault is healed.
    """

    kind: FaultKind
    after_bytes: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if self.after_bytes < 0 or (self.times is not None and self.times < 1):
            raise UsageError("a disk fault needs after_bytes >= 0 and times >= 1")
