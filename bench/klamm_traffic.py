"""Counts what goes through one klamm process: answers of brokers, and batches to ZooKeeper.

It changes nothing of what it sees. The counts have the names and the meaning of those of the fake
brokers (kafka/fake/Counters.java).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    Address,
    AlterIsrResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.world.journal.journal import FileJournal
from klamm.zk.kazoo_pipeline import Wait
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_wire import Multi, ZooKeeperRequest

_API_OF = {
    LeaderAndIsrResponse: "LEADER_AND_ISR",
    UpdateMetadataResponse: "UPDATE_METADATA",
    StopReplicaResponse: "STOP_REPLICA",
    AlterIsrResponse: "ALTER_ISR",
}
# A broker that knows the leader epoch it is sent says so: after a failover to LeaderAndIsr, before
# its end to the order to stop following, which comes a second time with the next epoch.
_EXPECTED = {
    LeaderAndIsrResponse: (Errors.NONE, Errors.STALE_CONTROLLER_EPOCH),
    StopReplicaResponse: (Errors.NONE, Errors.FENCED_LEADER_EPOCH),
}


class Traffic:
    """A tap of the transport: an answer counts when the broker sends it. Thread-safe."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self._lock = threading.Lock()
        self._asked: dict[tuple[Address, int], int] = {}
        self.reset()

    def reset(self) -> None:
        """Count from 0, but for errors."""
        with self._lock:
            self._counts = {
                api: {"requests": 0, "partitions": 0, "first": 0.0, "last": 0.0}
                for api in _API_OF.values()
            }

    def counts(self) -> dict[str, dict[str, float]]:
        """By kind of request: how many, the partitions in them, first and last answer."""
        with self._lock:
            return {api: dict(count) for api, count in self._counts.items()}

    def tap(self, message: Message) -> None:
        """Take one message, before it is delivered."""
        body = message.body
        match body:
            case LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest():
                key = (message.destination, message.correlation_id)
                self._asked[key] = len(body.partition_states)
            case LeaderAndIsrResponse() | StopReplicaResponse():
                self._answered(message, body, self._size_asked(message))
                expected = _EXPECTED[type(body)]
                for tp, error in body.partition_errors.items():
                    if error not in expected:
                        self.errors.append(f"{message.source}: {tp}: {error.name}")
            case UpdateMetadataResponse():
                self._answered(message, body, self._size_asked(message))
            case AlterIsrResponse():
                self._answered(message, body, len(body.partitions))

    def _size_asked(self, message: Message) -> int:
        return self._asked.pop((message.source, message.correlation_id), 0)

    def _answered(
        self,
        message: Message,
        body: LeaderAndIsrResponse
        | UpdateMetadataResponse
        | StopReplicaResponse
        | AlterIsrResponse,
        partitions: int,
    ) -> None:
        at_s = time.time()
        with self._lock:
            count = self._counts[_API_OF[type(body)]]
            count["requests"] += 1
            count["partitions"] += partitions
            count["first"] = count["first"] or at_s
            count["last"] = at_s
        if body.error is not Errors.NONE:
            self.errors.append(f"{message.source}: {type(body).__name__}: {body.error.name}")


class CountedJournal(FileJournal):
    """A FileJournal that also counts the controller events in it."""

    events = 0

    def append(self, rows: Iterable[JournalRow]) -> None:
        # An event is a row appended alone; to look at each of the others would cost time.
        if isinstance(rows, list) and len(rows) == 1 and rows[0].kind == Kind.EVENT.value:
            self.events += 1
        super().append(rows)


class StoreBatches:
    """Batches of one session: each is one or more requests sent together, and one wait for all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        with self._lock:
            self._counts = {"read_batches": 0, "write_batches": 0, "store_requests": 0}

    def counts(self) -> dict[str, int]:
        """Batches that read or arm watches, batches that write, and the requests of both."""
        with self._lock:
            return dict(self._counts)

    def count(self, session: KazooSession) -> None:
        """Count every batch of ``session`` from now on."""
        run = session.run

        def counted(
            requests: Sequence[ZooKeeperRequest], repeat: bool, *wait: Wait, **named: Any
        ) -> None:
            if requests:
                kind = "write_batches" if isinstance(requests[0], Multi) else "read_batches"
                with self._lock:
                    self._counts[kind] += 1
                    self._counts["store_requests"] += len(requests)
            run(requests, repeat, *wait, **named)

        session.run = counted  # type: ignore[method-assign]
