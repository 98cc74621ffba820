"""Which batch of what was read is the first that is spoilt, and where the next one begins.

Brokers do not look at what they send: followers and consumers, who read it, meet it. Pure. Mirrors
what org.apache.kafka.clients.consumer.internals.Fetcher says of a batch that is not valid.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import checked_batches, parse_header


class SpoiltBatch(NamedTuple):
    """A batch that was fetched and cannot be read: its first offset, the first after it as far as
    its header says (-1: that is spoilt, too), and Kafka's words for what is wrong."""

    offset: int
    next_offset: int
    reason: str


def first_spoilt(records: bytes, offset: int) -> SpoiltBatch | None:
    """The first batch of records from ``offset`` on that is spoilt; None if all are whole."""
    read_bytes = 0
    try:
        for position, header in checked_batches(records):
            read_bytes, offset = position + header.size_bytes, header.next_offset
    except ReplicaLogError as error:
        return spoilt_at(records, read_bytes, offset, str(error))
    return None


def spoilt_at(records: bytes, position: int, offset: int, reason: str) -> SpoiltBatch:
    """What can be said of a spoilt batch at a position; ``offset``: where the one before ends."""
    try:
        header = parse_header(records, position)
    except (ReplicaLogError, struct.error):
        return SpoiltBatch(offset, -1, reason)
    return SpoiltBatch(header.base_offset, header.next_offset, reason)
