"""The disk interface for all of klamm's file operations, and its implementation by this machine.

Methods take paths and raise OSErrors with a file name. No file stays open between two calls, so
thousands of logs need no file descriptors, directories can be renamed, and a missing directory is
detected at once. Opening a file costs a few microseconds. Other implementations: memory_disk.py,
for simulated worlds, and faults.py, which injects faults.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple, Protocol

UNFINISHED: Final = ".tmp"
"""Suffix of the temporary file during an atomic write."""
StrPath = str | os.PathLike[str]
ReadAt = Callable[[int, int], bytes]
"""Read a number of bytes of an open file from a position: fewer only at its end."""


class FileStat(NamedTuple):
    """Size and modification time of a file; the time in seconds since the epoch."""

    size_bytes: int
    modified_s: float


class Disk(Protocol):
    """File operations by path. Every method raises OSError with the name of the file."""

    def make_dirs(self, path: StrPath) -> None:
        """Create a directory and its parents; does nothing if it exists."""
        ...

    def names(self, path: StrPath) -> list[str]:
        """List a directory, in order."""
        ...

    def folders(self, path: StrPath) -> list[str]:
        """List the directories in a directory, in order."""
        ...

    def stat(self, path: StrPath) -> FileStat:
        """Return size and modification time of a file."""
        ...

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        """Create or replace a file that is empty or has sparse zeros.

        ``mode``: permissions of a new file."""
        ...

    def reading(self, path: StrPath) -> AbstractContextManager[ReadAt]:
        """Open a file for several reads."""
        ...

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        """Read up to ``size_bytes`` bytes from ``position``: fewer only at the file's end."""
        ...

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        """Write all of ``data``; if this raises, part of it may be in the file."""
        ...

    def resize(self, path: StrPath, size_bytes: int) -> None:
        """Truncate a file, or extend it with sparse zeros."""
        ...

    def sync(self, path: StrPath) -> None:
        """fsync a file or a directory.

        If this raises, the bytes written since the last sync may be lost although they can still
        be read, and a later successful sync does not restore them (Linux drops them). Callers must
        not trust the file until it was read again after a restart.
        """
        ...

    def drop_cache(self, path: StrPath) -> None:
        """Drop a file from the page cache, so that the next read comes from the disk.

        After a failed sync the cache may hold bytes that were never written."""
        ...

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Rename a file or directory; an existing target file is replaced."""
        ...

    def remove(self, path: StrPath) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: StrPath) -> None:
        """Remove a directory and everything in it."""
        ...

    def lock(self, path: StrPath) -> Callable[[], None]:
        """Lock a file, creating it if necessary; return a function that unlocks it.

        Raises BlockingIOError if it is locked by another process or another call.
        """
        ...


class LocalDisk:
    """The disk of this machine. Stateless: use LOCAL_DISK."""

    def make_dirs(self, path: StrPath) -> None:
        os.makedirs(path, exist_ok=True)

    def names(self, path: StrPath) -> list[str]:
        return sorted(os.listdir(path))

    def folders(self, path: StrPath) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def stat(self, path: StrPath) -> FileStat:
        found = os.stat(path)
        return FileStat(found.st_size, found.st_mtime)

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        with _opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode) as descriptor:
            os.ftruncate(descriptor, size_bytes)

    @contextmanager
    def reading(self, path: StrPath) -> Iterator[ReadAt]:
        with _opened(path, os.O_RDONLY) as descriptor:
            yield lambda position, size_bytes: _pread_all(descriptor, size_bytes, position)

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        with _opened(path, os.O_RDONLY) as descriptor:
            return _pread_all(descriptor, size_bytes, position)

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        with _opened(path, os.O_WRONLY) as descriptor:
            written = os.pwrite(descriptor, data, position)
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], position + written)

    def resize(self, path: StrPath, size_bytes: int) -> None:
        with _opened(path, os.O_WRONLY) as descriptor:
            os.ftruncate(descriptor, size_bytes)

    def sync(self, path: StrPath) -> None:
        with _opened(path, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)

    def drop_cache(self, path: StrPath) -> None:
        with _opened(path, os.O_RDONLY) as descriptor:
            if hasattr(os, "posix_fadvise"):  # not available on macOS
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def rename(self, source: StrPath, target: StrPath) -> None:
        os.replace(source, target)

    def remove(self, path: StrPath) -> None:
        os.unlink(path)

    def remove_tree(self, path: StrPath) -> None:
        shutil.rmtree(path)

    def lock(self, path: StrPath) -> Callable[[], None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return lambda: os.close(descriptor)


LOCAL_DISK: Final = LocalDisk()


def read_whole(disk: Disk, path: StrPath) -> bytes:
    """Read all of a file."""
    return disk.read_at(path, 0, disk.stat(path).size_bytes)


def write_whole(disk: Disk, path: StrPath, data: bytes, mode: int = 0o644) -> None:
    """Atomically replace the contents of a file by ``data``.

    The file is written as NAME.tmp, synced and renamed, so a crash leaves the old file
    or the new one. The next write overwrites a leftover NAME.tmp.
    """
    temporary = f"{os.fspath(path)}{UNFINISHED}"
    disk.create(temporary, mode=mode)
    disk.write_at(temporary, 0, data)
    disk.sync(temporary)
    disk.rename(temporary, path)


class _opened:
    """A file descriptor, closed at the end. A generator would cost more than a small write."""

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: StrPath, flags: int, mode: int = 0o644) -> None:
        self._path = path
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, mode)

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        os.close(self._descriptor)
        if isinstance(error, OSError):
            error.filename = error.filename or os.fspath(self._path)


def _pread_all(descriptor: int, size_bytes: int, position: int) -> bytes:
    """Repeat pread, which may return fewer bytes than requested."""
    data = os.pread(descriptor, size_bytes, position)
    while data and len(data) < size_bytes:
        more = os.pread(descriptor, size_bytes - len(data), position + len(data))
        if not more:
            break
        data += more
    return data
