"""What a broker tells clients of topics: its metadata cache, whatever it holds.

Reads the cache and nothing else. Mirrors getPartitionMetadata of kafka.server.ZkMetadataCache and
handleTopicMetadataRequest of kafka.server.KafkaApis, without the creation of topics.
"""

from __future__ import annotations

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from klamm.cluster.errors import InvalidTopic
from klamm.cluster.requests import UpdateMetadataPartitionState
from klamm.cluster.topic_names import validate_topic_name
from klamm.cluster.types import NO_LEADER

NO_CONTROLLER_ID = -1


def answer_metadata(cache: MetadataCache, request: MetadataRequest) -> MetadataResponse:
    """The answer to a Metadata request; for what the cache lacks UNKNOWN_TOPIC_OR_PARTITION, or
    INVALID_TOPIC_EXCEPTION if there can be no topic of that name."""
    topics = cache.topics() if request.topics is None else request.topics
    controller_id = NO_CONTROLLER_ID if cache.controller_id is None else cache.controller_id
    return MetadataResponse(
        tuple(cache.alive_brokers.values()),
        controller_id,
        tuple(_topic_metadata(cache, topic) for topic in topics),
    )


def _topic_metadata(cache: MetadataCache, topic: str) -> TopicMetadata:
    states = cache.states_of(topic)
    if not states:
        return TopicMetadata(_why_there_is_none(topic), topic)
    partitions = tuple(_partition_metadata(cache, state) for state in states)
    return TopicMetadata(Errors.NONE, topic, cache.topic_id(topic), partitions)


def _why_there_is_none(topic: str) -> Errors:
    try:
        validate_topic_name(topic)
    except InvalidTopic:
        return Errors.INVALID_TOPIC_EXCEPTION
    return Errors.UNKNOWN_TOPIC_OR_PARTITION


def _partition_metadata(
    cache: MetadataCache, state: UpdateMetadataPartitionState
) -> PartitionMetadata:
    is_alive = state.leader in cache.alive_brokers
    return PartitionMetadata(
        Errors.NONE if is_alive else Errors.LEADER_NOT_AVAILABLE,
        state.topic_partition.partition,
        state.leader if is_alive else NO_LEADER,
        state.leader_epoch,
        state.replicas,
        state.isr,
        state.offline_replicas,
    )
