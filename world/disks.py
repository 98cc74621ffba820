"""Injects disk faults into the log directories and the journal of a simulated or real cluster.

After a fault is injected, the next operation on a file fails, in the code that uses the file.
In-memory logs have no files, so their log directory fails at once with the same error, and cannot
be opened again until ``heal``.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from klamm.brokers.bandwidth.copying import Copying
from klamm.brokers.bandwidth.model import UNLIMITED, Resource, ResourceKind
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.brokers.storage.faults import FaultyDisk
from klamm.brokers.storage.memory_disk import MemoryDisk
from klamm.cluster.disk_faults import DiskFault
from klamm.cluster.errors import NotFound
from klamm.cluster.protocols import Clock, Journal
from klamm.cluster.status import ActiveDiskFault
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import FileJournal, MemoryJournal
from klamm.world.log_stores import LogStores
from klamm.world.node_actors import LogDirFailed


def local_disk() -> FaultyDisk:
    """Return the machine's disk, with fault injection."""
    return FaultyDisk(LOCAL_DISK, random.Random())


def simulated_disk(clock: Clock, seed: int, *, is_in_memory: bool) -> FaultyDisk:
    """Return a disk with fault injection. Its operations take no simulated time."""
    disk = MemoryDisk(clock.now_ms) if is_in_memory else LOCAL_DISK
    return FaultyDisk(disk, random.Random(seed + 2))


class ClusterDisks:
    """Injects faults into the disks of one cluster.

    ``send_event`` sends an event to a broker; the event is lost if the broker is not running.
    ``call`` runs a function on the brokers' thread."""

    def __init__(
        self,
        spec: ClusterSpec,
        stores: LogStores,
        copying: Copying,
        journal: Journal,
        send_event: Callable[[int, LogDirFailed], None],
        call: Callable[[Callable[[], None]], None],
    ) -> None:
        self._log_dirs = spec.broker_config.log_dirs
        self.stores = stores
        self._copying = copying
        self._journal = journal
        self._send_event = send_event
        self._call = call
        self._slow: dict[tuple[int, str], int] = {}
        self._journal_fault: DiskFault | None = None

    def fail(self, broker_id: int, log_dir: str | None, fault: DiskFault) -> None:
        """Inject a fault into a log directory of a broker.

        If ``log_dir`` is None, inject it into each log directory of the broker. Raises NotFound."""
        for path in self.paths(broker_id, log_dir):
            reason = self.stores.fail(broker_id, path, fault)
            if reason is not None:
                self._send_event(broker_id, LogDirFailed(path, reason))

    def slow(self, broker_id: int, log_dir: str | None, bytes_per_s: int) -> None:
        """Limit the rate at which replicas are copied to and from a log directory.

        If ``log_dir`` is None, limit each log directory of the broker. Raises NotFound."""
        for path in self.paths(broker_id, log_dir):
            self._slow[broker_id, path] = bytes_per_s
            self._set_rate(broker_id, path, bytes_per_s)

    def fail_journal(self, fault: DiskFault) -> None:
        """Inject a fault into the journal's file."""
        self._journal_fault = fault
        match self._journal:
            case MemoryJournal():
                self._journal.refuse(fault.kind.reason)
            case FileJournal():
                self.stores.disk.arm(self._journal.path, fault)

    def heal(self) -> None:
        """End all disk faults. A failed log directory stays offline until its broker restarts."""
        self.stores.heal()
        for broker_id, path in self._slow:
            self._set_rate(broker_id, path, UNLIMITED)
        self._slow.clear()
        self._journal_fault = None
        if isinstance(self._journal, MemoryJournal):
            self._journal.accept()

    def describe(self) -> list[ActiveDiskFault]:
        """Return the active faults as plain values."""
        found: list[ActiveDiskFault] = [
            {"broker": broker_id, "log_dir": path, "kind": fault.kind}
            for (broker_id, path), fault in self.stores.active_faults()
        ]
        found += [
            {"broker": broker_id, "log_dir": path, "kind": "slow", "bytes_per_s": rate}
            for (broker_id, path), rate in sorted(self._slow.items())
        ]
        journal, disk = self._journal, self.stores.disk
        is_over = isinstance(journal, FileJournal) and not disk.is_armed(journal.path)
        if self._journal_fault is not None and not is_over:
            found.append({"journal": True, "kind": self._journal_fault.kind})
        return found

    def paths(self, broker_id: int, log_dir: str | None) -> tuple[str, ...]:
        """Return a log directory as a tuple, or all if ``log_dir`` is None. Raises NotFound."""
        if log_dir is None:
            return self._log_dirs
        if log_dir not in self._log_dirs:
            raise NotFound(
                f"broker {broker_id} has no log directory '{log_dir}'",
                hint=f"it has {', '.join(self._log_dirs)}",
            )
        return (log_dir,)

    def _set_rate(self, broker_id: int, path: str, bytes_per_s: int) -> None:
        resource = Resource(ResourceKind.DISK, broker_id, path)
        self._call(lambda: self._copying.set_capacities({resource: bytes_per_s}))
