"""Ranges of offsets that clients sent and read, which replace lists of single records.

Each stretch is a range of offsets in one leader epoch. Adjacent stretches are merged.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.brokers.logs.corrupt_batch import CorruptBatch, readable_batches
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import Records, Stretch


class Acknowledged(NamedTuple):
    """A stretch of acknowledged records.

    ``first_number`` is the position of the first record among all records that the producer sent to
    the partition.
    """

    first_number: int
    stretch: Stretch


class Unacknowledged(NamedTuple):
    """Records that were not acknowledged: their batch failed, or was sent with acks 0.

    - ``error``: error of the last attempt to send the batch, or NONE.
    - ``text``: additional reason, such as an expired delivery timeout; may be empty.
    """

    first_number: int
    record_count: int
    error: Errors
    text: str


def add_stretch(stretches: list[Stretch], added: Stretch) -> None:
    """Append a stretch, or extend the last stretch if the new one continues it."""
    if stretches:
        last = stretches[-1]
        if last.leader_epoch == added.leader_epoch and last.end == added.start:
            stretches[-1] = last._replace(end=added.end)
            return
    stretches.append(added)


def add_acknowledged(known: list[Acknowledged], added: Acknowledged) -> None:
    """Append acknowledged records, or extend the last entry if the records continue it."""
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
    """The part of fetched records that precedes the first corrupt batch.

    - ``stretches``: the offset ranges of the records, one for each leader epoch.
    - ``corrupt``: the corrupt batch; None if all batches are valid.
    """

    records: Records
    stretches: list[Stretch]
    corrupt: CorruptBatch | None = None


def readable_part(records: Records, offset: int) -> Readable:
    """Return the records before the first corrupt batch, and their offset ranges.

    Offsets before ``offset`` are omitted from the ranges.
    """
    found: list[Stretch] = []
    if not isinstance(records, bytes):
        for interval in records.intervals:
            _add_from(found, offset, Stretch(interval.leader_epoch, interval.start, interval.end))
        return Readable(records, found)
    headers, corrupt = readable_batches(records, offset)
    for header in headers:
        stretch = Stretch(header.leader_epoch, header.base_offset, header.next_offset)
        _add_from(found, offset, stretch)
    return Readable(records[: sum(header.size_bytes for header in headers)], found, corrupt)


def _add_from(stretches: list[Stretch], offset: int, added: Stretch) -> None:
    if added.end > offset:
        add_stretch(stretches, added._replace(start=max(added.start, offset)))
