"""Archive of the journal and the Kafka-like logs: compresses and deletes rotated files.

The work is done on a separate thread, so that no controller has to wait for it. A crash at any
point neither loses nor duplicates a line: a compressed file gets its final name only when its data
is on disk, readers prefer the compressed file over the uncompressed one, and the uncompressed file
is deleted last.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
import zlib
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.rotated_names import COMPRESSED, UNFINISHED, parse_rotated, rotated_names

MAX_SEGMENT_BYTES: Final = 64 << 20
"""Upper limit of ``segment_bytes``, because readers decompress a whole file in memory."""
RECHECK_S: Final = 600.0
"""Interval at which logs without writes are checked for expired files."""
_BLOCK_BYTES: Final = 1 << 20
_GZIP: Final = zlib.MAX_WBITS | 16
_log = logging.getLogger(__name__)


class Rotation(msgspec.Struct, frozen=True):
    """Settings for the rotation and retention of a log's files.

    A file is rotated when its size reaches ``segment_bytes`` or its age ``segment_ms``. A rotated
    file is deleted when it is older than ``retention_ms``, or when the rotated files of its log
    together exceed ``retention_bytes`` (after compression); the oldest files are deleted first. A
    negative retention means no limit. The newest rotated file is always kept."""

    segment_bytes: int = 16 << 20
    segment_ms: int = 24 * 3_600_000
    retention_bytes: int = 256 << 20
    retention_ms: int = 7 * 24 * 3_600_000


DEFAULT_ROTATION: Final = Rotation()


class Archive:
    """Compresses and deletes rotated files on a separate thread, until ``close``.

    The thread starts with the first call of ``tidy``. If no log is rotated for ``recheck_s``
    seconds, all known logs are processed, so that old files of logs without writes are deleted.
    """

    def __init__(
        self, rotation: Rotation, disk: Disk = LOCAL_DISK, recheck_s: float = RECHECK_S
    ) -> None:
        self.rotation = rotation
        self._disk = disk
        self._recheck_s = recheck_s
        self._logs: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._is_closed = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def tidy(self, log: Path) -> None:
        """Schedule the compression and deletion of a log's rotated files, and return at once."""
        with self._lock:
            if self._is_closed.is_set():
                return
            self._logs.put(log)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="archive", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop the thread; idempotent. An interrupted compression keeps the uncompressed file."""
        with self._lock:
            self._is_closed.set()
            self._logs.put(None)
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def tidy_now(self, log: Path) -> None:
        """Compress a log's rotated files and delete the old ones now. Raises OSError."""
        names = self._disk.names(log.parent)
        compressed = {name.removesuffix(COMPRESSED) for name in names if name.endswith(COMPRESSED)}
        for name in names:
            path = log.with_name(name)
            rotated = parse_rotated(name.removesuffix(UNFINISHED))
            if rotated is None or rotated.live != log.name or rotated.is_compressed:
                continue
            if name.endswith(UNFINISHED) or name in compressed:
                self._disk.remove(path)
        self._delete_old(log)
        for rotated in rotated_names(log.name, self._disk.names(log.parent)):
            if not rotated.is_compressed and not self._is_closed.is_set():
                self._compress(log.with_name(rotated.name))
        self._delete_old(log)

    def _run(self) -> None:
        known: dict[Path, None] = {}
        while True:
            try:
                log = self._logs.get(timeout=self._recheck_s)
            except queue.Empty:
                due = list(known)
            else:
                if log is None:
                    return
                known[log] = None
                due = [log]
            for one in due:
                self._tidy_or_warn(one)

    def _tidy_or_warn(self, log: Path) -> None:
        try:
            self.tidy_now(log)
        except OSError as error:
            # The files stay unchanged; the next rotation or recheck tries again.
            _log.warning("rotated files of %s cannot be compressed or deleted: %s", log, error)

    def _compress(self, path: Path) -> None:
        target, draft = Path(f"{path}{COMPRESSED}"), Path(f"{path}{UNFINISHED}")
        compressor = zlib.compressobj(wbits=_GZIP)
        self._disk.create(draft)
        begin = written = 0
        with self._disk.reading(path) as read_at:
            while data := read_at(begin, _BLOCK_BYTES):
                begin += len(data)
                written += self._append(draft, written, compressor.compress(data))
                if self._is_closed.is_set():
                    self._disk.remove(draft)
                    return
        self._append(draft, written, compressor.flush())
        self._disk.sync(draft)
        self._disk.rename(draft, target)
        self._disk.sync(path.parent)
        self._disk.remove(path)

    def _append(self, path: Path, position: int, data: bytes) -> int:
        if data:
            self._disk.write_at(path, position, data)
        return len(data)

    def _delete_old(self, log: Path) -> None:
        """Delete the oldest rotated files until the rest is within the retention limits."""
        names = rotated_names(log.name, self._disk.names(log.parent))
        paths = [log.with_name(name.name) for name in names]
        stats = [self._disk.stat(path) for path in paths]
        size_bytes = sum(stat.size_bytes for stat in stats)
        limit_bytes, limit_ms = self.rotation.retention_bytes, self.rotation.retention_ms
        most_bytes = math.inf if limit_bytes < 0 else limit_bytes
        oldest_s = -math.inf if limit_ms < 0 else time.time() - limit_ms / 1000
        # The name of the newest rotated file tells at which position the log continues.
        for path, stat in list(zip(paths, stats, strict=True))[:-1]:
            if size_bytes <= most_bytes and stat.modified_s >= oldest_s:
                break
            self._disk.remove(path)
            size_bytes -= stat.size_bytes
