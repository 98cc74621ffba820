"""What happens to a cluster by itself: creation, failures, returns, ISR churn, elections.

Each step is one event of the controller, done to many partitions at once, legal in every
transition. Reassignments are in moves.py, what is wrong on purpose in planting.py. Mirrors
kafka/controller/KafkaController.scala as far as rows tell of it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from cluster.journal import Kind
from cluster.types import NO_LEADER
from replay.event_schema import ELECTIONS, code_of
from replay.generate.options import REPLICATION_FACTOR
from replay.generate.rows import NOBODY, Array
from replay.generate.world import World, state_code
from statemachines.election import OfflineElection, PreferredReplicaElection
from statemachines.partition_state import PartitionState
from statemachines.replica_state import ReplicaState

CLEAN: Final = str(OfflineElection(allow_unclean=False))
UNCLEAN: Final = str(OfflineElection(allow_unclean=True))
PREFERRED: Final = str(PreferredReplicaElection())
_CREATED_AT_ONCE: Final = 20_000


def election_code(strategy: str) -> int:
    """The published code of an election."""
    return code_of(strategy, ELECTIONS)


def no_leader_text(world: World, p: int, strategy: str) -> str:
    """Why nobody was elected, in Kafka's words."""
    return f"Failed to elect leader for partition {world.names[p]} under strategy {strategy}"


def start(world: World) -> None:
    """The first controller, and every broker."""
    world.begin_epoch(1)
    world.record(1, Kind.CONTROLLER_ELECTED)
    for broker in range(1, world.options.brokers + 1):
        world.live[broker] = True
        world.record(1, Kind.BROKER_ONLINE, replica=broker)
    world.tick(20)
    world.record(1, Kind.CONTROLLER_READY)


def create_topics(world: World, rng: np.random.Generator) -> None:
    """All topics, some thousand partitions an event."""
    first, count = 0, world.options.partitions
    while first < count:
        last = min(first + _CREATED_AT_ONCE, count)
        # Whole topics only.
        last = int(np.searchsorted(world.topic, world.topic[last - 1], side="right"))
        _create(world, np.arange(first, last))
        world.tick(int(rng.integers(500, 2_000)))
        first = last


def _create(world: World, p: Array) -> None:
    world.event("TopicChange")
    topics, sizes = np.unique(world.topic[p], return_counts=True)
    texts = {int(n): world.rows.text(f"{n} partitions") for n in np.unique(sizes)}
    details = [texts[int(n)] for n in sizes]
    world.record(len(topics), Kind.TOPIC_CREATED, topic=topics, detail=details)
    world.tick(3)
    world.move(p, PartitionState.NEW)
    everyone = _by_broker(world, p)
    for of_broker, slot in everyone:
        world.move_replicas(of_broker, slot, ReplicaState.NEW)
    world.tick(20)
    world.leader[p] = world.replicas[p, 0]
    world.leader_epoch[p] = 0
    world.is_insync[p] = world.replicas[p] != NOBODY
    world.move(p, PartitionState.ONLINE, **world.written(p, None))
    world.tick(5)
    for of_broker, slot in everyone:
        world.move_replicas(of_broker, slot, ReplicaState.ONLINE)


def _by_broker(world: World, p: Array | None = None) -> list[tuple[Array, Array]]:
    return [world.slots(broker, p) for broker in range(1, world.options.brokers + 1)]


def fail_broker(world: World, broker: int) -> None:
    """A broker's session ends; the controller is another one."""
    world.live[broker] = False
    world.event("BrokerChange")
    world.record(1, Kind.BROKER_OFFLINE, replica=broker)
    world.tick(2)
    online = state_code(PartitionState.ONLINE)
    leaderless = np.nonzero((world.leader == broker) & (world.state == online))[0]
    go_offline(world, leaderless)
    world.tick(9)
    elect_offline(world)
    world.tick(4)
    p, slot = world.slots(broker)
    take_replicas_offline(world, p, slot)


