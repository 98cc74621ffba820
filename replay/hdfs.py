"""Paths on HDFS, which hdfs-native reaches without Java."""

from __future__ import annotations

import io
from typing import Any, BinaryIO, Final, cast

import hdfs_native.fsspec  # noqa: F401 else fsspec would look for libhdfs
from upath import UPath
from upath.implementations.hdfs import HDFSPath
from upath.registry import register_implementation

_READ_BYTES: Final = 1 << 20
_OPENED: Final[dict[str, Any]] = {}


class HdfsPath(HDFSPath):
    """Path on HDFS that keeps its namenode in its text, and whose files are read through a buffer.

    A ``HDFSPath`` of universal_pathlib leaves the namenode out of ``str()``; a file of hdfs-native
    asks the datanode for each byte of ``readline``.
    """

    __slots__ = ()

    def __str__(self) -> str:
        host, port = (self.storage_options.get(name) for name in ("host", "port"))
        return f"hdfs://{host or ''}{f':{port}' if port else ''}{self.path}"

    @property
    def fs(self) -> Any:
        """The file system. It lives as long as the process.

        After a fork, such as the one that starts Spark's JVM, fsspec drops its file systems in the
        child. Without this reference the client of hdfs-native would end there, and wait for ever
        for threads that the child does not have.
        """
        file_system = super().fs
        _OPENED.setdefault(file_system.fsid, file_system)
        return file_system

    def open(self, mode: str = "r", *args: Any, **options: Any) -> Any:
        """Open the file. A file that is opened to read bytes is buffered and can seek."""
        opened = super().open(mode, *args, **options)
        return (
            io.BufferedReader(_Raw(cast(BinaryIO, opened)), _READ_BYTES) if mode == "rb" else opened
        )


class _Raw(io.RawIOBase):
    """File of hdfs-native with the methods that ``io.BufferedReader`` calls."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._file.seek(offset, whence)
        return self._file.tell()

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


register_implementation("hdfs", cast("type[UPath]", HdfsPath), clobber=True)
