"""``make bench``: what klamm's controller does, beside Kafka's and the store's own rates.

Every run has a ZooKeeper of its own, on disk, with fsync; klamm and Kafka take turns. Exit 1 if
anything required does not hold or came out wrong. bench/README.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.figures import KAFKA, KLAMM, RAW_STORE, Layout, Result, busy_share, verdicts
from bench.kafka.locate import SKIP_REASON
from bench.kafka.run import problems, run_kafka
from bench.kafka.table import HEADER, row
from bench.klamm import run_klamm
from bench.machine import machine
from bench.memory import bytes_per_partition
from bench.parts import GROWING, PARTS, steps_for
from bench.report import tables
from klamm.cluster.errors import KlammError, UsageError
from klamm.world.kafka.jars import kafka_libs

BROKERS = 5
QUICK = (Layout(10_000, 100),)
FULL = (Layout(10_000, 100), Layout(10_000, 1), Layout(100_000, 100))
# Whose CPU is compared is done three times, for a median.
ROUNDS = 3
REPEATED_PER_TOPIC = 100
MEMORY_PARTITIONS = 10_000
MEMORY_PER_TOPIC = 100
MAX_BUSY_SHARE = 0.1
REPLAY = "replay"
LOGS = "logs"
SIMULATION = "simulation"
REPLAY_ROWS = 20_000_000


class Run(NamedTuple):
    """One cluster from its start to its end, and the parts that are done to it."""

    product: str
    layout: Layout
    parts: tuple[str, ...]
    is_first: bool = True

    @property
    def steps(self) -> tuple[str, ...]:
        """Its steps, by name and count."""
        return steps_for(self.layout, self.product, self.parts)


def plan(
    layouts: Sequence[Layout], with_kafka: bool, rounds: int, parts: Sequence[str] = PARTS
) -> Iterator[Run]:
    """klamm and Kafka in turn, layout by layout; then klamm again.

    Only topics of many partitions get every part: one partition a topic costs too much of the time.
    """
    growing = tuple(part for part in parts if part in GROWING)
    for number in range(rounds):
        for layout in layouts:
            is_repeated = layout.partitions_per_topic == REPEATED_PER_TOPIC
            taken = tuple(parts) if is_repeated or len(layouts) == 1 else growing
            if number == 0 and taken:
                yield Run(KLAMM, layout, taken)
                if with_kafka:
                    yield Run(KAFKA, layout, taken)
            elif number > 0 and is_repeated and growing:
                yield Run(KLAMM, layout, growing, is_first=False)


class Report:
    """Shows every result as it comes, and keeps it."""

    def __init__(self, json_path: Path | None) -> None:
        self.results: list[Result] = []
        self.problems: list[str] = []
        self._json_path = json_path

    def add(self, run: int, result: Result) -> None:
        """Print one result as a row, and what is wrong with it."""
        result["run"] = run
        if not self.results:
            print(HEADER)
        self.results.append(result)
        print(row(result), flush=True)
        for problem in problems(result):
            self.problems.append(f"{result['product']}, {result['step']}: {problem}")
            print(f"  {self.problems[-1]}", flush=True)
        self._write(result)

    def add_memory(self, result: Result) -> None:
        """Keep a result that has no time."""
        self.results.append(result)
        self._write(result)

    def _write(self, result: Result) -> None:
        if self._json_path is not None:
            with self._json_path.open("a") as file:
                file.write(json.dumps(result) + "\n")


def bench(runs: Sequence[Run], report: Report, with_memory: bool) -> None:
    """Do every run, and measure the memory."""
    started_s = time.monotonic()
    for number, run in enumerate(runs):
        layout = run.layout
        size = (layout.partitions, layout.partitions_per_topic, BROKERS)
        left = iter((*run.steps, "the end"))

        def tell(number: int = number, run: Run = run, left: Iterator[str] = left) -> None:
            at_s = time.monotonic() - started_s
            of = f"{number + 1} of {len(runs)}, {run.product}, {run.layout}"
            print(f"{at_s:4.0f} s: {of}: {next(left, RAW_STORE)}", file=sys.stderr, flush=True)

        def show(result: Result, number: int = number, tell: Callable[[], None] = tell) -> None:
            report.add(number, result)
            tell()

        tell()
        if run.product == KAFKA:
            run_kafka(*size, run.steps, on_result=show)
        else:
            run_klamm(*size, run.steps, raw_store=run.is_first, on_result=show)
    if with_memory:
        print("memory", file=sys.stderr, flush=True)
        partitions = min(MEMORY_PARTITIONS, max(run.layout.partitions for run in runs))
        per_topic = min(MEMORY_PER_TOPIC, partitions)
        report.add_memory(bytes_per_partition(partitions, per_topic, BROKERS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge: the controller's jobs, the segment log, simulations, replay."""
    options = _parser().parse_args(arguments)
    only = options.only or ()
    beside = {LOGS: (), SIMULATION: (), REPLAY: ("--rows", str(options.replay_rows))}
    codes = [] if only and beside.keys() >= {*only} else [_bench_controller(options)]
    is_narrowed = only or options.quick or options.partitions is not None
    is_whole = not (is_narrowed or UsageError.exit_code in codes)
    for part, words in beside.items():
        if part in only or is_whole:
            # In a separate process, so that memory left over from earlier parts is not counted.
            command = (sys.executable, "-m", f"bench.{part}", *words)
            codes.append(subprocess.run(command, check=False).returncode)
    return max(codes)


