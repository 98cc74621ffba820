"""An append-only file of lines that survives failing disks and torn last lines.

klamm's journal and Kafka-like logs write to the disk only here. Every appended line is in the
file, or pending, or counted as lost. No line is torn and no line is written twice.
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
from klamm.runtime.archive import Archive
from klamm.runtime.clock import WallClock

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
    """Appends lines to a file; thread-safe. Opening raises JournalUnwritable.

    ``is_fsynced``: each ``flush`` waits until the lines are on the disk. ``is_whole``: returns True
    if a last line without its newline is complete; opening then adds the newline. Any other is
    truncated; ``cut_bytes`` counts the bytes. ``lost_line`` makes the line that counts lost lines.

    ``failure`` is set while the file cannot be written. Until ``retry`` succeeds lines are kept,
    up to ``max_pending_bytes``; further lines are lost.

    With an ``archive`` the file is rotated when it is large or old: it is renamed as in
    cluster/rotated_names.py, the archive compresses it, and a new file is started.
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
        # Pending bytes follow the first ``_size`` bytes of the file.
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
        # The bytes of the whole log that precede this file.
        self._begin = names[-1].end if names else 0
        self._rotate_at_bytes, self._rotate_at_ms = self._next_rotation(0, begun_ms)
        if archive is not None:
            archive.tidy(path)

    def append(self, data: bytes) -> None:
        """Add whole lines; they may stay in a buffer until ``flush``.

        Raises JournalUnwritable while the file cannot be written; the lines are still kept.
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
        """Hand all lines to the operating system, or to the disk if the file is fsynced.

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
        """Write pending lines if possible; return True if the file can be written (again)."""
        with self._lock:
            return self._retry()

    def close(self) -> None:
        """Write pending lines and close; idempotent, never raises.

        Lines that cannot be written are logged as lost."""
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
        """Keep lines for later. After the first lost line all later ones are lost: a single gap."""
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
        """Write pending lines. If this raises OSError, part of them may be in the file.

        All stay pending, because after a failed fsync the system may have dropped written data."""
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
        """Return the size and the time of the next rotation."""
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
        """Truncate the remains of a failed write at the known end of the file."""
        size = self._size_on_disk()
        if size > self._size:
            self._disk.resize(self.path, self._size)
        elif size < self._size:  # truncated or removed by another program
            self._size, _ = self._open()

    def _open(self) -> tuple[int, int]:
        """Create the file if necessary, and make it end with a newline.

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
        """Return where the last complete line ends."""
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
        hint=f"free space on the disk of {path.parent}, or check that it can be written",
    )
