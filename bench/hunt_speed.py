"""``python -m bench.hunt_speed``: how fast a simulated cluster runs with faults and all invariants.

Five brokers, 24 partitions with three replicas, 100 records/s for each of them at a constant rate,
and a fault or a repair every three seconds for ten simulated minutes, so more than 100 faults.
Journal and invariants are on. The figures are in CPU seconds, because other work on the machine
does not change them much. Exit 1 if a run fails or the goal is missed.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import random
import sys
import time
from collections.abc import Sequence

from bench.machine import machine
from klamm.cluster.quirks import NO_QUIRKS
from klamm.drills.hunting import run_text

GOAL = 300.0
MINUTES = 10
INTERVAL_S = 3
BROKERS = 5
PARTITIONS = 24
_FAULTS = (
    ("kill: {broker}", "start: {broker}"),
    ("stop: {broker}", "start: {broker}"),
    ("pause: {broker}", "resume: {broker}"),
    ("isolate: [{broker}]", "heal_network"),
    ("expire_session: {broker}", "move_controller"),
    ("elect_preferred: all", "expire_session: {broker}"),
)


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


def run(seed: int) -> bool:
    """Run one drill and print its figures. Return False if it fails or misses the goal."""
    text = drill_text(seed)
    began_s = time.process_time()
    result = run_text(text, f"speed-{seed}.yaml", seed, NO_QUIRKS, time_limit_s=600)
    took_s = time.process_time() - began_s
    times = result.simulated_ms / 1000 / took_s
    print(
        f"seed {seed}: {result.actions} actions, {took_s:.2f} CPU s, {times:.0f} times real time, "
        f"{60 / took_s:.0f} runs a minute and core {result.violated}",
        flush=True,
    )
    return not result.violated and times >= GOAL


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.hunt_speed", description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="number of runs")
    parser.add_argument("--profile", action="store_true", help="print where the time is spent")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    profile = cProfile.Profile()
    if options.profile:
        profile.enable()
    is_met = all([run(seed) for seed in range(options.seeds)])
    profile.disable()
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