def go_offline(world: World, p: Array, mark: int = -1) -> None:
    """Partitions whose leader is gone; ZooKeeper does not hear of it."""
    world.move(p, PartitionState.OFFLINE, mark=mark, **world.written(p, None, is_new=False))


def elect_offline(world: World, among: Array | None = None, mark: int = -1) -> None:
    """A leader for every partition that is offline (or those given), where one can be had."""
    if among is None:
        among = np.nonzero(world.state == state_code(PartitionState.OFFLINE))[0]
    gone = state_code(ReplicaState.OFFLINE)
    is_broken = world.replica_state[among] == gone
    # A replica of a broker that just died is still Online; one that is Offline on a live broker
    # has lost its disk.
    candidates = world.is_insync[among] & world.is_live(among) & ~is_broken
    can = candidates.any(axis=1)
    elected, slot = among[can], candidates[can].argmax(axis=1)
    before = world.leadership(elected)
    world.leader[elected] = world.replicas[elected, slot]
    world.leader_epoch[elected] += 1
    world.is_insync[elected] = candidates[can]
    columns = world.written(elected, before)
    election = election_code(CLEAN)
    world.move(elected, PartitionState.ONLINE, election=election, mark=mark, **columns)
    fail_election(world, among[~can])


def fail_election(world: World, p: Array) -> None:
    """No clean leader can be had."""
    world.on_partitions(
        Kind.PARTITION_FAILED,
        p,
        from_state=world.state[p],
        to_state=state_code(PartitionState.ONLINE),
        since_ms=world.since_ms[p],
        election=election_code(CLEAN),
        outcome=[world.rows.text(no_leader_text(world, at, CLEAN)) for at in p],
    )


def take_replicas_offline(world: World, p: Array, slot: Array, mark: int = -1) -> None:
    """Replicas leave the ISR, unless they left it before, and go Offline."""
    before = world.leadership(p)
    was_insync = world.is_insync[p, slot]
    is_last = was_insync & (world.is_insync[p].sum(axis=1) == 1)
    leads = world.leader[p] == world.replicas[p, slot]
    world.leader[p[leads]] = NO_LEADER
    left = was_insync & ~is_last
    world.is_insync[p[left], slot[left]] = False
    changed = p[was_insync]
    world.leader_epoch[changed] += 1
    world.zk_version[changed] += 1
    world.on_replicas(
        Kind.ISR_REMOVED, p, slot, mark=mark, **world.written(p, before, is_new=False)
    )
    world.move_replicas(p, slot, ReplicaState.OFFLINE)


def return_broker(world: World, broker: int, rng: np.random.Generator) -> None:
    """A broker is there again: what was offline for it gets a leader, its replicas catch up."""
    world.live[broker] = True
    world.event("BrokerChange")
    world.record(1, Kind.BROKER_ONLINE, replica=broker)
    world.tick(3)
    p, slot = world.slots(broker)
    world.move_replicas(p, slot, ReplicaState.ONLINE)
    world.tick(5)
    elect_offline(world)
    world.tick(int(rng.integers(300, 3_000)))
    expand_isr(world, p)


def expand_isr(world: World, p: Array, mark: int = -1) -> None:
    """Leaders take back all live replicas that they have, except those that are being added."""
    full = world.is_live(p)
    full[:, REPLICATION_FACTOR:] &= world.is_insync[p, REPLICATION_FACTOR:]
    full &= world.replica_state[p] == state_code(ReplicaState.ONLINE)
    online = world.state[p] == state_code(PartitionState.ONLINE)
    grows = online & (full & ~world.is_insync[p]).any(axis=1)
    p, full = p[grows], full[grows]
    if len(p):
        world.event(f"AlterIsrReceived({len(p)} partitions)")
        before = world.leadership(p)
        world.is_insync[p] |= full
        world.on_partitions(Kind.ISR_CHANGED, p, mark=mark, **world.written(p, before))


