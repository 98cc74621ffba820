"""Paths of logs, event table and results: local ones, or URLs such as ``hdfs://host:9000/events``.

A local path is a ``pathlib.Path``. A URL is a ``UPath`` of universal_pathlib, which gives the files
of a remote file system the methods of ``pathlib``; fsspec and its drivers (hdfs-native, s3fs) reach
the file system. Every process that opens a file, on whichever machine, opens it in this way; Spark
and DuckDB get the URL.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError

if TYPE_CHECKING:
    import pyarrow.fs

_CONNECT_TIMEOUT_S: Final = 5.0


class _Scheme(NamedTuple):
    """``extra``: installs the driver. ``hint``: what is missing if the system is not accessible."""

    extra: str
    hint: str


_S3: Final = _Scheme(
    "klamm[s3]",
    "credentials and endpoint: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL",
)
_SCHEMES: Final = {
    "hdfs": _Scheme(
        "klamm[hdfs]",
        "the URL needs the namenode's host and port, or HADOOP_CONF_DIR a core-site.xml",
    ),
    "s3": _S3,
    "s3a": _S3,
}
"""Remote file systems by the scheme of their URLs."""


def location(text: str | os.PathLike[str]) -> Path:
    """Return the path that a text names: a ``Path``, or a ``UPath`` if the text is a URL.

    Both have the same methods; mypy is told of the first. Raises UsageError for a URL of a kind
    that klamm does not know.
    """
    scheme, separator, rest = str(text).partition("://")
    if not separator:
        return Path(text)
    if scheme == "file":
        return Path(rest)
    if scheme not in _SCHEMES:
        raise UsageError(
            f"{text}: klamm cannot read {scheme}:// URLs",
            hint=f"a local path, or a URL that begins with {', '.join(_SCHEMES)}",
        )
    try:
        # Most commands read local files: fsspec would only make them start later.
        if scheme == "hdfs":
            from klamm.replay.hdfs import HdfsPath

            return cast(Path, HdfsPath(str(text)))
        # The driver that UPath loads; klamm[s3] installs it.
        import s3fs  # noqa: F401  # pyright: ignore[reportMissingImports]
        from upath import UPath

        return cast(Path, UPath(str(text)))
    except ImportError as error:
        raise EnvironmentProblem(
            f"{text} needs {error.name}, which is not installed",
            hint=f"pip install '{_SCHEMES[scheme].extra}'",
        ) from error


def common_folder(files: Sequence[str]) -> str:
    """Return the directory that contains all files, empty if there is none."""
    parts = [file.rpartition("://") for file in files]
    if len({scheme for scheme, _, _ in parts}) != 1:
        return ""
    scheme, separator, _ = parts[0]
    folders = [os.path.dirname(file) for _, _, file in parts]
    return scheme + separator + os.path.commonpath(folders)


def is_remote(path: Path) -> bool:
    """Return whether a path is a URL on a remote file system."""
    return not isinstance(path, Path)


def file_system(path: Path) -> Any:
    """Return the fsspec file system of a remote path."""
    return cast(Any, path).fs


def arrow_file_system(path: Path) -> pyarrow.fs.FileSystem:
    """Return the file system of a remote path as one of Arrow's."""
    import pyarrow.fs

    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(file_system(path)))


def given_location(text: str) -> Path:
    """Return the path that a user gave, like ``location``, once its file system has responded.

    Raises EnvironmentProblem if the file system does not respond. This is checked before any work,
    because HDFS's client would try for three minutes.
    """
    path = location(text)
    if not is_remote(path):
        return path
    with remote_errors(path):
        options = cast(Any, path).storage_options
        if options.get("host") and options.get("port"):
            address = (options["host"], options["port"])
            socket.create_connection(address, _CONNECT_TIMEOUT_S).close()
        path.exists()
    return path


@contextmanager
def remote_errors(path: Path) -> Iterator[None]:
    """Context manager that turns errors of a remote path's file system into EnvironmentProblem.

    FileExistsError is raised as it is. Drivers raise errors of many types, and put a Java stack
    trace into their text.
    """
    try:
        yield
    except (KlammError, FileExistsError):
        raise
    except Exception as error:
        if not is_remote(path):
            raise
        first_line = str(error).replace("\\n", "\n").strip().split("\n")[0]
        words = re.split(r'\("|", "', first_line)[-1].strip("\"')")
        raise EnvironmentProblem(
            f"{path} is not accessible: {words or type(error).__name__}",
            hint=_SCHEMES[str(path).partition("://")[0]].hint,
        ) from error


def remove_tree(folder: Path) -> None:
    """Remove a directory and everything in it. Errors are ignored."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with suppress(Exception):  # drivers raise errors of many types
        file_system(folder).rm(cast(Any, folder).path, recursive=True)
