"""A client's metadata cache: the live brokers, and each partition's leader and leader epoch.

This module sends no messages. Because a broker may respond with outdated metadata, a leader with an
older epoch than the cached leader is ignored (KIP-320). Mirrors org.apache.kafka.clients.Metadata.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataResponse, TopicMetadata
from klamm.cluster.types import NO_EPOCH, NO_LEADER, TopicPartition
from klamm.world.clients.config import ClientConfig
from klamm.world.clients.retriable import INVALID_METADATA


class LeaderAndEpoch(NamedTuple):
    """The leader of a partition (-1 if it has none) and the leader epoch (-1 if unknown)."""

    leader: int = NO_LEADER
    epoch: int = NO_EPOCH


NO_KNOWN_LEADER = LeaderAndEpoch()


class Metadata:
    """A client's cached view of the cluster. Times are in monotonic milliseconds.

    - ``brokers``: ids of the brokers to send requests to: live brokers, then bootstrap brokers.
    - ``alive``: ids of the live brokers, according to the last response.
    - ``topic_errors``: errors of the topics for which the last response had no metadata.
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
        """Include a topic in all further metadata requests."""
        if topic not in self.topics:
            self.topics[topic] = None
            self._needs_update = True

    def request_update(self) -> None:
        """Record that the metadata is stale, so that it is refreshed after the backoff."""
        self._needs_update = True

    def next_update_ms(self) -> float:
        """Return when to send the next metadata request; infinity if there are no topics."""
        if not self.topics:
            return math.inf
        wanted_ms = -math.inf
        if not self._needs_update:
            wanted_ms = self._updated_ms + self._config.metadata_max_age_ms
        return max(wanted_ms, self._tried_ms + self._config.retry_backoff_ms)

    def on_asked(self, now_ms: float) -> None:
        """Restart the backoff, because a metadata request was sent or has failed."""
        self._tried_ms = now_ms

    def update(self, response: MetadataResponse, now_ms: float) -> None:
        """Cache a response. If it has a retriable error, schedule another metadata request."""
        self._tried_ms = self._updated_ms = now_ms
        self._needs_update = False
        self.update_count += 1
        # Keep the bootstrap brokers: they may return after all other brokers have died.
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
        """The topics whose names the brokers reject as invalid."""
        invalid = Errors.INVALID_TOPIC_EXCEPTION
        return [topic for topic, error in self.topic_errors.items() if error is invalid]

    def leader_of(self, partition: TopicPartition) -> LeaderAndEpoch:
        """Return the cached leader and leader epoch of a partition."""
        return self._leaders.get(partition, NO_KNOWN_LEADER)