def shrink_isr(world: World, p: Array, slot: Array, fate: int = 0, mark: int = -1) -> None:
    """Leaders leave a replica out that lags behind."""
    if len(p):
        world.event(f"AlterIsrReceived({len(p)} partitions)")
        before = world.leadership(p)
        world.is_insync[p, slot] = False
        columns = world.written(p, before)
        world.on_partitions(Kind.ISR_CHANGED, p, fate=fate, mark=mark, **columns)


def churn(world: World, p: Array, rng: np.random.Generator) -> None:
    """Of some partitions, those with a replica that lags take it back, the others lose one."""
    online = state_code(PartitionState.ONLINE)
    p = p[world.state[p] == online]
    are_live = world.is_live(p)
    lags = (are_live & ~world.is_insync[p])[:, :REPLICATION_FACTOR].any(axis=1)
    expand_isr(world, p[lags])
    world.tick(int(rng.integers(50, 500)))
    rest, are_live = p[~lags], are_live[~lags]
    slot = rng.integers(0, REPLICATION_FACTOR, len(rest))
    at = np.arange(len(rest))
    can = are_live[at, slot] & world.is_insync[rest, slot]
    can &= world.replicas[rest, slot] != world.leader[rest]
    shrink_isr(world, rest[can], slot[can])


def elect_preferred(world: World, most: int, excluded: Array) -> None:
    """Partitions that their first replica does not lead, though it could."""
    first = world.replicas[:, 0]
    can = (world.leader != first) & (world.leader != NO_LEADER) & world.is_insync[:, 0]
    can &= (world.state == state_code(PartitionState.ONLINE)) & world.live[first] & ~excluded
    p = np.nonzero(can)[0][:most]
    world.event("AutoPreferredReplicaLeaderElection")
    lead(world, p, np.zeros(len(p), np.int64), PREFERRED)


def lead(world: World, p: Array, slot: Array, strategy: str, **columns: int) -> None:
    """Another replica leads, the partition staying Online."""
    before = world.leadership(p)
    world.leader[p] = world.replicas[p, slot]
    world.leader_epoch[p] += 1
    written = world.written(p, before)
    election = election_code(strategy)
    world.move(p, PartitionState.ONLINE, election=election, **written, **columns)


def fail_over(world: World, to: int, *, dies: bool) -> None:
    """Another controller: it reads every partition, and gives leaders to those without."""
    if dies:
        world.live[world.controller] = False
    else:
        world.event("Reelect")
        world.record(1, Kind.CONTROLLER_RESIGNED)
    world.tick(1_200 if dies else 15)
    world.begin_epoch(to)
    world.record(1, Kind.CONTROLLER_ELECTED)
    world.tick(60)
    everyone = np.nonzero(world.state != state_code(PartitionState.NON_EXISTENT))[0]
    has_leader = (world.leader != NO_LEADER) & world.live[np.maximum(world.leader, 0)]
    online, offline = state_code(PartitionState.ONLINE), state_code(PartitionState.OFFLINE)
    world.state[everyone] = np.where(has_leader[everyone], online, offline)
    world.since_ms[everyone] = world.t_ms
    columns = world.written(everyone, None, is_new=False)
    states = world.state[everyone]
    world.on_partitions(Kind.PARTITION_SNAPSHOT, everyone, to_state=states, **columns)
    world.tick(20)
    _start_replicas(world)
    world.tick(30)
    elect_offline(world)
    world.record(1, Kind.CONTROLLER_READY)


def _start_replicas(world: World) -> None:
    """Without a row replicas are Online or Offline, as their brokers are; then they are told."""
    is_live = world.live[np.maximum(world.replicas, 0)]
    online, offline = state_code(ReplicaState.ONLINE), state_code(ReplicaState.OFFLINE)
    world.replica_state[:] = np.where(is_live, online, offline)
    world.replica_since_ms[:] = world.t_ms
    world.tick(5)
    for broker in range(1, world.options.brokers + 1):
        p, slot = world.slots(broker)
        if world.live[broker]:
            world.move_replicas(p, slot, ReplicaState.ONLINE)
        else:
            take_replicas_offline(world, p, slot)
