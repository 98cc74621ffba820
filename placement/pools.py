"""Resource isolation pools: which brokers may hold which topic, and who breaks that.

Must not read YAML (admin/pools.py), move anything (minimal_moves.py) or know sessions. Kafka
has no pools: what it offers is a broker list for a reassignment and an assignment by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import BrokerMetadata, RackAwareMode, broker_metadatas

DEFAULT_WEIGHT = 1.0


@dataclass(frozen=True, slots=True)
class Pool:
    """Brokers that hold the topics of this pool and no others. Ids ascend."""

    name: str
    broker_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Topics whose whole name matches `pattern`, a regular expression, belong to `pool`."""

    pattern: str
    pool: str


@dataclass(frozen=True, slots=True)
class Pools:
    """The pools, by name, and the rules, of which the first that matches a topic decides.

    A broker is in one pool at most. `weights` say how much of its pool's load a broker takes,
    1 where nothing is said.
    """

    by_name: Mapping[str, Pool]
    rules: tuple[TopicRule, ...]
    weights: Mapping[int, float] = field(default_factory=dict)

    def rules_of(self, topic: str) -> tuple[TopicRule, ...]:
        """All rules that match `topic`, in order: the first one decides."""
        return tuple(rule for rule in self.rules if re.fullmatch(rule.pattern, topic))

    def pool_of(self, topic: str) -> Pool | None:
        """The pool of `topic`; None if no rule matches: such a topic may be anywhere."""
        for rule in self.rules:
            if re.fullmatch(rule.pattern, topic):
                return self.by_name[rule.pool]
        return None

    def weight(self, broker_id: int) -> float:
        """The weight of a broker, in a pool or not."""
        return self.weights.get(broker_id, DEFAULT_WEIGHT)


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """Where a partition's replicas are or, while it is reassigned, will be.

    `replicas` has the preferred leader first. `leader` is the current one, None if there is
    none or if it is not known.
    """

    replicas: tuple[int, ...]
    leader: int | None = None
    is_being_reassigned: bool = False


@dataclass(frozen=True, slots=True)
class ClusterPlacement:
    """The live brokers by ascending id, and the partitions in order of topic and id."""

    live_brokers: tuple[BrokerMetadata, ...]
    partitions: Mapping[TopicPartition, PartitionPlace]

    def topics(self) -> tuple[str, ...]:
        """The topics that have partitions, in order."""
        return tuple(dict.fromkeys(tp.topic for tp in self.partitions))

    def partitions_by_topic(self) -> dict[str, tuple[TopicPartition, ...]]:
        """{topic: its partitions}, in order."""
        found: dict[str, list[TopicPartition]] = {}
        for partition in self.partitions:
            found.setdefault(partition.topic, []).append(partition)
        return {topic: tuple(partitions) for topic, partitions in found.items()}


class ViolationKind(Enum):
    """What `violations` finds."""

    MISSING_BROKER = "missing-broker"
    TOO_FEW_BROKERS = "too-few-brokers"
    OUTSIDE_POOL = "outside-pool"
    RACKS = "racks"


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach: of a pool (no topic), or of one partition. `brokers` are those at fault."""

    kind: ViolationKind
    pool: str
    brokers: tuple[int, ...]
    text: str
    partition: TopicPartition | None = None


def brokers_for_topic(
    pools: Pools, topic: str, live_brokers: Iterable[BrokerMetadata]
) -> tuple[BrokerMetadata, ...]:
    """The live brokers that may hold `topic`, by ascending id: those of its pool, or all of them.

    What assign_replicas_to_brokers and create_new_partitions_assignment take as `brokers`, so
    that a creation or an added partition stays inside the pool. Empty if all of the pool's
    brokers are down: those functions then refuse with Kafka's text.
    """
    pool = pools.pool_of(topic)
    ordered = sorted(live_brokers, key=lambda broker: broker.id)
    if pool is None:
        return tuple(ordered)
    return tuple(broker for broker in ordered if broker.id in pool.broker_ids)


@dataclass(frozen=True, slots=True)
class LegalBrokers:
    """The live brokers that a partition may be moved to, and their racks.

    `racks` has a value for each of `ids`. Where racks do not count every broker is a rack of
    its own, so that one rule serves both.
    """

    ids: tuple[int, ...]
    racks: Mapping[int, str | int]

    def racks_to_use(self, replication_factor: int) -> int:
        """On how many racks so many replicas have to be: as many as can be, as in Kafka."""
        return min(replication_factor, len(set(self.racks.values())))

    def spans_enough_racks(self, replicas: Sequence[int]) -> bool:
        """True if these replicas, all of them legal, are on as many racks as can be."""
        used = {self.racks[replica] for replica in replicas}
        return len(used) >= self.racks_to_use(len(replicas))


def legal_brokers(brokers: Sequence[BrokerMetadata], mode: RackAwareMode) -> LegalBrokers:
    """`brokers`, by ascending id, as places for one partition.

    Raises AdminOperationError when racks are enforced and only some brokers have one.
    """
    known = broker_metadatas(brokers, mode)
    return LegalBrokers(
        tuple(broker.id for broker in known),
        {broker.id: broker.id if broker.rack is None else broker.rack for broker in known},
    )


def violations(
    pools: Pools, cluster: ClusterPlacement, mode: RackAwareMode = RackAwareMode.ENFORCED
) -> tuple[Violation, ...]:
    """Everything that breaks the pools: first what concerns a whole pool, then by partition.

    Topics of no pool break nothing. Racks are judged only where every replica is alive, since
    the rack of a dead broker is not known. Raises AdminOperationError when racks are enforced
    and only some live brokers of a pool that is in use have one.
    """
    live_ids = {broker.id for broker in cluster.live_brokers}
    found = [
        Violation(
            ViolationKind.MISSING_BROKER,
            pool.name,
            missing,
            f"pool {pool.name}: not registered: {_brokers_text(missing)}",
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
            legal[pool.name] = legal_brokers(members, mode)
        found += _partition_violations(pool, legal[pool.name], partition, place, live_ids)
    return tuple(found)


def topics_without_pool(pools: Pools, cluster: ClusterPlacement) -> tuple[str, ...]:
    """The topics that no rule matches, in order."""
    return tuple(topic for topic in cluster.topics() if pools.pool_of(topic) is None)


def _partition_violations(
    pool: Pool,
    legal: LegalBrokers,
    partition: TopicPartition,
    place: PartitionPlace,
    live_ids: set[int],
) -> list[Violation]:
    replicas = place.replicas
    found = []
    outside = tuple(id_ for id_ in replicas if id_ not in pool.broker_ids)
    if outside:
        text = f"{partition} has replicas outside pool {pool.name}: {_brokers_text(outside)}"
        found.append(Violation(ViolationKind.OUTSIDE_POOL, pool.name, outside, text, partition))
    if len(replicas) > len(legal.ids):
        text = (
            f"{partition} has replication factor {len(replicas)},"
            f" pool {pool.name} has {len(legal.ids)} live brokers"
        )
        found.append(
            Violation(ViolationKind.TOO_FEW_BROKERS, pool.name, legal.ids, text, partition)
        )
    elif not outside and live_ids >= set(replicas) and not legal.spans_enough_racks(replicas):
        used = len({legal.racks[id_] for id_ in replicas})
        text = (
            f"{partition} is on {used} racks of pool {pool.name},"
            f" it could be on {legal.racks_to_use(len(replicas))}"
        )
        found.append(Violation(ViolationKind.RACKS, pool.name, replicas, text, partition))
    return found


def _brokers_text(ids: Sequence[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {','.join(map(str, ids))}"
