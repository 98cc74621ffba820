"""Metadata responses to clients, built only from the broker's metadata cache.

Mirrors getPartitionMetadata of kafka.server.ZkMetadataCache and handleTopicMetadataRequest of
kafka.server.KafkaApis.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.errors import InvalidTopic
from klamm.cluster.topic_names import validate_topic_name
from klamm.cluster.types import NO_CONTROLLER

NONE_MISSING: Final[Mapping[str, Errors]] = {}


def answer_metadata(
    cache: MetadataCache, request: MetadataRequest, missing: Mapping[str, Errors] = NONE_MISSING
) -> MetadataResponse:
    """Return the response to a Metadata request.

    ``missing`` has the errors of missing topics that are being created. Others get
    UNKNOWN_TOPIC_OR_PARTITION, and invalid topic names INVALID_TOPIC_EXCEPTION.
    """
    topics = cache.topics() if request.topics is None else request.topics
    controller_id = NO_CONTROLLER if cache.controller_id is None else cache.controller_id
    return MetadataResponse(
        tuple(cache.alive_brokers.values()),
        controller_id,
        tuple(_topic_metadata(cache, topic, missing) for topic in topics),
    )


def _topic_metadata(
    cache: MetadataCache, topic: str, missing: Mapping[str, Errors]
) -> TopicMetadata:
    states = cache.states_of(topic)
    if not states:
        return TopicMetadata(missing.get(topic) or error_of_missing(topic), topic)
    partitions = tuple(
        PartitionMetadata.of(
            cache.alive_brokers,
            state.topic_partition.partition,
            state.leader,
            state.leader_epoch,
            state.replicas,
            state.isr,
            state.offline_replicas,
        )
        for state in states
    )
    return TopicMetadata(Errors.NONE, topic, cache.topic_id(topic), partitions)


def error_of_missing(topic: str) -> Errors:
    """Return the error for a topic without metadata."""
    try:
        validate_topic_name(topic)
    except InvalidTopic:
        return Errors.INVALID_TOPIC_EXCEPTION
    return Errors.UNKNOWN_TOPIC_OR_PARTITION
