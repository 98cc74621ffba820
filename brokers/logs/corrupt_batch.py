"""Finds the first corrupt batch in fetched records, and the offset of the batch after it.

A broker does not verify the batches that it sends, so followers and consumers have to detect
corrupt batches. The functions are pure. The error messages mirror those of
org.apache.kafka.clients.consumer.internals.Fetcher.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.record_batch import BatchHeader, checked_batches, parse_header


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


class ReadableBatches(NamedTuple):
    """Headers of the batches before the first corrupt one, and that one; None if all are valid."""

    headers: list[BatchHeader]
    corrupt: CorruptBatch | None = None


def readable_batches(records: bytes, offset: int) -> ReadableBatches:
    """Verify the batches in ``records``, up to the first corrupt one.

    ``offset`` is the fetch offset. If the header of a corrupt batch is corrupt, too, the batch is
    taken to begin where the previous batch ends, or at the fetch offset if it is the first.
    """
    headers: list[BatchHeader] = []
    try:
        for _, header in checked_batches(records):
            headers.append(header)
    except ReplicaLogError as error:
        position = sum(header.size_bytes for header in headers)
        try:
            header = parse_header(records, position)
        except (ReplicaLogError, struct.error):
            begin = headers[-1].next_offset if headers else offset
            return ReadableBatches(headers, CorruptBatch(begin, -1, str(error)))
        corrupt = CorruptBatch(header.base_offset, header.next_offset, str(error))
        return ReadableBatches(headers, corrupt)
    return ReadableBatches(headers)
