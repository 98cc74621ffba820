"""Resource isolation pools: the brokers that may host each topic, and violations of the pools.

tools/pools/ reads the pools from YAML, and minimal_moves.py plans moves. Kafka has no pools, only a
broker list for a reassignment and manual assignments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from klamm.cluster.counting import brokers_text, plural
from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata, broker_metadatas

DEFAULT_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class Pool:
    """A resource isolation pool: its name, and the brokers that host only the pool's topics."""

    name: str
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicRule:
    """A rule that assigns topics to `pool` if the regex `pattern` matches the whole name."""

    pattern: str
    pool: str


@dataclass(frozen=True, slots=True)
class Pools:
    """All declared pools, keyed by name, and the rules that assign topics to the pools.

    The first rule that matches a topic applies. A broker is in at most one pool. `weights` gives
    each broker's relative share of the pool's load; the default is 1. `without_replicas` are the
    brokers that host no replicas of any topic.
    """

    by_name: Mapping[str, Pool]
    rules: tuple[TopicRule, ...]
    weights: Mapping[int, float] = field(default_factory=dict)
    without_replicas: frozenset[int] = frozenset()

    def rules_of(self, topic: str) -> tuple[TopicRule, ...]:
        """Return all rules that match `topic`, in order; the first rule applies."""
        return tuple(rule for rule in self.rules if re.fullmatch(rule.pattern, topic))

    def pool_of(self, topic: str) -> Pool | None:
        """Return the pool of `topic`.

        Returns None if no rule matches; any broker may then host the topic.
        """
        rules = self.rules_of(topic)
        return self.by_name[rules[0].pool] if rules else None

    def weight(self, broker_id: int) -> float:
        """Return the weight of a broker; the default is 1."""
        return self.weights.get(broker_id, DEFAULT_WEIGHT)


NO_POOLS: Final = Pools({}, ())


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Replicas and leader of a partition.

    `replicas` starts with the preferred leader; during a reassignment it holds the target replicas.
    `leader` is the current leader, or None if there is no leader or it is unknown.
    """

    replicas: tuple[int, ...]
    leader: int | None = None
    is_being_reassigned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """Live brokers by ascending id, and all partitions ordered by topic and partition id."""

    live_brokers: tuple[BrokerMetadata, ...]
    partitions: Mapping[TopicPartition, PartitionPlace]

    def topics(self) -> tuple[str, ...]:
        """Return the names of the topics that have partitions, sorted."""
        return tuple(dict.fromkeys(tp.topic for tp in self.partitions))

    def partitions_by_topic(self) -> dict[str, tuple[TopicPartition, ...]]:
        """Return the partitions of each topic, ordered by topic and partition id."""
        found: dict[str, list[TopicPartition]] = {}
        for partition in self.partitions:
            found.setdefault(partition.topic, []).append(partition)
        return {topic: tuple(partitions) for topic, partitions in found.items()}


class ViolationKind(Enum):
    """Ways in which a pool or a partition violates the declared pools."""

    MISSING_BROKER = "missing-broker"
    TOO_FEW_BROKERS = "too-few-brokers"
    OUTSIDE_POOL = "outside-pool"
    RACKS = "racks"


@dataclass(frozen=True, slots=True)
class PoolViolation:
    """A violation of the declared pools, caused by a partition or by a pool as a whole.

    `partition` is None if the pool as a whole causes the violation. `brokers` are the brokers at
    fault.
    """

    kind: ViolationKind
    pool: str
    brokers: tuple[int, ...]
    text: str
    partition: TopicPartition | None = None


def brokers_for_topic(
    pools: Pools, topic: str, live_brokers: Iterable[BrokerMetadata]
) -> tuple[BrokerMetadata, ...]:
    """Return the live brokers that may host `topic`, by ascending id.

    These are the brokers of the topic's pool, or all brokers if it has no pool, without the brokers
    that host no replicas. Pass them to assign_replicas_to_brokers and
    create_new_partitions_assignment, so that replicas stay inside the pool. If all brokers of the
    pool are down, the result is empty and those functions raise Kafka's errors.
    """
    pool = pools.pool_of(topic)
    hosting = (broker for broker in live_brokers if broker.id not in pools.without_replicas)
    ordered = sorted(hosting, key=lambda broker: broker.id)
    if pool is None:
        return tuple(ordered)
    return tuple(broker for broker in ordered if broker.id in pool.broker_ids)


@dataclass(frozen=True, slots=True)
class LegalBrokers:
    """The live brokers that a partition may be moved to, and their racks.

    `racks` has a value for each of `ids`. If racks are ignored, every broker has a separate rack.
    """

    ids: tuple[int, ...]
    racks: Mapping[int, str | int]

    def racks_to_use(self, replication_factor: int) -> int:
        """Return the number of racks that a partition's replicas must span: as many as possible."""
        return min(replication_factor, len(set(self.racks.values())))

    def spans_enough_racks(self, replicas: Sequence[int]) -> bool:
        """Return True if `replicas`, all on legal brokers, span as many racks as possible."""
        used = {self.racks[replica] for replica in replicas}
        return len(used) >= self.racks_to_use(len(replicas))


