"""The leader epochs of a log, each with its start offset.

The entries are sorted by epoch and by start offset. An epoch ends where the next epoch starts. The
latest epoch ends at the log end, which is an argument. The functions are pure and return new
entries; logs on disk also write these to a file. Mirrors kafka.server.epoch.LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from operator import itemgetter
from typing import Final

from klamm.brokers.logs.checkpoints import EpochEntry
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
