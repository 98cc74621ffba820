"""Plans the fewest replica moves that bring partitions into their pools.

Nothing here reads or writes a cluster. A partition is legal if all replicas are in its pool and
span as many racks as possible, as in Kafka's own assignment. The number of moves is minimized
separately for each partition: the sets of replicas that can stay together form a matroid, so a
greedy choice keeps the most replicas. Then the new replicas, and the leaders of partitions whose
old leader cannot stay, are spread over the brokers in proportion to the brokers' weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from klamm.cluster.counting import plural
from klamm.cluster.errors import AdminOperationError
from klamm.cluster.types import TopicPartition
from klamm.placement.pools import (
    ClusterPlacement,
    LegalBrokers,
    PartitionPlace,
    Pools,
    brokers_for_topic,
    legal_brokers,
)
from klamm.placement.spread import Spread


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """Old and new replicas of a partition, the preferred leader first in both lists."""

    partition: TopicPartition
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers to which the partition must be copied; each copy is one replica move."""
        return tuple(replica for replica in self.new if replica not in self.old)


@dataclass(frozen=True, slots=True)
class Unplanned:
    """A partition that cannot be moved into its pool, and the reason."""

    partition: TopicPartition
    reason: str


class Plan(NamedTuple):
    """Planned moves, and partitions that cannot be moved; both ordered by topic and partition."""

    moves: tuple[PlannedMove, ...]
    unplanned: tuple[Unplanned, ...]


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options for planning replica moves.

    If `topics` is None, the plan covers all topics. If `replication_factor` is None, each partition
    keeps its replication factor; otherwise all partitions of `topics` get this factor, even if they
    have no pool. If `replace_dead` is set, replicas on dead brokers of a pool are moved too.
    """

    topics: Collection[str] | None = None
    replication_factor: int | None = None
    replace_dead: bool = False
    ignores_racks: bool = False


@dataclass(slots=True)
class _Job:
    """A partition to move: the replicas it keeps, the replicas it gains, and its leader."""

    partition: TopicPartition
    place: PartitionPlace
    legal: LegalBrokers
    replication_factor: int
    kept: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    leader: int | None = None

    def replicas(self) -> list[int]:
        return [*self.kept, *self.added]

    def replicas_of_rack(self, broker: int) -> int:
        racks = self.legal.racks
        return sum(racks[one] == racks[broker] for one in self.replicas())


def plan_moves(pools: Pools, cluster: ClusterPlacement, options: PlanOptions | None = None) -> Plan:
    """Plan the moves of all partitions whose replicas have to change.

    Replicas that can stay are kept. If possible, the preferred leader remains, otherwise the
    current leader becomes the preferred leader. Moved partitions are placed only on live brokers,
    because Kafka rejects a reassignment to a dead broker. Partitions that need no other change keep
    their replicas on dead brokers of the pool, unless `replace_dead` is set. A partition cannot be
    moved if its pool has too few live brokers, or if only some of the pool's brokers have a rack,
    unless `ignores_racks` is set.
    """
    options = options or PlanOptions()
    jobs, unplanned = _jobs(pools, cluster, options)
    weights = {broker.id: pools.weight(broker.id) for broker in cluster.live_brokers}
    now = Counter(id_ for place in cluster.partitions.values() for id_ in place.replicas)
    for job in jobs:
        _keep(job, now, weights)
    _place_added(jobs, cluster, weights)
    _choose_leaders(jobs, cluster, weights)
    return Plan(tuple(_move(job) for job in jobs), tuple(unplanned))


def _jobs(
    pools: Pools, cluster: ClusterPlacement, options: PlanOptions
) -> tuple[list[_Job], list[Unplanned]]:
    live_ids = {broker.id for broker in cluster.live_brokers}
    jobs: list[_Job] = []
    unplanned: list[Unplanned] = []
    for topic, partitions in cluster.partitions_by_topic().items():
        if options.topics is not None and topic not in options.topics:
            continue
        pool = pools.pool_of(topic)
        if pool is None and options.replication_factor is None:
            continue
        candidates = brokers_for_topic(pools, topic, cluster.live_brokers)
        try:
            legal = legal_brokers(candidates, ignores_racks=options.ignores_racks)
        except AdminOperationError as error:
            unplanned += [Unplanned(partition, error.message) for partition in partitions]
            continue
        allowed = None if pool is None else set(pool.broker_ids)
        for partition in partitions:
            place = cluster.partitions[partition]
            wanted = options.replication_factor or len(place.replicas)
            is_right = len(place.replicas) == wanted and _may_stay(
                place.replicas, allowed, live_ids, legal, options.replace_dead
            )
            if not is_right and wanted > len(legal.ids):
                where = "the cluster" if pool is None else f"pool {pool.name}"
                unplanned.append(Unplanned(partition, _too_few_brokers(wanted, legal, where)))
            elif not is_right:
                jobs.append(_Job(partition, place, legal, wanted))
    return jobs, unplanned


def _may_stay(
    replicas: Sequence[int],
    allowed: Collection[int] | None,
    live_ids: Collection[int],
    legal: LegalBrokers,
    replace_dead: bool,
) -> bool:
    if allowed is None:
        return True
    if any(replica not in allowed for replica in replicas):
        return False
    if any(replica not in live_ids for replica in replicas):
        return not replace_dead
    return legal.spans_enough_racks(replicas)


def _too_few_brokers(wanted: int, legal: LegalBrokers, where: str) -> str:
    brokers = f"{wanted} live broker{plural(wanted)}"
    return f"replication factor {wanted} needs {brokers} in {where}; it has {len(legal.ids)}"


def _keep(job: _Job, now: Counter[int], weights: Mapping[int, float]) -> None:
    """Choose the largest set of a partition's replicas that can stay.

    The preferred leader has priority, then the current leader, then replicas on brokers with few
    replicas for their weight. `now` has the number of replicas on every broker; replicas that do
    not stay are subtracted. Two replicas on one rack may both stay if the other replicas suffice to
    cover the other racks.
    """
    place, legal, wanted = job.place, job.legal, job.replication_factor

    def preference(replica: int) -> tuple[bool, bool, float]:
        is_first = replica == place.replicas[0]
        return not is_first, replica != place.leader, now[replica] / weights[replica]

    doubles_allowed = wanted - legal.racks_to_use(wanted)
    used: set[str | int] = set()
    staying: set[int] = set()
    legal_ids = set(legal.ids)
    for replica in sorted((id_ for id_ in place.replicas if id_ in legal_ids), key=preference):
        rack = legal.racks[replica]
        doubles = len(staying) - len(used)
        if len(staying) < wanted and (rack not in used or doubles < doubles_allowed):
            staying.add(replica)
            used.add(rack)
    job.kept = [replica for replica in place.replicas if replica in staying]
    now.subtract(replica for replica in place.replicas if replica not in staying)


def _place_added(
    jobs: Sequence[_Job], cluster: ClusterPlacement, weights: dict[int, float]
) -> None:
    """Choose the brokers on which new replicas are created.

    Each new replica goes to a rack with the fewest replicas of the partition, and there to the
    broker with the fewest replicas of the topic relative to the broker's weight. If there are
    several such brokers, the total loads decide. Afterwards new replicas are shifted between
    brokers to even out the total loads, even if a topic is then spread less evenly.
    """
    planned = {job.partition: job for job in jobs}
    load = dict.fromkeys(weights, 0)
    of_topic: Counter[tuple[str, int]] = Counter()
    for partition, place in cluster.partitions.items():
        job = planned.get(partition)
        for replica in place.replicas if job is None else job.kept:
            if replica in load:
                load[replica] += 1
                of_topic[partition.topic, replica] += 1
    spread = Spread(load, weights)

    def least_loaded(job: _Job) -> int:
        topic = job.partition.topic
        present = job.replicas()
        return min(
            (broker for broker in job.legal.ids if broker not in present),
            key=lambda broker: (
                job.replicas_of_rack(broker),
                (2 * of_topic[topic, broker] + 1) / weights[broker],
                spread.cost_of_one_more(broker),
                broker,
            ),
        )

    for index, job in enumerate(jobs):
        while len(job.kept) + len(job.added) < job.replication_factor:
            broker = least_loaded(job)
            job.added.append(broker)
            of_topic[job.partition.topic, broker] += 1
            spread.put(index, broker)

    def may_move(item: int, source: int, target: int) -> bool:
        job = jobs[item]
        racks = job.legal.racks
        if target not in racks or target in job.kept or target in job.added:
            return False
        same_rack = racks[source] == racks[target]
        return same_rack or job.replicas_of_rack(target) < job.replicas_of_rack(source)

    def move(item: int, source: int, target: int) -> None:
        added = jobs[item].added
        added[added.index(source)] = target

    for group in _groups(jobs):
        spread.even_out(group, may_move, move)


def _choose_leaders(
    jobs: Sequence[_Job], cluster: ClusterPlacement, weights: dict[int, float]
) -> None:
    planned = {job.partition for job in jobs}
    load = dict.fromkeys(weights, 0)
    for partition, place in cluster.partitions.items():
        if partition not in planned and place.replicas[:1] and place.replicas[0] in load:
            load[place.replicas[0]] += 1
    for job in jobs:
        candidates = (*job.place.replicas[:1], job.place.leader)
        job.leader = next((one for one in candidates if one in job.kept), None)
        if job.leader is not None:
            load[job.leader] += 1
    spread = Spread(load, weights)
    for index, job in enumerate(jobs):
        if job.leader is None:
            job.leader = min(job.replicas(), key=spread.cost_of_one_more)
            spread.put(index, job.leader)

    def may_move(item: int, _: int, target: int) -> bool:
        return target in jobs[item].kept or target in jobs[item].added

    def move(item: int, _: int, target: int) -> None:
        jobs[item].leader = target

    for group in _groups(jobs):
        spread.even_out(group, may_move, move)


def _groups(jobs: Sequence[_Job]) -> list[tuple[int, ...]]:
    """Return one set of brokers for each pool: replicas can be exchanged within a set."""
    return list(dict.fromkeys(job.legal.ids for job in jobs))


def _move(job: _Job) -> PlannedMove:
    assert job.leader is not None
    followers = (replica for replica in job.replicas() if replica != job.leader)
    return PlannedMove(job.partition, job.place.replicas, (job.leader, *followers))
