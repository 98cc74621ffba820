"""Offset ranges that clients record, instead of one entry for each record.

Only values; a range that continues the last one extends it.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.brokers.logs.corrupt_batch import CorruptBatch, corrupt_batch_at
from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import checked_batches
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import Records, Stretch


class Acknowledged(NamedTuple):
    """A stretch of acknowledged records; ``first_number``: the producer's number of the first."""

    first_number: int
    stretch: Stretch


class Unacknowledged(NamedTuple):
    """Records that were sent and not acknowledged. ``text``: the reason in words.

    ``error`` NONE: sent with acks 0, which are never acknowledged.
    """

    first_number: int
    record_count: int
    error: Errors
    text: str


def add_stretch(stretches: list[Stretch], added: Stretch) -> None:
    """Append a stretch, or extend the last one if the new one continues it."""
    if stretches:
        last = stretches[-1]
        if last.leader_epoch == added.leader_epoch and last.end == added.start:
            stretches[-1] = last._replace(end=added.end)
            return
    stretches.append(added)


def add_acknowledged(known: list[Acknowledged], added: Acknowledged) -> None:
    """Append acknowledged records; extend the last entry if numbers and offsets continue it."""
    if known:
        number, stretch = known[-1]
        follows = (
            number + stretch.end - stretch.start == added.first_number
            and stretch.end == added.stretch.start
            and stretch.leader_epoch == added.stretch.leader_epoch
        )
        if follows:
            known[-1] = Acknowledged(number, stretch._replace(end=added.stretch.end))
            return
    known.append(added)


class Readable(NamedTuple):
    """Fetched records before the first corrupt batch, their stretches, and that batch if any."""

    records: Records
    stretches: list[Stretch]
    corrupt: CorruptBatch | None = None


def readable_part(records: Records, offset: int) -> Readable:
    """Return what a consumer at ``offset`` may receive of the fetched records."""
    found: list[Stretch] = []
    if not isinstance(records, bytes):
        for interval in records.intervals:
            _add_from(found, offset, Stretch(interval.leader_epoch, interval.start, interval.end))
        return Readable(records, found)
    read_bytes, next_offset = 0, offset
    try:
        for position, header in checked_batches(records):
            read_bytes, next_offset = position + header.size_bytes, header.next_offset
            _add_from(found, offset, Stretch(header.leader_epoch, header.base_offset, next_offset))
    except ReplicaLogError as error:
        corrupt = corrupt_batch_at(records, read_bytes, next_offset, str(error))
        return Readable(records[:read_bytes], found, corrupt)
    return Readable(records, found)


def _add_from(stretches: list[Stretch], offset: int, added: Stretch) -> None:
    if added.end > offset:
        add_stretch(stretches, added._replace(start=max(added.start, offset)))
