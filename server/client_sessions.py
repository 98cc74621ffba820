"""Producers and consumers that live in the server for somebody who asks over HTTP.

Each has a number, under which it is asked again, and ends when nobody has asked for a while. What
they do is in brokers/clients/. Mirrors kafka.tools.{ConsoleProducer,ConsoleConsumer}, of which the
command line is the other half.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from aiokafka.partitioner import murmur2

from admin.topics.text import TopicDescription
from brokers.clients.batches import Counted, Payload
from brokers.clients.config import ConsumerConfig, OffsetReset, ProducerConfig
from brokers.clients.consumer import Consumer
from brokers.clients.producer import Producer
from brokers.logs.records import Record
from cluster.errors import RequestTimedOut, UnknownTopicOrPartition, UsageError
from cluster.topic_names import validate_topic_name
from cluster.types import TopicPartition
from runtime.client_actor import Client
from runtime.real.cluster import RealCluster
from server import client_bodies as bodies
from server.client_answers import polled, producer_status
from server.closing import Closing
from server.cluster_calls import new_client_address

IDLE_S: Final = 300.0
BATCH_SIZE_BYTES: Final = 16_384
_CALL_S: Final = 10.0

_RESETS: Final[dict[bodies.From, OffsetReset]] = {
    "beginning": "earliest",
    "end": "latest",
    "offset": "none",
    "time": "latest",
}
C = TypeVar("C", bound=Client)
T = TypeVar("T")
Describe = Callable[[str], TopicDescription]
"""Gives a topic; raises UnknownTopicOrPartition."""


class Session(Generic[C]):
    """A client, the partitions it is for, and when it was last asked for."""

    def __init__(self, client: C, partitions: list[TopicPartition]) -> None:
        self.client = client
        self.partitions = partitions
        self.used_s = time.monotonic()
        self.turn = 0


class ClientSessions:
    """All producers and consumers of one server. For any thread.

    ``has_values``: the logs of the cluster keep records and do not only count them. ``idle_s``: how
    long nobody may ask for a client before it ends.
    """

    def __init__(
        self, cluster: RealCluster, closing: Closing, describe: Describe, *, has_values: bool
    ) -> None:
        self._cluster = cluster
        self._closing = closing
        self._describe = describe
        self._has_values = has_values
        self.idle_s = IDLE_S
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._producers: dict[int, Session[Producer]] = {}
        self._consumers: dict[int, Session[Consumer]] = {}

    # -- producers

    def open_producer(self, wanted: bodies.NewProducer) -> bodies.ClientOpened:
        """Begin to produce. Raises UnknownTopicOrPartition, InvalidTopic, InvalidConfig."""
        config = ProducerConfig(
            acks=wanted.acks,
            enable_idempotence=wanted.enable_idempotence,
            delivery_timeout_ms=wanted.delivery_timeout_ms,
            request_timeout_ms=wanted.request_timeout_ms,
            retries=wanted.retries,
            max_in_flight_requests_per_connection=wanted.max_in_flight_requests_per_connection,
            compression_type=wanted.compression_type,
        )
        partitions = self._partitions(wanted.topic, wanted.partition)
        producer = Producer(new_client_address(), self._bootstrap(), config)
        return self._open(self._producers, producer, partitions)

    def send(self, number: int, wanted: bodies.SendRecords) -> bodies.ProducerStatus:
        """Send records, and wait until not too many are undecided."""
        session = _found(self._producers, number, "producer")
        batches = self._batches(session, wanted)
        producer = session.client

        def send(now_ms: float) -> None:
            for tp, payload in batches:
                producer.send(tp, payload, now_ms)

        self._call(send)
        return self._await_undecided(producer, wanted.max_undecided, wanted.wait_ms)

    def close_producer(self, number: int, wanted: bodies.CloseProducer) -> bodies.ProducerStatus:
        """Wait until everything is decided, and end the producer if it is, or has to."""
        producer = _found(self._producers, number, "producer").client
        status = self._await_undecided(producer, 0, wanted.wait_ms)
        if status.undecided and not wanted.gives_up:
            return status
        self._call(lambda _: producer.give_up())
        self._remove(self._producers, number)
        return self._call(lambda _: producer_status(producer))

    def _await_undecided(
        self, producer: Producer, most: int, wait_ms: int
    ) -> bodies.ProducerStatus:
        self._wait_for(
            lambda: self._call(lambda _: producer.undecided_count) <= most or None, wait_ms
        )
        return self._call(lambda _: producer_status(producer))

    def _batches(
        self, session: Session[Producer], wanted: bodies.SendRecords
    ) -> list[tuple[TopicPartition, Payload]]:
        """Records by partition: those with a key where the key belongs, others in turn."""
        if wanted.records and wanted.record_count:
            raise UsageError("records and record_count: which are meant?", hint="one of the two")
        if wanted.records:
            return self._batches_of(session, wanted.records)
        if wanted.record_count < 0 or wanted.record_size_bytes < 1:
            raise UsageError("a record has a byte at least, and there are no fewer than none")
        size_bytes = wanted.record_size_bytes
        per_batch = max(1, BATCH_SIZE_BYTES // size_bytes)
        batches: list[tuple[TopicPartition, Payload]] = []
        left = wanted.record_count
        while left > 0:
            count = min(left, per_batch)
            left -= count
            batches.append((_next_partition(session), self._generated(count, size_bytes)))
        return batches

    def _generated(self, count: int, size_bytes: int) -> Payload:
        if not self._has_values:
            return Counted(count, count * size_bytes)
        now_ms = self._cluster.clock.now_ms()
        return (Record(now_ms, None, b"k" * size_bytes),) * count

    def _batches_of(
        self, session: Session[Producer], records: tuple[bodies.KeyValue, ...]
    ) -> list[tuple[TopicPartition, Payload]]:
        now_ms = self._cluster.clock.now_ms()
        batches: list[tuple[TopicPartition, Payload]] = []
        open_batches: dict[TopicPartition | None, list[Record]] = {}
        open_bytes: dict[TopicPartition | None, int] = {}

        def end(place: TopicPartition | None) -> None:
            mine = tuple(open_batches.pop(place))
            size_bytes = open_bytes.pop(place)
            payload = mine if self._has_values else Counted(len(mine), size_bytes)
            batches.append((place or _next_partition(session), payload))

        for one in records:
            key = None if one.key is None else one.key.encode()
            place = None if key is None else _partition_of(session, key)
            record = Record(now_ms, key, one.value.encode())
            size_bytes = max(1, len(key or b"") + len(record.value or b""))
            if open_bytes.get(place, 0) + size_bytes > BATCH_SIZE_BYTES and place in open_batches:
                end(place)
            open_batches.setdefault(place, []).append(record)
            open_bytes[place] = open_bytes.get(place, 0) + size_bytes
        for place in list(open_batches):
            end(place)
        return batches

    # -- consumers

    def open_consumer(self, wanted: bodies.NewConsumer) -> bodies.ClientOpened:
        """Begin to consume. Raises UnknownTopicOrPartition, InvalidTopic."""
        partitions = self._partitions(wanted.topic, wanted.partition)
        config = ConsumerConfig(auto_offset_reset=_RESETS[wanted.start])
        consumer = Consumer(
            new_client_address(),
            self._bootstrap(),
            config,
            keeps_records=True,
            log_journal=self._cluster.log_journal,
        )
        consumer.assign(partitions)
        for tp in partitions:
            match wanted.start:
                case "beginning":
                    consumer.seek_to_beginning(tp)
                case "end":
                    consumer.seek_to_end(tp)
                case "offset":
                    consumer.seek(tp, wanted.offset)
                case "time":
                    consumer.seek_to_time(tp, wanted.timestamp_ms)
        return self._open(self._consumers, consumer, partitions)

    def poll(self, number: int, wanted: bodies.Poll) -> bodies.Polled:
        """What can be read, or after a while what keeps it from being read."""
        consumer = _found(self._consumers, number, "consumer").client

        def has_something(_: float) -> bool:
            return consumer.has_records or bool(consumer.errors)

        self._wait_for(lambda: self._call(has_something) or None, wanted.wait_ms)
        return self._call(lambda _: polled(consumer))

    def close_consumer(self, number: int) -> bodies.Polled:
        """End a consumer."""
        consumer = _found(self._consumers, number, "consumer").client
        self._remove(self._consumers, number)
        return self._call(lambda _: polled(consumer))

    # -- sessions

    def _open(
        self, sessions: dict[int, Session[C]], client: C, partitions: list[TopicPartition]
    ) -> bodies.ClientOpened:
        self._end_idle()
        number = next(self._ids)
        self._cluster.clients.add(client)
        with self._lock:
            sessions[number] = Session(client, partitions)
        ids = [tp.partition for tp in partitions]
        return bodies.ClientOpened(number, ids, self._has_values)

    def _end_idle(self) -> None:
        """Whoever asked is gone: another one that begins clears up."""
        before_s = time.monotonic() - self.idle_s
        for number, producing in list(self._producers.items()):
            if producing.used_s < before_s:
                self._remove(self._producers, number)
        for number, consuming in list(self._consumers.items()):
            if consuming.used_s < before_s:
                self._remove(self._consumers, number)

    def _remove(self, sessions: dict[int, Session[C]], number: int) -> None:
        with self._lock:
            session = sessions.pop(number, None)
        if session is not None:
            self._cluster.clients.remove(session.client.address)

    def _partitions(self, topic: str, partition: int | None) -> list[TopicPartition]:
        try:
            ids = sorted(one.partition for one in self._describe(topic).partitions)
        except UnknownTopicOrPartition:
            validate_topic_name(topic)
            raise UnknownTopicOrPartition(
                f"there is no topic {topic}", hint="klamm topics --create makes one"
            ) from None
        if partition is None:
            return [TopicPartition(topic, id_) for id_ in ids]
        if partition not in ids:
            raise UnknownTopicOrPartition(
                f"topic {topic} has no partition {partition}",
                hint=f"its partitions are {ids[0]} to {ids[-1]}",
            )
        return [TopicPartition(topic, partition)]

    def _bootstrap(self) -> tuple[int, ...]:
        return tuple(self._cluster.spec.broker_ids)

    def _call(self, function: Callable[[float], T]) -> T:
        try:
            return self._closing.result_of(self._cluster.clients.call(function), _CALL_S)
        except TimeoutError:
            raise RequestTimedOut(f"the brokers were busy for {_CALL_S:g} s") from None

    def _wait_for(self, condition: Callable[[], bool | None], wait_ms: int) -> None:
        deadline_s = time.monotonic() + min(wait_ms, 30_000) / 1000
        try:
            self._closing.wait_until(condition, deadline_s, "")
        except RequestTimedOut:
            return


def _found(sessions: dict[int, Session[C]], number: int, kind: str) -> Session[C]:
    session = sessions.get(number)
    if session is None:
        raise UsageError(
            f"there is no {kind} {number}", hint=f"it was closed, or not asked for {IDLE_S:g} s"
        )
    session.used_s = time.monotonic()
    return session


def _next_partition(session: Session[Producer]) -> TopicPartition:
    session.turn += 1
    return session.partitions[session.turn % len(session.partitions)]


def _partition_of(session: Session[Producer], key: bytes) -> TopicPartition:
    """Where Kafka's default partitioner puts a key."""
    return session.partitions[(murmur2(key) & 0x7FFFFFFF) % len(session.partitions)]
