"""The operations that klamm does on files: one interface, and the disk of this machine.

Paths go in and OSErrors with a file name come out. No file stays open between two calls, so
thousands of logs need no file descriptors, a renamed directory needs no care, and a directory that
disappeared is noticed at once; opening a file costs some microseconds. The other implementations:
memory_disk.py, for simulated worlds, and faults.py, a disk that fails on demand.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple, Protocol

UNFINISHED: Final = ".tmp"
"""Behind the name of a file that is being written whole."""
StrPath = str | os.PathLike[str]
ReadAt = Callable[[int, int], bytes]
"""Read from a position so many bytes of an open file: fewer only at its end."""


class FileStat(NamedTuple):
    """The size of a file, and when it was last written, in seconds since the epoch."""

    size_bytes: int
    modified_s: float


class Disk(Protocol):
    """Files by path. Every method raises OSError with the name of the file that it is about."""

    def make_dirs(self, path: StrPath) -> None:
        """Make a directory and its parents; nothing if it exists."""
        ...

    def names(self, path: StrPath) -> list[str]:
        """List a directory, in order."""
        ...

    def folders(self, path: StrPath) -> list[str]:
        """List the directories in a directory, in order."""
        ...

    def stat(self, path: StrPath) -> FileStat:
        """Return size and time of a file."""
        ...

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        """Make a file that is empty or has zeros that take no room yet, in place of any other.
        ``mode``: who may read and write it, if it is new."""
        ...

    def reading(self, path: StrPath) -> AbstractContextManager[ReadAt]:
        """Open a file to read several parts of it."""
        ...

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        """Read up to ``size_bytes`` bytes from ``position``: fewer only at the file's end."""
        ...

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        """Write all of ``data``; a part of it may be in the file if this raises."""
        ...

    def resize(self, path: StrPath, size_bytes: int) -> None:
        """Cut a file, or add zeros that take no room yet."""
        ...

    def sync(self, path: StrPath) -> None:
        """Bring a file's bytes, or a directory's names, to the disk.

        If this raises, the bytes written since the last sync may be lost although they can still
        be read, and a later sync that succeeds does not bring them back (Linux forgets them):
        callers must not trust the file until it was read again after a restart.
        """
        ...

    def drop_cache(self, path: StrPath) -> None:
        """Let the next read of a file come from the disk: after a failed sync the system may hold
        bytes in memory that it takes for written."""
        ...

    def rename(self, source: StrPath, target: StrPath) -> None:
        """Give a file or directory another name; a file of that name is replaced."""
        ...

    def remove(self, path: StrPath) -> None:
        """Remove a file."""
        ...

    def remove_tree(self, path: StrPath) -> None:
        """Remove a directory and everything in it."""
        ...

    def lock(self, path: StrPath) -> Callable[[], None]:
        """Lock a file, which is made if it does not exist; returns what unlocks it.

        Raises BlockingIOError if it is locked by another process or another call.
        """
        ...


class LocalDisk:
    """The disk of this machine. It has no state: LOCAL_DISK is enough for everyone."""

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
            if hasattr(os, "posix_fadvise"):  # not on macOS, where nothing can be done
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
    """Make a file hold ``data``, or leave it as it is.

    The file is written as NAME.tmp, brought to the disk and renamed, so a crash leaves the old file
    or the new one. A NAME.tmp that a crash left is overwritten by the next write.
    """
    temporary = f"{os.fspath(path)}{UNFINISHED}"
    disk.create(temporary, mode=mode)
    disk.write_at(temporary, 0, data)
    disk.sync(temporary)
    disk.rename(temporary, path)


class _opened:
    """A file descriptor, closed at the end. A generator would take longer than a small write."""

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
    """One pread may return less than it could."""
    data = os.pread(descriptor, size_bytes, position)
    while data and len(data) < size_bytes:
        more = os.pread(descriptor, size_bytes - len(data), position + len(data))
        if not more:
            break
        data += more
    return data
