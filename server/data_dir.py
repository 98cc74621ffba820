"""The data directory of a running cluster: who holds it, what lies where, how it is found.

Paths, a lock and the address file; nothing is started here.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.logs.checkpoints import META_PROPERTIES
from klamm.brokers.storage.disk import LOCAL_DISK, UNFINISHED, Disk, read_whole, write_whole
from klamm.cluster.errors import EnvironmentProblem, UsageError

DATA_DIR_VARIABLE: Final = "KLAMM_DATA_DIR"
ADDRESS_FILE: Final = "server.json"
JOURNAL_FILE: Final = "journal.jsonl"
OWN_LOG_FILE: Final = "klamm.log"
"""Where klamm writes what went wrong inside itself."""
_LOCK_FILE: Final = "klamm.lock"
_RUNS_FILE: Final = "runs"
"""File with the number of runs in this directory."""


class ServerAddress(msgspec.Struct, frozen=True, omit_defaults=True):
    """What server.json holds: where the cluster's HTTP API is, and who serves it."""

    url: str
    pid: int
    token: str | None = None


def default_data_dir(environ: Mapping[str, str]) -> Path:
    """KLAMM_DATA_DIR, or .klamm in the home directory."""
    return Path(environ.get(DATA_DIR_VARIABLE) or Path.home() / ".klamm")


def read_address(data_dir: Path) -> ServerAddress | None:
    """What the address file says; None if there is none. Raises UsageError if it is broken."""
    path = data_dir / ADDRESS_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ServerAddress)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path} cannot be read: {error}", hint="name the server with --server"
        ) from error


class DataDir:
    """A data directory that is held by one cluster at a time, from ``open`` to ``close``.

    ``path`` None: a temporary one, removed by ``close``. Any other that ``open`` made is removed
    if nothing was put into it.
    """

    def __init__(self, path: Path | None, disk: Disk = LOCAL_DISK) -> None:
        self._disk = disk
        self._is_temporary = path is None
        self._path = None if path is None else path.absolute()
        self._lock: int | None = None
        self._made: list[Path] = []

    @property
    def path(self) -> Path:
        """The directory. Known once opened."""
        assert self._path is not None, "not open"
        return self._path

    @property
    def journal(self) -> Path:
        """Where journal.jsonl is."""
        return self.path / JOURNAL_FILE

    @property
    def logs(self) -> Path:
        """Where Kafka's logs are, in a folder for each broker."""
        return self.path / "logs"

    @property
    def brokers(self) -> Path:
        """Where brokers keep their log directories, in a folder for each, if they have files."""
        return self.path / "brokers"

    @property
    def has_broker_files(self) -> bool:
        """True if brokers have kept logs of real files here."""
        return any(self.brokers.rglob(META_PROPERTIES))

    @property
    def zookeeper(self) -> Path:
        """Where the embedded ZooKeeper keeps its data."""
        return self.path / "zookeeper"

    def open(self) -> None:
        """Create and lock the directory.

        Raises EnvironmentProblem if another cluster holds it or it cannot be written.
        """
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="klamm-"))
        self._made = [
            folder for folder in (self._path, *self._path.parents) if not _is_there(folder)
        ]
        try:
            self._disk.make_dirs(self._path)
            self._lock = _lock(self._path / _LOCK_FILE)
            (self._path / ADDRESS_FILE).unlink(missing_ok=True)
        except BlockingIOError:
            raise self._held_by_another() from None
        except OSError as error:
            self.close()
            self._remove_what_is_empty()
            raise EnvironmentProblem(
                f"the data directory {self._path} cannot be used: {error.strerror}",
                hint="choose another with --data-dir",
            ) from error

    def write_address(self, address: ServerAddress) -> None:
        """Publish the API's address. Raises EnvironmentProblem if it cannot be written."""
        data = msgspec.json.format(msgspec.json.encode(address)) + b"\n"
        self._replace(self.path / ADDRESS_FILE, data)

    def next_incarnation(self) -> int:
        """Return the number of earlier runs, and count this one, even if it is killed later.

        Raises EnvironmentProblem if the count cannot be read or written.
        """
        path = self.path / _RUNS_FILE
        try:
            runs = int(read_whole(self._disk, path)) if path.exists() else 0
        except ValueError:
            raise EnvironmentProblem(
                f"{path} does not hold a number",
                hint="write the number of runs of klamm up in this directory into it",
            ) from None
        except OSError as error:
            raise EnvironmentProblem(f"{path} cannot be read: {error.strerror}") from error
        self._replace(path, f"{runs + 1}\n".encode())
        return runs

    def close(self) -> None:
        """Remove the address file, or all of a temporary directory, and let go; idempotent."""
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
        self._remove_what_is_empty()

    def _replace(self, path: Path, data: bytes) -> None:
        """Write a file atomically, even if the process or the machine crashes. Only this user may
        read it, because it may hold a token. Raises EnvironmentProblem."""
        try:
            # A leftover temporary file would keep its owner and mode.
            path.with_name(path.name + UNFINISHED).unlink(missing_ok=True)
            write_whole(self._disk, path, data, mode=0o600)
        except OSError as error:
            raise EnvironmentProblem(
                f"{path} cannot be written: {error.strerror}",
                hint=f"free space on the disk of {path.parent}, or check that it can be written",
            ) from error

    def _remove_what_is_empty(self) -> None:
        with contextlib.suppress(OSError):  # not empty, or never made
            for folder in self._made:
                folder.rmdir()

    def _held_by_another(self) -> EnvironmentProblem:
        address = read_address(self.path)
        who = f"the klamm of process {address.pid} ({address.url})" if address else "another klamm"
        return EnvironmentProblem(
            f"{who} runs in {self.path}", hint="stop it, or choose another with --data-dir"
        )


def _is_there(folder: Path) -> bool:
    try:
        folder.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _lock(path: Path) -> int:
    """The lock file, held. Raises BlockingIOError if somebody else holds it, or OSError."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who held it until now may have removed it: then the next one would hold another file.
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
