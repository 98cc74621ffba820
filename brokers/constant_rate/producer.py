"""A producer of constant rates to many partitions, which remembers what was acknowledged.

It asks for leaders by metadata and sends each of them its rates; from then on there is nothing to
send. Messages come in as values and go out as values; no clock is read. How records are
acknowledged without a message is said in cluster/constant_rate.py.

What no leader accepted is a backlog: the next leader appends it with the rate, at once. Records
that were not acknowledged for delivery.timeout.ms are given up; whether they are in the log is not
known. A record whose leader was lost before it was acknowledged is sent again, and may then be
there twice, as with Kafka's producer without idempotence. Stands for
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
    record_count,
)
from klamm.cluster.records import Stretch
from klamm.cluster.requests import Address, Disconnected, Message
from klamm.cluster.types import NO_LEADER, TopicPartition

DELIVERY_TIMEOUT_MS: Final = 120_000.0
"""delivery.timeout.ms"""
RETRY_BACKOFF_MS: Final = 500.0
"""How often leaders are asked for while there is none; Kafka's retry.backoff.ms is shorter."""


class Rate(NamedTuple):
    """What is produced to a partition."""

    records_per_s: float
    record_size_bytes: int = 100


class Progress(msgspec.Struct, gc=False):
    """What became of one partition's records.

    ``decided``: how many were acknowledged or given up, of these ``given_up``. ``leader``: the
    broker that was sent the rate, by ConstantRate ``number``; it acknowledges by ``schedule`` at
    ``leader_epoch``, from ``offset`` on.
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
        """Note what of a stretch was not known before."""
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
        """Note what the schedule has acknowledged by now."""
        if self.schedule is not None:
            end = self.schedule.end_at(now_ms - 3 * RATE_MARGIN_MS)
            self.acknowledge(Stretch(self.leader_epoch, self.offset, end))

    def lose_leader(self) -> None:
        """Nothing more is acknowledged until there is another one."""
        self.leader, self.schedule, self.offset = NO_LEADER, None, 0


class ConstantRateProducer:
    """A Client (runtime/client_actor.py); ``since_ms``, ``since_timestamp_ms``: when it begins."""

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
        self.partitions = {tp: Progress(rate) for tp, rate in rates.items()}
        self._brokers = tuple(bootstrap)
        self._connections = connections
        self._since_ms = since_ms
        self._since_timestamp_ms = since_timestamp_ms
        self._without_leader = dict.fromkeys(rates)
        self._due_ms = since_ms if rates else None
        self._asked = 0
        self._messages: list[Message] = []

    # -- what came of it

    def materialize(self, now_ms: float) -> None:
        """Note what schedules have acknowledged by now."""
        for progress in self.partitions.values():
            progress.materialize(now_ms)

    def produced(self, tp: TopicPartition, now_ms: float) -> int:
        """How many records there should be by now."""
        return record_count(self.partitions[tp].rate.records_per_s, self._since_ms, now_ms)

    # -- messages and timers

    def receive(self, message: Message, now_ms: float) -> None:
        """Take an answer, or that somebody is gone."""
        match message.body:
            case MetadataResponse() as answer:
                self._on_metadata(message.source, answer, now_ms)
            case ConstantRateResponse(partitions):
                for tp, grown in partitions.items():
                    self._on_progress(tp, message.source.id, grown, now_ms)
            case Disconnected():
                for tp, progress in self.partitions.items():
                    if progress.leader == message.source.id:
                        self._lose(tp, now_ms)
            case body:
                raise AssertionError(f"{self.address} cannot handle {type(body).__name__}")

    def next_due_ms(self) -> float | None:
        """When ``on_timer`` is to be called; None if every partition's leader has its rate."""
        return self._due_ms

    def on_timer(self, now_ms: float) -> None:
        """Ask a live broker for the leaders; the brokers in turn.

        One topic is enough to see that nothing has changed; after an answer that helped all are
        asked for.
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
        """What is to be sent; from now on nothing."""
        messages, self._messages = self._messages, []
        return messages

    def _send(self, broker: Address, body: MetadataRequest | ConstantRateRequest) -> None:
        self._messages.append(Message(self.address, broker, self._asked, body))

    def _on_metadata(self, source: Address, answer: MetadataResponse, now_ms: float) -> None:
        """Hand leaders the rates that nobody has."""
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
        """What is left to be produced, once what is too old has been given up."""
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
