"""An in-memory disk for simulated worlds, which behaves identically in every run.

The disk has directories, files and locks, but does not depend on the real machine: the time comes
from ``now_ms``, and no file descriptors are used. Zeros at the end of a file need no memory. A deep
copy of the disk is independent of the original.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from klamm.brokers.storage.disk import FileStat, ReadAt, StrPath


class _File:
    """A file. ``size_bytes`` includes zeros at the end of the file, which ``data`` may omit."""

    __slots__ = ("data", "modified_s", "size_bytes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size_bytes = 0
        self.modified_s = 0.0


class MemoryDisk:
    """A Disk in memory.

    ``now_ms`` returns the current time in milliseconds since the Unix epoch, which becomes the
    modification time of a changed file.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._folders: dict[str, dict[str, _File | None]] = {"": {}, "/": {}}
        self._locks: dict[str, None] = {}

    def make_dirs(self, path: StrPath) -> None:
        name = os.fspath(path)
        if name in self._folders:
            return
        parent, entry = os.path.split(name)
        self.make_dirs(parent)
        if self._folders[parent].setdefault(entry, None) is not None:
            raise _error(errno.EEXIST, name)
        self._folders[name] = {}

    def names(self, path: StrPath) -> list[str]:
        return sorted(self._folder(os.fspath(path)))

    def folders(self, path: StrPath) -> list[str]:
        return sorted(n for n, file in self._folder(os.fspath(path)).items() if file is None)

    def stat(self, path: StrPath) -> FileStat:
        file = self._file(path)
        return FileStat(file.size_bytes, file.modified_s)

    def create(self, path: StrPath, size_bytes: int = 0, mode: int = 0o644) -> None:
        folder, name = os.path.split(os.fspath(path))
        self._folder(folder)[name] = file = _File()
        self._set_size(file, size_bytes)

    @contextmanager
    def reading(self, path: StrPath) -> Iterator[ReadAt]:
        file = self._file(path)
        yield lambda position, size_bytes: _read(file, position, size_bytes)

    def read_at(self, path: StrPath, position: int, size_bytes: int) -> bytes:
        return _read(self._file(path), position, size_bytes)

    def write_at(self, path: StrPath, position: int, data: bytes) -> None:
        file = self._file(path)
        file.data.extend(bytes(max(0, position - len(file.data))))
        file.data[position : position + len(data)] = data
        self._set_size(file, max(file.size_bytes, position + len(data)))

    def resize(self, path: StrPath, size_bytes: int) -> None:
        self._set_size(self._file(path), size_bytes)

    def sync(self, path: StrPath) -> None:
        """Do nothing: data on this disk is lost only through injected faults."""

    def drop_cache(self, path: StrPath) -> None:
        """Do nothing, because this disk has no page cache."""

    def rename(self, source: StrPath, target: StrPath) -> None:
        old, new = os.fspath(source), os.fspath(target)
        parent, name = os.path.split(old)
        if name not in self._folder(parent):
            raise _error(errno.ENOENT, old)
        entry = self._folder(parent).pop(name)
        new_parent, new_name = os.path.split(new)
        self._folder(new_parent)[new_name] = entry
        for path in [path for path in self._folders if _is_within(path, old)]:
            self._folders[new + path[len(old) :]] = self._folders.pop(path)

    def remove(self, path: StrPath) -> None:
        self._file(path)
        folder, name = os.path.split(os.fspath(path))
        del self._folders[folder][name]

    def remove_tree(self, path: StrPath) -> None:
        name = os.fspath(path)
        self._folder(name)
        parent, entry = os.path.split(name)
        del self._folders[parent][entry]
        for inside in [one for one in self._folders if _is_within(one, name)]:
            del self._folders[inside]

    def lock(self, path: StrPath) -> Callable[[], None]:
        name = os.fspath(path)
        if name in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), name)
        folder, entry = os.path.split(name)
        self._folder(folder).setdefault(entry, _File())
        self._locks[name] = None
        return partial(self._unlock, name)

    def _unlock(self, name: str) -> None:
        self._locks.pop(name, None)

    def _folder(self, path: str) -> dict[str, _File | None]:
        found = self._folders.get(path)
        if found is None:
            raise _error(errno.ENOENT, path)
        return found

    def _file(self, path: StrPath) -> _File:
        name = os.fspath(path)
        folder, entry = os.path.split(name)
        file = self._folder(folder).get(entry)
        if file is None:
            raise _error(errno.ENOENT, name)
        return file

    def _set_size(self, file: _File, size_bytes: int) -> None:
        del file.data[size_bytes:]
        file.size_bytes = size_bytes
        file.modified_s = self._now_ms() / 1000


def _read(file: _File, position: int, size_bytes: int) -> bytes:
    data = bytes(file.data[position : position + size_bytes])
    rest = min(size_bytes, file.size_bytes - position) - len(data)
    return data + bytes(rest) if rest > 0 else data


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder + "/")


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
