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
from collections.abc import Callable, Sequence
from typing import NamedTuple

from admin.topics import TopicAdmin
from bench.machine import machine
from brokers.logs.interval_log import IntervalLog
from brokers.partition import Partition
from cluster.data_requests import FetchPartition
from cluster.records import CountedBatch
from cluster.requests import LeaderAndIsrPartitionState
from cluster.types import TopicPartition
from placement.draws import JavaRandom
from runtime.node import ClusterSpec
from runtime.simulated_world import SimulatedWorld
from zk.kafka_zk_client import KafkaZkClient

REPLICATION_FACTOR = 3
PER_TOPIC = 100
IDLE_GOAL = 1_000.0
IDLE_BROKERS = 1_000
IDLE_PARTITIONS = 100_000
IDLE_MINUTES = 60
REPLICA_GOAL_BYTES = 400
REPLICAS = 10_000


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
        world.run_for(0)
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

    Of an empty one, and of a leader with records whose two followers have them; what the
    controller's request holds anyway is not counted.
    """
    states = [_state(n) for n in range(replicas)]
    figures = {
        "empty": _traced_bytes(lambda: {s.topic_partition: _empty(s) for s in states}),
        "a leader with two followers": _traced_bytes(
            lambda: {s.topic_partition: _leader(s) for s in states}
        ),
    }
    goals = []
    for what, total in figures.items():
        each = total / replicas
        print(f"a replica, {what}: {each:.0f} bytes")
        is_met = each < REPLICA_GOAL_BYTES
        goals.append(Goal(f"a replica, {what}, in {REPLICA_GOAL_BYTES} bytes", is_met))
    return goals


def _state(number: int) -> LeaderAndIsrPartitionState:
    tp = TopicPartition("topic", number)
    return LeaderAndIsrPartitionState(tp, 1, 0, 0, (0, 1, 2), 0, (0, 1, 2))


def _empty(state: LeaderAndIsrPartitionState) -> Partition:
    partition = Partition(log=IntervalLog(), log_dir="kafka-logs")
    partition.make_leader(state, 0.0)
    return partition


def _leader(state: LeaderAndIsrPartitionState) -> Partition:
    """As after some traffic: times and offsets that no two partitions share."""
    partition = _empty(state)
    number = state.topic_partition.partition
    for at in range(3):
        now_ms = 1000.0 * at + number / 7
        partition.append_as_leader(CountedBatch(1000 + number, 100_000), 1_700_000_000_000 + at)
        end = 0 if partition.log is None else partition.log.log_end_offset
        for replica_id in (1, 2):
            now_ms += 0.3
            partition.record_fetch(replica_id, FetchPartition(end, 0, 0), now_ms)
        partition.maybe_increment_high_watermark(0, now_ms, 30_000.0)
        for replica_id in (1, 2):
            partition.news_for(replica_id, 1 << 20)
    return partition


def _traced_bytes(make: Callable[[], object]) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del kept
    return after - before


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.simulation", description=__doc__)
    parser.add_argument("--only", choices=("idle", "memory"), help="this figure")
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
    missed = [goal.what for goal in goals if not goal.is_met]
    for what in missed:
        print(f"FAILED: {what}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
