"""A producer's batches: their records, send attempts and sequence numbers.

Mutable values that the producer changes; nothing is sent here. Mirrors ProducerBatch of
org.apache.kafka.clients.producer.internals, and TopicPartitionEntry of its TransactionManager.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

import msgspec

from klamm.brokers.logs.records import Record, encode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    CountedBatch,
    Produced,
)


class Counted(NamedTuple):
    """Number and size of records sent to in-memory (offset-only) logs."""

    record_count: int
    size_bytes: int


Payload = Counted | tuple[Record, ...]
"""The contents of a batch: records, or only their count for offset-only logs."""


class ProducerIdAndEpoch(NamedTuple):
    """Identity of an idempotent producer: producer id and epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER: Final = ProducerIdAndEpoch()


def record_count(payload: Payload) -> int:
    """Return the number of records in a payload."""
    return payload.record_count if isinstance(payload, Counted) else len(payload)


def size_bytes(payload: Payload) -> int:
    """Return the bytes of all keys and values; 0 for counted records."""
    if isinstance(payload, Counted):
        return 0
    return sum(len(one.key or b"") + len(one.value or b"") for one in payload)


class Batch(msgspec.Struct, eq=False):
    """Records sent to one partition as a unit.

    ``first_number``: the producer's number of its first record in the partition.
    ``attempts``: how often it was sent. ``retry_ms``: earliest time of the next attempt.
    ``is_in_doubt``: an unacknowledged attempt may have stored it. ``is_reset``: its sequence was
    renumbered after the first send.
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
        """The sequence number that follows this batch."""
        return (self.base_sequence + self.record_count) % (SEQUENCE_MAX + 1)

    def produced(self, compression: str) -> Produced:
        """Return the batch as a produce request carries it."""
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
    """The batches of one partition, and the sequences of an idempotent producer there.

    ``waiting``: queued, in send order. ``sent``: awaiting a response. ``tracked``: batches that
    have a sequence and are undecided, in sequence order. ``acked_sequence``: the last acknowledged
    sequence, -1 before the first. ``unresolved_sequence``: the sequence after an expired batch that
    may be stored; no new batch is sent until all other batches are decided.
    """

    waiting: deque[Batch] = msgspec.field(default_factory=deque)
    sent: list[Batch] = msgspec.field(default_factory=list)
    tracked: list[Batch] = msgspec.field(default_factory=list)
    next_number: int = 0
    producer: ProducerIdAndEpoch = NO_PRODUCER
    next_sequence: int = 0
    acked_sequence: int = NO_SEQUENCE
    unresolved_sequence: int | None = None

    def is_next_sequence(self, sequence: int) -> bool:
        """Return True if ``sequence`` follows the last acknowledged one."""
        return sequence == (self.acked_sequence + 1) % (SEQUENCE_MAX + 1)

    def begin_at(self, producer: ProducerIdAndEpoch) -> None:
        """Renumber all undecided batches from sequence 0, at another producer epoch."""
        self.producer = producer
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE
        self.unresolved_sequence = None
        for batch in self.tracked:
            batch.producer, batch.base_sequence = producer, self.next_sequence
            batch.is_reset = True
            self.next_sequence = batch.next_sequence

    def assign(self, batch: Batch) -> None:
        """Assign the next sequence to a batch."""
        batch.producer, batch.base_sequence = self.producer, self.next_sequence
        self.next_sequence = batch.next_sequence
        self.tracked.append(batch)

    def put_back(self, batch: Batch) -> None:
        """Requeue a batch at the front; batches with sequences stay in sequence order."""
        if batch not in self.tracked:
            self.waiting.appendleft(batch)
            return
        retried = [one for one in self.waiting if one in self.tracked]
        fresh = [one for one in self.waiting if one not in self.tracked]
        retried.append(batch)
        retried.sort(key=self.tracked.index)
        self.waiting = deque((*retried, *fresh))
