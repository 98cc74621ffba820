"""The data directory of a running cluster: its lock, its paths, and server.json."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.logs.checkpoints import META_PROPERTIES
from klamm.brokers.storage.disk import LOCAL_DISK, UNFINISHED, Disk, read_whole, write_whole
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.cluster.journal import JOURNAL_FILE

DATA_DIR_VARIABLE: Final = "KLAMM_DATA_DIR"
ADDRESS_FILE: Final = "server.json"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8282
"""Default host and port of the HTTP API; commands use the port if --server gives none."""
OWN_LOG_FILE: Final = "klamm.log"
"""klamm's own log: warnings and internal errors."""
_LOCK_FILE: Final = "klamm.lock"
_READER_MS: Final = 20
"""More than the time for which a reader holds the lock."""
_RUNS_FILE: Final = "runs"
"""File that contains the number of runs in this data directory."""


class ServerAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """Contents of server.json: the URL of the HTTP API, and the process that serves it.

    ``token`` is the bearer token, if the API requires one.
    """

    url: str
    pid: int
    token: str | None = None


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """Return the value of KLAMM_DATA_DIR, or .klamm in the home directory."""
    return Path(environ.get(DATA_DIR_VARIABLE) or Path.home() / ".klamm")


def read_address(data_dir: Path) -> ServerAddress | None:
    """Read server.json, or return None if it does not exist.

    Raises UsageError if it is malformed.
    """
    path = data_dir / ADDRESS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerAddress)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path} cannot be read: {problem}", hint="give the address with --server"
        ) from error


def why_not_made(error: OSError) -> str | None:
    """Return the reason why a directory could not be made."""
    return os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror


def is_held(data_dir: Path) -> bool:
    """Return True if a running klamm has locked a data directory; write nothing."""
    try:
        lock = os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


class DataDir:
    """A data directory, locked by one cluster at a time from ``open`` to ``close``.

    If ``path`` is None, ``open`` creates a temporary directory, and ``close`` removes it. A given
    directory is removed only if ``open`` created it and it is empty again.
    """

    def __init__(self, path: Path | None, disk: Disk = LOCAL_DISK) -> None:
        self._disk = disk
        self._is_temporary = path is None
        self._path = None if path is None else path.absolute()
        self._lock: int | None = None
        self._made: list[Path] = []

    @property
    def path(self) -> Path:
        """Path of the directory; a temporary directory has a path only after ``open``."""
        assert self._path is not None, "not open"
        return self._path

    @property
    def journal(self) -> Path:
        """Path of the journal, journal.jsonl."""
        return self.path / JOURNAL_FILE

    @property
    def logs(self) -> Path:
        """Directory of the controllers' log files, with a subdirectory per broker."""
        return self.path / "logs"

    @property
    def brokers(self) -> Path:
        """Directory of segment files, with a subdirectory per broker."""
        return self.path / "brokers"

    @contextlib.contextmanager
    def temporary_segments(self) -> Iterator[Path]:
        """Context manager of a directory for segment files that do not outlive the cluster.

        It is empty at first, even if the process of an earlier cluster was killed.
        """
        folder = self.path / "temporary-segments"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @property
    def has_broker_files(self) -> bool:
        """True if the directory has segment files of brokers."""
        return any(self.brokers.rglob(META_PROPERTIES))

    @property
    def zookeeper(self) -> Path:
        """Directory of the embedded ZooKeeper servers' data."""
        return self.path / "zookeeper"

    def open(self) -> None:
        """Create and lock the directory.

        Raises EnvironmentProblem if another cluster has locked it, or if it cannot be written.
        """
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="klamm-"))
        folders = (self._path, *self._path.parents)
        self._made = [folder for folder in folders if not os.path.lexists(folder)]
        try:
            self._disk.make_dirs(self._path)
            self._lock = _lock_unless_held(self._path / _LOCK_FILE)
            (self._path / ADDRESS_FILE).unlink(missing_ok=True)
        except BlockingIOError:
            raise self._held_by_another() from None
        except OSError as error:
            self.close()
            self._remove_empty_dirs()
            raise EnvironmentProblem(
                f"the data directory {self._path} cannot be used: {why_not_made(error)}",
                hint="choose another directory with --data-dir",
            ) from error

    def check_not_held(self) -> None:
        """Raise EnvironmentProblem if another cluster has locked the directory; write nothing."""
        if is_held(self.path):
            raise self._held_by_another()

    def write_address(self, address: ServerAddress) -> None:
        """Publish the API's address in server.json. Raises EnvironmentProblem if that fails."""
        data = msgspec.json.format(msgspec.json.encode(address)) + b"\n"
        self._replace(self.path / ADDRESS_FILE, data)

    def next_incarnation(self) -> int:
        """Return the number of earlier runs in this directory, and count this run.

        Raises EnvironmentProblem if the count cannot be read or written.
        """
        path = self.path / _RUNS_FILE
        try:
            runs = int(read_whole(self._disk, path)) if path.exists() else 0
        except ValueError:
            raise EnvironmentProblem(
                f"{path} does not contain a number",
                hint="write to this file how many times klamm up has run in this directory",
            ) from None
        except OSError as error:
            raise EnvironmentProblem(f"{path} cannot be read: {error.strerror}") from error
        self._replace(path, f"{runs + 1}\n".encode())
        return runs

    def close(self) -> None:
        """Remove server.json and release the lock; idempotent.

        A temporary directory is removed as a whole.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                (self.path / ADDRESS_FILE).unlink()
            if self._is_temporary:
                shutil.rmtree(self.path)
                return
            with contextlib.suppress(FileNotFoundError):
                (self.path / _LOCK_FILE).unlink()
        finally:
            os.close(lock)
        self._remove_empty_dirs()

    def _replace(self, path: Path, data: bytes) -> None:
        """Replace a file atomically, even if the process or the machine crashes.

        The file may contain a token, so only its owner may read it. Raises EnvironmentProblem.
        """
        try:
            # A leftover temporary file would keep its owner and mode.
            path.with_name(path.name + UNFINISHED).unlink(missing_ok=True)
            write_whole(self._disk, path, data, mode=0o600)
        except OSError as error:
            raise EnvironmentProblem(
                f"{path} cannot be written: {error.strerror}",
                hint=f"free disk space for {path.parent}, or check that this user may write to it",
            ) from error

    def _remove_empty_dirs(self) -> None:
        with contextlib.suppress(OSError):  # not empty, or never created
            for folder in self._made:
                folder.rmdir()

    def _held_by_another(self) -> EnvironmentProblem:
        address = read_address(self.path)
        other = f"klamm process {address.pid} ({address.url})" if address else "another klamm"
        return EnvironmentProblem(
            f"{other} is running in {self.path}",
            hint="stop it, or choose another directory with --data-dir",
        )


def _lock_unless_held(path: Path) -> int:
    """Lock a file as ``_lock`` does, also if ``is_held`` holds the lock at this moment."""
    try:
        return _lock(path)
    except BlockingIOError:
        time.sleep(_READER_MS / 1000)
        return _lock(path)


def _lock(path: Path) -> int:
    """Create and lock a file; return its descriptor.

    Raises BlockingIOError if another process has locked the file, and OSError if it cannot be
    opened.
    """
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous holder may have removed the file: then a third process would create and
            # lock a new file, and two processes would hold the directory.
            if _is_same(lock, path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)


def _is_same(lock: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False
