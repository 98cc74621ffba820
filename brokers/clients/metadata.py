"""A client's cached cluster metadata: leaders, their epochs, brokers, and the age of the cache.

Sends nothing. A response from a broker that is behind does not replace a newer leader epoch
(KIP-320). Mirrors org.apache.kafka.clients.Metadata.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from klamm.brokers.clients.config import ClientConfig
from klamm.brokers.clients.retriable import INVALID_METADATA
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, TopicMetadata
from klamm.cluster.types import NO_EPOCH, NO_LEADER, TopicPartition


class LeaderAndEpoch(NamedTuple):
    """The leader of a partition (-1: none) and its epoch (-1: unknown)."""

    leader: int = NO_LEADER
    epoch: int = NO_EPOCH


NO_KNOWN_LEADER = LeaderAndEpoch()


class Metadata:
    """The cluster as a client sees it; times in monotonic milliseconds.

    ``brokers``: ids to send requests to, initially the bootstrap brokers. ``alive``: the brokers of
    the last response. ``topic_errors``: why the last response had no metadata of a topic.
    """

    def __init__(self, config: ClientConfig, bootstrap: Iterable[int]) -> None:
        self.brokers: tuple[int, ...] = tuple(bootstrap)
        self.alive: tuple[int, ...] = ()
        self.topics: dict[str, None] = {}
        self.topic_errors: dict[str, Errors] = {}
        self.update_count = 0
        self._bootstrap = self.brokers
        self._config = config
        self._leaders: dict[TopicPartition, LeaderAndEpoch] = {}
        self._partition_counts: dict[str, int] = {}
        self._needs_update = True
        self._tried_ms = -math.inf
        self._updated_ms = -math.inf

    def add_topic(self, topic: str) -> None:
        """Add a topic to all further metadata requests."""
        if topic not in self.topics:
            self.topics[topic] = None
            self._needs_update = True

    def request_update(self) -> None:
        """Metadata is stale: refresh it after the backoff."""
        self._needs_update = True

    def next_update_ms(self) -> float:
        """Return when to send the next metadata request; infinite without topics."""
        if not self.topics:
            return math.inf
        wanted_ms = -math.inf
        if not self._needs_update:
            wanted_ms = self._updated_ms + self._config.metadata_max_age_ms
        return max(wanted_ms, self._tried_ms + self._config.retry_backoff_ms)

    def on_asked(self, now_ms: float) -> None:
        """Restart the backoff: a metadata request was sent or has failed."""
        self._tried_ms = now_ms

    def update(self, response: MetadataResponse, now_ms: float) -> None:
        """Cache a response; request another if a partition or topic has a retriable error."""
        self._tried_ms = self._updated_ms = now_ms
        self._needs_update = False
        self.update_count += 1
        # Keep the bootstrap brokers: all brokers alive now may be dead when those are back.
        self.alive = tuple(broker.id for broker in response.brokers)
        self.brokers = tuple(dict.fromkeys((*self.alive, *self._bootstrap)))
        for topic in response.topics:
            self._update_topic(topic)

    def _update_topic(self, topic: TopicMetadata) -> None:
        if topic.error is not Errors.NONE:
            self.topic_errors[topic.name] = topic.error
            self._needs_update |= topic.error in INVALID_METADATA
            for partition in range(self._partition_counts.pop(topic.name, 0)):
                self._leaders.pop(TopicPartition(topic.name, partition), None)
            return
        self.topic_errors.pop(topic.name, None)
        self._partition_counts[topic.name] = len(topic.partitions)
        for one in topic.partitions:
            tp = TopicPartition(topic.name, one.partition)
            self._needs_update |= one.error is not Errors.NONE
            if one.leader_epoch >= self.leader_of(tp).epoch:
                self._leaders[tp] = LeaderAndEpoch(one.leader, one.leader_epoch)

    @property
    def invalid_topics(self) -> list[str]:
        """Topics with names that the brokers reject as invalid."""
        invalid = Errors.INVALID_TOPIC_EXCEPTION
        return [topic for topic, error in self.topic_errors.items() if error is invalid]

    def leader_of(self, partition: TopicPartition) -> LeaderAndEpoch:
        """Return the cached leader and epoch of a partition."""
        return self._leaders.get(partition, NO_KNOWN_LEADER)

    def partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of a topic; None if it is unknown."""
        return self._partition_counts.get(topic)
