"""Finds the first corrupt batch in fetched records, and the offset of the batch after it.

A broker does not verify the batches that it sends, so followers and consumers have to detect
corrupt batches. The functions are pure. The error messages mirror those of
org.apache.kafka.clients.consumer.internals.Fetcher.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import checked_batches, parse_header


class CorruptBatch(NamedTuple):
    """A corrupt batch in fetched records.

    - ``offset``: first offset of the batch.
    - ``next_offset``: the offset after the last record, according to the batch header; -1 if the
      header itself is corrupt.
    - ``reason``: Kafka's error message.
    """

    offset: int
    next_offset: int
    reason: str


def first_corrupt_batch(records: bytes, offset: int) -> CorruptBatch | None:
    """Return the first corrupt batch in ``records``, or None if all batches are valid.

    ``offset`` is the fetch offset. It is used as the offset of the first batch if the header of
    that batch is corrupt.
    """
    read_bytes = 0
    try:
        for position, header in checked_batches(records):
            read_bytes, offset = position + header.size_bytes, header.next_offset
    except ReplicaLogError as error:
        return corrupt_batch_at(records, read_bytes, offset, str(error))
    return None


def corrupt_batch_at(records: bytes, position: int, offset: int, reason: str) -> CorruptBatch:
    """Return a description of the corrupt batch at a byte position.

    ``offset`` is the offset after the previous batch. It is used as the offset of the corrupt batch
    if the header of the corrupt batch cannot be read.
    """
    try:
        header = parse_header(records, position)
    except (ReplicaLogError, struct.error):
        return CorruptBatch(offset, -1, reason)
    return CorruptBatch(header.base_offset, header.next_offset, reason)
