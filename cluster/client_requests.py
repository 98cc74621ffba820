"""Requests that only clients send, as plain values: Metadata.

Nothing here reads a metadata cache or a log. Mirrors the request schemas of 2.8: Metadata v11. What
clients and followers both send, Fetch and Produce, is in cluster/data_requests.py.
"""

from __future__ import annotations

import msgspec

from cluster.api_errors import Errors
from cluster.types import Broker


class MetadataRequest(msgspec.Struct, frozen=True):
    """Which brokers live, and who leads the partitions of ``topics``, or of all if that is None.

    Any broker answers, from its cache, which may be behind. Nobody creates a topic for it.
    """

    topics: tuple[str, ...] | None = None


class PartitionMetadata(msgspec.Struct, frozen=True, gc=False):
    """One partition. ``leader`` is -1 with LEADER_NOT_AVAILABLE: there is none, or none that lives.

    ``offline_replicas``: those on brokers or in directories that are down.
    """

    error: Errors
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()


class TopicMetadata(msgspec.Struct, frozen=True):
    """One topic; its partitions in the order of their ids."""

    error: Errors
    name: str
    topic_id: str | None = None
    partitions: tuple[PartitionMetadata, ...] = ()


class MetadataResponse(msgspec.Struct, frozen=True):
    """Live brokers, the controller's id (-1: unknown), and the topics in the order asked for."""

    brokers: tuple[Broker, ...]
    controller_id: int
    topics: tuple[TopicMetadata, ...]


ClientRequest = MetadataRequest
ClientResponse = MetadataResponse
