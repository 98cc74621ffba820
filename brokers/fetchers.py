"""Followers that have to catch up: one fetcher for each leader, one request in flight in each.

There is no data yet: a fetch that the leader answers without an error is all there is to catch up
with, and the partition then costs nothing. Only replicas outside the ISR are given to a fetcher.
Mirrors kafka.server.{ReplicaFetcherManager, AbstractFetcherThread}.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from brokers.config import BrokerConfig
from cluster.api_errors import Errors
from cluster.requests import Address, FetchRequest, FetchResponse
from cluster.types import TopicPartition

Send = Callable[[Address, FetchRequest], int]
"""Sends a request and returns its correlation id."""


class _Fetcher:
    """What is fetched from one leader; ``delayed``: when a partition may be asked for again."""

    __slots__ = ("correlation_id", "delayed", "due_ms", "epochs", "in_flight")

    def __init__(self) -> None:
        self.epochs: dict[TopicPartition, int] = {}
        self.delayed: dict[TopicPartition, float] = {}
        self.in_flight: dict[TopicPartition, int] = {}
        self.correlation_id = -1
        self.due_ms = 0.0

    def remove(self, partition: TopicPartition) -> None:
        del self.epochs[partition]
        self.delayed.pop(partition, None)

    def ready(self) -> dict[TopicPartition, int]:
        if not self.delayed:
            return dict(self.epochs)
        if len(self.delayed) == len(self.epochs):
            return {}
        return {tp: epoch for tp, epoch in self.epochs.items() if tp not in self.delayed}


class ReplicaFetcherManager:
    """Fetchers by leader. ``held``: nothing is sent until it is False again."""

    def __init__(self, broker_id: int, config: BrokerConfig, send: Send) -> None:
        self._broker_id = broker_id
        self._config = config
        self._send = send
        self._fetchers: dict[int, _Fetcher] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self.held = config.catch_up == "held"

    @property
    def partition_count(self) -> int:
        """Partitions that have not caught up yet."""
        return len(self._leaders)

    def add(self, partition: TopicPartition, leader: int, leader_epoch: int) -> None:
        """Fetch a partition from its leader until it has caught up at this epoch."""
        self.remove(partition)
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = _Fetcher()
        fetcher.epochs[partition] = leader_epoch
        self._leaders[partition] = leader

    def remove(self, partition: TopicPartition) -> None:
        """Stop fetching a partition, if it is fetched at all."""
        leader = self._leaders.pop(partition, None)
        if leader is not None:
            self._fetchers[leader].remove(partition)

    def maybe_fetch(self, alive: Container[int], now_ms: float) -> None:
        """Send one request to every live leader that has something to fetch and none in flight.

        What was asked of a leader that is gone will not be answered: it is asked again once the
        leader lives.
        """
        for leader, fetcher in self._fetchers.items():
            if leader not in alive:
                fetcher.in_flight = {}
                continue
            if self.held or fetcher.in_flight or not fetcher.epochs:
                continue
            ready = fetcher.ready()
            if ready:
                fetcher.in_flight = ready
                fetcher.due_ms = now_ms + self._config.replica_socket_timeout_ms
                fetcher.correlation_id = self._send(
                    Address("broker", leader), FetchRequest(self._broker_id, ready)
                )

    def on_response(
        self, leader: int, correlation_id: int, response: FetchResponse, now_ms: float
    ) -> None:
        """Caught up where there is no error; fenced partitions wait for the controller.

        Every other error is one that the leader may get over (it has not heard of the epoch, or of
        its leadership): the partition is fetched again after replica.fetch.backoff.ms.
        """
        fetcher = self._fetchers.get(leader)
        if fetcher is None or not fetcher.in_flight or fetcher.correlation_id != correlation_id:
            return
        sent, fetcher.in_flight = fetcher.in_flight, {}
        errors = response.partition_errors
        for partition, epoch in sent.items():
            if fetcher.epochs.get(partition) != epoch:
                continue
            error = errors.get(partition, Errors.NONE)
            if error in (Errors.NONE, Errors.FENCED_LEADER_EPOCH):
                self.remove(partition)
            else:
                fetcher.delayed[partition] = now_ms + self._config.replica_fetch_backoff_ms

    def next_due_ms(self, alive: Container[int]) -> float | None:
        """When a live leader is to be asked again, or its answer is to be given up."""
        if self.held:
            return None
        due = []
        for leader, fetcher in self._fetchers.items():
            if leader not in alive:
                continue
            if fetcher.in_flight:
                due.append(fetcher.due_ms)
            elif fetcher.delayed:
                # All delays are alike, so the oldest entry is the first one due.
                due.append(next(iter(fetcher.delayed.values())))
        return min(due, default=None)

    def on_timer(self, now_ms: float) -> None:
        """Give up requests that nobody answered, and end delays that are over."""
        for fetcher in self._fetchers.values():
            if fetcher.in_flight and now_ms >= fetcher.due_ms:
                fetcher.in_flight = {}
            over = [tp for tp, due_ms in fetcher.delayed.items() if due_ms <= now_ms]
            for partition in over:
                del fetcher.delayed[partition]
