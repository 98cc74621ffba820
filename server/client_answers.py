"""What is told of producers and consumers: what became of records, and what they wait for.

Looks at clients and changes nothing but what is taken from a consumer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from brokers.clients.consumer import Consumer, Read
from brokers.clients.metadata import Metadata
from brokers.clients.producer import Producer
from brokers.clients.ranges import Unacknowledged
from brokers.logs.record_batch import walk
from brokers.logs.records import decode_batch
from cluster.api_errors import Errors
from cluster.types import TopicPartition
from server import client_bodies as bodies

MAX_FAILURES = 100


def producer_status(producer: Producer) -> bodies.ProducerStatus:
    """Where a producer is."""
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
    """What keeps partitions from going on: no leader, or what the leader answered last."""
    words = []
    for tp, error in partitions:
        leader = metadata.leader_of(tp)
        if leader.leader < 0:
            alive = ", ".join(map(str, metadata.alive)) or "none known"
            words.append(f"{tp} has no leader (brokers alive: {alive})")
        elif error is not Errors.NONE:
            words.append(f"{tp}, led by {leader.leader}: last error {error.name}")
    return words


def polled(consumer: Consumer) -> bodies.Polled:
    """What a consumer has read since it was last asked."""
    reads = consumer.take_records()
    positions = {tp: consumer.position(tp) for tp in consumer.partitions}
    return bodies.Polled(
        counted=[one for read in reads for one in _counted(read)],
        records=[one for read in reads for one in _records(read)],
        errors=list(consumer.errors.values()),
        truncations=[
            f"{tp}: the log was cut at offset {at}, records up to {position.offset} had been read"
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
    if not isinstance(read.records, bytes):
        return
    for at, header in walk(read.records):
        if header.is_control:
            continue
        for offset, record in decode_batch(read.records[at : at + header.size_bytes], header):
            if offset >= read.offset:
                yield bodies.ReadRecord(
                    read.topic_partition.partition,
                    header.leader_epoch,
                    offset,
                    record.timestamp_ms,
                    _text(record.key),
                    _text(record.value),
                )


def _text(word: bytes | None) -> str | None:
    return None if word is None else word.decode(errors="replace")
