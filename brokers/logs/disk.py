"""Reads and writes parts of files. No file stays open between two calls.

So thousands of logs need no file descriptors, a renamed directory needs no care, and a directory
that somebody took away is noticed at once; opening costs some microseconds. What the operating
system refuses is an OSError here; ``storage_errors`` makes it a LogStorageError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokers.logs.errors import LogStorageError


@contextmanager
def storage_errors(doing: str, directory: Path) -> Iterator[None]:
    """Tell an OSError within as a LogStorageError: ``Error while <doing> in dir <directory>``."""
    try:
        yield
    except OSError as error:
        raise LogStorageError(
            f"Error while {doing} in dir {directory}: {error.strerror or error}",
            hint=f"see that {error.filename or directory} can be read and written and has room",
        ) from error


@contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """A file descriptor, closed at the end."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        yield descriptor
    except OSError as error:
        error.filename = error.filename or path
        raise
    finally:
        os.close(descriptor)


def create(path: str, size_bytes: int = 0) -> None:
    """An empty file, or one of zeros that take no room yet; what was there before is gone."""
    with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
        os.ftruncate(descriptor, size_bytes)


def read_at(path: str, position: int, size_bytes: int) -> bytes:
    """Up to ``size_bytes`` bytes from ``position`` on: fewer only at the file's end."""
    with opened(path, os.O_RDONLY) as descriptor:
        return pread_all(descriptor, size_bytes, position)


def pread_all(descriptor: int, size_bytes: int, position: int) -> bytes:
    """As ``read_at``, of an open file: one pread may return less than it could."""
    data = os.pread(descriptor, size_bytes, position)
    while data and len(data) < size_bytes:
        more = os.pread(descriptor, size_bytes - len(data), position + len(data))
        if not more:
            break
        data += more
    return data


def write_at(path: str, position: int, data: bytes) -> None:
    """Write all of ``data``; part of it may be there if this raises."""
    with opened(path, os.O_WRONLY) as descriptor:
        written = os.pwrite(descriptor, data, position)
        while written < len(data):
            written += os.pwrite(descriptor, data[written:], position + written)


def resize(path: str, size_bytes: int) -> None:
    """Cut the file, or add zeros that take no room yet."""
    with opened(path, os.O_WRONLY) as descriptor:
        os.ftruncate(descriptor, size_bytes)


def sync(path: str) -> None:
    """Bring a file's bytes, or a directory's names, to the disk."""
    with opened(path, os.O_RDONLY) as descriptor:
        os.fsync(descriptor)
