"""A producer: queues, sends and retries batches, and keeps the outcome of every batch.

The producer does no I/O and reads no clock: messages are passed in and returned as values, and the
time is an argument. The caller calls ``on_timer`` at the time returned by ``next_due_ms``. As in
Kafka, records can be reordered only without idempotence and with more than one request in flight.
Mirrors Sender, RecordAccumulator and the idempotence part of TransactionManager in
org.apache.kafka.clients.producer.internals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import InitProducerIdRequest, InitProducerIdResponse
from klamm.cluster.data_requests import ProducedPartition, ProduceRequest, ProduceResponse
from klamm.cluster.records import NO_SEQUENCE, Stretch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from klamm.world.clients.batches import (
    NO_PRODUCER,
    Batch,
    PartitionBatches,
    Payload,
    ProducerIdAndEpoch,
    record_count,
    size_bytes,
)
from klamm.world.clients.config import ProducerConfig
from klamm.world.clients.network_client import Ended, NetworkClient
from klamm.world.clients.ranges import Acknowledged, Unacknowledged, add_acknowledged
from klamm.world.clients.retriable import INVALID_METADATA, RETRIABLE

EPOCH_MAX = 2**15 - 1


class Idempotence:
    """Producer id, epoch and sequence numbers of an idempotent producer.

    If a batch is lost for good, its sequence numbers are missing in the partition. The producer
    then bumps its epoch and numbers the remaining batches from 0.
    """

    def __init__(self) -> None:
        self.producer = NO_PRODUCER
        self._to_renumber: list[PartitionBatches] = []

    def begin(self, producer_id: int, epoch: int) -> None:
        """Adopt the producer id and epoch assigned by the broker."""
        self.producer = ProducerIdAndEpoch(producer_id, epoch)

    def bump_epoch_if_needed(self) -> None:
        """Bump the epoch if a partition has a permanent gap in its sequence numbers.

        At the maximum epoch, discard the producer id instead, so that a new id is requested.
        """
        if not self._to_renumber:
            return
        if self.producer.epoch >= EPOCH_MAX:
            self.producer = NO_PRODUCER
            return
        self.producer = ProducerIdAndEpoch(self.producer.producer_id, self.producer.epoch + 1)
        for partition in self._to_renumber:
            partition.begin_at(self.producer)
        self._to_renumber.clear()

    def may_send(self, partition: PartitionBatches, batch: Batch) -> bool:
        """Return True if the rules for sequence numbers allow a queued batch to be sent now."""
        if self.producer == NO_PRODUCER:
            return False
        if batch in partition.tracked:
            # Batches are retried one at a time until the rejected batch is accepted.
            return partition.tracked[0] is batch
        if partition.unresolved_sequence is not None:
            return False
        return partition.producer == self.producer or not partition.tracked

    def awaits_first(self, partition: PartitionBatches, batch: Batch) -> bool:
        """Return True if a new batch must wait until the producer's first batch is acknowledged.

        A leader without any batch of the producer accepts a batch with any sequence number
        (KAFKA-14359). After a leader change it could accept a later batch before the first batch,
        and would then reject the first batch forever.
        """
        is_new = batch not in partition.tracked
        return is_new and bool(partition.tracked) and partition.acked_sequence == NO_SEQUENCE

    def assign_sequence(self, partition: PartitionBatches, batch: Batch) -> None:
        """Assign a sequence number to a batch that is about to be sent, unless it has one."""
        if batch in partition.tracked:
            return
        if partition.producer != self.producer:
            partition.begin_at(self.producer)
        partition.assign(batch)

    def on_acknowledged(self, partition: PartitionBatches, batch: Batch) -> None:
        """Record that the leader has stored a batch."""
        if batch in partition.tracked:
            partition.tracked.remove(batch)
            last = batch.next_sequence - 1
            if batch.producer == partition.producer:
                partition.acked_sequence = max(partition.acked_sequence, last)
        self._resolve(partition)

    def can_retry(self, partition: PartitionBatches, batch: Batch, error: Errors) -> bool:
        """Return True if a rejected batch should be retried.

        A leader rejects a batch that leaves a gap in the sequence numbers. If earlier batches are
        still to be retried, they fill the gap. Otherwise the gap is permanent, and the batches of
        the partition are renumbered in a new epoch.
        """
        is_unresolved = partition.unresolved_sequence is not None
        if error is Errors.UNKNOWN_PRODUCER_ID:
            self._renumber(partition)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            is_behind = batch.is_reset or not partition.is_next_sequence(batch.base_sequence)
            is_after_it = batch.base_sequence == partition.unresolved_sequence
            if is_after_it if is_unresolved else not is_behind:
                self._renumber(partition)
            return True
        return error in RETRIABLE

    def on_failed(self, partition: PartitionBatches, batch: Batch) -> None:
        """Stop tracking a batch that has failed.

        If the leader may have appended the batch, the partition's other batches are not renumbered
        yet, because there is no gap if the leader accepts a later batch.
        """
        if batch not in partition.tracked:
            return
        partition.tracked.remove(batch)
        if not batch.is_in_doubt:
            self._renumber(partition)
        else:
            after = max(batch.next_sequence, partition.unresolved_sequence or 0)
            partition.unresolved_sequence = after
        self._resolve(partition)

    def _resolve(self, partition: PartitionBatches) -> None:
        if partition.unresolved_sequence is None or partition.tracked:
            return
        if partition.is_next_sequence(partition.next_sequence):
            partition.unresolved_sequence = None
        else:
            self._renumber(partition)

    def _renumber(self, partition: PartitionBatches) -> None:
        if partition not in self._to_renumber:
            self._to_renumber.append(partition)


_IN_DOUBT: Final = (
    Errors.NETWORK_EXCEPTION,
    Errors.REQUEST_TIMED_OUT,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors after which the records may or may not be stored."""

