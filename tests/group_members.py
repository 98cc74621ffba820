"""Members of a consumer group, each of a Kafka client library, with one interface."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from aiokafka.errors import KafkaError as AiokafkaError
from kafka.errors import KafkaError as KafkaPythonError

PATIENCE_S = 60.0
POLL_S = 0.1
_MAX_RECORDS = 600
_TIMES_MS = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}


class Member(Protocol):
    """A consumer that is a member of the group g, which reads the topic t."""

    def poll(self) -> list[bytes]:
        """Return the values that arrive within POLL_S, and commit their offsets."""

    def assigned(self) -> set[int]:
        """Return the partitions of t that the member owns."""

    def close(self) -> None:
        """Leave the group."""


class LibrdkafkaMember:
    """confluent-kafka."""

    def __init__(self, servers: list[str]) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": ",".join(servers),
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 1_000,
                "log_level": 0,
            }
        )
        self._consumer.subscribe(["t"])

    def poll(self) -> list[bytes]:
        records = self._consumer.consume(_MAX_RECORDS, POLL_S)
        values = [record.value() for record in records if record.error() is None]
        if values:
            self._consumer.commit(asynchronous=True)
        return values

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    """kafka-python."""

    def __init__(self, servers: list[str]) -> None:
        self._consumer = kafka.KafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **_TIMES_MS,
        )

    def poll(self) -> list[bytes]:
        try:
            polled = self._consumer.poll(1000 * POLL_S)
            if polled:
                self._consumer.commit_async()
        except KafkaPythonError as error:
            if not error.retriable:
                raise
            return []
        return [record.value for records in polled.values() for record in records]

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember:
    """aiokafka, whose event loop runs on a thread, so that it sends heartbeats."""

    def __init__(self, servers: list[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka")
        self._thread.start()
        self._consumer: aiokafka.AIOKafkaConsumer = self._run(self._started(servers))

    async def _started(self, servers: list[str]) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **_TIMES_MS,
        )
        await consumer.start()
        return consumer

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _polled(self) -> list[bytes]:
        polled = await self._consumer.getmany(timeout_ms=int(1000 * POLL_S))
        if polled:
            await self._consumer.commit()
        return [record.value for records in polled.values() for record in records]

    def poll(self) -> list[bytes]:
        try:
            return list(self._run(self._polled()))
        except AiokafkaError as error:
            if not error.retriable:
                raise
            return []

    def assigned(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Polling(threading.Thread):
    """Polls a member until it is closed, and keeps the values. ``error``: why it ended early."""

    def __init__(self, new_member: Callable[[list[str]], Member], servers: list[str]) -> None:
        super().__init__(name="member")
        self.values: list[bytes] = []
        self.assigned: set[int] = set()
        self.error: Exception | None = None
        self._new_member, self._servers = new_member, servers
        self._leaves = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            member = self._new_member(self._servers)
            try:
                while not self._leaves.is_set():
                    self.values += member.poll()
                    self.assigned = member.assigned()
            finally:
                self.assigned = set()
                member.close()
        except Exception as error:
            self.error = error

    def leave(self) -> None:
        """Leave the group, and wait until the member is closed."""
        self._leaves.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.error is not None:
            raise self.error


def read(member: Member, count: int) -> list[bytes]:
    """Poll until ``count`` values have arrived."""
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < count:
        assert time.monotonic() < deadline, len(values)
        values += member.poll()
    return values
