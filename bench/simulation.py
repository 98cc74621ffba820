"""``python -m bench.simulation``: how fast simulated clusters go, and what a replica takes.

Virtual time against the machine's: a large cluster that is idle, and one whose brokers fail while
producers go on at constant rates. Setting up is timed apart. Exit 1 if a goal is missed, or if what
was simulated came out wrong: journal and checks are on. Nothing here knows what makes it fast.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.machine import machine
from klamm.admin.topics import TopicAdmin
from klamm.brokers.broker import KafkaServer
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from klamm.cluster.records import CountedBatch, Interval, IntervalRecords
from klamm.cluster.requests import (
    Address,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    Request,
    UpdateMetadataRequest,
)
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.lab.checks.constant_rates import WorkloadChecker, begin_workload
from klamm.placement.draws import JavaRandom
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.clock import VirtualClock
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.transport import RoutedTransport
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryServer, MemoryStore

REPLICATION_FACTOR = 3
PER_TOPIC = 100
IDLE_GOAL = 1_000.0
IDLE_BROKERS = 1_000
IDLE_PARTITIONS = 100_000
IDLE_MINUTES = 60
RATES_GOAL = 300.0
RATES_BROKERS = 30
RATES_PARTITIONS = 3_000
RATES_MINUTES = 10
RECORDS_PER_S = 10_000.0
REPLICA_GOAL_BYTES = 400
REPLICAS = 10_000
IDLE_FOR_MINUTES = 10
LEADER = Address("broker", 1)


Fill = Callable[[KafkaServer, VirtualClock, TopicPartition], None]
"""Lets a replica have more records."""


class Goal(NamedTuple):
    """What was measured, in words, and whether it is enough."""

    what: str
    is_met: bool


def idle(brokers: int, partitions: int, minutes: int) -> list[Goal]:
    """Let a cluster alone; every broker is a candidate and has partitions to lead and follow."""
    started_s = time.perf_counter()
    world = _world(brokers, partitions)
    print(f"{brokers:,} brokers, {partitions:,} partitions, RF {REPLICATION_FACTOR}, idle")
    print(f"  set up in {time.perf_counter() - started_s:.1f} s", flush=True)
    factor = _times_real(world, minutes * 60_000)
    print(f"  {factor:,.0f} times real time ({minutes} minutes)")
    return [Goal(f"an idle cluster at {IDLE_GOAL:,.0f} times real time", factor >= IDLE_GOAL)]


def rates(brokers: int, partitions: int, minutes: int) -> list[Goal]:
    """Produce to all partitions while a broker fails every minute, and is back after half of it.

    Every minute the partitions of the broker that failed are checked, in the end all are: nothing
    that was acknowledged may be missing, and replicas must agree. That is in the time.
    """
    world = _world(brokers, partitions)
    tps = [state.topic_partition for state in world.nodes[0].node.broker.metadata_cache.states()]
    producer = begin_workload(world, dict.fromkeys(tps, Rate(RECORDS_PER_S / partitions)))
    world.run_for(60_000)
    print(
        f"{brokers:,} brokers, {partitions:,} partitions, RF {REPLICATION_FACTOR}, "
        f"{RECORDS_PER_S:,.0f} records/s, a failure a minute",
        flush=True,
    )
    checker = WorkloadChecker(world, producer)
    started_s = time.perf_counter()
    for minute in range(minutes):
        broker_id = minute % brokers
        hosted = dict.fromkeys(world.nodes[broker_id].node.broker.replica_manager.partitions)
        world.kill(broker_id)
        world.run_for(30_000)
        world.start(broker_id)
        world.run_for(30_000)
        checker.check(hosted)
    checker.check()
    took_s = time.perf_counter() - started_s
    assert not world.errors, world.errors[:3]
    assert not checker.violations, checker.violations[:3]
    factor = 60 * minutes / took_s
    acknowledged = sum(p.decided - p.given_up for p in producer.partitions.values())
    print(
        f"  {factor:,.0f} times real time ({minutes} minutes), "
        f"{acknowledged:,} records acknowledged, {len(world.journal.rows):,} journal rows"
    )
    return [Goal(f"constant rates at {RATES_GOAL:,.0f} times real time", factor >= RATES_GOAL)]


def _world(brokers: int, partitions: int) -> SimulatedWorld:
    """A cluster whose partitions all have their leaders and followers."""
    world = SimulatedWorld(ClusterSpec(broker_ids=tuple(range(brokers))))
    for broker_id in world.spec.broker_ids:
        world.start(broker_id)
    world.run_for(1_000)
    store = world.open_store()
    admin = TopicAdmin(KafkaZkClient(store), JavaRandom(0))
    for topic in range(partitions // PER_TOPIC):
        first = topic * PER_TOPIC
        assignment = {
            n: tuple((first + n + k) % brokers for k in range(REPLICATION_FACTOR))
            for n in range(PER_TOPIC)
        }
        admin.create_topic_with_assignment(f"topic-{topic}", {}, assignment)
    store.close()
    world.run_for(10_000)
    cache = world.nodes[0].node.broker.metadata_cache
    assert not world.errors, world.errors[:3]
    assert len(cache) == partitions, f"{len(cache)} partitions"
    return world


def _times_real(world: SimulatedWorld, duration_ms: float) -> float:
    started_s = time.perf_counter()
    world.run_for(duration_ms)
    factor = duration_ms / 1000 / (time.perf_counter() - started_s)
    assert not world.errors, world.errors[:3]
    return factor


def replica_bytes(replicas: int = REPLICAS) -> list[Goal]:
    """All that a broker keeps for a replica with an interval log, by tracemalloc.

    Of an empty one; of a leader with records whose two followers have them, and of a follower, when
    they have been idle for a while. The requests that brokers share are not counted.
    """
    goals = []
    for what, leader, fill in (
        ("empty", 0, None),
        ("a leader with two followers", 0, _lead),
        ("a follower", 1, _follow),
    ):
        states = [_state(n, leader) for n in range(replicas)]
        each = _traced_bytes(states, fill) / replicas
        print(f"a replica, {what}: {each:.0f} bytes")
        is_met = each < REPLICA_GOAL_BYTES
        goals.append(Goal(f"a replica, {what}, in {REPLICA_GOAL_BYTES} bytes", is_met))
    return goals


def _state(number: int, leader: int) -> LeaderAndIsrPartitionState:
    tp = TopicPartition("topic", number)
    return LeaderAndIsrPartitionState(tp, 1, leader, 0, (0, 1, 2), 0, (0, 1, 2), is_new=True)


def _traced_bytes(states: Sequence[LeaderAndIsrPartitionState], fill: Fill | None) -> int:
    """What a broker has more once it hosts all of these, each ``fill``ed thrice."""
    clock, spec = VirtualClock(), ClusterSpec(broker_ids=(0, 1, 2))
    store = MemoryStore(MemoryServer(clock), 6_000)
    transport = RoutedTransport()
    broker = KafkaServer(spec.broker_info(0), store, transport, clock, log_store=MemoryLogStore())
    fetches: deque[Message] = deque()
    transport.register(LEADER, fetches.append)
    broker.startup()
    alive = tuple(spec.broker_info(broker_id) for broker_id in spec.broker_ids)
    _send(broker, UpdateMetadataRequest(0, 1, -1, (), alive, {}))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        _send(broker, LeaderAndIsrRequest(0, 1, -1, tuple(states), {}, ()))
        if fill is not None:
            for _ in range(3):
                for state in states:
                    fill(broker, clock, state.topic_partition)
                    _answer(broker, fetches)
            for _ in range(IDLE_FOR_MINUTES):
                clock.advance_to(clock.monotonic_ms() + 60_000)
                broker.on_timer()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(broker.replica_manager.partitions) == len(states)
    return after - before


def _lead(broker: KafkaServer, clock: VirtualClock, tp: TopicPartition) -> None:
    """Let some records come and be replicated: of each partition at a time and in a size that no
    other has."""
    clock.advance_to(clock.monotonic_ms() + 1.3)
    batch = CountedBatch(300 + tp.partition, 100_000 + tp.partition)
    _send(broker, ProduceRequest(1, 30_000, {tp: batch}))
    for replica_id in (1, 2):
        clock.advance_to(clock.monotonic_ms() + 1.3)
        asked = FetchPartition(int(str(_log_end_offset(broker, tp))), 0, 0)
        _send(broker, FetchRequest(replica_id, {tp: asked}))


def _follow(broker: KafkaServer, clock: VirtualClock, tp: TopicPartition) -> None:
    """Let a leader have records, as above, and say at once that the whole ISR has them."""
    clock.advance_to(clock.monotonic_ms() + 1.3)
    start = _log_end_offset(broker, tp)
    end = start + 300 + tp.partition
    interval = Interval(0, start, end, 100_000 + tp.partition, clock.now_ms())
    told = FetchedPartition(
        Errors.NONE,
        leader_epoch=0,
        fetch_offset=start,
        last_fetched_epoch=0 if start else NO_EPOCH,
        records=IntervalRecords((interval,)),
        high_watermark=int(str(end)),
        log_start_offset=0,
    )
    answer = FetchResponse({tp: told}, is_unsolicited=True)
    broker.receive(Message(LEADER, broker.address, 0, answer))
    assert _log_end_offset(broker, tp) == end


def _answer(broker: KafkaServer, fetches: deque[Message]) -> None:
    """Say to who fetches from the leader that there is nothing new."""
    while fetches:
        number = fetches.popleft().correlation_id
        broker.receive(Message(LEADER, broker.address, number, FetchResponse({})))


def _log_end_offset(broker: KafkaServer, tp: TopicPartition) -> int:
    log = broker.replica_manager.partitions[tp].log
    assert log is not None
    return log.log_end_offset


def _send(broker: KafkaServer, body: Request) -> None:
    broker.receive(Message(Address("client", 0), broker.address, 0, body))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--only", choices=("idle", "rates", "memory"), help="this figure")
    parser.add_argument("--brokers", type=int, help="other than the goal's")
    parser.add_argument("--partitions", type=int, help="other than the goal's")
    parser.add_argument("--minutes", type=int, help="simulated")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    goals: list[Goal] = []
    if options.only in (None, "memory"):
        goals += replica_bytes()
    if options.only in (None, "idle"):
        goals += idle(
            options.brokers or IDLE_BROKERS,
            options.partitions or IDLE_PARTITIONS,
            options.minutes or IDLE_MINUTES,
        )
    if options.only in (None, "rates"):
        goals += rates(
            options.brokers or RATES_BROKERS,
            options.partitions or RATES_PARTITIONS,
            options.minutes or RATES_MINUTES,
        )
    missed = [goal.what for goal in goals if not goal.is_met]
    for what in missed:
        print(f"FAILED: {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
