"""What clients remember of records: stretches of offsets, never one record after the other.

Values only, which grow by what follows on their end; who reads them decides what they mean.
"""

from __future__ import annotations

from typing import NamedTuple

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import checked_batches
from klamm.brokers.logs.spoilt_batch import SpoiltBatch, spoilt_at
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import Records, Stretch


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


class Readable(NamedTuple):
    """Records up to the first batch that is spoilt, what they hold, and that batch if there is
    one."""

    records: Records
    stretches: list[Stretch]
    spoilt: SpoiltBatch | None = None


def readable_part(records: Records, offset: int) -> Readable:
    """What a consumer at ``offset`` may be handed of what it fetched."""
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
        spoilt = spoilt_at(records, read_bytes, next_offset, str(error))
        return Readable(records[:read_bytes], found, spoilt)
    return Readable(records, found)


def _add_from(stretches: list[Stretch], offset: int, added: Stretch) -> None:
    if added.end > offset:
        add_stretch(stretches, added._replace(start=max(added.start, offset)))
