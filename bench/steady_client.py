"""A client of Kafka's protocol that works while klamm is attacked, and the check of its records.

librdkafka produces a few records at a time and reads them in a group. ``findings`` reads all of
them again and judges with lab/checks/clients.py: no acknowledged record may be lost, and none
stored twice.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import confluent_kafka

from klamm.cluster.records import Stretch
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.lab.checks.clients import check_partition
from klamm.world.clients.ranges import Acknowledged

TOPIC: Final = "t"
_AT_ONCE: Final = 3
_PAUSE_S: Final = 0.01
_READ_WITHIN_S: Final = 60.0


class ReadRecord(NamedTuple):
    """A record as a consumer got it. ``number``: its value."""

    offset: int
    leader_epoch: int
    number: int


def judge(
    sent: int,
    acknowledged: Mapping[tuple[int, int], int],
    reads: Mapping[int, Sequence[ReadRecord]],
) -> list[str]:
    """Compare the records that a producer sent with those that were read, and return what is wrong.

    The producer has sent the numbers from 0 on. ``acknowledged``: the number at each partition and
    offset. ``reads``: all records of each partition, in poll order."""
    wrong, promised = list[str](), defaultdict[int, list[Acknowledged]](list)
    for (partition, offset), number in sorted(acknowledged.items()):
        stretch = Stretch(NO_EPOCH, offset, offset + 1)
        promised[partition].append(Acknowledged(number, stretch))
    for partition in sorted(reads.keys() | promised.keys()):
        read = reads.get(partition, ())
        polled = [Stretch(one.leader_epoch, one.offset, one.offset + 1) for one in read]
        tp, in_doubt = TopicPartition(TOPIC, partition), sent - len(acknowledged)
        found = check_partition(tp, [promised[partition]], [polled], in_doubt)
        wrong += map(str, found)
        for one in read:
            if (number := acknowledged.get((partition, one.offset), one.number)) != one.number:
                wrong.append(f"{tp}: offset {one.offset} has record {one.number}, not {number}")
    counts = Counter(one.number for read in reads.values() for one in read)
    return wrong + [f"record {number} is stored {n} times" for number, n in counts.items() if n > 1]


class SteadyClient(threading.Thread):
    """Produces and reads records from 0 on until ``ends`` is set, then reads the rest.

    ``acknowledged``: the number of each acknowledged record, by partition and offset. ``errors``:
    records that failed or took longer than ``answer_s`` seconds, and errors of the group. With
    ``loses_brokers``, both may fail: brokers that were all killed know no topic at first.
    """

    def __init__(self, servers: str, answer_s: float, *, loses_brokers: bool) -> None:
        super().__init__(name="client", daemon=True)
        self.sent = 0
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.slowest_s = 0.0
        self.errors: list[str] = []
        self.ends = threading.Event()
        self._answer_s = answer_s
        self._loses_brokers = loses_brokers
        self._read_by_group: set[int] = set()
        common = {
            "bootstrap.servers": servers,
            "log_level": 0,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1_000,
        }
        self._reads = {**common, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._producer = confluent_kafka.Producer(
            {**common, "enable.idempotence": True, "linger.ms": 0}
        )

    def run(self) -> None:
        """Work until ``ends`` is set and the group has read every acknowledged record."""
        consumer = confluent_kafka.Consumer({**self._reads, "group.id": "steady"})
        consumer.subscribe([TOPIC])
        while not self.ends.is_set():
            began_s = time.monotonic()
            for _ in range(_AT_ONCE):
                self._produce()
            if self._producer.flush(self._answer_s):
                self.errors.append(f"record {self.sent} is not acknowledged in {self._answer_s} s")
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
            self._poll(consumer)
            self.ends.wait(_PAUSE_S)
        ends_s = time.monotonic() + _READ_WITHIN_S
        while self._not_read_by_group() and time.monotonic() < ends_s:
            self._poll(consumer)
        consumer.close()

    def _produce(self) -> None:
        number, self.sent = self.sent, self.sent + 1
        try:
            self._producer.produce(TOPIC, b"%d" % number, on_delivery=self._delivered)
        except confluent_kafka.KafkaException as error:
            self._failed(f"record {number} cannot be sent: {error}")

    def _failed(self, text: str) -> None:
        if not self._loses_brokers:
            self.errors.append(text)

    def _delivered(self, error: object, record: confluent_kafka.Message) -> None:
        if error is None:
            self.acknowledged[record.partition(), record.offset()] = int(record.value())
        else:
            self._failed(f"a record failed: {error}")

    def _poll(self, consumer: confluent_kafka.Consumer) -> None:
        for record in consumer.consume(1_000, 0.01):
            if record.error() is None:
                self._read_by_group.add(int(record.value()))
                consumer.commit(message=record, asynchronous=True)
            else:
                self._failed(f"the consumer failed: {record.error()}")

    def _not_read_by_group(self) -> set[int]:
        return set(self.acknowledged.values()) - self._read_by_group

    def findings(self) -> list[str]:
        """Read all partitions from their beginning, and return what is wrong. Call it after run."""
        wrong = [*self.errors]
        if lost := self._not_read_by_group():
            wrong.append(f"the group has not read {len(lost)} records: {sorted(lost)[:5]}")
        return wrong + judge(self.sent, self.acknowledged, self._read_all())

    def _read_all(self) -> dict[int, list[ReadRecord]]:
        """Return the records of each partition up to its high watermark, in poll order."""
        consumer = confluent_kafka.Consumer({**self._reads, "group.id": "check"})
        partitions = consumer.list_topics(TOPIC, _READ_WITHIN_S).topics[TOPIC].partitions
        places = [confluent_kafka.TopicPartition(TOPIC, number, 0) for number in partitions]
        ends = {tp.partition: consumer.get_watermark_offsets(tp, 10)[1] for tp in places}
        consumer.assign(places)
        reads = {number: list[ReadRecord]() for number in partitions}
        ends_s = time.monotonic() + _READ_WITHIN_S
        while time.monotonic() < ends_s and any(
            end > 0 and (not reads[number] or reads[number][-1].offset < end - 1)
            for number, end in ends.items()
        ):
            for record in consumer.consume(10_000, 0.1):
                if record.error() is None:
                    one = ReadRecord(record.offset(), record.leader_epoch(), int(record.value()))
                    reads[record.partition()].append(one)
        consumer.close()
        return reads
