"""``python -m bench.hunt_shrinking``: how far the drills in which hunts find bugs are shrunk.

Each bug is a quirk or a mutant of bench/hunt_power.py, with a seed that finds it. Exit 1 if fewer
than five drills were shrunk from at least 40 steps to at most 6.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import nullcontext
from typing import Final

from bench.hunt_power import MUTANTS, planted
from bench.machine import machine
from klamm.cluster.quirks import NAMES, parse_quirks
from klamm.lab.hunt.drawing import draw_drill
from klamm.lab.hunt.hunting import run_text, shrink_failure
from klamm.lab.hunt.processes import print_no_warnings

MOST_STEPS: Final = 6
FEWEST_STEPS: Final = 40
GOAL: Final = 5
FOUND: Final = {
    "brokers accept old leader epochs": 0,
    "KAFKA-10149": 45,
    "KAFKA-12315": 613,
    "KAFKA-13091": 62,
    "KAFKA-13972": 21,
    "KAFKA-14140": 12,
    "KAFKA-14808": 256,
    "KAFKA-15608": 5,
    "C5": 1690,
    "C6": 98,
    "C10": 182,
}


def main() -> int:
    """Shrink, print a table, and judge."""
    argparse.ArgumentParser(prog="python -m bench.hunt_shrinking", description=__doc__).parse_args()
    print_no_warnings()
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {machine()}\n")
    print("| bug | seed | steps before | steps after | runs | CPU time |")
    print("|---|---|---|---|---|---|", flush=True)
    reached = 0
    for name, seed in FOUND.items():
        quirks = parse_quirks([name] if name in NAMES else [])
        text, began_s = draw_drill(seed), time.process_time()
        with planted(MUTANTS[name]) if name in MUTANTS else nullcontext():
            violated = run_text(text, "found", seed, quirks).violated
            assert violated, f"seed {seed} does not find {name}"
            shrunk = shrink_failure(text, seed, quirks, violated)
        took_s = time.process_time() - began_s
        before, after = shrunk.steps_before, shrunk.steps_after
        print(f"| {name} | {seed} | {before} | {after} | {shrunk.runs} | {took_s:.0f} s |")
        sys.stdout.flush()
        reached += before >= FEWEST_STEPS and after <= MOST_STEPS
    print(f"\n{reached} of {len(FOUND)} from at least {FEWEST_STEPS} to at most {MOST_STEPS} steps")
    return 0 if reached >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
