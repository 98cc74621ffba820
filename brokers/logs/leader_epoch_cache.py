"""At which offset each leader epoch of a log begins: the rules of kafka.server.epoch.

Entries rise in epoch and in start offset. The rules are functions from entries to entries, for a
log that is only counted keeps no more than them; ``LeaderEpochFileCache`` is the same with a file
behind it, for a log that has one. Mirrors LeaderEpochFileCache. An epoch's end is where the next
one begins; the end of the latest is the log's end, which is handed in.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Final

from klamm.brokers.logs.checkpoints import EpochEntry, write_epochs
from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.cluster.records import UNDEFINED_EPOCH_END, EpochEndOffset
from klamm.cluster.types import NO_EPOCH

EpochEntries = tuple[EpochEntry, ...]
_SHARED_MAX: Final = 1024
_epoch_of: Final = itemgetter(0)


@lru_cache(maxsize=_SHARED_MAX)
def _only(entry: EpochEntry) -> EpochEntries:
    """One entry. Shared, for most logs of a large cluster are empty, and all of those are alike."""
    return (entry,)


def latest_epoch(entries: EpochEntries) -> int | None:
    """The latest epoch; None if there is none."""
    return entries[-1].epoch if entries else None


def assign(entries: EpochEntries, epoch: int, start_offset: int) -> EpochEntries:
    """Entries with ``epoch`` beginning at ``start_offset``.

    The latest epoch keeps its start unless the new one is smaller. Entries at the end that do not
    come before the new one, in epoch or in offset, are dropped.
    """
    assert epoch >= 0 and start_offset >= 0, f"no leader epoch entry: {epoch} at {start_offset}"
    if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
        return entries
    kept = len(entries)
    while kept and (
        entries[kept - 1].epoch >= epoch or entries[kept - 1].start_offset >= start_offset
    ):
        kept -= 1
    entry = EpochEntry(epoch, start_offset)
    return (*entries[:kept], entry) if kept else _only(entry)


def end_offset_for(entries: EpochEntries, epoch: int, log_end_offset: int) -> EpochEndOffset:
    """The largest epoch at or below ``epoch``, and its end.

    (-1, -1) for no epoch (-1) and for one later than the latest. For one before the earliest:
    ``epoch`` itself and where the earliest begins, as what lay before is gone from the log.
    """
    if epoch == NO_EPOCH or not entries or epoch > entries[-1].epoch:
        return UNDEFINED_EPOCH_END
    if epoch == entries[-1].epoch:
        return EpochEndOffset(epoch, log_end_offset)
    higher = bisect_right(entries, epoch, key=_epoch_of)
    floor = entries[higher - 1].epoch if higher else epoch
    return EpochEndOffset(floor, entries[higher].start_offset)


def truncate_from_end(entries: EpochEntries, end_offset: int) -> EpochEntries:
    """Entries that begin before ``end_offset``."""
    kept = len(entries)
    while kept and entries[kept - 1].start_offset >= end_offset:
        kept -= 1
    return entries[:kept]


def truncate_from_start(entries: EpochEntries, start_offset: int) -> EpochEntries:
    """Entries for a log that begins at ``start_offset``: the last one that begins there or before
    begins there now, and those before it are dropped."""
    dropped = 0
    while dropped < len(entries) and entries[dropped].start_offset <= start_offset:
        dropped += 1
    if not dropped:
        return entries
    first = EpochEntry(entries[dropped - 1].epoch, start_offset)
    return (first, *entries[dropped:]) if dropped < len(entries) else _only(first)


class LeaderEpochFileCache:
    """Entries that are written to a leader-epoch-checkpoint file as soon as they change.

    Raises LogStorageError if the file cannot be written.
    """

    __slots__ = ("_disk", "_entries", "_path")

    def __init__(self, path: Path, entries: EpochEntries = (), disk: Disk = LOCAL_DISK) -> None:
        """``entries``: the contents of the file."""
        self._path = path
        self._disk = disk
        self._entries = entries

    @property
    def entries(self) -> EpochEntries:
        """Every entry, the earliest first."""
        return self._entries

    @property
    def latest_epoch(self) -> int | None:
        """The latest epoch; None if there is none."""
        return latest_epoch(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` begins at ``start_offset``, as ``assign`` says."""
        self._keep(assign(self._entries, epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The largest epoch at or below ``epoch`` and its end, as ``end_offset_for`` says."""
        return end_offset_for(self._entries, epoch, log_end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that begin at ``end_offset`` or after it."""
        self._keep(truncate_from_end(self._entries, end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget what lies before ``start_offset``, as ``truncate_from_start`` says."""
        self._keep(truncate_from_start(self._entries, start_offset))

    def replace(self, entries: EpochEntries) -> None:
        """Replace the entries, in memory and in the file."""
        self._keep(entries)

    def clear(self) -> None:
        """Forget everything, in the file too."""
        self._keep(())

    def move_to(self, path: Path) -> None:
        """The log's directory has another name now, and the file in it with it."""
        self._path = path

    def _keep(self, entries: EpochEntries) -> None:
        if entries != self._entries:
            self._entries = entries
            write_epochs(self._path, entries, self._disk)
