"""The interface for klamm's file operations, and its implementation for real disks, LocalDisk.

Methods take paths, and raise OSErrors that contain the file name. No file remains open between two
calls. Therefore thousands of logs need no file descriptors, directories can be renamed, and a
missing directory is detected immediately. Opening a file for each call costs a few microseconds.
memory_disk.py implements the interface for simulated worlds, and faults.py for fault injection.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, NamedTuple, Protocol

UNFINISHED: Final = ".tmp"
"""Suffix of the temporary file that an atomic write creates."""
StrPath = str | os.PathLike[str]
ReadAt = Callable[[int, int], bytes]
"""Function that reads an open file. The arguments are a byte position and a number of bytes.

The function returns fewer bytes only at the end of the file.
"""


class FileStat(NamedTuple):
    """Size of a file, and its modification time in seconds since the Unix epoch."""

    size_bytes: int
    modified_s: float


class Disk(Protocol):
    """File operations by path. Every method may raise an OSError that names the file."""

    def make_dirs(self, path: StrPath) -> None:
        """Create a directory and its parents. Do nothing if the directory exists."""
        ...

    def names(self, path: StrPath) -> list[str]:
        """Return the names of all files and directories in a directory, sorted."""
        ...

    def folders(self, path: StrPath) -> list[str]:
        """Return the names of the directories in a directory, sorted."""
        ...

    def stat(self, path: StrPath) -> FileStat:
        """Return the size and the modification time of a file."""
        ...

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        """Create or overwrite a file with ``size_bytes`` zeros (a sparse file).

        ``mode`` sets the permissions of a new file.
        """
        ...

    def reading(self, path: StrPath) -> AbstractContextManager[ReadAt]:
        """Context manager: open a file once for several reads."""
        ...

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        """Return up to ``size_bytes`` bytes from ``position``; fewer only at the file's end."""
        ...

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        """Write ``data`` at a byte position. After an error, a part may have been written."""
        ...

    def resize(self, path: StrPath, size_bytes: int) -> None:
        """Truncate a file, or extend it with zeros (as a sparse file)."""
        ...

    def sync(self, path: StrPath) -> None:
        """Write a file or a directory from the page cache to the disk (fsync).

        After an error, the bytes written since the last sync may be lost although they can still be
        read. A later sync may even succeed without writing these bytes, because Linux drops them.
        Callers must not trust the file until it has been read again after a restart.
        """
        ...

    def drop_cache(self, path: StrPath) -> None:
        """Drop a file from the page cache, so that the next read comes from the disk.

        After a failed sync the page cache may hold bytes that were never written to the disk.
        """
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

        Raises BlockingIOError if another process or another call has locked the file.
        """
        ...


class LocalDisk:
    """The real file system. The class has no state: use the instance LOCAL_DISK."""

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
    """Return all bytes of a file."""
    return disk.read_at(path, 0, disk.stat(path).size_bytes)


def write_whole(disk: Disk, path: StrPath, data: bytes, mode: int = 0o644) -> None:
    """Atomically replace the contents of a file with ``data``.

    The data is written to NAME.tmp, synced and renamed, so a crash leaves either the old or the new
    contents. If a crash leaves NAME.tmp, the next write overwrites it.
    """
    temporary = f"{os.fspath(path)}{UNFINISHED}"
    disk.create(temporary, mode=mode)
    disk.write_at(temporary, 0, data)
    disk.sync(temporary)
    disk.rename(temporary, path)


class _opened:
    """Context manager: open a file, and return its descriptor for use in the body.

    A generator-based context manager would take longer than a small write.
    """

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
    """Call pread until all bytes are read, because one call may return fewer bytes."""
    data = b""
    while len(data) < size_bytes and (
        more := os.pread(descriptor, size_bytes - len(data), position + len(data))
    ):
        data += more
    return data
