"""Which followers a leader has something to tell, and which of them owe it a fetch.

Kafka's followers fetch all the time; klamm's fetch once, and their leader answers that fetch again
whenever there is news. What it sent is sent again after replica.fetch.wait.max.ms, as long as the
follower lives and has not fetched what follows. Only keys and times here. Stands for the fetches
that wait in Kafka's purgatory (kafka.server.DelayedFetch) and for fetch sessions (KIP-227).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from cluster.types import PartitionAndReplica, TopicPartition


class StandingFetches:
    """Times in monotonic milliseconds; ``repeat_after_ms`` later what was sent is sent again."""

    def __init__(self, repeat_after_ms: float) -> None:
        self._repeat_after_ms = repeat_after_ms
        self._news: dict[int, dict[TopicPartition, None]] = {}
        self._owing: dict[PartitionAndReplica, float] = {}

    def add_news(self, partition: TopicPartition, replica_ids: Iterable[int]) -> None:
        """There may be something to tell these followers."""
        for replica_id in replica_ids:
            news = self._news.get(replica_id)
            if news is None:
                news = self._news[replica_id] = {}
            news[partition] = None

    def take_news(self) -> dict[int, dict[TopicPartition, None]]:
        """The partitions of which followers are to be told, by follower; from now on none."""
        news, self._news = self._news, {}
        return news

    def add_owing(self, partition: TopicPartition, replica_id: int, now_ms: float) -> None:
        """A follower was sent something, or is expected to fetch by itself."""
        key = PartitionAndReplica(partition, replica_id)
        # All waits are alike: in the order of their beginning they end.
        self._owing.pop(key, None)
        self._owing[key] = now_ms + self._repeat_after_ms

    def remove_owing(self, partition: TopicPartition, replica_id: int) -> None:
        """A follower has fetched."""
        if self._owing:
            self._owing.pop(PartitionAndReplica(partition, replica_id), None)

    def next_due_ms(self, alive: Container[int]) -> float | None:
        """When a live follower is to be told again."""
        return next((due for key, due in self._owing.items() if key.replica in alive), None)

    def take_due(self, now_ms: float) -> list[PartitionAndReplica]:
        """Who has not fetched in time."""
        due = []
        for key, due_ms in self._owing.items():
            if due_ms > now_ms:
                break
            due.append(key)
        for key in due:
            del self._owing[key]
        return due
