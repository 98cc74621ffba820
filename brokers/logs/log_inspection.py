"""Consistency check of a log's files, based on batch headers.

The CRC of a batch does not cover its offset, length, leader epoch or magic byte, and checkpoints,
indexes and file names have no CRC. This check finds damage to them because they must be consistent
with each other: offsets are contiguous, leader epochs never decrease, leader-epoch-checkpoint
contains the first offset of each epoch, and index entries point at batches. The check reads the
header of every batch once, verifies no CRC and changes no file. Kafka has no such check.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.brokers.logs.batch_file import BatchFile
from klamm.brokers.logs.checkpoints import EpochEntry
from klamm.brokers.logs.errors import CorruptRecord, DamagedLog
from klamm.brokers.logs.leader_epoch_cache import (
    EpochEntries,
    truncate_from_end,
    truncate_from_start,
)
from klamm.brokers.logs.producer_state import ProducerStates
from klamm.brokers.logs.record_batch import BatchHeader
from klamm.brokers.logs.segment import LogSegment
from klamm.cluster.records import NO_TIMESTAMP
from klamm.cluster.types import NO_EPOCH

_NO_ENTRY: Final = (0, 1 << 62)


def inspect(segments: Iterable[LogSegment], *, has_gaps: bool = False) -> Inspection:
    """Check all batches and indexes of a log.

    If ``has_gaps`` is True, offsets may be missing because a log cleaner removed them. Raises
    DamagedLog at the first batch that cannot be read or does not follow the previous batch.
    """
    inspection = Inspection(has_gaps)
    for segment in segments:
        inspection.walk(segment)
    return inspection


class Inspection:
    """The consistency check of one log, updated with each segment.

    - ``epochs``: every leader epoch and its first offset.
    - ``producers``: the last batches of each idempotent producer.
    - ``misindexed``: segments whose indexes do not match their batches.
    - ``next_offset``: the offset after the last batch; None if the log has no segment.
    """

    def __init__(self, has_gaps: bool) -> None:
        self.epochs: EpochEntries = ()
        self.producers = ProducerStates()
        self.misindexed: list[LogSegment] = []
        self.next_offset: int | None = None
        self._has_gaps = has_gaps
        self._epoch = NO_EPOCH

    def walk(self, segment: LogSegment) -> None:
        """Check the batches and the indexes of the next segment.

        An entry of the offset index must point at a batch that does not begin after the entry's
        offset; otherwise a search would skip records. An entry of the time index must contain the
        largest timestamp up to its offset. The offsets in both indexes are relative.
        """
        self._check_segment(segment)
        log, first, is_wrong = segment.log, segment.base_offset, False
        entries = segment.offset_index.entry.iter_unpack(segment.offset_index.entries)
        times = segment.time_index.entry.iter_unpack(segment.time_index.entries)
        entry_offset, entry_position = next(entries, _NO_ENTRY)
        entry_ms, time_offset = next(times, _NO_ENTRY)
        next_offset, latest_ms = first, NO_TIMESTAMP
        try:
            for position, header in log.batches():
                base_offset, max_ms = header.base_offset, header.max_timestamp_ms
                if base_offset != next_offset or header.leader_epoch != self._epoch:
                    self._step(log, position, header, next_offset)
                next_offset = base_offset + header.last_offset_delta + 1
                if max_ms > latest_ms:
                    latest_ms = max_ms
                if position >= entry_position:
                    is_wrong |= position > entry_position or base_offset > first + entry_offset
                    entry_offset, entry_position = next(entries, _NO_ENTRY)
                if next_offset - first > time_offset:
                    is_wrong |= entry_ms != latest_ms
                    entry_ms, time_offset = next(times, _NO_ENTRY)
                if header.producer_id >= 0:
                    self.producers.update(header.producer_batch)
        except CorruptRecord as error:
            raise DamagedLog(error.message, offset=next_offset) from error
        if is_wrong or entry_position != _NO_ENTRY[1] or time_offset != _NO_ENTRY[1]:
            self.misindexed.append(segment)
        self.next_offset = next_offset

    def _check_segment(self, segment: LogSegment) -> None:
        end, base_offset = self.next_offset, segment.base_offset
        if end is None or base_offset == end or (self._has_gaps and base_offset > end):
            return
        raise DamagedLog(
            f"offsets from {end} onward are missing: the next file is {segment.log.path}"
            if base_offset > end
            else f"{segment.log.path} begins before offset {end}, where the previous file ends",
            offset=min(end, base_offset),
        )

    def _step(self, log: BatchFile, position: int, header: BatchHeader, next_offset: int) -> None:
        """Check a batch that starts a leader epoch or follows a gap.

        Raises CorruptRecord for an invalid offset. If the leader epoch decreases, this epoch or the
        previous epoch may be wrong: raises DamagedLog with the start offset of the previous epoch.
        """
        base_offset, epoch = header.base_offset, header.leader_epoch
        if base_offset < next_offset or (base_offset > next_offset and not self._has_gaps):
            raise log.damaged(f"Offset {base_offset} does not follow {next_offset - 1}", position)
        if epoch < self._epoch:
            before = self.epochs[-1] if self.epochs else EpochEntry(NO_EPOCH, base_offset)
            error = log.damaged(
                f"Leader epoch {epoch} at offset {base_offset} is less than the previous leader "
                f"epoch {before.epoch}",
                position,
            )
            raise DamagedLog(error.message, offset=before.start_offset)
        if epoch > self._epoch:
            self._epoch = epoch
            self.epochs = (*self.epochs, EpochEntry(epoch, base_offset))


def epochs_between(found: EpochEntries, start_offset: int, end_offset: int) -> EpochEntries:
    """Return the entries of ``found``, the epochs of all batches, that fall in an offset range."""
    return truncate_from_end(truncate_from_start(found, start_offset), end_offset)


def agreed_epochs(
    found: EpochEntries, recorded: EpochEntries, start_offset: int, end_offset: int
) -> EpochEntries | None:
    """Return the leader epochs in an offset range, or None if the checkpoint contradicts them.

    - ``found``: the epochs of all batches.
    - ``recorded``: the epochs in leader-epoch-checkpoint. An epoch that starts at the log end has
      no records and is ignored.
    """
    epochs = epochs_between(found, start_offset, end_offset)
    return epochs if truncate_from_end(recorded, end_offset) == epochs else None
