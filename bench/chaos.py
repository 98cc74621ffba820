"""``python -m bench.chaos``: random drills of hunts on a real ZooKeeper, in real time.

``klamm hunt`` runs its drills in simulation. This program runs those whose faults a real cluster
has: sockets, threads and sessions are real, and the drill's ZooKeeper servers are killed and
paused, too. A drill is judged as by ``klamm drill run --real``, and ZooKeeper's transaction log as
by ``klamm replay run``. Each drill must leave as many threads and descriptors as before it.
The exit code is that of the worst drill (docs/drills.md).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.aftermath import transaction_logs, what_replay_finds
from bench.machine import machine
from bench.usage import usage_of
from klamm.cluster.quirks import NO_QUIRKS
from klamm.cluster.version import klamm_version
from klamm.lab.hunt.drawing import CONSUMERS_WAIT_S, draw_drill
from klamm.lab.hunt.drawn_steps import FAULTS
from klamm.lab.hunt.shrinking import RECOVERY
from klamm.lab.language.language import parse_drill
from klamm.lab.run.drill_run import Outcome, play, verdict_of, worst
from klamm.lab.run.runner import StepResult
from klamm.lab.run.worlds import World, Worlds
from klamm.zk.waiting import wait_until

_LEFT_OUT: Final = (
    *("authentication", "delay-zookeeper", "lost-reply", "moment", "phase", "session"),
    *("stale-reads", "clock"),
)
"""Faults that only a simulated cluster has, and clocks: they do not change ZooKeeper's."""
REAL_FAULTS: Final = tuple(
    name for name, fault in FAULTS.items() if fault.is_default and name not in _LEFT_OUT
)
_ZOOKEEPER_FAULTS: Final = (("kill", "start"), ("pause", "resume"))
_LONGEST_FAULT_MS: Final = 6_000
_CONSUMERS_WAIT_S: Final = 30
_CLOSED_WITHIN_S: Final = 10.0
_STEP: Final = "  - "


def draw_real_drill(seed: int) -> str:
    """Return a seed's drill: waits instead of steps of a simulation, and faults of ZooKeeper."""
    rng = random.Random(f"klamm chaos {seed}")
    text = re.sub(r"advance: (\d+)", r"wait: \1ms", draw_drill(seed, REAL_FAULTS))
    text = text.replace(f"wait: {CONSUMERS_WAIT_S}s", f"wait: {_CONSUMERS_WAIT_S}s")
    text = text.replace("cluster:\n", f"cluster:\n  zookeeper_servers: {rng.choice((1, 3))}\n")
    begin, recovery, end = text.partition(f"{_STEP}{RECOVERY}\n")
    lines = begin.splitlines()
    first = lines.index("steps:") + 1
    for _ in range(rng.randrange(3)):
        fault, repair = rng.choice(_ZOOKEEPER_FAULTS)
        wait = f"wait: {rng.randrange(100, _LONGEST_FAULT_MS)}ms"
        step = f"steps: [{{{fault}_zookeeper: 1}}, {{{wait}}}, {{{repair}_zookeeper: 1}}]"
        lines.insert(rng.randrange(first, len(lines) + 1), _STEP + step)
    return "\n".join([*lines, recovery + end])


def run_seed(seed: int, folder: Path) -> tuple[Outcome, int, list[str]]:
    """Run and judge the drill of a seed; return its outcome, number of actions and failures."""
    text = draw_real_drill(seed)
    (folder / f"chaos-{seed}.yaml").write_text(text, encoding="utf-8")
    drill, results = parse_drill(text, f"chaos-{seed}.yaml"), list[StepResult]()
    # Also drills without steps on ZooKeeper servers need an ensemble of their own here.
    servers = drill.cluster.zookeeper_servers
    spec = dataclasses.replace(drill.spec(NO_QUIRKS, seed), zookeeper_servers=servers)
    with (
        _leaves_nothing(seed) as left,
        Worlds(folder, klamm_version(), world=World.ZOOKEEPER) as worlds,
        worlds.open(spec, drill.name) as driver,
    ):
        verdict = verdict_of(play(drill, driver), results.append)
    actions = sum(len(one.step.actions) for one in results if one.refusal is None)
    failures = [f"{one.place}: {one}" for one in verdict.failures]
    failures += left + what_replay_finds(transaction_logs(folder / f"1-{drill.name}"))
    outcome = verdict.outcome
    return Outcome.UNSAFE if failures and not outcome else outcome, actions, failures


@contextlib.contextmanager
def _leaves_nothing(seed: int) -> Iterator[list[str]]:
    """Context manager: afterwards the list has a line if threads or descriptors were left."""
    left: list[str] = []
    before = usage_of(os.getpid())

    def is_gone() -> bool:
        now = usage_of(os.getpid())
        return now.threads <= before.threads and now.descriptors <= before.descriptors

    yield left
    if not wait_until(is_gone, _CLOSED_WITHIN_S):
        left.append(f"seed {seed} began with {before} and ended with {usage_of(os.getpid())}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run drills until the time is over, and print what each did."""
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="(%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first one (%(default)s)")
    options = parser.parse_args(arguments)
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n", flush=True)
    ends_s, seed, outcomes, total = time.monotonic() + 60 * options.minutes, options.seed, [], 0
    while not outcomes or time.monotonic() < ends_s:
        folder = Path(tempfile.mkdtemp(prefix=f"klamm-chaos-{seed}-"))
        outcome, actions, failures = run_seed(seed, folder)
        print(f"seed {seed}: {outcome.name}, {actions} actions", flush=True)
        for failure in failures:
            print(f"  {failure}", flush=True)
        if outcome is Outcome.PASSED:
            shutil.rmtree(folder)
        else:
            print(f"  files: {folder}", flush=True)
        outcomes.append(outcome)
        total, seed = total + actions, seed + 1
    print(f"{len(outcomes)} drills, {total} actions, {sum(map(bool, outcomes))} did not pass")
    return worst(outcomes)


if __name__ == "__main__":
    sys.exit(main())
