"""The disks of a cluster's brokers: what each has written, kept until it starts again.

Made when a broker first starts; a broker is never asked, and nothing is decided. Mirrors nothing of
Kafka, where a broker's log directories are just there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.logs.log_store import LogStore, MemoryLogStore
from klamm.brokers.storage.faults import DiskFault, FaultKind, FaultyDisk
from klamm.cluster.errors import UsageError


class LogStores:
    """A store for each broker, by its id.

    ``segments``: a directory with real files, ``ID/`` for each broker and its log directories in
    it; None: logs in memory that only count. ``journal``: for what is cut from them. ``disk``: has
    the files.
    """

    def __init__(self, segments: Path | None, journal: LogJournal, disk: FaultyDisk) -> None:
        self.journal = journal
        self.disk = disk
        self.faults: dict[tuple[int, str], DiskFault] = {}
        self._segments = segments
        self._stores: dict[int, LogStore] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._stores)

    def __getitem__(self, broker_id: int) -> LogStore:
        store = self._stores.get(broker_id)
        if store is None:
            store = self._stores[broker_id] = self._make(broker_id)
        return store

    def _make(self, broker_id: int) -> LogStore:
        if self._segments is None:
            return MemoryLogStore()
        return FileLogStore(self._segments / str(broker_id), disk=self.disk)

    def fail(self, broker_id: int, log_dir: str, fault: DiskFault) -> str | None:
        """Inject a fault into a log directory. Returns the reason if it has no files to fail."""
        self.faults[broker_id, log_dir] = fault
        if self._segments is not None:
            self.disk.arm(self._segments / str(broker_id) / log_dir, fault)
            return None
        store = self[broker_id]
        assert isinstance(store, MemoryLogStore)
        kind = fault.kind or FaultKind.EIO
        store.failures[log_dir] = kind.reason
        return kind.reason

    def heal(self) -> None:
        """End all faults, including that of the journal's file."""
        self.faults.clear()
        self.disk.heal_all()
        for store in self._stores.values():
            if isinstance(store, MemoryLogStore):
                store.failures.clear()

    def end_process(self) -> None:
        """Keep the state that survives the end of a process: files only."""
        self._stores.clear()


def check_log_dirs_are_relative(log_dirs: Iterable[str]) -> None:
    """Raise UsageError for a log directory that is not below a broker's own folder."""
    for log_dir in log_dirs:
        path = PurePath(log_dir)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(
                f"log.dirs {log_dir} with --segments",
                hint="name folders, such as d0,d1: each broker has its own in the data directory",
            )
