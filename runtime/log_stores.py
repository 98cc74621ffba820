"""The disks of a cluster's brokers: what each has written, kept until it starts again.

Made when a broker first starts; a broker is never asked, and nothing is decided. Mirrors nothing of
Kafka, where a broker's log directories are just there.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokers.logs.log_store import LogStore, MemoryLogStore


class LogStores:
    """A store for each broker, by its id."""

    def __init__(self) -> None:
        self._stores: dict[int, LogStore] = {}

    def __iter__(self) -> Iterator[int]:
        return iter(self._stores)

    def __getitem__(self, broker_id: int) -> LogStore:
        store = self._stores.get(broker_id)
        if store is None:
            store = self._stores[broker_id] = MemoryLogStore()
        return store
