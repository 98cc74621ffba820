"""A producer that sends records at constant rates to many partitions and tracks acknowledgements.

The producer finds the leaders with Metadata requests, and sends the rates of its partitions to each
leader; after that it sends no more messages. cluster/constant_rate.py explains how records are
acknowledged without messages. This module does no I/O and reads no clock.

Records wait until a leader accepts the rate of their partition; the leader then appends them
immediately. Records that are not acknowledged within delivery.timeout.ms are given up; they may or
may not be in the log. If a leader is lost before it acknowledges a record, the record is sent again
and may be stored twice, as with Kafka's producer without idempotence. Stands in for
org.apache.kafka.clients.producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest, MetadataResponse
from klamm.cluster.constant_rate import (
    RATE_MARGIN_MS,
    ConstantRate,
    ConstantRateProgress,
    ConstantRateRequest,
    ConstantRateResponse,
    RateSchedule,
    records_produced,
)
from klamm.cluster.records import Stretch
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.cluster.types import NO_LEADER, TopicPartition

DELIVERY_TIMEOUT_MS: Final = 120_000.0
"""Default of the producer config delivery.timeout.ms."""
RETRY_BACKOFF_MS: Final = 500.0
"""Milliseconds between metadata requests while a leader is missing.

Kafka's default of retry.backoff.ms is lower.
"""


class Rate(NamedTuple):
    """Rate and record size for one partition."""

    records_per_s: float
    record_size_bytes: int = 100


class RateOutcome(msgspec.Struct, gc=False):
    """Outcome of one partition's records so far.

    - ``decided``: number of records that were acknowledged or given up.
    - ``given_up``: number of decided records that were given up.
    - ``leader``: the broker to which the rate was sent.
    - ``number``: number of requests that have sent the rate. Only the response to the last of them
      is processed.
    - ``schedule``: if set, it acknowledges the records from ``offset`` onward, in the leader epoch
      ``leader_epoch``.
    - ``acknowledged``: the acknowledged offsets as stretches (ranges of offsets in one leader
      epoch).
    """

    rate: Rate
    decided: int = 0
    given_up: int = 0
    leader: int = NO_LEADER
    number: int = 0
    schedule: RateSchedule | None = None
    leader_epoch: int = -1
    offset: int = 0
    acknowledged: tuple[Stretch, ...] = ()

    def acknowledge(self, stretch: Stretch) -> None:
        """Record that a range of offsets is acknowledged. Offsets recorded before are skipped."""
        start = max(stretch.start, self.offset)
        if start >= stretch.end:
            return
        before = self.acknowledged
        self.decided += stretch.end - start
        self.offset = stretch.end
        last = before[-1] if before else None
        leader_epoch, _, end = stretch
        if last is not None and last.end == start and last.leader_epoch == leader_epoch:
            self.acknowledged = (*before[:-1], Stretch(leader_epoch, last.start, end))
        else:
            self.acknowledged = (*before, Stretch(leader_epoch, start, end))

    def materialize(self, now_ms: float) -> None:
        """Record the acknowledgements that follow from the schedule by now."""
        if self.schedule is not None:
            end = self.schedule.end_at(now_ms - 3 * RATE_MARGIN_MS)
            if end > self.offset:
                self.acknowledge(Stretch(self.leader_epoch, self.offset, end))

    def lose_leader(self) -> None:
        """Forget the leader: no record is acknowledged until another leader accepts the rate."""
        self.leader, self.schedule, self.offset = NO_LEADER, None, 0


class ConstantRateProducer:
    """A Client (world/client_actor.py) that produces records at constant rates.

    The first record is due at ``since_ms``, in monotonic milliseconds; ``since_timestamp_ms`` is
    the same moment in milliseconds since the Unix epoch.
    """

    def __init__(
        self,
        address: Address,
        rates: Mapping[TopicPartition, Rate],
        bootstrap: Iterable[int],
        connections: CertainConnections,
        since_ms: float,
        since_timestamp_ms: int,
    ) -> None:
        self.address = address
        self.partitions = {tp: RateOutcome(rate) for tp, rate in rates.items()}
        self._brokers = tuple(bootstrap)
        self._connections = connections
        self._since_ms = since_ms
        self._since_timestamp_ms = since_timestamp_ms
        self._without_leader = dict.fromkeys(rates)
        self._due_ms = since_ms if rates else None
        self._asked = 0
        self._messages: list[Message] = []

    # -- results

    def produced(self, tp: TopicPartition, now_ms: float) -> int:
        """Return the number of records produced by ``now_ms`` (in monotonic milliseconds)."""
        return records_produced(self.partitions[tp].rate.records_per_s, self._since_ms, now_ms)

    # -- messages and timers

    def receive(self, message: Message, now_ms: float) -> None:
        """Process a response or the loss of a connection."""
        match message.body:
            case MetadataResponse() as answer:
                self._on_metadata(message.source, answer, now_ms)
            case ConstantRateResponse(partitions):
                for tp, reported in partitions.items():
                    self._on_progress(tp, message.source.id, reported, now_ms)
            case Disconnected():
                for tp, progress in self.partitions.items():
                    if progress.leader == message.source.id:
                        self._lose(tp, now_ms)
            case body:
                raise AssertionError(f"{self.address} cannot handle {type(body).__name__}")

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if all rates have been sent to leaders.
        """
        return self._due_ms

    def on_timer(self, now_ms: float) -> None:
        """Request metadata from the next live broker (round-robin).

        The request names only one topic, which is enough to detect that leaders have changed. When
        a response names a reachable leader, metadata of the other topics is requested.
        """
        if self._due_ms is None or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + RETRY_BACKOFF_MS
        brokers = self._brokers
        for _ in brokers:
            self._asked += 1
            broker = Address("broker", brokers[self._asked % len(brokers)])
            if self._connections.connect(self.address, broker):
                self._send(broker, MetadataRequest((next(iter(self._without_leader)).topic,)))
                break

    def take_messages(self) -> list[Message]:
        """Remove and return the messages to be sent to brokers."""
        messages, self._messages = self._messages, []
        return messages

    def _send(self, broker: Address, body: MetadataRequest | ConstantRateRequest) -> None:
        self._messages.append(Message(self.address, broker, self._asked, body))

    def _on_metadata(self, source: Address, answer: MetadataResponse, now_ms: float) -> None:
        """Send the rates of partitions that had no leader to the leaders in the response."""
        asked: dict[int, dict[TopicPartition, ConstantRate]] = {}
        wanted: dict[str, dict[int, TopicPartition]] = {}
        for tp in self._without_leader:
            wanted.setdefault(tp.topic, {})[tp.partition] = tp
        for topic in answer.topics:
            of_topic = wanted.get(topic.name, {})
            for found in topic.partitions:
                if found.partition in of_topic and found.leader != NO_LEADER:
                    tp = of_topic[found.partition]
                    asked.setdefault(found.leader, {})[tp] = self._rest(tp, now_ms)
        has_helped = False
        for leader, rates in asked.items():
            broker = Address("broker", leader)
            connection = self._connections.connect(self.address, broker)
            if not connection:
                continue
            has_helped = True
            for tp in rates:
                self.partitions[tp].leader = leader
                del self._without_leader[tp]
            self._send(broker, ConstantRateRequest(connection, rates))
        if not self._without_leader:
            self._due_ms = None
        elif has_helped and len(answer.topics) == 1:
            topics = tuple(dict.fromkeys(tp.topic for tp in self._without_leader))
            self._send(source, MetadataRequest(topics))

    def _rest(self, tp: TopicPartition, now_ms: float) -> ConstantRate:
        """Return a request for all records of a partition that have no outcome yet.

        Records that are older than delivery.timeout.ms are given up first.
        """
        progress, rate = self.partitions[tp], self.partitions[tp].rate
        too_old = self.produced(tp, now_ms - DELIVERY_TIMEOUT_MS) - progress.decided
        if too_old > 0:
            progress.given_up += too_old
            progress.decided += too_old
        progress.number += 1
        return ConstantRate(
            *rate, self._since_ms, self._since_timestamp_ms, progress.decided, progress.number
        )

    def _on_progress(
        self, tp: TopicPartition, leader: int, answer: ConstantRateProgress, now_ms: float
    ) -> None:
        progress = self.partitions[tp]
        if progress.leader != leader or progress.number != answer.number:
            return
        progress.materialize(now_ms)
        for stretch in answer.acknowledged:
            progress.acknowledge(stretch)
        if answer.error is not Errors.NONE or answer.schedule is None:
            self._lose(tp, now_ms)
            return
        progress.schedule = answer.schedule if answer.is_scheduled else None
        progress.leader_epoch = answer.leader_epoch

    def _lose(self, tp: TopicPartition, now_ms: float) -> None:
        progress = self.partitions[tp]
        progress.materialize(now_ms)
        progress.lose_leader()
        self._without_leader[tp] = None
        if self._due_ms is None:
            self._due_ms = now_ms + RETRY_BACKOFF_MS
