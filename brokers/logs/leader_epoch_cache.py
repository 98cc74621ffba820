"""The leader epochs of a log, each with its start offset.

The entries are sorted by epoch and by start offset. An epoch ends where the next epoch starts. The
latest epoch ends at the log end, which is an argument. In-memory logs use the pure functions, which
return new entries. Logs on disk use ``LeaderEpochFileCache``, which also writes the entries to a
file. Mirrors kafka.server.epoch.LeaderEpochFileCache.
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
    """Return a tuple of one entry, the same object in every call with an equal entry.

    This saves memory: in a large cluster most logs are empty and have the same single entry.
    """
    return (entry,)


def latest_epoch(entries: EpochEntries) -> int | None:
    """Return the latest epoch, or None if there are no entries."""
    return entries[-1].epoch if entries else None


def assign(entries: EpochEntries, epoch: int, start_offset: int) -> EpochEntries:
    """Return ``entries`` with a new entry, which states that ``epoch`` starts at ``start_offset``.

    Existing entries with the same or a larger epoch or start offset are dropped. However, if
    ``epoch`` is the latest epoch and already starts at or before ``start_offset``, return
    ``entries`` unchanged.
    """
    assert epoch >= 0 and start_offset >= 0, f"invalid epoch {epoch} or offset {start_offset}"
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
    """Return the largest epoch up to ``epoch``, and its end offset.

    If ``epoch`` is -1 or larger than the latest epoch, return (-1, -1). If ``epoch`` is smaller
    than the first epoch, its records are no longer in the log: return ``epoch`` itself and the
    start offset of the first epoch.
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

    The epoch that contains ``start_offset`` then starts at this offset; earlier epochs are dropped.
    """
    dropped = 0
    while dropped < len(entries) and entries[dropped].start_offset <= start_offset:
        dropped += 1
    if not dropped:
        return entries
    first = EpochEntry(entries[dropped - 1].epoch, start_offset)
    return (first, *entries[dropped:]) if dropped < len(entries) else _only(first)


class LeaderEpochFileCache:
    """The epoch entries of a log, written to leader-epoch-checkpoint whenever they change.

    Raises LogStorageError if the file cannot be written.
    """

    __slots__ = ("_disk", "_entries", "_path")

    def __init__(self, path: Path, entries: EpochEntries = (), disk: Disk = LOCAL_DISK) -> None:
        """Create a cache of ``entries``, which the file at ``path`` already contains."""
        self._path = path
        self._disk = disk
        self._entries = entries

    @property
    def latest_epoch(self) -> int | None:
        """The latest epoch, or None if there are no entries."""
        return latest_epoch(self._entries)

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that ``epoch`` starts at ``start_offset``."""
        self.replace(assign(self._entries, epoch, start_offset))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return the largest epoch up to ``epoch``, and its end offset."""
        return end_offset_for(self._entries, epoch, log_end_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that start at ``end_offset`` or later."""
        self.replace(truncate_from_end(self._entries, end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before ``start_offset``, because they have no records."""
        self.replace(truncate_from_start(self._entries, start_offset))

    def move_to(self, path: Path) -> None:
        """Use a new path for the file, after the log's folder was renamed."""
        self._path = path

    def replace(self, entries: EpochEntries) -> None:
        """Replace the entries, in memory and in the file."""
        if entries != self._entries:
            self._entries = entries
            write_epochs(self._path, entries, self._disk)
