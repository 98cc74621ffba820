"""What the benchmark itself asks ZooKeeper: topics in, states out, and how far the server is.

It shares nothing with klamm's Store, so that an error there cannot flatter a figure; kazoo is
driven directly. It must not be used inside klamm.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol import serialization
from kazoo.protocol.states import EventType, WatchedEvent

from bench.kafka.scenarios import TOPIC_CONFIG, Partition, Topic
from klamm.zk.embedded import four_letter_word

SESSION_TIMEOUT_S = 30.0
READS_PER_REQUEST = 1000
MAX_TOPICS_PER_REQUEST = 100
MAX_REQUEST_BYTES = 128 * 1024
# Two znodes a topic, their paths and headers; what a partition adds to the assignment.
_TOPIC_BYTES = 300
_PARTITION_BYTES = 20


class State(NamedTuple):
    """A partition's state znode; ``written_at_s`` is ZooKeeper's own stamp."""

    value: dict[str, Any]
    written_at_s: float

    @property
    def leader(self) -> int:
        """A broker's id, -1 for none."""
        return int(self.value["leader"])

    @property
    def isr(self) -> tuple[int, ...]:
        """The replicas in sync, as written."""
        return tuple(self.value["isr"])


@dataclass(frozen=True)
class _MultiRead:
    """Many getData in one packet, which kazoo does not know."""

    paths: Sequence[str]
    type: ClassVar[int] = 22

    def serialize(self) -> bytearray:
        out = bytearray()
        header = serialization.MultiHeader(serialization.GetData.type, False, -1).serialize()
        for path in self.paths:
            text = path.encode()
            out += header + struct.pack("!i", len(text)) + text + b"\0"
        out += serialization.multiheader_struct.pack(-1, True, -1)
        return out

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[tuple[bytes, Any] | None]:
        header, stat = serialization.multiheader_struct, serialization.stat_struct
        found: list[tuple[bytes, Any] | None] = []
        while True:
            kind, done, _ = header.unpack_from(data, offset)
            offset += header.size
            if done:
                return found
            (size,) = serialization.int_struct.unpack_from(data, offset)
            offset += serialization.int_struct.size
            if kind == -1:
                found.append(None)
                continue
            value = bytes(data[offset : offset + size])
            offset += size
            found.append((value, serialization.ZnodeStat._make(stat.unpack_from(data, offset))))
            offset += stat.size


class BenchClient:
    """One session beside the product's own. ``with BenchClient(port) as client``."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.kazoo = KazooClient(f"127.0.0.1:{port}", timeout=SESSION_TIMEOUT_S)

    def __enter__(self) -> Self:
        self.kazoo.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kazoo.stop()
        self.kazoo.close()

    def create_topics(self, topics: Sequence[Topic]) -> float:
        """Write both znodes of every topic. Returns the time at which the first was sent.

        Grouped and pipelined: whoever writes must not be what the controller waits for.
        """
        size = _TOPIC_BYTES + _PARTITION_BYTES * max(len(topic.partitions) for topic in topics)
        group = max(1, min(MAX_TOPICS_PER_REQUEST, MAX_REQUEST_BYTES // size))
        started_s = time.time()
        pending = []
        for start in range(0, len(topics), group):
            transaction = self.kazoo.transaction()
            for topic in topics[start : start + group]:
                transaction.create(topic.config_path, TOPIC_CONFIG)
                transaction.create(topic.path, topic.payload())
            pending.append(transaction.commit_async())
        for result in pending:
            _raise_first(result.get())
        return started_s

    def create_all(self, paths: Sequence[str]) -> float:
        """Create empty znodes in one transaction. Returns the time at which it was sent."""
        transaction = self.kazoo.transaction()
        for path in paths:
            transaction.create(path)
        started_s = time.time()
        _raise_first(transaction.commit())
        return started_s

    def read(self, paths: Sequence[str]) -> list[tuple[bytes, Any] | None]:
        """(data, stat) of each, None for what is not there."""
        pending = []
        for start in range(0, len(paths), READS_PER_REQUEST):
            result = self.kazoo.handler.async_result()
            self.kazoo._call(_MultiRead(paths[start : start + READS_PER_REQUEST]), result)
            pending.append(result)
        return [item for result in pending for item in result.get()]

    def read_states(self, partitions: Sequence[Partition]) -> dict[Partition, State | None]:
        """The state znode of each partition."""
        found = self.read([item.state_path for item in partitions])
        return {
            partition: None if item is None else State(json.loads(item[0]), item[1].mtime / 1000)
            for partition, item in zip(partitions, found, strict=True)
        }

    def zxid(self) -> str:
        """The last transaction the server did."""
        lines = four_letter_word(self.port, "srvr", SESSION_TIMEOUT_S).splitlines()
        return next(line for line in lines if line.startswith("Zxid:"))

    def counters(self) -> dict[str, float]:
        """The server's own numbers, by ZooKeeper's names."""
        numbers = {}
        for line in four_letter_word(self.port, "mntr", SESSION_TIMEOUT_S).splitlines():
            name, _, value = line.partition("\t")
            try:
                numbers[name] = float(value)
            except ValueError:
                # Some are texts: the version, the server's role.
                continue
        return numbers


class Gone:
    """Watches until something is no longer there; ``at_s`` is when it was seen to be gone."""

    def __init__(
        self, client: BenchClient, is_there: Callable[[KazooClient, Callable[..., None]], bool]
    ) -> None:
        self.at_s: float | None = None
        self._kazoo = client.kazoo
        self._is_there = is_there

    def arm(self) -> None:
        """Begin, once it is there. Does nothing more after the client was closed."""
        try:
            is_there = self._is_there(self._kazoo, self._changed)
        except ConnectionClosedError:
            return
        if not is_there and self.at_s is None:
            self.at_s = time.time()

    def _changed(self, event: WatchedEvent) -> None:
        if event.type == EventType.DELETED:
            self.at_s = time.time()
        else:
            # kazoo's watch thread must not wait for an answer.
            self._kazoo.handler.spawn(self.arm)


def znode_gone(client: BenchClient, path: str) -> Gone:
    """A Gone for a znode."""
    return Gone(client, lambda kazoo, changed: kazoo.exists(path, watch=changed) is not None)


def children_gone(client: BenchClient, path: str) -> Gone:
    """A Gone for all children of a znode."""
    return Gone(client, lambda kazoo, changed: bool(kazoo.get_children(path, watch=changed)))


def _raise_first(results: Sequence[object]) -> None:
    for result in results:
        if isinstance(result, Exception):
            raise result
