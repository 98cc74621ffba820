"""Answers FindCoordinator; ``__consumer_offsets`` is created when it is first needed.

Mirrors handleFindCoordinatorRequest of kafka.server.KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from klamm.brokers.config import BrokerConfig
from klamm.brokers.groups.group_coordinator import partition_for
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.topic_creation import TopicCreation
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import FindCoordinatorRequest, FindCoordinatorResponse
from klamm.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from klamm.cluster.types import TopicPartition

_UNAVAILABLE: Final = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)


class CoordinatorLookup:
    """Finds the coordinators of groups and transactional ids in a broker's metadata cache."""

    def __init__(
        self,
        config: BrokerConfig,
        cache: MetadataCache,
        partition_of: Callable[[str], int],
        creation: TopicCreation,
    ) -> None:
        self._config = config
        self._cache = cache
        self._partition_of = partition_of
        self._creation = creation

    def find(self, body: FindCoordinatorRequest, now_ms: float) -> FindCoordinatorResponse:
        """Return the leader of the partition of an internal topic that stores the key's state.

        While there is no live leader or no such topic, the error is COORDINATOR_NOT_AVAILABLE.
        Simulated brokers have no transactions; a broker without replicas knows the coordinators of
        Kafka's brokers.
        """
        if body.is_transactional and self._config.hosts_replicas:
            return FindCoordinatorResponse(Errors.UNSUPPORTED_VERSION)
        topic = TRANSACTIONS_TOPIC if body.is_transactional else OFFSETS_TOPIC
        count = self._cache.num_partitions(topic)
        if not count:
            self._creation.create((topic,), now_ms)
            return _UNAVAILABLE
        partition = (
            self._partition_of(body.key)
            if self._config.hosts_replicas
            else partition_for(body.key, count)
        )
        leader = self._cache.leader_of(TopicPartition(topic, partition))
        coordinator = None if leader is None else self._cache.alive_brokers.get(leader)
        if coordinator is None:
            return _UNAVAILABLE
        return FindCoordinatorResponse(Errors.NONE, coordinator)