_DISCONNECTED: Final = ProducedPartition(Errors.NETWORK_EXCEPTION)


class Producer:
    """One producer. Times are in monotonic milliseconds.

    ``bootstrap`` contains the ids of the brokers to contact first. Records are numbered from 0 in
    each partition, in the order of ``send`` calls. The outcomes of records, keyed by partition:

    - ``acknowledged``: stored records, in the order of the responses.
    - ``failed``: records that are certainly not stored.
    - ``indefinite``: records that may or may not be stored.
    """

    def __init__(
        self, address: Address, bootstrap: Iterable[int], config: ProducerConfig | None = None
    ) -> None:
        self.address = address
        self.config = config or ProducerConfig()
        self.network = NetworkClient(address, self.config, bootstrap)
        self.acknowledged: dict[TopicPartition, list[Acknowledged]] = {}
        self.failed: dict[TopicPartition, list[Unacknowledged]] = {}
        self.indefinite: dict[TopicPartition, list[Unacknowledged]] = {}
        self._partitions: dict[TopicPartition, PartitionBatches] = {}
        self._undecided: dict[TopicPartition, PartitionBatches] = {}
        self._due_ms = math.inf
        self._requests: dict[int, dict[TopicPartition, Batch]] = {}
        self._identity = Idempotence() if self.config.enable_idempotence else None
        self._init_number: int | None = None
        self._init_ms = -math.inf

    # -- interface for callers

    def send(self, tp: TopicPartition, payload: Payload, now_ms: float) -> int:
        """Queue records, which ``on_timer`` sends; return the number of the first record."""
        count = record_count(payload)
        assert count > 0
        self.network.metadata.add_topic(tp.topic)
        partition = self._partitions.setdefault(tp, PartitionBatches(tp))
        batch = Batch(partition.next_number, count, payload, now_ms, size_bytes(payload))
        partition.next_number += count
        partition.waiting.append(batch)
        self._undecided[tp] = partition
        self._due_ms = min(self._due_ms, now_ms)
        return batch.first_number

    @property
    def undecided_count(self) -> int:
        """Number of records without an outcome: still queued, or awaiting a response."""
        return sum(map(self.undecided_in, self._undecided))

    def undecided_in(self, tp: TopicPartition) -> int:
        """Return the number of records without an outcome in one partition."""
        partition = self._undecided.get(tp)
        if partition is None:
            return 0
        return sum(batch.record_count for batch in (*partition.waiting, *partition.sent))

    def undecided_batch_sizes(self) -> Iterator[int]:
        """Yield the size in bytes (keys and values) of each batch that has no outcome yet."""
        for partition in self._undecided.values():
            for batch in (*partition.waiting, *partition.sent):
                yield batch.size_bytes

    @property
    def sent_count(self) -> int:
        """Number of records ever passed to ``send``."""
        return sum(partition.next_number for partition in self._partitions.values())

    @property
    def undecided(self) -> dict[TopicPartition, Errors]:
        """The partitions with records that have no outcome yet, and each partition's last error."""
        found: dict[TopicPartition, Errors] = {}
        for tp, partition in self._undecided.items():
            for batch in (*partition.waiting, *partition.sent):
                found[tp] = batch.last_error or found.get(tp, Errors.NONE)
        return found

    def give_up(self) -> None:
        """Fail all records without an outcome, like KafkaProducer.close with a timeout of 0."""
        for partition in self._undecided.values():
            for batch in (*partition.sent, *partition.waiting):
                batch.is_in_doubt |= batch in partition.sent
                self._remember_failed(partition, batch, "The producer is closed forcefully.")
            partition.sent.clear()
            partition.waiting.clear()

    # -- messages and timers

    def take_messages(self) -> list[Message]:
        """Remove and return the messages to be sent."""
        return self.network.take_messages()

    def receive(self, message: Message, now_ms: float) -> None:
        """Process a response or a lost connection."""
        for ended in self.network.receive(message, now_ms):
            self._on_ended(ended, now_ms)
        self.on_timer(now_ms)

    def on_timer(self, now_ms: float) -> None:
        """Do everything that is due: expire batches, time out requests, send batches."""
        for ended in self.network.on_timer(now_ms):
            self._on_ended(ended, now_ms)
        self._expire(now_ms)
        self._fail_invalid()
        if self._identity is not None:
            self._identity.bump_epoch_if_needed()
            self._init_producer_id(now_ms)
        self._send_batches(now_ms)
        self._look_ahead()

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if nothing is due before a message arrives.
        """
        due_ms = min(self.network.next_due_ms(), self._due_ms)
        return None if due_ms == math.inf else due_ms

    def _look_ahead(self) -> None:
        """Drop partitions whose batches all have an outcome, and compute the next due time."""
        self._undecided = {
            tp: one for tp, one in self._undecided.items() if one.waiting or one.sent
        }
        self._due_ms = self._init_due_ms() if self._wants_producer_id else math.inf
        for partition in self._undecided.values():
            for batch in (*partition.sent, *islice(partition.waiting, 1)):
                self._due_ms = min(self._due_ms, self._expires_ms(batch))
            self._due_ms = min(self._due_ms, self._ready_ms(partition))

    # -- sending

    def _send_batches(self, now_ms: float) -> None:
        """Send requests with one batch per partition to each leader, until no batch is ready."""
        while drained := self._drain(now_ms):
            for leader, batches in drained.items():
                body = ProduceRequest(
                    self.config.acks,
                    self.config.request_timeout_ms,
                    {
                        tp: batch.produced(self.config.compression_type)
                        for tp, batch in batches.items()
                    },
                )
                is_answered = self.config.acks != 0
                number = self.network.send(leader, body, now_ms, is_answered=is_answered)
                if is_answered:
                    self._requests[number] = batches
                else:
                    for tp, batch in batches.items():
                        self._partitions[tp].sent.remove(batch)
                        self._remember_failed(self._partitions[tp], batch, "acks=0")

    def _drain(self, now_ms: float) -> dict[int, dict[TopicPartition, Batch]]:
        drained: dict[int, dict[TopicPartition, Batch]] = {}
        for tp, partition in self._undecided.items():
            if partition.waiting and self.network.metadata.leader_of(tp).leader < 0:
                self.network.metadata.request_update()
            if self._ready_ms(partition) > now_ms:
                continue
            batch = partition.waiting.popleft()
            if self._identity is not None:
                self._identity.assign_sequence(partition, batch)
            partition.sent.append(batch)
            batch.attempts += 1
            batch.is_in_doubt |= self.config.acks == 0
            drained.setdefault(self.network.metadata.leader_of(tp).leader, {})[tp] = batch
        return drained

    def _ready_ms(self, partition: PartitionBatches) -> float:
        """Return the time from which the first queued batch of a partition may be sent.

        Return infinity if no batch is queued, or if the batch must wait for a message.
        """
        leader = self.network.metadata.leader_of(partition.topic_partition).leader
        if not partition.waiting or leader < 0:
            return math.inf
        most = self.config.max_in_flight_requests_per_connection
        if self.network.in_flight_of(ProduceRequest).count(leader) >= most:
            return math.inf
        if most == 1 and partition.sent:
            return math.inf
        batch = partition.waiting[0]
        if self._identity is not None and (
            not self._identity.may_send(partition, batch)
            or self._identity.awaits_first(partition, batch)
        ):
            return math.inf
        return max(batch.retry_ms, self.network.ready_ms(leader))

    # -- outcomes of batches

    def _on_ended(self, ended: Ended, now_ms: float) -> None:
        if ended.correlation_id == self._init_number:
            self._init_number = None
            if isinstance(ended.answer, InitProducerIdResponse):
                self._on_producer_id(ended.answer)
            return
        batches = self._requests.pop(ended.correlation_id)
        answers = ended.answer.partitions if isinstance(ended.answer, ProduceResponse) else {}
        for tp, batch in batches.items():
            partition = self._partitions[tp]
            if batch in partition.sent:
                partition.sent.remove(batch)
                self._complete(partition, batch, answers.get(tp, _DISCONNECTED), now_ms)

    def _complete(
        self, partition: PartitionBatches, batch: Batch, answer: ProducedPartition, now_ms: float
    ) -> None:
        error = batch.last_error = answer.error
        if error in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER):
            end = answer.base_offset + batch.record_count
            stretch = Stretch(answer.leader_epoch, answer.base_offset, end)
            added = Acknowledged(batch.first_number, stretch)
            known = self.acknowledged.setdefault(partition.topic_partition, [])
            add_acknowledged(known, added)
            if self._identity is not None:
                self._identity.on_acknowledged(partition, batch)
            return
        # A leader that is deposed while a request waits for its followers has appended the records.
        batch.is_in_doubt |= error in _IN_DOUBT or answer.base_offset >= 0
        if error in INVALID_METADATA:
            self.network.metadata.request_update()
        if self._can_retry(partition, batch, error):
            batch.retry_ms = now_ms + self.config.retry_backoff_ms
            partition.put_back(batch)
        else:
            self._fail(partition, batch, "")

    def _can_retry(self, partition: PartitionBatches, batch: Batch, error: Errors) -> bool:
        if batch.attempts > self.config.retries:
            return False
        if self._identity is not None:
            return self._identity.can_retry(partition, batch, error)
        return error in RETRIABLE

    def _expires_ms(self, batch: Batch) -> float:
        """Return the time at which a batch expires.

        Always use this method: an equivalent formula could round to a different float.
        """
        return batch.created_ms + self.config.delivery_timeout_ms

    def _expire(self, now_ms: float) -> None:
        """Expire batches that are older than delivery.timeout.ms.

        As in Kafka, queued batches are checked in order, up to the first batch that has not
        expired.
        """
        for partition in self._undecided.values():
            for batch in [one for one in partition.sent if self._expires_ms(one) <= now_ms]:
                batch.is_in_doubt = True
                partition.sent.remove(batch)
                self._fail_late(partition, batch, now_ms)
            while partition.waiting and self._expires_ms(partition.waiting[0]) <= now_ms:
                self._fail_late(partition, partition.waiting.popleft(), now_ms)

    def _fail_late(self, partition: PartitionBatches, batch: Batch, now_ms: float) -> None:
        text = (
            f"Expiring {batch.record_count} record(s) for {partition.topic_partition}:"
            f"{round(now_ms - batch.created_ms)} ms has passed since batch creation"
        )
        self._fail(partition, batch, text)

    def _fail_invalid(self) -> None:
        """Fail the batches of topics with invalid names, because they can never be sent."""
        for topic in self.network.metadata.invalid_topics:
            for tp, partition in self._undecided.items():
                while tp.topic == topic and partition.waiting:
                    batch = partition.waiting.popleft()
                    batch.last_error = Errors.INVALID_TOPIC_EXCEPTION
                    self._fail(partition, batch, "")

    def _fail(self, partition: PartitionBatches, batch: Batch, text: str) -> None:
        if self._identity is not None:
            self._identity.on_failed(partition, batch)
        self._remember_failed(partition, batch, text)

    def _remember_failed(self, partition: PartitionBatches, batch: Batch, text: str) -> None:
        kept = self.indefinite if batch.is_in_doubt else self.failed
        kept.setdefault(partition.topic_partition, []).append(
            Unacknowledged(batch.first_number, batch.record_count, batch.last_error, text)
        )

    # -- the producer's id

    @property
    def _wants_producer_id(self) -> bool:
        return (
            self._identity is not None
            and self._identity.producer == NO_PRODUCER
            and self._init_number is None
            and bool(self._partitions)
        )

    def _init_due_ms(self) -> float:
        return max(self._init_ms + self.config.retry_backoff_ms, self.network.any_ready_ms())

    def _init_producer_id(self, now_ms: float) -> None:
        if self._wants_producer_id and now_ms >= self._init_due_ms():
            self._init_ms = now_ms
            broker_id = self.network.any_broker()
            self._init_number = self.network.send(broker_id, InitProducerIdRequest(), now_ms)

    def _on_producer_id(self, answer: InitProducerIdResponse) -> None:
        if answer.error is Errors.NONE and self._identity is not None:
            self._identity.begin(answer.producer_id, answer.producer_epoch)
