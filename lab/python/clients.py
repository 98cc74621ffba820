"""Sends and reads single records in a scenario's cluster, which runs until the outcome is known."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from klamm.cluster.errors import KlammError, RequestTimedOut, UsageError
from klamm.cluster.records import Record
from klamm.cluster.types import TopicPartition
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.world.clients.config import ProducerConfig
from klamm.world.clients.consumer import Consumer, Read
from klamm.world.clients.producer import Producer
from klamm.world.clients.retriable import RETRIABLE

_RETRY_BACKOFF_MS: Final = 100
_READ_TIMEOUT_MS: Final = 30_000


class ConsumedRecord(NamedTuple):
    """A record that was read from a partition."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class RecordProducers:
    """Producers with acks=all, one for each timeout. None retries a record that may be stored."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._producers: dict[int, Producer] = {}

    def send(self, tp: TopicPartition, record: Record, timeout_ms: int) -> int:
        """Send a record and return its offset. Send it again while the leader refuses to store it.

        Raises KlammError if the record was not acknowledged; the error is not ``definite`` if the
        record may be stored."""
        driver = self._driver
        deadline_ms = driver.elapsed_ms + timeout_ms
        while True:
            outcome = self._send_once(tp, record, timeout_ms)
            if isinstance(outcome, int):
                return outcome
            driver.run_for(_RETRY_BACKOFF_MS)
            if not outcome.retriable or driver.elapsed_ms >= deadline_ms:
                raise outcome

    def _send_once(self, tp: TopicPartition, record: Record, timeout_ms: int) -> int | KlammError:
        driver, producer = self._driver, self._producers.get(timeout_ms)
        if producer is None:
            config = ProducerConfig(
                acks=-1, retries=0, request_timeout_ms=timeout_ms, delivery_timeout_ms=timeout_ms
            )
            producer = self._producers[timeout_ms] = driver.clients.add_producer(config)
        number = driver.call_client(partial(producer.send, tp, (record,)))
        find = partial(_outcome, producer, tp, number)
        driver.run_until(lambda: driver.call_client(find) is not None, 2 * timeout_ms)
        outcome = driver.call_client(find)
        return RequestTimedOut(f"{tp}: no outcome of a record") if outcome is None else outcome


def _outcome(
    producer: Producer, tp: TopicPartition, number: int, _: float
) -> int | KlammError | None:
    """Return the offset of a record, or the reason why it was not acknowledged.

    Return None if the outcome is not known yet. An error is ``retriable`` if sending the record
    again cannot store it twice."""
    for first, stretch in producer.acknowledged.get(tp, ()):
        if first <= number < first + stretch.end - stretch.start:
            return stretch.start + number - first
    for lost in producer.failed.get(tp, ()):
        if lost.first_number == number:
            reason = f"{tp}: the record is not stored: {lost.text or lost.error.name}"
            return KlammError(reason, retriable=lost.error in RETRIABLE)
    for lost in producer.indefinite.get(tp, ()):
        if lost.first_number == number:
            reason = f"{tp}: the record may be stored: {lost.text or lost.error.name}"
            return KlammError(reason, definite=False)
    return None


def read_partition(driver: ScenarioDriver, tp: TopicPartition) -> list[ConsumedRecord]:
    """Return all committed records of a partition, in the order of their offsets.

    Raises KlammError if the partition cannot be read."""
    reader = driver.clients.reader(tp)
    reads: list[Read] = []

    def begin(_: float) -> None:
        reader.take_records()
        reader.high_watermarks.pop(tp, None)
        reader.seek_to_beginning(tp)
        reader.is_paused = False

    def has_ended(_: float) -> bool:
        reads.extend(reader.take_records())
        reader.is_paused = tp in reader.errors or _is_at_end(reader, tp)
        return reader.is_paused

    driver.call_client(begin)
    if not driver.run_until(lambda: driver.call_client(has_ended), _READ_TIMEOUT_MS):
        raise RequestTimedOut(f"{tp} could not be read within {_READ_TIMEOUT_MS} ms", definite=True)
    if tp in reader.errors:
        raise KlammError(reader.errors[tp])
    return [record for read in reads for record in _records(read)]


def _is_at_end(reader: Consumer, tp: TopicPartition) -> bool:
    position, end = reader.position(tp), reader.high_watermarks.get(tp)
    return position is not None and end is not None and position >= end


def _records(read: Read) -> Iterator[ConsumedRecord]:
    if not isinstance(read.records, bytes):
        raise UsageError("in-memory logs keep no records", hint="omit segments=False")
    for _, (offset, record) in read.decoded():
        yield ConsumedRecord(offset, record.timestamp_ms, record.key, record.value)
