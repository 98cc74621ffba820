"""A producer's batches, with their records, send attempts and sequence numbers.

producer.py decides which batches to send, retry or fail. Mirrors ProducerBatch and
TransactionManager.TopicPartitionEntry of org.apache.kafka.clients.producer.internals.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import msgspec

from klamm.brokers.logs.record_batch import parse_header
from klamm.brokers.logs.records import encode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CountedBatch,
    Produced,
    Record,
    increment_sequence,
)
from klamm.cluster.types import TopicPartition


class Counted(NamedTuple):
    """Record count and total size, sent in place of records to an in-memory (offset-only) log."""

    record_count: int
    size_bytes: int


Payload = Counted | tuple[Record, ...]
"""The contents of a batch: records, or only their count and size for offset-only logs."""


class ProducerIdAndEpoch(NamedTuple):
    """Identity of an idempotent producer: producer id and epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER: Final = ProducerIdAndEpoch()


def record_count(payload: Payload) -> int:
    """Return the number of records in a payload."""
    return payload.record_count if isinstance(payload, Counted) else len(payload)


def produced_count(batch: Produced) -> int:
    """Return the number of records in a batch of a Produce request."""
    if isinstance(batch, CountedBatch):
        return batch.record_count
    # The producer sets the base offset to 0, so the next offset is the number of records.
    return parse_header(batch).next_offset


def size_bytes(payload: Payload) -> int:
    """Return the total size of all keys and values in bytes, or 0 for a Counted payload."""
    if isinstance(payload, Counted):
        return 0
    return sum(len(one.key or b"") + len(one.value or b"") for one in payload)


class Batch(msgspec.Struct, eq=False):
    """Records that are sent to one partition as a unit.

    - ``first_number``: position of the first record among all records that the producer sent to
      the partition.
    - ``attempts``: number of times the batch was sent.
    - ``retry_ms``: earliest time of the next attempt, in monotonic milliseconds.
    - ``is_in_doubt``: the leader may have appended the batch without acknowledging it.
    - ``is_reset``: the sequence numbers were changed after the batch was first sent.
    """

    first_number: int
    record_count: int
    payload: Payload
    created_ms: float
    size_bytes: int = 0
    attempts: int = 0
    retry_ms: float = 0.0
    is_in_doubt: bool = False
    producer: ProducerIdAndEpoch = NO_PRODUCER
    base_sequence: int = NO_SEQUENCE
    is_reset: bool = False
    last_error: Errors = Errors.NONE

    @property
    def next_sequence(self) -> int:
        """The sequence number of the record that follows this batch."""
        return increment_sequence(self.base_sequence, self.record_count)

    def produced(self, compression: str) -> Produced:
        """Encode the batch for a Produce request."""
        producer_id, epoch = self.producer
        if isinstance(self.payload, Counted):
            count, size_bytes = self.payload
            return CountedBatch(
                count,
                size_bytes,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self.base_sequence,
            )
        return encode_batch(
            self.payload,
            compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self.base_sequence,
        )


class PartitionBatches(msgspec.Struct, eq=False):
    """The batches of one partition, and an idempotent producer's sequence numbers for it.

    - ``waiting``: queued batches, in send order.
    - ``sent``: batches that await a response.
    - ``tracked``: batches that have a sequence number and are neither acknowledged nor failed, in
      sequence order.
    - ``acked_sequence``: the last acknowledged sequence number, -1 before the first.
    - ``unresolved_sequence``: set after a batch has failed, if it is unknown whether the leader
      appended that batch. The value is the sequence number that follows the batch. No new batch is
      sent until all other tracked batches are acknowledged or have failed.
    """

    topic_partition: TopicPartition
    waiting: deque[Batch] = msgspec.field(default_factory=deque)
    sent: list[Batch] = msgspec.field(default_factory=list)
    tracked: list[Batch] = msgspec.field(default_factory=list)
    next_number: int = 0
    producer: ProducerIdAndEpoch = NO_PRODUCER
    next_sequence: int = 0
    acked_sequence: int = NO_SEQUENCE
    unresolved_sequence: int | None = None

    def is_next_sequence(self, sequence: int) -> bool:
        """Return True if ``sequence`` follows the last acknowledged sequence number."""
        return sequence == increment_sequence(self.acked_sequence, 1)

    def begin_at(self, producer: ProducerIdAndEpoch) -> None:
        """Renumber all tracked batches from sequence number 0, with a new producer id or epoch."""
        self.producer = producer
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE
        self.unresolved_sequence = None
        for batch in self.tracked:
            batch.producer, batch.base_sequence = producer, self.next_sequence
            batch.is_reset = True
            self.next_sequence = batch.next_sequence

    def assign(self, batch: Batch) -> None:
        """Assign the next sequence numbers to a batch."""
        batch.producer, batch.base_sequence = self.producer, self.next_sequence
        self.next_sequence = batch.next_sequence
        self.tracked.append(batch)

    def put_back(self, batch: Batch) -> None:
        """Return a batch to the front of the queue, so that it is retried.

        Batches that already have sequence numbers stay in sequence order.
        """
        if batch not in self.tracked:
            self.waiting.appendleft(batch)
            return
        retried = [one for one in self.waiting if one in self.tracked]
        fresh = [one for one in self.waiting if one not in self.tracked]
        retried.append(batch)
        retried.sort(key=self.tracked.index)
        self.waiting = deque((*retried, *fresh))
