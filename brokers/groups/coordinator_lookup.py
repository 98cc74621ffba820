"""Answers FindCoordinator, and creates ``__consumer_offsets`` when it is first needed.

Mirrors handleFindCoordinatorRequest of kafka.server.KafkaApis, and
kafka.server.AutoTopicCreationManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from klamm.brokers.config import BrokerConfig
from klamm.brokers.groups.group_coordinator import partition_for
from klamm.brokers.groups.group_log import OFFSETS_TOPIC
from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.api_errors import Errors
from klamm.cluster.group_requests import FindCoordinatorRequest, FindCoordinatorResponse
from klamm.cluster.requests import (
    Address,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC: Final = "__transaction_state"
_UNAVAILABLE: Final = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE)

Send = Callable[[Address, CreateTopicsRequest], int]


class CoordinatorLookup:
    """Finds the coordinators of groups in a broker's metadata cache."""

    def __init__(
        self,
        config: BrokerConfig,
        cache: MetadataCache,
        partition_of: Callable[[str], int],
        send: Send,
    ) -> None:
        self._config = config
        self._cache = cache
        self._partition_of = partition_of
        self._send = send
        self._creation: int | None = None
        self._creation_ends_ms = 0.0

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
            if topic == OFFSETS_TOPIC:
                self._maybe_create(now_ms)
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

    def _maybe_create(self, now_ms: float) -> None:
        in_flight = self._creation is not None and now_ms < self._creation_ends_ms
        if in_flight or self._cache.controller_id is None:
            return
        config = self._config
        topic = CreatableTopic(
            OFFSETS_TOPIC,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
        request = CreateTopicsRequest((topic,), config.request_timeout_ms)
        self._creation = self._send(Address("controller", self._cache.controller_id), request)
        self._creation_ends_ms = now_ms + config.request_timeout_ms

    def on_response(self, correlation_id: int, response: CreateTopicsResponse) -> None:
        """Process the controller's response; the next FindCoordinator retries a failed creation."""
        if correlation_id != self._creation:
            return
        self._creation = None
        for one in response.topics:
            if one.error not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS):
                logger.warning(
                    "cannot create %s: %s %s", one.name, one.error.name, one.error_message
                )
