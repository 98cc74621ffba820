"""An append-only file of lines that survives failing disks and torn last lines.

klamm writes its journal and its Kafka-like logs only through this module. Every appended line is in
the file, or is pending in memory, or is counted as lost. No line is torn or written twice.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.rotated_names import rotated_name, rotated_names
from klamm.world.clock import WallClock
from klamm.world.journal.archive import Archive

MAX_PENDING_BYTES: Final = 16 << 20
_BUFFER_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 16
_MAX_TAIL_BYTES: Final = 1 << 24
_CLOCK: Final = WallClock()
_log = logging.getLogger(__name__)


def _never_whole(_tail: bytes) -> bool:
    return False


def _no_line(_lost: int) -> bytes:
    return b""


class LineFile:
    """An append-only file of lines; thread-safe. Opening raises JournalUnwritable on failure.

    If ``is_fsynced``, each ``flush`` waits until the lines are on disk. If the file does not end
    with a newline when it is opened, ``is_whole`` decides whether the last line is complete. A
    complete line gets its newline; an incomplete line is removed, and ``cut_bytes`` is set to its
    size. ``lost_line`` returns the line that records how many lines were lost.

    While the file cannot be written, ``failure`` is set and up to ``max_pending_bytes`` of lines
    are buffered until ``retry`` succeeds; any further lines are lost.

    With an ``archive``, the file is rotated when it is too large or too old: it is renamed (see
    cluster/rotated_names.py), the archive compresses it, and a new file is started.
    """

    def __init__(
        self,
        path: Path,
        *,
        is_fsynced: bool = False,
        is_whole: Callable[[bytes], bool] = _never_whole,
        lost_line: Callable[[int], bytes] = _no_line,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        archive: Archive | None = None,
        disk: Disk = LOCAL_DISK,
        now_ms: Callable[[], int] = _CLOCK.now_ms,
    ) -> None:
        self.path = path
        self._name = str(path)
        self.failure: JournalUnwritable | None = None
        self._disk = disk
        self._is_fsynced = is_fsynced
        self._is_whole = is_whole
        self._lost_line = lost_line
        self._max_pending_bytes = max_pending_bytes
        self._lock = threading.Lock()
        self._is_closed = False
        # The pending bytes belong after the first ``_size`` bytes of the file.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._lost_lines = 0
        self._archive = archive
        self._now_ms = now_ms
        try:
            self._size, self.cut_bytes = self._open()
            names = rotated_names(path.name, disk.names(path.parent))
            begun_ms = round(disk.stat(path).modified_s * 1000) if self._size else now_ms()
        except OSError as error:
            raise _unwritable(path, error) from error
        # Number of bytes in the whole log before this file.
        self._begin = names[-1].end if names else 0
        self._rotate_at_bytes, self._rotate_at_ms = self._next_rotation(0, begun_ms)
        if archive is not None:
            archive.tidy(path)

    def append(self, data: bytes) -> None:
        """Append whole lines, which may be buffered until ``flush``.

        Raises JournalUnwritable while the file cannot be written; even then the lines are kept.
        """
        with self._lock:
            if self._is_closed:
                return
            if self.failure is not None:
                self._keep(data)
                raise self.failure.with_traceback(None)
            self._pending.append(data)
            self._pending_bytes += len(data)
            if self._pending_bytes >= _BUFFER_BYTES:
                self._write_or_fail()

    def flush(self) -> None:
        """Write all lines to the operating system, and also to the disk if ``is_fsynced``.

        Raises JournalUnwritable while the file cannot be written.
        """
        with self._lock:
            if self._is_closed:
                return
            if self.failure is not None:
                raise self.failure.with_traceback(None)
            if self._pending:
                self._write_or_fail()

    def retry(self) -> bool:
        """Try to write the pending lines. Return True if the file can be written (again)."""
        with self._lock:
            return self._retry()

    def close(self) -> None:
        """Write pending lines and close the file; idempotent.

        Never raises: lines that cannot be written are lost, and the loss is logged."""
        with self._lock:
            if self._is_closed:
                return
            if self.failure is not None:
                self._retry()
            elif self._pending:
                with contextlib.suppress(JournalUnwritable):
                    self._write_or_fail()
            self._is_closed = True
            lost = sum(data.count(b"\n") for data in self._pending) + self._lost_lines
            if lost:
                _log.error("%s: %d lines are lost: %s", self.path, lost, self.failure)

    def _keep(self, data: bytes) -> None:
        """Keep lines for ``retry``, or count them as lost if too many are pending.

        After the first lost line, all later lines are lost too, so that the file has a single gap.
        """
        if self._lost_lines or self._pending_bytes + len(data) > self._max_pending_bytes:
            self._lost_lines += data.count(b"\n")
        else:
            self._pending.append(data)
            self._pending_bytes += len(data)

    def _write_or_fail(self) -> None:
        try:
            self._write()
        except OSError as error:
            self.failure = _unwritable(self.path, error)
            raise self.failure from error

    def _write(self) -> None:
        """Write the pending lines. If this raises OSError, some of them may be in the file.

        After an error all lines stay pending: when an fsync fails, the operating system may have
        dropped data that was written successfully."""
        self._disk.write_at(self._name, self._size, b"".join(self._pending))
        if self._is_fsynced:
            self._disk.sync(self._name)
        self._size += self._pending_bytes
        self._pending = []
        self._pending_bytes = 0
        if self._archive is not None and self._is_rotation_due():
            self._rotate(self._archive)

    def _is_rotation_due(self) -> bool:
        return self._size >= self._rotate_at_bytes or self._now_ms() >= self._rotate_at_ms

    def _rotate(self, archive: Archive) -> None:
        """Rename the file to its rotated name and start a new one."""
        try:
            self._disk.rename(self.path, self._rotated_path())
        except OSError as error:
            # All lines are written, so the file can safely grow further.
            _log.warning("%s cannot be rotated: %s", self.path, error)
        else:
            self._begin += self._size
            self._size = 0
            with contextlib.suppress(OSError):  # then the next write fails, and retry creates it
                self._disk.create(self.path)
            archive.tidy(self.path)
        self._rotate_at_bytes, self._rotate_at_ms = self._next_rotation(self._size, self._now_ms())

    def _rotated_path(self) -> Path:
        return self.path.with_name(rotated_name(self.path.name, self._begin + self._size))

    def _next_rotation(self, from_bytes: int, from_ms: int) -> tuple[float, float]:
        """Return the file size and the time at which the next rotation is due."""
        if self._archive is None:
            return math.inf, math.inf
        rotation = self._archive.rotation
        return from_bytes + rotation.segment_bytes, from_ms + rotation.segment_ms

    def _retry(self) -> bool:
        if self.failure is None or self._is_closed:
            return self.failure is None
        try:
            self._reopen()
            self._write()
            if self._lost_lines:
                lost_line = self._lost_line(self._lost_lines)
                self._pending, self._pending_bytes = [lost_line], len(lost_line)
                self._lost_lines = 0
                self._write()
        except OSError as error:
            self.failure = _unwritable(self.path, error)
            return False
        self.failure = None
        return True

    def _reopen(self) -> None:
        """Remove the remains of a failed write: truncate the file to its last valid size."""
        size = self._size_on_disk()
        if size > self._size:
            self._disk.resize(self.path, self._size)
        elif size < self._size:  # truncated or removed by another program
            self._size, _ = self._open()

    def _open(self) -> tuple[int, int]:
        """Create the file if it does not exist, and make sure that it ends with a newline.

        Return its size and the number of truncated bytes. Raises OSError."""
        size = self._size_on_disk()
        end = self._end_of_lines(size)
        if end == size:
            return size, 0
        tail = self._disk.read_at(self.path, end, min(size - end, _MAX_TAIL_BYTES))
        if len(tail) == size - end and self._is_whole(tail):
            self._disk.write_at(self.path, size, b"\n")
            return size + 1, 0
        self._disk.resize(self.path, end)
        _log.warning("%s: truncated %d bytes of a torn last line", self.path, size - end)
        return end, size - end

    def _size_on_disk(self) -> int:
        try:
            return self._disk.stat(self.path).size_bytes
        except FileNotFoundError:
            self._disk.create(self.path)
            return 0

    def _end_of_lines(self, size: int) -> int:
        """Return the offset at which the last complete line ends."""
        end = size
        while end > 0:
            begin = max(end - _BLOCK_BYTES, 0)
            newline = self._disk.read_at(self.path, begin, end - begin).rfind(b"\n")
            if newline >= 0:
                return begin + newline + 1
            end = begin
        return 0


def _unwritable(path: Path, error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"{path} cannot be written: {error.strerror or error}",
        hint=f"free disk space, or check that {path.parent} is writable",
    )