def legal_brokers(brokers: Sequence[BrokerMetadata], *, ignores_racks: bool) -> LegalBrokers:
    """Return the brokers, ordered by id, that a partition may be moved to, and their racks.

    Raises AdminOperationError if only some brokers have a rack, unless `ignores_racks`.
    """
    known = broker_metadatas(brokers, ignores_racks=ignores_racks)
    return LegalBrokers(
        tuple(broker.id for broker in known),
        {broker.id: broker.id if broker.rack is None else broker.rack for broker in known},
    )


def violations(
    pools: Pools, cluster: ClusterPlacement, *, ignores_racks: bool = False
) -> tuple[PoolViolation, ...]:
    """Return all violations, first those of pools, then those of partitions, ordered by partition.

    Topics without a pool cannot violate the pools. Racks are checked only if every replica is
    alive, because the racks of dead brokers are unknown. Raises AdminOperationError if only some
    live brokers of a pool in use have a rack, unless `ignores_racks`.
    """
    live_ids = {broker.id for broker in cluster.live_brokers}
    found = [
        PoolViolation(
            ViolationKind.MISSING_BROKER,
            pool.name,
            missing,
            f"pool {pool.name} has unregistered {brokers_text(missing)}",
        )
        for pool in pools.by_name.values()
        if (missing := tuple(id_ for id_ in pool.broker_ids if id_ not in live_ids))
    ]
    pool_of = {topic: pools.pool_of(topic) for topic in cluster.topics()}
    legal: dict[str, LegalBrokers] = {}
    for partition, place in cluster.partitions.items():
        pool = pool_of[partition.topic]
        if pool is None:
            continue
        if pool.name not in legal:
            members = [broker for broker in cluster.live_brokers if broker.id in pool.broker_ids]
            legal[pool.name] = legal_brokers(members, ignores_racks=ignores_racks)
        found += _partition_violations(pool, legal[pool.name], partition, place, live_ids)
    return tuple(found)


def topics_without_pool(pools: Pools, cluster: ClusterPlacement) -> tuple[str, ...]:
    """Return the topics that match no rule, sorted."""
    return tuple(topic for topic in cluster.topics() if pools.pool_of(topic) is None)


def _partition_violations(
    pool: Pool,
    legal: LegalBrokers,
    partition: TopicPartition,
    place: PartitionPlace,
    live_ids: set[int],
) -> Iterator[PoolViolation]:
    replicas = place.replicas
    outside = tuple(id_ for id_ in replicas if id_ not in pool.broker_ids)
    if outside:
        text = f"{partition} has replicas outside pool {pool.name}: {brokers_text(outside)}"
        yield PoolViolation(ViolationKind.OUTSIDE_POOL, pool.name, outside, text, partition)
    if len(replicas) > len(legal.ids):
        text = (
            f"{partition} (replication factor {len(replicas)}) needs {len(replicas)} live brokers"
            f" in pool {pool.name}; it has {len(legal.ids)}"
        )
        yield PoolViolation(ViolationKind.TOO_FEW_BROKERS, pool.name, legal.ids, text, partition)
    elif not outside and live_ids >= set(replicas) and not legal.spans_enough_racks(replicas):
        used = len({legal.racks[id_] for id_ in replicas})
        text = (
            f"{partition} is on {used} rack{plural(used)} of pool {pool.name}"
            f" instead of {legal.racks_to_use(len(replicas))}"
        )
        yield PoolViolation(ViolationKind.RACKS, pool.name, replicas, text, partition)
