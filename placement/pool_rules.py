"""Placement inside pools: new topics, added partitions, and checks of manual assignments.

Without pools, replicas are placed as in Kafka. Only new replicas are checked: a replica that is
already outside its pool may stay until it is moved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from klamm.cluster.counting import are, brokers_text, plural
from klamm.cluster.errors import InvalidReplicaAssignment, InvalidReplicationFactor, UsageError
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.added_partitions import create_new_partitions_assignment
from klamm.placement.assign import Assignment, assign_replicas_to_brokers
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import IntSource
from klamm.placement.pools import Pool, Pools, brokers_for_topic


def assign_in_pool(
    pools: Pools,
    topic: str,
    brokers: Iterable[BrokerMetadata],
    partitions: int,
    replication_factor: int,
    source: IntSource,
) -> Assignment:
    """Assign the partitions of a topic to the live ``brokers`` that may host it.

    Raises the errors of assign_replicas_to_brokers; the message of InvalidReplicationFactor names
    the pool.
    """
    allowed = brokers_for_topic(pools, topic, brokers)
    with _naming_the_pool(pools, topic, len(allowed), replication_factor):
        return assign_replicas_to_brokers(allowed, partitions, replication_factor, source=source)


def add_partitions_in_pool(
    pools: Pools,
    topic: str,
    existing: Mapping[int, ReplicaAssignment],
    brokers: Sequence[BrokerMetadata],
    num_partitions: int,
    manual: Mapping[int, Sequence[int]] | None = None,
) -> dict[int, ReplicaAssignment]:
    """Choose replicas in the topic's pool for the partitions that are added to ``topic``.

    Returns the added partitions. Raises the errors of create_new_partitions_assignment, and
    InvalidReplicaAssignment if ``manual`` has a replica outside the pool.
    """
    if manual is not None:
        added = create_new_partitions_assignment(topic, existing, brokers, num_partitions, manual)
        check_in_pool(pools, topic, manual)
        return added
    allowed = brokers_for_topic(pools, topic, brokers)
    replication_factor = len(existing[0].replicas) if 0 in existing else 0
    with _naming_the_pool(pools, topic, len(allowed), replication_factor):
        return create_new_partitions_assignment(topic, existing, allowed, num_partitions)


def check_in_pool(pools: Pools, topic: str, assignment: Mapping[int, Collection[int]]) -> None:
    """Check that the new replicas of ``topic``, keyed by partition, are in its pool.

    Raises InvalidReplicaAssignment; the message names the first partition with a violation.
    """
    check_moves_in_pool(
        pools, {TopicPartition(topic, number): ids for number, ids in assignment.items()}
    )


def check_moves_in_pool(pools: Pools, added: Mapping[TopicPartition, Collection[int]]) -> None:
    """Check that added replicas, keyed by partition, are in the pools of their topics.

    Raises InvalidReplicaAssignment; the message names the first partition with a violation, and the
    number of others.
    """
    refused = [text for tp, ids in added.items() if (text := outside_pool_text(pools, tp, ids))]
    if refused:
        others = len(refused) - 1
        more = f" (and {others} more partition{plural(others)})" if others else ""
        raise InvalidReplicaAssignment(
            refused[0] + more,
            hint="klamm pools plan writes a plan that stays within the pools",
        )


def outside_pool_text(
    pools: Pools, partition: TopicPartition, added: Collection[int]
) -> str | None:
    """Return why the replicas ``added`` may not be added to ``partition``.

    Returns None if they may be added.
    """
    unable = [id_ for id_ in added if id_ in pools.without_replicas]
    if unable:
        verb = "hosts" if len(unable) == 1 else "host"
        return f"Partition {partition}: {brokers_text(unable)} {verb} no replicas."
    pool = pools.pool_of(partition.topic)
    if pool is None:
        return None
    outside = [id_ for id_ in added if id_ not in pool.broker_ids]
    if not outside:
        return None
    return (
        f"Partition {partition} would leave {_described(pool)}:"
        f" {brokers_text(outside)} {are(outside)} not in it."
    )


def check_brokers_exist(pools: Pools, broker_ids: Collection[int]) -> None:
    """Raise UsageError if a pool has a broker that is not in ``broker_ids``."""
    for pool in pools.by_name.values():
        missing = [id_ for id_ in pool.broker_ids if id_ not in broker_ids]
        if missing:
            raise UsageError(
                f"{brokers_text(missing)} of pool {pool.name} {are(missing)} not in the cluster",
                hint=f"the cluster has brokers {min(broker_ids)} to {max(broker_ids)}",
            )


@contextmanager
def _naming_the_pool(
    pools: Pools, topic: str, broker_count: int, replication_factor: int
) -> Iterator[None]:
    try:
        yield
    except InvalidReplicationFactor as error:
        pool = pools.pool_of(topic)
        if pool is None or replication_factor <= broker_count:
            raise
        raise InvalidReplicationFactor(
            f"{error.message} Topic {topic} belongs to {_described(pool)}."
        ) from None


def _described(pool: Pool) -> str:
    return f"pool {pool.name} ({brokers_text(pool.broker_ids)})"
