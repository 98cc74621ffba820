"""How fast replay is: all questions on both engines, and how fast logs come in.

``python -m bench.replay``: makes tables once, keeps them under bench/results, and asks each engine;
Spark answers the small one first, so that Java has compiled what it runs. Exit 1 if anything that
is required does not hold, or if the engines count differently.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.machine import machine
from bench.replay_ingest import measure_ingest
from bench.replay_many import many_clusters
from bench.replay_skew import BROKERS, HOT, Pair, broker_pair, hot_pair
from bench.usage import Usage
from klamm.cluster.errors import KlammError
from klamm.replay.engines import DUCKDB, SPARK, Engine
from klamm.replay.event_table import open_table, read_manifest
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions, Planted
from klamm.replay.opening import EngineOptions, open_engine
from klamm.replay.run import answering

ROWS: Final = 20_000_000
ROWS_A_PARTITION: Final = 100
SMALLER: Final = 10
CORES: Final = 2
MEMORY_MB: Final = 2048
INGESTED: Final = 1_000_000
ANSWERS: Final = 3
RESULTS: Final = Path(__file__).parent / "results"
MIN_PER_S: Final = {DUCKDB: 700_000, SPARK: 500_000}
MAX_PEAK_MB: Final = {DUCKDB: 4_000, SPARK: 3_000}
MOST_SECONDS: Final = 6.0
MOST_TIMES: Final = {BROKERS: 1.2, HOT: 1.3, "many": 1.2}
MANY: Final = "many"
"""Spark on ten times as many rows; takes minutes, and is measured only if named."""
PARTS: Final = (DUCKDB, SPARK, BROKERS, HOT, "ingest")
_PLANTED: Final = {
    Planted.ILLEGAL: 5,
    Planted.GAP: 5,
    Planted.UNCLEAN: 4,
    Planted.TWO_CONTROLLERS: 1,
    Planted.LATE_WRITE: 1,
    Planted.LEADERLESS: 5,
    Planted.STUCK: 3,
    Planted.FLAPPING: 3,
}


class Rate(NamedTuple):
    """How long something took for so many rows; ``cpu_s`` and ``peak_mb`` of all processes."""

    what: str
    rows: int
    took_s: float
    cpu_s: float
    peak_mb: int

    @property
    def per_s(self) -> float:
        """Rows a second."""
        return self.rows / self.took_s


class Judged(NamedTuple):
    """One thing that is required."""

    what: str
    value: float
    limit: float
    is_minimum: bool = True

    @property
    def holds(self) -> bool:
        """Whether it is so."""
        return self.value >= self.limit if self.is_minimum else self.value <= self.limit


def table_of(rows: int) -> Path:
    """The table of so many rows, made if it is not there."""
    partitions = rows // ROWS_A_PARTITION
    folder = RESULTS / f"replay-{rows}-{partitions}"
    if not folder.exists():
        RESULTS.mkdir(exist_ok=True)
        options = HistoryOptions(partitions, rows, planted=_PLANTED)
        start_s = time.perf_counter()
        generate(options, Format.PARQUET, folder)
        took_s = time.perf_counter() - start_s
        print(f"made {folder.name}: {rows / took_s:,.0f} rows/s ({took_s:.0f} s)", flush=True)
    return folder


class Bench:
    """Runs the parts, and keeps what they took and counted."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rates: list[Rate] = []
        self.times: dict[tuple[str, str], float] = {}
        self.problems: list[str] = []
        self._options = options
        self._counts: dict[int, dict[str, int]] = {}
        self._json: Path | None = options.json

    def run(self, parts: Sequence[str]) -> None:
        """All that was asked for."""
        large = self._options.rows
        for name in (DUCKDB, SPARK):
            if name in parts:
                tables = {rows: table_of(rows) for rows in (large // SMALLER, large)}
                with self._engine(name) as engine:
                    for rows, folder in tables.items():
                        self._ask(engine, folder, rows)
        pairs = {BROKERS: broker_pair, HOT: hot_pair}
        for part, name in product(pairs, (DUCKDB, SPARK)):
            if part in parts:
                with self._engine(DUCKDB) as engine:
                    pair = pairs[part](engine, RESULTS, large // SMALLER)
                with self._engine(name) as engine:
                    self._compare(engine, part, pair)
        if MANY in parts:
            self._many(table_of(large))
        if "ingest" in parts:
            with tempfile.TemporaryDirectory(prefix="klamm-bench-") as made:
                for found in measure_ingest(
                    Path(made), self._options.ingested, lambda: self._engine(DUCKDB)
                ):
                    self._keep(
                        Rate(found.what, found.rows, found.took_s, found.cpu_s, found.peak_mb)
                    )
                    if found.before_s:
                        print(f"what came before each row: {found.before_s:.1f} s", flush=True)

    @contextmanager
    def _engine(self, name: str, rows: int = 0) -> Iterator[Engine]:
        options = EngineOptions(name, None, self._options.cores, self._options.memory_mb)
        with open_engine(options, rows or self._options.rows, RESULTS) as engine:
            yield engine

    def _ask(self, engine: Engine, folder: Path, rows: int) -> None:
        def ask() -> dict[str, int]:
            with answering(open_table(engine, folder)) as found:
                return dict(found.counts)

        if engine.name == SPARK and not any(rate.what == SPARK for rate in self.rates):
            # Java compiles what it runs often.
            ask()
        counted = self._timed(engine.name, rows, ask)
        expected = self._counts.setdefault(rows, counted)
        for name, count in counted.items():
            if expected[name] != count:
                self.problems.append(f"{engine.name}: {name} is {count:,}, not {expected[name]:,}")

    def _many(self, table: Path) -> None:
        """How much more time of processors Spark needs for a row of ten clusters than of one."""
        with self._engine(DUCKDB) as engine:
            many = many_clusters(engine, table)
        rows = read_manifest(many).rows
        with self._engine(SPARK, rows) as engine:
            self._ask(engine, table, self._options.rows)
            self._ask(engine, many, rows)
        one, ten = self.rates[-2:]
        self.times[MANY, SPARK] = (ten.cpu_s / ten.rows) / (one.cpu_s / one.rows)

    def _compare(self, engine: Engine, part: str, pair: Pair) -> None:
        """What a difference between two tables costs, in seconds of processors.

        Counts the cheapest of a few answers in turn: the first after a start take longer."""
        took = dict.fromkeys(pair, math.inf)
        for _ in range(ANSWERS):
            for table in pair:
                with Usage() as used, answering(open_table(engine, table[1])):
                    pass
                took[table] = min(took[table], used.cpu_s)
        for (what, folder), cpu_s in took.items():
            rows = read_manifest(folder).rows
            print(f"{engine.name}, {what}, {rows:,} rows: {cpu_s:.1f} s of processors", flush=True)
        plain, special = took.values()
        self.times[part, engine.name] = special / plain

    def _timed(self, what: str, rows: int, job: Callable[[], Any]) -> Any:
        with Usage() as used:
            start_s = time.perf_counter()
            found = job()
            took_s = time.perf_counter() - start_s
        self._keep(Rate(what, rows, took_s, used.cpu_s, used.peak_mb))
        return found

    def _keep(self, rate: Rate) -> None:
        self.rates.append(rate)
        took = f"{rate.took_s:.1f} s, {rate.cpu_s:.1f} s of processors, {rate.peak_mb:,} MB at most"
        print(f"{rate.what}, {rate.rows:,} rows: {rate.per_s:,.0f} rows/s ({took})", flush=True)
        if self._json is not None:
            with self._json.open("a") as file:
                file.write(json.dumps(rate._asdict()) + "\n")


def judged(
    rates: Sequence[Rate], times: Mapping[tuple[str, str], float] | None = None
) -> Iterator[Judged]:
    """All that these rates can tell. ``times``: how many times as much a difference costs."""
    for (part, engine), ratio in (times or {}).items():
        yield Judged(f"{part}, {engine}: times the cost", ratio, MOST_TIMES[part], False)
    by_name: dict[str, list[Rate]] = {}
    for rate in rates:
        by_name.setdefault(rate.what, []).append(rate)
    for name, least in MIN_PER_S.items():
        if name not in by_name:
            continue
        small, large = by_name[name][0], by_name[name][-1]
        yield Judged(f"{name}: rows/s", large.per_s, least)
        yield Judged(f"{name}: peak memory, MB", large.peak_mb, MAX_PEAK_MB[name], False)
        if name == DUCKDB:
            yield Judged(f"{name}: {small.rows:,} rows, s", small.took_s, MOST_SECONDS, False)
    for what, least in INGEST_LIMITS.items():
        if what in by_name:
            yield Judged(f"{what}: a second", by_name[what][-1].per_s, least)


INGEST_LIMITS: Final = {
    "ingest, JSONL": 300_000,
    "ingest, state-change.log": 150_000,
    "ingest, transaction log": 60_000,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge."""
    options = _parser().parse_args(arguments)
    parts = options.only or PARTS
    on = machine()
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {on}\n", flush=True)
    bench = Bench(options)
    try:
        bench.run(parts)
    except KlammError as error:
        print(f"error: {error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    verdicts = list(judged(bench.rates, bench.times))
    print("\n| required | measured | limit | holds |\n|---|---|---|---|")
    for one in verdicts:
        limit = f"{'at least' if one.is_minimum else 'at most'} {one.limit:,.4g}"
        print(f"| {one.what} | {one.value:,.2f} | {limit} | {'yes' if one.holds else 'NO'} |")
    failed = [one.what for one in verdicts if not one.holds]
    for what in failed + bench.problems:
        print(f"FAILED on {on}: {what}")
    return 1 if failed or bench.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the large table (%(default)s)")
    parser.add_argument("--ingested", type=int, default=INGESTED, help="rows of each log")
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB, help="of an engine")
    parser.add_argument("--only", action="append", choices=(*PARTS, MANY), help="repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results, one a line")
    return parser


if __name__ == "__main__":
    # DuckDB's further processes import this file.
    sys.exit(main())
