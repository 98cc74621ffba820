"""The start offset of each leader epoch in a log: the rules of kafka.server.epoch.

Entries ascend in epoch and in start offset. The rules are functions from entries to entries,
because an in-memory log stores only entries. ``LeaderEpochFileCache`` adds a file for logs on disk.
Mirrors LeaderEpochFileCache. An epoch ends where the next one starts; the latest ends at the log
end, which is an argument.
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
    """Return a tuple of one entry, shared: most logs of a large cluster are empty and equal."""
    return (entry,)


def latest_epoch(entries: EpochEntries) -> int | None:
    """Return the latest epoch; None if there is none."""
    return entries[-1].epoch if entries else None


def assign(entries: EpochEntries, epoch: int, start_offset: int) -> EpochEntries:
    """Return the entries with ``epoch`` starting at ``start_offset``.

    The latest epoch keeps its start offset unless the new one is smaller. Entries that do not
    precede the new one in both epoch and offset are dropped.
    """
    assert epoch >= 0 and start_offset >= 0, f"invalid leader epoch entry: {epoch}, {start_offset}"
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
    """Return the largest epoch at or below ``epoch``, and its end offset.

    (-1, -1) for no epoch (-1) and for one after the latest. For one before the earliest:
    ``epoch`` itself and the start of the earliest, because what came before is no longer in the
    log.
    """
    if epoch == NO_EPOCH or not entries or epoch > entries[-1].epoch:
        return UNDEFINED_EPOCH_END
    if epoch == entries[-1].epoch:
        return EpochEndOffset(epoch, log_end_offset)
    higher = bisect_right(entries, epoch, key=_epoch_of)
    floor = entries[higher - 1].epoch if higher else epoch
    return EpochEndOffset(floor, entries[higher].start_offset)


def truncate_from_end(entries: EpochEntries, end_offset: int) -> EpochEntries:
    """Return the entries that start before ``end_offset``."""
    kept = len(entries)
    while kept and entries[kept - 1].start_offset >= end_offset:
        kept -= 1
    return entries[:kept]


def truncate_from_start(entries: EpochEntries, start_offset: int) -> EpochEntries:
    """Return the entries for a log that starts at ``start_offset``.

    The last entry at or before that offset now starts there; earlier ones are dropped."""
    dropped = 0
    while dropped < len(entries) and entries[dropped].start_offset <= start_offset:
        dropped += 1
    if not dropped:
        return entries
    first = EpochEntry(entries[dropped - 1].epoch, start_offset)
    return (first, *entries[dropped:]) if dropped < len(entries) else _only(first)


class LeaderEpochFileCache:
    """Epoch entries, written to a leader-epoch-checkpoint file whenever they change.

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
        """All entries, the earliest first."""
        return self._entries

    @property
    def latest_epoch(self) -> int | None:
        """The latest epoch; None if there is none."""
        return latest_epoch(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that ``epoch`` starts at ``start_offset``; see function ``assign``."""
        self._keep(assign(self._entries, epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the largest epoch at or below ``epoch``, and its end offset."""
        return end_offset_for(self._entries, epoch, log_end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove epochs that start at ``end_offset`` or later."""
        self._keep(truncate_from_end(self._entries, end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs before ``start_offset``; see function ``truncate_from_start``."""
        self._keep(truncate_from_start(self._entries, start_offset))

    def replace(self, entries: EpochEntries) -> None:
        """Replace the entries, in memory and in the file."""
        self._keep(entries)

    def clear(self) -> None:
        """Remove all entries, also in the file."""
        self._keep(())

    def move_to(self, path: Path) -> None:
        """Follow a renaming of the log's directory, which holds the file."""
        self._path = path

    def _keep(self, entries: EpochEntries) -> None:
        if entries != self._entries:
            self._entries = entries
            write_epochs(self._path, entries, self._disk)
