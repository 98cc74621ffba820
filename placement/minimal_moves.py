"""Minimal replica moves that bring partitions into their pools, spread by broker weight.

Must not read or write a cluster. A partition is legal if every replica is in its pool, on as many
racks as the pool allows (as Kafka's own assignment guarantees). The number of moves is decided
partition by partition: the replicas that can stay together form a matroid, so a greedy choice keeps
the most. Afterwards the new replicas are spread, and so are the leaders of partitions if the old
leader cannot stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from klamm.cluster.errors import InvalidReplicationFactor
from klamm.cluster.types import TopicPartition
from klamm.placement.broker_metadata import RackAwareMode
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
class PartitionMove:
    """A partition's old and new replicas, the preferred leader first in both."""

    partition: TopicPartition
    old: tuple[int, ...]
    new: tuple[int, ...]

    @property
    def added(self) -> tuple[int, ...]:
        """The brokers that have to copy the partition; each is one replica move."""
        return tuple(replica for replica in self.new if replica not in self.old)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of a plan.

    `topics` None: all. `replication_factor` None, the default: each partition keeps its own; a
    number is applied to all partitions of `topics`, with or without a pool. `replace_dead`: also
    move replicas of pools away from brokers that are not alive.
    """

    topics: Collection[str] | None = None
    replication_factor: int | None = None
    replace_dead: bool = False
    rack_mode: RackAwareMode = RackAwareMode.ENFORCED


@dataclass(slots=True)
class _Job:
    """A partition to move: its kept replicas, added replicas and leader."""

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


def plan_moves(
    pools: Pools, cluster: ClusterPlacement, options: PlanOptions | None = None
) -> tuple[PartitionMove, ...]:
    """Return the partitions with replicas that have to change, in order of topic and id.

    Replicas that can stay do. A leader that can stay does: the preferred one, else the current one.
    A moved partition gets only live brokers, because Kafka refuses a plan with a dead broker.
    Other replicas on a pool's dead brokers are not changed. Raises InvalidReplicationFactor if
    a pool has too few live brokers, AdminOperationError if racks are enforced and only some
    of its brokers have one.
    """
    options = options or PlanOptions()
    jobs = _jobs(pools, cluster, options)
    weights = {broker.id: pools.weight(broker.id) for broker in cluster.live_brokers}
    now = Counter(id_ for place in cluster.partitions.values() for id_ in place.replicas)
    for job in jobs:
        _keep(job, now, weights)
    _place_added(jobs, cluster, weights)
    _choose_leaders(jobs, cluster, weights)
    return tuple(_move(job) for job in jobs)


def _jobs(pools: Pools, cluster: ClusterPlacement, options: PlanOptions) -> list[_Job]:
    live_ids = {broker.id for broker in cluster.live_brokers}
    jobs = []
    for topic, partitions in cluster.partitions_by_topic().items():
        if options.topics is not None and topic not in options.topics:
            continue
        pool = pools.pool_of(topic)
        if pool is None and options.replication_factor is None:
            continue
        candidates = brokers_for_topic(pools, topic, cluster.live_brokers)
        legal = legal_brokers(candidates, options.rack_mode)
        allowed = None if pool is None else set(pool.broker_ids)
        for partition in partitions:
            place = cluster.partitions[partition]
            wanted = options.replication_factor or len(place.replicas)
            is_right = len(place.replicas) == wanted and _may_stay(
                place.replicas, allowed, live_ids, legal, options.replace_dead
            )
            if not is_right:
                where = "the cluster" if pool is None else f"pool {pool.name}"
                _check_replication_factor(partition, wanted, legal, where)
                jobs.append(_Job(partition, place, legal, wanted))
    return jobs


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


def _check_replication_factor(
    partition: TopicPartition, wanted: int, legal: LegalBrokers, where: str
) -> None:
    if wanted > len(legal.ids):
        raise InvalidReplicationFactor(
            f"Replication factor: {wanted} larger than available brokers: {len(legal.ids)}.",
            hint=f"{partition} needs {wanted} live broker{'s' if wanted > 1 else ''} in {where};"
            f" it has {len(legal.ids)}",
        )


def _keep(job: _Job, now: Counter[int], weights: Mapping[int, float]) -> None:
    """Choose the most replicas that can stay: the leader first, then those on light brokers.

    `now` counts the replicas of every broker; removed replicas are subtracted. Two on one rack may
    both stay if enough replicas are left to cover the other racks.
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
    """Place new replicas by least use of racks, then by load of the topic, then by total load.

    Afterwards total loads are evened out, even at the expense of the topic's spread.
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
    """Return the sets of brokers within which replicas can move: one for each pool."""
    return list(dict.fromkeys(job.legal.ids for job in jobs))


def _move(job: _Job) -> PartitionMove:
    assert job.leader is not None
    followers = (replica for replica in job.replicas() if replica != job.leader)
    return PartitionMove(job.partition, job.place.replicas, (job.leader, *followers))
