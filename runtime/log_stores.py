"""The disks of a cluster's brokers: what each has written, kept until it starts again.

Made when a broker first starts; a broker is never asked, and nothing is decided. Mirrors nothing of
Kafka, where a broker's log directories are just there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePath

from brokers.logs.file_log_store import FileLogStore
from brokers.logs.log_journal import LogJournal
from brokers.logs.log_store import LogStore, MemoryLogStore
from cluster.errors import UsageError


class LogStores:
    """A store for each broker, by its id.

    ``segments``: a directory with real files, ``ID/`` for each broker and its log directories in
    it; None: logs in memory that only count. ``journal``: for what is cut from them.
    """

    def __init__(self, segments: Path | None, journal: LogJournal) -> None:
        self.journal = journal
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
        return FileLogStore(self._segments / str(broker_id))


def check_log_dirs_are_relative(log_dirs: Iterable[str]) -> None:
    """Raise UsageError for a log directory that is not below a broker's own folder."""
    for log_dir in log_dirs:
        path = PurePath(log_dir)
        if path.is_absolute() or ".." in path.parts:
            raise UsageError(
                f"log.dirs {log_dir} with --segments",
                hint="name folders, such as d0,d1: each broker has its own in the data directory",
            )
