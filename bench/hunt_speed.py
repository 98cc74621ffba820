"""``python -m bench.hunt_speed``: how fast a simulated cluster runs with faults and all invariants.

Five brokers, 24 partitions with three replicas, 100 records/s for each of them at a constant rate
with acks=all, a consumer, and a fault or a repair every three seconds for ten simulated minutes, so
at least 100 faults. Journal and invariants are on. The speed on one core is in CPU seconds, because
other work on the machine does not change them much. Then two processes run the same drills, for the
number of runs a minute on two cores. Exit 1 if a run fails or a goal is missed.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from bench.machine import machine
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.lab.actions.steps import ProduceConstantly
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.hunt.processes import Died, Workers, rare_collections
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Verdict, play
from klamm.lab.run.runner import StepResult
from klamm.world.clients.config import ConsumerConfig
from klamm.world.clients.consumer import Consumer

GOAL = 300.0
RUNS_GOAL = 60.0
FAULTS_GOAL = 100
CORES = 2
MINUTES = 10
INTERVAL_S = 3
BROKERS = 5
PARTITIONS = 24
# The consumer fetches from each broker every five seconds, about 500 records of each partition.
_CONSUMER = ConsumerConfig(
    auto_offset_reset="earliest", fetch_min_bytes=1_000_000, fetch_max_wait_ms=5_000
)
_FAULTS = (
    ("kill: {broker}", "start: {broker}"),
    ("stop: {broker}", "start: {broker}"),
    ("pause: {broker}", "resume: {broker}"),
    ("isolate: [{broker}]", "heal_network"),
    ("expire_session: {broker}", "move_controller"),
    ("elect_preferred: all", "expire_session: {broker}"),
)
_NO_FAULTS = ("start", "resume", "heal", "elect", "wait", "until", "produce")


def drill_text(seed: int) -> str:
    """Return a drill with faults in random order: each fault ends after one interval."""
    rng = random.Random(seed)
    replicas = [[(n + k) % BROKERS for k in (0, 1, 2)] for n in range(PARTITIONS)]
    rates = ", ".join(f"t-{n}: 100" for n in range(PARTITIONS))
    lines = [
        f"drill: speed-{seed}\nabout: faults in random order\ntolerant: true\nalways: all",
        f"cluster: {{brokers: {BROKERS}, topics: {{t: {replicas}}}}}",
        f"steps:\n  - produce_constantly: {{{rates}}}",
    ]
    for _ in range(MINUTES * 60 // INTERVAL_S // 2):
        fault, end = rng.choice(_FAULTS)
        broker = rng.randrange(BROKERS)
        for step in (fault, end):
            lines.append(f"  - {step.format(broker=broker)}")
            lines.append(f"  - wait: {INTERVAL_S}s")
    lines.append("  - heal_all\n  - until: {healthy: true}\n    within: 120s\n")
    return "\n".join(lines)


class Run(NamedTuple):
    """Figures of one run. ``read``: the share of the acknowledged records that was read, of the
    partition of which the consumer has read least.

    ``violated``: what did not hold, or empty."""

    seed: int
    faults: int
    read: float
    cpu_s: float
    simulated_s: float
    violated: str

    @property
    def times(self) -> float:
        """The ratio of simulated time to CPU time."""
        return self.simulated_s / self.cpu_s

    @property
    def is_whole(self) -> bool:
        """True if nothing was violated and the run had its faults and a consumer that read."""
        return not self.violated and self.faults >= FAULTS_GOAL and self.read > 0.9


def run(seed: int, read: int = PARTITIONS) -> Run:
    """Run one drill. ``read``: number of partitions that the consumer reads."""
    began_s = time.process_time()
    drill = parse_drill(drill_text(seed), f"speed-{seed}.yaml")
    driver = SimulatedDriver(drill.simulated_world(NO_QUIRKS, seed))
    consumer = Consumer(Address("client", 1_000), range(BROKERS), _CONSUMER)
    partitions = [TopicPartition("t", n) for n in range(read)]
    consumer.assign(partitions)
    done: list[StepResult] = []
    violated = "the drill has no verdict"
    with rare_collections():
        for part in play(drill, driver):
            if isinstance(part, Verdict):
                violated = ", ".join(failure.expected for failure in part.failures)
            elif part.refusal is None:
                done.append(part)
                if any(isinstance(action, ProduceConstantly) for action in part.step.actions):
                    driver.add_client(consumer)
    took_s = time.process_time() - began_s
    least = min(_count_read(consumer, tp) / driver.acknowledged(tp) for tp in partitions)
    faults = sum(not result.step.name.startswith(_NO_FAULTS) for result in done)
    return Run(seed, faults, least, took_s, driver.elapsed_ms / 1000, violated)


def _count_read(consumer: Consumer, tp: TopicPartition) -> int:
    return sum(one.end - one.start for one in consumer.read.get(tp, ()))


def measure_one(seed: int, read: int) -> bool:
    """Run one drill and print its figures. Return False if it fails or misses the goal."""
    figures = run(seed, read)
    print(
        f"seed {seed}: {figures.faults} faults, {figures.cpu_s:.2f} CPU s, "
        f"{figures.times:.0f} times real time, {figures.read:.0%} read {figures.violated}",
        flush=True,
    )
    return figures.is_whole and figures.times >= GOAL


def measure_cores(seeds: int, read: int) -> bool:
    """Run the drills in one process for each core, and print how many run in a minute."""
    with Workers(partial(run, read=read), CORES) as workers:
        # The first runs import the program.
        are_whole = [_is_whole(one) for _, one in workers.run(range(CORES))]
        began_s = time.perf_counter()
        are_whole += [_is_whole(one) for _, one in workers.run(range(seeds))]
        took_s = time.perf_counter() - began_s
    runs = seeds * 60 / took_s
    print(f"{seeds} runs in {took_s:.1f} s on {CORES} cores: {runs:.0f} runs a minute")
    return all(are_whole) and runs >= RUNS_GOAL


def _is_whole(result: Run | Died) -> bool:
    return isinstance(result, Run) and result.is_whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.hunt_speed", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="number of runs")
    parser.add_argument(
        "--read",
        type=int,
        choices=range(1, PARTITIONS + 1),
        default=PARTITIONS,
        metavar="COUNT",
        help="number of partitions that the consumer reads. [default: all]",
    )
    parser.add_argument("--profile", action="store_true", help="print where the time is spent")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    is_met = all([measure_one(seed, options.read) for seed in range(options.seeds)])
    profile.disable()
    is_met &= measure_cores(2 * options.seeds, options.read)
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
