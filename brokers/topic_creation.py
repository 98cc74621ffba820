"""Creates topics that clients ask for and that do not exist.

Mirrors kafka.server.AutoTopicCreationManager. Kafka's brokers write the new topics to ZooKeeper
themselves; klamm's ask the controller, as Kafka's do when they forward requests.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.brokers.config import BrokerConfig
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.topic_metadata import error_of_missing
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import MetadataRequest
from klamm.cluster.protocols import SendRequest
from klamm.cluster.requests import (
    Address,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.cluster.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC

logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 0
"""The controller does not wait until the new partitions have leaders: it answers with a timeout."""

_CREATED: Final = (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS, Errors.REQUEST_TIMED_OUT)


class _Creation(NamedTuple):
    topics: frozenset[str]
    ends_ms: float


class TopicCreation:
    """Sends CreateTopics requests to the controller, at most one at a time for each topic."""

    def __init__(self, config: BrokerConfig, cache: MetadataCache, send: SendRequest) -> None:
        self._config = config
        self._cache = cache
        self._send = send
        self._in_flight: dict[int, _Creation] = {}
        self._failed: dict[str, Errors] = {}

    def create_missing(self, request: MetadataRequest, now_ms: float) -> dict[str, Errors]:
        """Create the missing topics of a Metadata request, if client and broker allow it.

        Returns the errors of ``create``.
        """
        is_allowed = request.allow_auto_topic_creation and self._config.auto_create_topics_enable
        if not is_allowed or request.topics is None:
            return {}
        missing = (topic for topic in request.topics if not self._cache.num_partitions(topic))
        return self.create(missing, now_ms)

    def create(self, topics: Iterable[str], now_ms: float) -> dict[str, Errors]:
        """Ask the controller to create missing topics; return the error that each has meanwhile.

        - LEADER_NOT_AVAILABLE: the controller has been asked, now or before. Kafka's broker answers
          the same once it has written the topic, which takes as long.
        - UNKNOWN_TOPIC_OR_PARTITION: no controller is known.
        - any other: the name is invalid, or the controller refused to create the topic. The next
          call tries again.
        """
        errors = {topic: self._error_of(topic) for topic in topics}
        # A request that is never answered must not keep its topics from being created.
        self._in_flight = {
            number: one for number, one in self._in_flight.items() if now_ms < one.ends_ms
        }
        asked = {topic for one in self._in_flight.values() for topic in one.topics}
        creatable = [
            topic
            for topic, error in errors.items()
            if error is Errors.LEADER_NOT_AVAILABLE and topic not in asked
        ]
        if creatable:
            self._request(creatable, now_ms)
        return errors

    def _error_of(self, topic: str) -> Errors:
        error = error_of_missing(topic)
        if error is Errors.INVALID_TOPIC_EXCEPTION:
            return error
        failure = self._failed.pop(topic, None)
        if failure is not None:
            return failure
        if self._cache.controller_id is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.LEADER_NOT_AVAILABLE

    def _request(self, topics: list[str], now_ms: float) -> None:
        assert self._cache.controller_id is not None
        controller = Address("controller", self._cache.controller_id)
        request = CreateTopicsRequest(tuple(map(self._creatable, topics)), _TIMEOUT_MS)
        ends_ms = now_ms + self._config.request_timeout_ms
        self._in_flight[self._send(controller, request)] = _Creation(frozenset(topics), ends_ms)

    def _creatable(self, topic: str) -> CreatableTopic:
        config = self._config
        if topic == OFFSETS_TOPIC:
            return CreatableTopic(
                topic,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        if topic == TRANSACTIONS_TOPIC:
            return CreatableTopic(
                topic,
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
            )
        return CreatableTopic(topic)

    def on_response(self, correlation_id: int, response: CreateTopicsResponse) -> None:
        """Process the controller's response; the next call of ``create`` returns its errors."""
        if self._in_flight.pop(correlation_id, None) is None:
            return
        self._failed = {}
        for one in response.topics:
            if one.error not in _CREATED:
                self._failed[one.name] = one.error
                logger.warning(
                    "cannot create %s: %s %s", one.name, one.error.name, one.error_message
                )
