"""A producer's batches: what is in them, how often they were sent, and their sequence numbers.

Values that the producer changes; nothing is sent here. Mirrors ProducerBatch of
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
    """Records for logs that only count."""

    record_count: int
    size_bytes: int


Payload = Counted | tuple[Record, ...]
"""What a batch holds, by the kind of log that it is for."""


class ProducerIdAndEpoch(NamedTuple):
    """Who an idempotent producer is."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NO_PRODUCER: Final = ProducerIdAndEpoch()


def record_count(payload: Payload) -> int:
    """How many records there are."""
    return payload.record_count if isinstance(payload, Counted) else len(payload)


def size_bytes(payload: Payload) -> int:
    """Memory of its keys and values; 0 for records that are only counted."""
    if isinstance(payload, Counted):
        return 0
    return sum(len(one.key or b"") + len(one.value or b"") for one in payload)


class Batch(msgspec.Struct, eq=False):
    """Records that go to a partition together, the first of them its ``first_number``-th.

    ``attempts``: how often it was sent. ``retry_ms``: not before then. ``is_in_doubt``: an attempt
    may have stored it, although it was not acknowledged. ``is_reset``: it was given another
    sequence than it was first sent with.
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
        """The sequence of the record that follows its last one."""
        return (self.base_sequence + self.record_count) % (SEQUENCE_MAX + 1)

    def produced(self, compression: str) -> Produced:
        """What is sent to the broker."""
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

    ``waiting`` are to be sent, in this order; ``sent`` wait for an answer. ``tracked``: those that
    have a sequence and are not decided, in its order. ``acked_sequence``: the last sequence that
    was acknowledged, -1 before the first. ``unresolved_sequence``: what follows on a batch that
    was given up and may be stored; until all others are decided no new one is sent.
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
        """True if it follows on what was acknowledged last."""
        return sequence == (self.acked_sequence + 1) % (SEQUENCE_MAX + 1)

    def begin_at(self, producer: ProducerIdAndEpoch) -> None:
        """Number what is not decided from 0 on, at another epoch."""
        self.producer = producer
        self.next_sequence = 0
        self.acked_sequence = NO_SEQUENCE
        self.unresolved_sequence = None
        for batch in self.tracked:
            batch.producer, batch.base_sequence = producer, self.next_sequence
            batch.is_reset = True
            self.next_sequence = batch.next_sequence

    def assign(self, batch: Batch) -> None:
        """Give a batch the next sequence."""
        batch.producer, batch.base_sequence = self.producer, self.next_sequence
        self.next_sequence = batch.next_sequence
        self.tracked.append(batch)

    def put_back(self, batch: Batch) -> None:
        """A batch is to be sent again: first, but in the order of sequences if it has one."""
        if batch not in self.tracked:
            self.waiting.appendleft(batch)
            return
        retried = [one for one in self.waiting if one in self.tracked]
        fresh = [one for one in self.waiting if one not in self.tracked]
        retried.append(batch)
        retried.sort(key=self.tracked.index)
        self.waiting = deque((*retried, *fresh))
