"""What a broker shows of itself: numbers of its replicas, and its metadata cache.

The values are computed on request, so that no counters have to be maintained.
"""

from __future__ import annotations

import msgspec

from klamm.brokers.broker import KafkaServer


class BrokerCounts(msgspec.Struct, frozen=True):
    """Numbers of a broker's replicas.

    ``under_replicated``: partitions that the broker leads and whose ISR lacks a replica.
    """

    partitions: int = 0
    leaders: int = 0
    under_replicated: int = 0
    offline: int = 0


class CachedPartition(msgspec.Struct, frozen=True):
    """A partition in a broker's metadata cache."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    offline_replicas: list[int]


class CachedMetadata(msgspec.Struct, frozen=True):
    """The metadata cache of a broker."""

    id: int
    controller_id: int | None
    live_brokers: list[int]
    partitions: list[CachedPartition]


def broker_counts(broker: KafkaServer) -> BrokerCounts:
    """Return the numbers of a broker's replicas."""
    manager, broker_id = broker.replica_manager, broker.info.id
    leaders = under_replicated = 0
    for partition in manager.partitions.values():
        if not partition.is_leader(broker_id):
            continue
        leaders += 1
        current, state = partition.leader_and_isr, partition.state
        if current is not None and state is not None:
            # A replica that is being added is not missed.
            expected = len(state.replicas) - len(state.adding_replicas)
            under_replicated += len(current.isr) < expected
    return BrokerCounts(
        partitions=len(manager.partitions),
        leaders=leaders,
        under_replicated=under_replicated,
        offline=len(manager.offline_partitions),
    )


def cached_metadata(broker: KafkaServer) -> CachedMetadata:
    """Return the whole metadata cache of a broker, as a client would receive it."""
    cache = broker.metadata_cache
    return CachedMetadata(
        broker.info.id,
        cache.controller_id,
        sorted(cache.alive_brokers),
        [
            CachedPartition(
                state.topic_partition.topic,
                state.topic_partition.partition,
                state.leader,
                state.leader_epoch,
                list(state.isr),
                list(state.replicas),
                list(state.offline_replicas),
            )
            for state in cache.states()
        ],
    )
