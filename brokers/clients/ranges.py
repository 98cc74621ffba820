"""What clients remember of records: stretches of offsets, never one record after the other.

Values only, which grow by what follows on their end; who reads them decides what they mean.
"""

from __future__ import annotations

from typing import NamedTuple

from brokers.logs.record_batch import check_batches
from cluster.api_errors import Errors
from cluster.records import Records


class Stretch(NamedTuple):
    """Records of one leader epoch at offsets ``start`` to ``end`` (exclusive)."""

    leader_epoch: int
    start: int
    end: int


class Acknowledged(NamedTuple):
    """Records that a producer sent as its ``first_number``-th of a partition and the following
    ones, and where they are."""

    first_number: int
    stretch: Stretch


class Unacknowledged(NamedTuple):
    """Records that a producer sent and has no acknowledgement of. ``text`` says it in words.

    ``error`` NONE: with acks 0 nobody acknowledges anything.
    """

    first_number: int
    record_count: int
    error: Errors
    text: str


def add_stretch(stretches: list[Stretch], added: Stretch) -> None:
    """Append a stretch, or make the last one longer if it follows on it."""
    if stretches:
        last = stretches[-1]
        if last.leader_epoch == added.leader_epoch and last.end == added.start:
            stretches[-1] = last._replace(end=added.end)
            return
    stretches.append(added)


def add_acknowledged(known: list[Acknowledged], added: Acknowledged) -> None:
    """Append what was acknowledged, or make the last one longer if numbers and offsets follow."""
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


def stretches_of(records: Records, offset: int) -> list[Stretch]:
    """What records hold from ``offset`` on. Raises CorruptRecord for bytes that are no batches or
    whose CRC is another."""
    found: list[Stretch] = []
    if isinstance(records, bytes):
        for header in check_batches(records):
            if header.next_offset > offset:
                start = max(header.base_offset, offset)
                add_stretch(found, Stretch(header.leader_epoch, start, header.next_offset))
        return found
    for interval in records.intervals:
        if interval.end > offset:
            start = max(interval.start, offset)
            add_stretch(found, Stretch(interval.leader_epoch, start, interval.end))
    return found
