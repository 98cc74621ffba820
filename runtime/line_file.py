"""An append-only file of lines that survives a disk that refuses writes, and a torn last line.

The one place where klamm's journal and Kafka-like logs touch the disk. A line that was handed over
is in the file, or still pending, or counted as lost; none is torn in two and none is written twice.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cluster.errors import JournalUnwritable

MAX_PENDING_BYTES: Final = 16 << 20
_BUFFER_BYTES: Final = 1 << 20
_BLOCK_BYTES: Final = 1 << 16
_MAX_TAIL_BYTES: Final = 1 << 24
_log = logging.getLogger(__name__)


def _never_whole(_tail: bytes) -> bool:
    return False


def _no_line(_lost: int) -> bytes:
    return b""


class LineFile:
    """Appends lines to a file; thread-safe. Opening raises JournalUnwritable.

    ``is_fsynced``: each ``flush`` waits until the disk has the lines. ``is_whole`` tells whether a
    last line without its newline is complete: then opening ends it, any other is cut off, which
    ``cut_bytes`` counts. ``lost_line`` makes the line that stands for so many lost ones.

    ``failure`` is set while the file cannot be written. Until ``retry`` succeeds, lines are kept,
    up to ``max_pending_bytes``, and lost beyond that.
    """

    def __init__(
        self,
        path: Path,
        *,
        is_fsynced: bool = False,
        is_whole: Callable[[bytes], bool] = _never_whole,
        lost_line: Callable[[int], bytes] = _no_line,
        max_pending_bytes: int = MAX_PENDING_BYTES,
    ) -> None:
        self.path = path
        self.failure: JournalUnwritable | None = None
        self._is_fsynced = is_fsynced
        self._is_whole = is_whole
        self._lost_line = lost_line
        self._max_pending_bytes = max_pending_bytes
        self._lock = threading.Lock()
        self._is_closed = False
        self._fd = -1
        # Pending bytes follow the first ``_size`` bytes of the file; so many are written already.
        self._pending = bytearray()
        self._written = 0
        self._lost_lines = 0
        try:
            self._fd = _open(path)
            self._size, self.cut_bytes = _repair_tail(self._fd, path, is_whole)
        except OSError as error:
            self._close_descriptor()
            raise _unwritable(path, error) from error

    def append(self, data: bytes) -> None:
        """Add whole lines; they may stay in a buffer until ``flush``.

        Raises JournalUnwritable while the file cannot be written; the lines are kept all the same.
        """
        with self._lock:
            if self._is_closed:
                return
            if self.failure is not None:
                self._keep(data)
                raise self.failure.with_traceback(None)
            self._pending += data
            if len(self._pending) >= _BUFFER_BYTES:
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
        """Write what is pending if the disk lets it; True if the file can be written (again)."""
        with self._lock:
            return self._retry()

    def close(self) -> None:
        """Write what is pending and close; idempotent, never raises. What cannot be written is
        logged."""
        with self._lock:
            if self._is_closed:
                return
            if self.failure is not None:
                self._retry()
            elif self._pending:
                with contextlib.suppress(JournalUnwritable):
                    self._write_or_fail()
            self._is_closed = True
            self._close_descriptor()
            lost = self._pending.count(b"\n", self._written) + self._lost_lines
            if lost:
                _log.error("%s: %d lines are lost: %s", self.path, lost, self.failure)

    def _keep(self, data: bytes) -> None:
        """Keep lines for later. Once some were lost all are, so that there is one gap."""
        if self._lost_lines or len(self._pending) + len(data) > self._max_pending_bytes:
            self._lost_lines += data.count(b"\n")
        else:
            self._pending += data

    def _write_or_fail(self) -> None:
        try:
            self._write()
        except OSError as error:
            self.failure = _unwritable(self.path, error)
            raise self.failure from error

    def _write(self) -> None:
        """Write what is pending. Raises OSError; ``_written`` says how far it came."""
        while self._written < len(self._pending):
            with memoryview(self._pending) as view, view[self._written :] as rest:
                self._written += os.write(self._fd, rest)
        if self._is_fsynced:
            try:
                os.fsync(self._fd)
            except OSError:
                # The kernel may have dropped the pages: only writing them anew is safe.
                self._written = 0
                raise
        self._size += len(self._pending)
        self._pending.clear()
        self._written = 0

    def _retry(self) -> bool:
        if self.failure is None or self._is_closed:
            return self.failure is None
        try:
            self._reopen()
            self._write()
            if self._lost_lines:
                self._pending += self._lost_line(self._lost_lines)
                self._lost_lines = 0
                self._write()
        except OSError as error:
            self.failure = _unwritable(self.path, error)
            return False
        self.failure = None
        return True

    def _reopen(self) -> None:
        """Open the file again and cut what a failed write left beyond what is known of it."""
        self._close_descriptor()
        self._fd = _open(self.path)
        size = os.fstat(self._fd).st_size
        if size > self._size + self._written:
            os.ftruncate(self._fd, self._size + self._written)
        elif size >= self._size:
            self._written = size - self._size
        else:  # truncated or removed by somebody else
            self._size, _ = _repair_tail(self._fd, self.path, self._is_whole)
            self._written = 0

    def _close_descriptor(self) -> None:
        descriptor, self._fd = self._fd, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def _repair_tail(descriptor: int, path: Path, is_whole: Callable[[bytes], bool]) -> tuple[int, int]:
    """Make a file end with a newline: (its size then, bytes that were cut). Raises OSError."""
    size = os.fstat(descriptor).st_size
    end = _end_of_lines(descriptor, size)
    if end == size:
        return size, 0
    tail = os.pread(descriptor, min(size - end, _MAX_TAIL_BYTES), end)
    if len(tail) == size - end and is_whole(tail):
        os.write(descriptor, b"\n")
        return size + 1, 0
    os.ftruncate(descriptor, end)
    _log.warning("%s: cut %d bytes of a torn last line", path, size - end)
    return end, size - end


def _end_of_lines(descriptor: int, size: int) -> int:
    """Where the last complete line ends."""
    end = size
    while end > 0:
        begin = max(end - _BLOCK_BYTES, 0)
        newline = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if newline >= 0:
            return begin + newline + 1
        end = begin
    return 0


def _unwritable(path: Path, error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"{path} cannot be written: {error.strerror or error}",
        hint=f"free space on the disk of {path.parent}, or check that it can be written",
    )
