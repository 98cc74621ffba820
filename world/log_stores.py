"""Log stores of a cluster's brokers, which outlive the broker processes.

A store is created when its broker first starts. This module has no counterpart in Kafka, where a
log directory is just a folder on a disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from klamm.brokers.logs.file_log_store import FileLogStore, folder_of
from klamm.brokers.logs.log_store import LogStore, MemoryLogStore
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.disk_faults import DiskFault
from klamm.cluster.errors import UsageError


class LogStores:
    """The log store of each broker, keyed by broker id.

    ``segments`` is a directory with a folder ``ID/`` for each broker, which contains the broker's
    log directories; if it is None, brokers have in-memory (offset-only) logs. All file
    operations use ``disk``.
    """

    def __init__(self, segments: Path | None, disk: FaultyDisk) -> None:
        self.disk = disk
        self._faults: dict[tuple[int, str], DiskFault] = {}
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
            store, faults = MemoryLogStore(), self._faults.items()
            store.failures |= {path: f.kind.reason for (id_, path), f in faults if id_ == broker_id}
            return store
        return FileLogStore(self._segments / str(broker_id), disk=self.disk)

    def fail(self, broker_id: int, log_dir: str, fault: DiskFault) -> str | None:
        """Inject a fault into a log directory of a broker.

        Log segments on disk fail at their next file operation; the return value is None. In-memory
        logs have no files: the caller must make their log directory fail at once, with the returned
        reason."""
        self._faults[broker_id, log_dir] = fault
        if self._segments is not None:
            self.disk.arm(folder_of(self._segments / str(broker_id), log_dir), fault)
            return None
        store = self[broker_id]
        assert isinstance(store, MemoryLogStore)
        store.failures[log_dir] = fault.kind.reason
        return fault.kind.reason

    def active_faults(self) -> list[tuple[tuple[int, str], DiskFault]]:
        """Return the faults that can still strike, by broker and log directory."""
        root = self._segments
        return [
            ((broker_id, log_dir), fault)
            for (broker_id, log_dir), fault in sorted(self._faults.items())
            if root is None or self.disk.is_armed(folder_of(root / str(broker_id), log_dir))
        ]

    def heal(self) -> None:
        """End all disk faults, including one in the journal's file."""
        self._faults.clear()
        self.disk.heal_all()
        for store in self._stores.values():
            if isinstance(store, MemoryLogStore):
                store.failures.clear()

    def end_process(self) -> None:
        """Discard all in-memory logs, as when the process of the cluster ends. Files survive."""
        self._stores.clear()


def check_log_dirs(log_dirs: Iterable[str]) -> None:
    """Raise UsageError if a log directory leads outside the broker's folder, or two are one."""
    folders: dict[Path, str] = {}
    for log_dir in log_dirs:
        folder = folder_of(Path(), log_dir)
        if ".." in folder.parts:
            raise UsageError(
                f"log directory {log_dir}: with segment files, log directories must not contain "
                "'..'",
                hint="set log.dirs to folder names, such as d0,d1; they are created below the "
                "data directory of each broker",
            )
        if folder in folders:
            raise UsageError(f"log directories {folders[folder]} and {log_dir} are the same folder")
        folders[folder] = log_dir