def _bench_controller(options: argparse.Namespace) -> int:
    try:
        layouts = _layouts(options)
        parts = _parts(options)
        with_kafka = not (options.no_kafka or options.quick)
        missing = with_kafka and kafka_libs() is None
        on = machine()
        started_s = time.monotonic()
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {on}\n", flush=True)
        report = Report(options.json)
        rounds = 1 if options.quick else options.rounds
        runs = list(plan(layouts, with_kafka and not missing, rounds, parts))
        bench(runs, report, with_memory=options.only is None)
    except KlammError as error:
        print(f"error: {error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    print(f"\n{tables(report.results)}\n")
    if missing:
        print(f"Nothing to compare with: {SKIP_REASON}")
    share = busy_share(report.results, os.cpu_count() or 1)
    if share > MAX_BUSY_SHARE:
        print(f"Others took {share:.0%} of the machine: wall times are longer than they should be.")
    failed = [verdict.what for verdict in verdicts(report.results) if not verdict.holds]
    for what in failed + report.problems:
        print(f"FAILED on {on}: {what}")
    print(f"{time.monotonic() - started_s:.0f} s in all")
    return 1 if failed or report.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10,000 as 100 x 100, without Kafka")
    parser.add_argument("--partitions", type=int, metavar="N", help="only N, in both layouts")
    parser.add_argument(
        "--partitions-per-topic", type=int, metavar="P", help="with --partitions: only this layout"
    )
    parser.add_argument("--no-kafka", action="store_true", help="klamm and the store alone")
    parser.add_argument(
        "--only",
        action="append",
        choices=(*PARTS, LOGS, SIMULATION, REPLAY),
        help="this part (and what it needs); repeatable",
    )
    parser.add_argument(
        "--replay-rows", type=int, default=REPLAY_ROWS, help="of replay's table (%(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="for the medians (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results, one a line")
    return parser


def _layouts(options: argparse.Namespace) -> Sequence[Layout]:
    """Raises UsageError for what cannot be laid out."""
    partitions, per_topic = options.partitions, options.partitions_per_topic
    if options.rounds < 1:
        raise UsageError("--rounds is a number from 1")
    if partitions is None:
        if per_topic is not None:
            raise UsageError("--partitions-per-topic goes with --partitions")
        return QUICK if options.quick else FULL
    sizes = [per_topic] if per_topic is not None else [REPEATED_PER_TOPIC, 1]
    for size in sizes:
        if size < 1 or partitions < 10 * size or partitions % size:
            raise UsageError(
                f"{partitions} partitions are not ten or more topics of {size}",
                hint="see --partitions and --partitions-per-topic",
            )
    return [Layout(partitions, size) for size in sizes]


def _parts(options: argparse.Namespace) -> tuple[str, ...]:
    """Raises UsageError for nothing to do."""
    return tuple(part for part in PARTS if options.only is None or part in options.only)


if __name__ == "__main__":
    sys.exit(main())
