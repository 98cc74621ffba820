"""Producers and consumers that run in the server on behalf of HTTP clients.

An HTTP client refers to its producer or consumer by a number. A producer or consumer that gets no
request for IDLE_S seconds is closed. world/clients/ implements both. Together with cli/produce.py
and cli/consume.py, mirrors kafka.tools.{ConsoleProducer,ConsoleConsumer}.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

import msgspec
from aiokafka.partitioner import murmur2
from starlette.concurrency import run_in_threadpool

from klamm.admin.topic_description import TopicDescription
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import (
    EnvironmentProblem,
    NotFound,
    RequestTimedOut,
    UnknownTopicOrPartition,
    UsageError,
)
from klamm.cluster.records import Record
from klamm.cluster.topic_names import validate_topic_name
from klamm.cluster.types import TopicPartition
from klamm.server import client_bodies as bodies
from klamm.server.admin_channel import new_client_address
from klamm.server.closing import Closing
from klamm.world.client_actor import Client
from klamm.world.clients.batches import Counted, Payload, size_bytes
from klamm.world.clients.config import ConsumerConfig, OffsetReset, ProducerConfig
from klamm.world.clients.consumer import Consumer, Read
from klamm.world.clients.metadata import Metadata
from klamm.world.clients.producer import Producer
from klamm.world.clients.ranges import Unacknowledged
from klamm.world.real.cluster import RealCluster

IDLE_S: Final = 300.0
BATCH_SIZE_BYTES: Final = 16_384
MAX_CLIENTS: Final = 1_000
MAX_WAIT_MS: Final = 30_000
MAX_GENERATED_BYTES: Final = 1 << 30
MAX_UNDECIDED_BYTES: Final = 512 << 20
MAX_FAILURES = 100
_BATCH_OVERHEAD_BYTES: Final = 256
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
"""Function that describes a topic, or raises UnknownTopicOrPartition."""


class ClientsBusy(EnvironmentProblem):
    """Too many producers or consumers are open, or their undecided records use too much memory."""

    retriable = True


class Session(Generic[C]):
    """A producer or consumer, the partitions that it uses, and the time of its last request.

    ``turn`` counts the batches of records without keys, for round-robin partitioning.
    """

    def __init__(self, client: C, partitions: list[TopicPartition]) -> None:
        self.client = client
        self.partitions = partitions
        self.used_s = time.monotonic()
        self.turn = 0


class ClientSessions:
    """All producers and consumers of one server. Thread-safe.

    If ``has_values`` is false, the cluster's logs are offset-only: they keep no keys and values. A
    producer or consumer is closed after ``idle_s`` seconds without a request.
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
        self._sessions: dict[int, Session[Any]] = {}

    # -- producers

    def open_producer(self, wanted: bodies.NewProducer) -> bodies.ClientOpened:
        """Open a producer. Raises UnknownTopicOrPartition, InvalidTopic, InvalidConfig."""
        given = msgspec.structs.asdict(wanted)
        del given["topic"], given["partition"]
        config = ProducerConfig(**given)
        partitions = self._partitions(wanted.topic, wanted.partition)
        producer = Producer(new_client_address(), self._bootstrap(), config)
        return self._open(producer, partitions)

    async def send(self, number: int, wanted: bodies.SendRecords) -> bodies.ProducerStatus:
        """Send records, then wait until at most ``max_undecided`` records are undecided.

        Raises NotFound, UsageError, ClientsBusy.
        """
        session = self._found(number, Producer)
        batches = await run_in_threadpool(self._batches, session, wanted)
        producer = session.client
        new_bytes = sum(_held_bytes(size_bytes(payload)) for _, payload in batches)

        def send(now_ms: float) -> None:
            if batches and self._undecided_bytes() + new_bytes > MAX_UNDECIDED_BYTES:
                raise ClientsBusy(
                    "the records that are neither acknowledged nor failed would exceed "
                    f"{MAX_UNDECIDED_BYTES >> 20} MiB",
                    hint="retry when the brokers have acknowledged some of the records",
                )
            for tp, payload in batches:
                producer.send(tp, payload, now_ms)

        await self._ask(send)
        return await self._await_undecided(producer, wanted.max_undecided, wanted.wait_ms)

    async def close_producer(
        self, number: int, wanted: bodies.CloseProducer
    ) -> bodies.ProducerStatus:
        """Wait for undecided records, then close the producer.

        The producer stays open if records are still undecided, unless ``gives_up`` is set.
        """
        producer = self._found(number, Producer).client
        status = await self._await_undecided(producer, 0, wanted.wait_ms)
        if status.undecided and not wanted.gives_up:
            return status
        await self._ask(lambda _: producer.give_up())
        await run_in_threadpool(self._remove, number)
        return await self._ask(lambda _: producer_status(producer))

    async def _await_undecided(
        self, producer: Producer, most: int, wait_ms: int
    ) -> bodies.ProducerStatus:
        await self._wait_for(producer, lambda: producer.undecided_count <= most, wait_ms)
        return await self._ask(lambda _: producer_status(producer))

    def _undecided_bytes(self) -> int:
        return sum(
            _held_bytes(size)
            for session in tuple(self._sessions.values())
            if isinstance(session.client, Producer)
            for size in session.client.undecided_batch_sizes()
        )

    def _batches(
        self, session: Session[Producer], wanted: bodies.SendRecords
    ) -> list[tuple[TopicPartition, Payload]]:
        """Return the batches to send, partitioned by key, or round-robin if there is no key."""
        if wanted.records and wanted.record_count:
            raise UsageError("give either records or record_count, but not both")
        if wanted.records:
            return self._batches_of(session, wanted.records)
        record_bytes = wanted.record_size_bytes
        if wanted.record_count * record_bytes > MAX_GENERATED_BYTES:
            raise UsageError(
                f"{wanted.record_count} records of {record_bytes} bytes exceed the limit of "
                f"{MAX_GENERATED_BYTES >> 20} MiB per request",
                hint="send them in several requests",
            )
        per_batch = max(1, BATCH_SIZE_BYTES // record_bytes)
        lefts = range(wanted.record_count, 0, -per_batch)
        return [
            (_next_partition(session), self._generated(min(left, per_batch), record_bytes))
            for left in lefts
        ]

    def _generated(self, count: int, record_bytes: int) -> Payload:
        if not self._has_values:
            return Counted(count, count * record_bytes)
        now_ms = self._cluster.clock.now_ms()
        return (Record(now_ms, None, b"k" * record_bytes),) * count

    def _batches_of(
        self, session: Session[Producer], records: tuple[bodies.KeyValue, ...]
    ) -> list[tuple[TopicPartition, Payload]]:
        now_ms = self._cluster.clock.now_ms()
        batches: list[tuple[TopicPartition, Payload]] = []
        open_batches: dict[TopicPartition | None, list[Record]] = {}
        open_bytes: dict[TopicPartition | None, int] = {}

        def end(place: TopicPartition | None) -> None:
            mine = tuple(open_batches.pop(place))
            held_bytes = open_bytes.pop(place)
            payload = mine if self._has_values else Counted(len(mine), held_bytes)
            batches.append((place or _next_partition(session), payload))

        for one in records:
            key = None if one.key is None else one.key.encode()
            place = None if key is None else _partition_of(session, key)
            record = Record(now_ms, key, one.value.encode())
            record_bytes = max(1, len(key or b"") + len(record.value or b""))
            if open_bytes.get(place, 0) + record_bytes > BATCH_SIZE_BYTES and place in open_batches:
                end(place)
            open_batches.setdefault(place, []).append(record)
            open_bytes[place] = open_bytes.get(place, 0) + record_bytes
        for place in list(open_batches):
            end(place)
        return batches

    # -- consumers

    def open_consumer(self, wanted: bodies.NewConsumer) -> bodies.ClientOpened:
        """Open a consumer. Raises UnknownTopicOrPartition, InvalidTopic."""
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
                    assert wanted.offset is not None
                    consumer.seek(tp, wanted.offset)
                case "time":
                    assert wanted.timestamp_ms is not None
                    consumer.seek_to_time(tp, wanted.timestamp_ms)
        return self._open(consumer, partitions)

    async def poll(self, number: int, wanted: bodies.Poll) -> bodies.Polled:
        """Return the next records, or the reasons why none arrived within the wait time.

        Raises NotFound, RequestTimedOut.
        """
        consumer = self._found(number, Consumer).client

        def has_something() -> bool:
            return consumer.has_records or bool(consumer.errors)

        await self._wait_for(consumer, has_something, wanted.wait_ms)
        return await self._ask(lambda _: polled(consumer))

    async def close_consumer(self, number: int) -> bodies.Polled:
        """Close a consumer and return its last records."""
        consumer = self._found(number, Consumer).client
        await run_in_threadpool(self._remove, number)
        return await self._ask(lambda _: polled(consumer))

    # -- sessions

    def _open(self, client: Client, partitions: list[TopicPartition]) -> bodies.ClientOpened:
        self._end_idle()
        number = next(self._ids)
        with self._lock:
            if len(self._sessions) >= MAX_CLIENTS:
                raise ClientsBusy(
                    f"{MAX_CLIENTS} producers and consumers are open",
                    hint=f"close some of them; idle ones are closed after {IDLE_S:g} s",
                )
            self._sessions[number] = Session(client, partitions)
        self._cluster.clients.add(client)
        ids = [tp.partition for tp in partitions]
        return bodies.ClientOpened(number, ids, self._has_values)

    def _end_idle(self) -> None:
        """Close idle producers and consumers; called whenever a new one is opened."""
        before_s = time.monotonic() - self.idle_s
        for number, session in list(self._sessions.items()):
            if session.used_s < before_s:
                self._remove(number)

    def _found(self, number: int, kind: type[C]) -> Session[C]:
        session = self._sessions.get(number)
        if session is None or not isinstance(session.client, kind):
            noun = kind.__name__.lower()
            raise NotFound(
                f"{noun} {number} does not exist",
                hint=f"a {noun} is closed on request, or after {IDLE_S:g} s without a request",
            )
        session.used_s = time.monotonic()
        return session

    def _remove(self, number: int) -> None:
        with self._lock:
            session = self._sessions.pop(number, None)
        if session is not None:
            self._cluster.clients.remove(session.client.address)

    def _partitions(self, topic: str, partition: int | None) -> list[TopicPartition]:
        try:
            ids = sorted(one.partition for one in self._describe(topic).partitions)
        except UnknownTopicOrPartition:
            validate_topic_name(topic)
            raise UnknownTopicOrPartition(
                f"topic {topic} does not exist",
                hint="klamm topics --create creates topics; brokers do not know a topic that never "
                "had a live replica",
            ) from None
        if partition is None:
            return [TopicPartition(topic, id_) for id_ in ids]
        if partition not in ids:
            raise UnknownTopicOrPartition(
                f"topic {topic} has no partition {partition}",
                hint=f"the topic's partitions are {ids[0]} to {ids[-1]}",
            )
        return [TopicPartition(topic, partition)]

    def _bootstrap(self) -> tuple[int, ...]:
        return tuple(self._cluster.spec.broker_ids)

    async def _ask(self, function: Callable[[float], T]) -> T:
        """Run ``function`` on the brokers' thread and return its result. Raises RequestTimedOut."""
        try:
            return await self._closing.awaited(self._cluster.clients.call(function), _CALL_S)
        except TimeoutError:
            raise RequestTimedOut(f"the brokers were busy for {_CALL_S:g} s") from None

    async def _wait_for(self, client: Client, condition: Callable[[], bool], wait_ms: int) -> None:
        if wait_ms <= 0:
            return
        held = self._cluster.clients.when(client.address, condition)
        with contextlib.suppress(TimeoutError):
            await self._closing.awaited(held, min(wait_ms, MAX_WAIT_MS) / 1000)


def _held_bytes(payload_bytes: int) -> int:
    return payload_bytes + _BATCH_OVERHEAD_BYTES


def _next_partition(session: Session[Producer]) -> TopicPartition:
    session.turn += 1
    return session.partitions[session.turn % len(session.partitions)]


def _partition_of(session: Session[Producer], key: bytes) -> TopicPartition:
    """Return the partition that Kafka's default partitioner chooses for a key."""
    return session.partitions[(murmur2(key) & 0x7FFFFFFF) % len(session.partitions)]


def producer_status(producer: Producer) -> bodies.ProducerStatus:
    """Return the counts, acknowledged offsets and errors of a producer."""
    offsets = [
        bodies.Offsets(tp.partition, *one.stretch)
        for tp in sorted(producer.acknowledged)
        for one in sorted(producer.acknowledged[tp], key=lambda one: one.stretch)
    ]
    failed = [*_not_acknowledged(producer.failed.items(), is_in_doubt=False)]
    in_doubt = [*_not_acknowledged(producer.indefinite.items(), is_in_doubt=True)]
    return bodies.ProducerStatus(
        sent=producer.sent_count,
        acknowledged=sum(one.end - one.start for one in offsets),
        failed=sum(one.record_count for one in failed),
        in_doubt=sum(one.record_count for one in in_doubt),
        undecided=producer.undecided_count,
        offsets=offsets,
        not_acknowledged=[*failed, *in_doubt][:MAX_FAILURES],
        waiting_for=waiting_for(producer.network.metadata, producer.undecided.items()),
    )


def _not_acknowledged(
    kept: Iterable[tuple[TopicPartition, list[Unacknowledged]]], *, is_in_doubt: bool
) -> Iterator[bodies.NotAcknowledged]:
    for tp, lost in kept:
        for one in lost:
            yield bodies.NotAcknowledged(
                tp.partition, one.record_count, one.error.name, one.text, is_in_doubt
            )


def waiting_for(
    metadata: Metadata, partitions: Iterable[tuple[TopicPartition, Errors]]
) -> list[str]:
    """Return the reasons why partitions make no progress: no leader, or the last error."""
    words = []
    for tp, error in partitions:
        leader = metadata.leader_of(tp)
        if leader.leader < 0:
            alive = ", ".join(map(str, metadata.alive)) or "none known"
            words.append(f"{tp} has no leader (brokers alive: {alive})")
        elif error is not Errors.NONE:
            words.append(f"{tp} (leader {leader.leader}): the last request failed: {error.name}")
    return words


def polled(consumer: Consumer) -> bodies.Polled:
    """Return the records that a consumer has read since the last call, and its state."""
    reads = consumer.take_records()
    positions = {tp: consumer.position(tp) for tp in consumer.partitions}
    return bodies.Polled(
        counted=[one for read in reads for one in _counted(read)],
        records=[one for read in reads for one in _records(read)],
        errors=list(consumer.errors.values()),
        truncations=[
            f"{tp}: the log was truncated to offset {at}, below the position {position.offset}"
            for tp, position, at in consumer.truncations
        ],
        waiting_for=waiting_for(
            consumer.network.metadata,
            [
                (tp, consumer.last_errors.get(tp, Errors.NONE))
                for tp in consumer.partitions
                if tp not in consumer.errors
            ],
        ),
        positions={tp.partition: at for tp, at in positions.items() if at is not None},
        high_watermarks={tp.partition: at for tp, at in consumer.high_watermarks.items()},
    )


def _counted(read: Read) -> Iterator[bodies.ReadRecords]:
    if isinstance(read.records, bytes):
        return
    for one in read.records.intervals:
        yield bodies.ReadRecords(
            read.topic_partition.partition, one.leader_epoch, one.start, one.end, one.size_bytes
        )


def _records(read: Read) -> Iterator[bodies.ReadRecord]:
    for leader_epoch, (offset, record) in read.decoded():
        yield bodies.ReadRecord(
            read.topic_partition.partition,
            leader_epoch,
            offset,
            record.timestamp_ms,
            _text(record.key),
            _text(record.value),
        )


def _text(word: bytes | None) -> str | None:
    return None if word is None else word.decode(errors="replace")
