"""``python -m bench.explore``: how fast all states of a small cluster are explored.

Prints states, transitions, depth, seconds and CPU seconds. Exit 1 if a violation is found, the
states are not complete, or a scope has other counts than ``EXPECTED``.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time

from bench.machine import machine
from klamm.cluster.quirks import NO_QUIRKS
from klamm.drills.exploration import parse_scope
from klamm.drills.exploring import explore

REPLICAS = ("0,1",)
ACTIONS = ("kill 1", "start 1", "create 1")
EXPECTED = {
    (2, ACTIONS): (112_318, 342_683, 58),
    (2, ("kill 1", "start 1", "elect")): (42_928, 134_298, 44),
    (1, ACTIONS): (56_958, 145_531, 57),
}
"""States, transitions and depth by the number of candidates and the actions."""


def main() -> int:
    """Explore one scope and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.explore", description=__doc__)
    parser.add_argument("--action", action="append", help="default: kill 1, start 1, create 1")
    parser.add_argument("--candidates", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--max-states", type=int)
    options = parser.parse_args()
    actions = tuple(options.action or ACTIONS)
    scope = parse_scope(2, options.candidates, REPLICAS, actions, NO_QUIRKS)
    print(machine())
    began_s = time.monotonic()
    *_, progress = explore(scope, options.jobs, options.max_states)
    seconds = time.monotonic() - began_s
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu_s = sum(usage.ru_utime + usage.ru_stime for usage in used)
    print(
        f"{', '.join(actions)}: {progress.states:,} states, {progress.transitions:,} transitions, "
        f"depth {progress.depth}, {seconds:.1f} s, {cpu_s:.1f} CPU s, "
        f"{'complete' if progress.is_complete else 'not complete'}; {progress.violation}"
    )
    counts = (progress.states, progress.transitions, progress.depth)
    expected = EXPECTED.get((options.candidates, actions), counts)
    if progress.is_complete and counts != expected:
        print(f"expected {expected[0]:,} states, {expected[1]:,} transitions, depth {expected[2]}")
        return 1
    return 0 if progress.is_complete and progress.violation is None else 1


if __name__ == "__main__":
    sys.exit(main())
