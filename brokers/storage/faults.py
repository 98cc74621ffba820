"""Disk fault injection for a file, or for everything in a folder.

After a user or a drill has armed a fault, file operations of brokers and journals fail until
``heal`` ends the fault. Brokers and journals decide how to handle the failure. A seeded random
number generator chooses which part of a write, or of unsynced data, survives. This makes simulated
runs reproducible.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from klamm.brokers.storage.disk import Disk, FileStat, ReadAt, StrPath
from klamm.cluster.disk_faults import NEEDS_ROOM, DiskFault, FaultKind


class _Armed:
    """An armed fault, with counters for the remaining part of ``after_bytes`` and ``times``."""

    __slots__ = ("fault", "left_bytes", "left_times", "path")

    def __init__(self, path: str, fault: DiskFault) -> None:
        self.path = path
        self.fault = fault
        self.left_bytes = fault.after_bytes
        self.left_times = fault.times

    @property
    def can_strike(self) -> bool:
        # Two threads may both see 1, so that the count falls below 0.
        return self.left_times is None or self.left_times > 0

    def strikes(self) -> bool:
        """Return True if the current operation must fail. Each True decrements ``left_times``."""
        can_strike = self.can_strike
        if self.left_times is not None and can_strike:
            self.left_times -= 1
        return can_strike


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + os.sep)


class FaultyDisk:
    """Adds fault injection to ``disk``, which ``inner`` is: its operations never fail on purpose.

    If no fault is armed, an operation costs one extra function call. The class is thread-safe, but
    if a fault strikes two threads at the same time, the number of failed operations may exceed
    ``times``.
    """

    def __init__(self, disk: Disk, rng: random.Random) -> None:
        self.inner = disk
        self._rng = rng
        self._armed: tuple[_Armed, ...] = ()
        self._safe_bytes: dict[str, int] = {}

    # -- faults

    def arm(self, path: StrPath, fault: DiskFault) -> None:
        """Arm a fault for a file, or for everything in a folder.

        The fault replaces earlier faults of this path and of all paths below it.
        """
        self.heal(path)
        self._armed = (*self._armed, _Armed(os.fspath(path), fault))

    def is_armed(self, path: StrPath) -> bool:
        """Return True if a fault that was armed for this path can still strike."""
        return any(one.path == os.fspath(path) and one.can_strike for one in self._armed)

    def heal(self, path: StrPath) -> None:
        """End the faults of a path and of all paths below it."""
        healed = os.fspath(path)
        self._armed = tuple(one for one in self._armed if not _is_within(one.path, healed))
        if not self._armed:
            self._safe_bytes.clear()

    def heal_all(self) -> None:
        """End all armed faults."""
        self._armed = ()
        self._safe_bytes.clear()

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Context manager: suspend all faults, so that a checker can read the files.

        Operations in the body neither fail nor count as one of a fault's ``times``.
        """
        armed, self._armed = self._armed, ()
        try:
            yield
        finally:
            self._armed = armed

    # -- the operations of Disk

    def make_dirs(self, path: StrPath) -> None:
        self._grow(path)
        self.inner.make_dirs(path)

    def names(self, path: StrPath) -> list[str]:
        self._touch(path)
        return self.inner.names(path)

    def folders(self, path: StrPath) -> list[str]:
        self._touch(path)
        return self.inner.folders(path)

    def stat(self, path: StrPath) -> FileStat:
        self._touch(path)
        return self.inner.stat(path)

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        self._grow(path)
        self.inner.create(path, size_bytes, mode)

    @contextmanager
    def reading(self, path: StrPath) -> Iterator[ReadAt]:
        self._touch(path)
        with self.inner.reading(path) as read_at:
            yield read_at

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        self._touch(path)
        return self.inner.read_at(path, position, size_bytes)

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        if self._armed:
            self._write(os.fspath(path), position, data)
        else:
            self.inner.write_at(path, position, data)

    def resize(self, path: StrPath, size_bytes: int) -> None:
        if self._armed and size_bytes > self.inner.stat(path).size_bytes:
            self._grow(path)
        else:
            self._touch(path)
        self.inner.resize(path, size_bytes)

    def sync(self, path: StrPath) -> None:
        if self._armed:
            self._sync(os.fspath(path))
        self.inner.sync(path)

    def drop_cache(self, path: StrPath) -> None:
        self._touch(path)
        self.inner.drop_cache(path)

    def rename(self, source: StrPath, target: StrPath) -> None:
        self._touch(source)
        self.inner.rename(source, target)

    def remove(self, path: StrPath) -> None:
        self._touch(path)
        self.inner.remove(path)

    def remove_tree(self, path: StrPath) -> None:
        self._touch(path)
        self.inner.remove_tree(path)

    def lock(self, path: StrPath) -> Callable[[], None]:
        self._touch(path)
        return self.inner.lock(path)

    # -- failing operations

    def _touch(self, path: StrPath, *also: FaultKind) -> None:
        """Apply the faults armed for ``path``, which raise an OSError.

        Only faults of kind EIO, and of the kinds in ``also``, raise an OSError.
        """
        if not self._armed:
            return
        for armed in self._struck(os.fspath(path)):
            kind = armed.fault.kind
            if kind in (FaultKind.EIO, *also) and not armed.left_bytes and armed.strikes():
                raise _error(kind, os.fspath(path))

    def _grow(self, path: StrPath) -> None:
        """Apply the faults armed for ``path`` to an operation that needs disk space."""
        self._touch(path, *NEEDS_ROOM)

    def _write(self, path: str, position: int, data: bytes) -> None:
        for armed in self._struck(path):
            kind = armed.fault.kind
            if kind is FaultKind.FSYNC:
                self._safe_bytes.setdefault(path, position)
            else:
                kept = min(armed.left_bytes, len(data))
                armed.left_bytes -= kept
                if kept < len(data) and armed.strikes():
                    self._write_part(path, position, data, kept, kind)
                    raise _error(kind, path)
        self.inner.write_at(path, position, data)

    def _write_part(
        self, path: str, position: int, data: bytes, kept: int, kind: FaultKind
    ) -> None:
        if kind is FaultKind.SHORT_WRITE:
            kept = self._rng.randint(kept, len(data) - 1)
        if kept:
            self.inner.write_at(path, position, data[:kept])

    def _sync(self, path: str) -> None:
        for armed in self._struck(path):
            kind = armed.fault.kind
            if kind is FaultKind.FSYNC and armed.strikes():
                self._forget_unsynced(path)
                raise _error(kind, path)
            if kind is FaultKind.EIO and not armed.left_bytes and armed.strikes():
                raise _error(kind, path)
        self._safe_bytes.pop(path, None)

    def _forget_unsynced(self, path: str) -> None:
        """Replace the unsynced data of a file with zeros, from a random position onward.

        On a real disk, this is the result of a crash if the disk contains the new length of the
        file but not the new data.
        """
        safe_bytes = self._safe_bytes.pop(path, None)
        if safe_bytes is None:
            return
        size_bytes = self.inner.stat(path).size_bytes
        if safe_bytes < size_bytes:
            kept_bytes = self._rng.randint(safe_bytes, size_bytes - 1)
            self.inner.write_at(path, kept_bytes, bytes(size_bytes - kept_bytes))

    def _struck(self, path: str) -> Iterator[_Armed]:
        """Yield each fault that is armed for a path."""
        return (armed for armed in self._armed if _is_within(path, armed.path))


def _error(kind: FaultKind, path: str) -> OSError:
    return OSError(kind.errno, kind.reason, path)
