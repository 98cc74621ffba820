"""Detection of the first corrupt batch in fetched records, and the offset where the next begins.

Brokers send batches unchecked, so followers and consumers detect the corruption. Pure. Mirrors
the messages of org.apache.kafka.clients.consumer.internals.Fetcher for invalid batches.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import checked_batches, parse_header


class CorruptBatch(NamedTuple):
    """A fetched batch that is corrupt. ``offset``: its first offset.

    ``next_offset``: the offset after it by its header; -1 if the header is corrupt, too.
    ``reason``: Kafka's message."""

    offset: int
    next_offset: int
    reason: str


def first_corrupt_batch(records: bytes, offset: int) -> CorruptBatch | None:
    """Return the first corrupt batch from ``offset`` on; None if all are valid."""
    read_bytes = 0
    try:
        for position, header in checked_batches(records):
            read_bytes, offset = position + header.size_bytes, header.next_offset
    except ReplicaLogError as error:
        return corrupt_batch_at(records, read_bytes, offset, str(error))
    return None


def corrupt_batch_at(records: bytes, position: int, offset: int, reason: str) -> CorruptBatch:
    """Return the corrupt batch at a position; ``offset``: the end of the batch before it."""
    try:
        header = parse_header(records, position)
    except (ReplicaLogError, struct.error):
        return CorruptBatch(offset, -1, reason)
    return CorruptBatch(header.base_offset, header.next_offset, reason)
