"""What a broker tells clients of topics: its metadata cache, whatever it holds.

Reads the cache and nothing else. Mirrors getPartitionMetadata of kafka.server.ZkMetadataCache and
handleTopicMetadataRequest of kafka.server.KafkaApis, without the creation of topics.
"""

from __future__ import annotations

from brokers.metadata_cache import MetadataCache
from cluster.api_errors import Errors
from cluster.client_requests import (
    MetadataRequest,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from cluster.requests import UpdateMetadataPartitionState
from cluster.types import NO_LEADER

NO_CONTROLLER_ID = -1


def answer_metadata(cache: MetadataCache, request: MetadataRequest) -> MetadataResponse:
    """The answer to a Metadata request; UNKNOWN_TOPIC_OR_PARTITION for what the cache lacks."""
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
        return TopicMetadata(Errors.UNKNOWN_TOPIC_OR_PARTITION, topic)
    partitions = tuple(_partition_metadata(cache, state) for state in states)
    return TopicMetadata(Errors.NONE, topic, cache.topic_id(topic), partitions)


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
