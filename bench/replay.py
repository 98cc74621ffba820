"""How fast replay is: all questions in few passes, by windows, in DuckDB; how fast logs come in.

``python -m bench.replay``: makes tables once, keeps them under bench/results, and asks the
small one before the large one, when Java has compiled what it runs. Exit 1 if anything that is
required does not hold, or if two engines count differently.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench import replay_duckdb
from bench import replay_windows as windows
from bench.machine import machine
from bench.replay_ingest import measure_ingest
from bench.usage import Usage
from klamm.cluster.errors import KlammError
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions, Planted
from klamm.replay.questions.histories import SUMS, histories
from klamm.replay.run import answer
from klamm.replay.spark import spark_session

ROWS: Final = 20_000_000
ROWS_A_PARTITION: Final = 100
SMALLER: Final = 10
CORES: Final = 2
MEMORY_MB: Final = 2048
INGESTED: Final = 1_000_000
RESULTS: Final = Path(__file__).parent / "results"
MIN_PASS: Final = 1_000_000
MIN_ANSWERS: Final = 500_000
MIN_TIMES_WINDOWS: Final = 2.0
GOAL_TIMES_DUCKDB: Final = 1.5
MAX_PEAK_MB: Final = 3_000
PARTS: Final = ("questions", "windows", "duckdb", "ingest")
PASS, ANSWERS, WINDOWS = "pass by key", "all questions", "by windows"
DUCKDB_PASS, DUCKDB_ANSWERS = "DuckDB, pass by key", "DuckDB, all questions"
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
    """One thing that is required, or wished for."""

    what: str
    value: float
    limit: float
    is_minimum: bool = True
    is_required: bool = True

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
        self.problems: list[str] = []
        self._options = options
        self._counts: dict[int, dict[str, int]] = {}
        self._json: Path | None = options.json

    def run(self, parts: Sequence[str]) -> None:
        """All that was asked for."""
        large = self._options.rows
        tables = {rows: table_of(rows) for rows in (large // SMALLER, large)}
        if "questions" in parts or "windows" in parts:
            with self._session() as spark:
                for rows, folder in tables.items():
                    self._ask(open_table(spark, folder), rows, "windows" in parts)
        if "duckdb" in parts and replay_duckdb.is_there():
            self._ask_duckdb(large, tables[large])
        if "ingest" in parts:
            with tempfile.TemporaryDirectory(prefix="klamm-bench-") as name:
                logs = Path(name)
                for made in measure_ingest(logs, self._options.ingested, self._session):
                    self._keep(Rate(made.what, made.rows, made.took_s, made.cpu_s, made.peak_mb))
                    if made.before_s:
                        print(f"what came before each row: {made.before_s:.1f} s", flush=True)

    @contextmanager
    def _session(self) -> Iterator[SparkSession]:
        start_s = time.perf_counter()
        with spark_session(self._options.cores, self._options.memory_mb) as spark:
            print(f"Spark's start: {time.perf_counter() - start_s:.1f} s", flush=True)
            yield spark

    def _ask(self, table: EventTable, rows: int, with_windows: bool) -> None:
        if not self.rates:
            # Java compiles what it runs often.
            for _ in range(2):
                _pass(table)
            answer(table).close()
        self._timed(PASS, rows, lambda: _pass(table))
        bounds: dict[str, int] = {}

        def ask() -> None:
            with answer(table) as found:
                self._counts[rows] = dict(found.counts)
                bounds.update(first_ms=found.first_ms or 0, width_ms=found.bucket_ms)

        self._timed(ANSWERS, rows, ask)
        if with_windows:
            counted = self._timed(WINDOWS, rows, lambda: windows.answer(table.events, **bounds))
            alike = [name for name in windows.COUNTED if name not in windows.BLURRED]
            self._compare(WINDOWS, rows, counted[0], alike)

    def _ask_duckdb(self, rows: int, table: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="klamm-bench-") as name, Usage() as used:
            found = replay_duckdb.ask(table, self._options.cores, Path(name))
        self._keep(Rate(DUCKDB_PASS, rows, found.pass_s, found.pass_cpu_s, used.peak_mb))
        self._keep(Rate(DUCKDB_ANSWERS, rows, found.all_s, used.cpu_s, used.peak_mb))
        if rows in self._counts:
            self._compare("DuckDB", rows, found.sums, replay_duckdb.SUMS)

    def _compare(self, who: str, rows: int, counted: dict[str, int], names: Sequence[str]) -> None:
        for name in names:
            here = self._counts[rows].get(name)
            if here is not None and here != counted[name]:
                self.problems.append(f"{who}: {name} is {counted[name]:,}, not {here:,}")

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


def _pass(table: EventTable) -> None:
    """The pass by key, down to one row of sums."""
    found = histories(table.events)
    # Every column is asked for, as Spark computes none that nobody wants.
    found.agg(*(F.sum(name) for name in SUMS), F.bit_xor(F.xxhash64(*found.columns))).collect()


def judged(rates: Sequence[Rate]) -> Iterator[Judged]:
    """All that these rates can tell."""
    by_name: dict[str, list[Rate]] = {}
    for rate in rates:
        by_name.setdefault(rate.what, []).append(rate)
    for what, least in ((PASS, MIN_PASS), (ANSWERS, MIN_ANSWERS)):
        if what in by_name:
            small, large = by_name[what][0], by_name[what][-1]
            yield Judged(f"{what}: rows/s", large.per_s, least)
            if small.rows < large.rows:
                growth = (large.took_s / small.took_s) / (large.rows / small.rows)
                name = f"{what}: times the time a row, {large.rows:,} to {small.rows:,}"
                yield Judged(name, growth, 1.0, is_minimum=False)
    if ANSWERS in by_name:
        mine = by_name[ANSWERS][-1]
        yield Judged("peak memory, MB", mine.peak_mb, MAX_PEAK_MB, is_minimum=False)
        if WINDOWS in by_name:
            times = by_name[WINDOWS][-1].took_s / mine.took_s
            yield Judged("times as fast as windows", times, MIN_TIMES_WINDOWS)
    for mine_is, theirs in ((PASS, DUCKDB_PASS), (ANSWERS, DUCKDB_ANSWERS)):
        if mine_is in by_name and theirs in by_name:
            times = by_name[mine_is][-1].took_s / by_name[theirs][-1].took_s
            what = f"{mine_is}: times DuckDB's time (a goal)"
            yield Judged(what, times, GOAL_TIMES_DUCKDB, is_minimum=False, is_required=False)
    for what, least in INGEST_LIMITS.items():
        if what in by_name:
            yield Judged(f"{what}: a second", by_name[what][-1].per_s, least)


INGEST_LIMITS: Final = {
    "ingest, JSONL": 150_000,
    "ingest, state-change.log": 100_000,
    "ingest, transaction log": 30_000,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and judge."""
    options = _parser().parse_args(arguments)
    parts = tuple(part for part in PARTS if not options.only or part in options.only)
    on = machine()
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} on {on}\n", flush=True)
    bench = Bench(options)
    try:
        bench.run(parts)
    except KlammError as error:
        print(f"error: {error}" + (f" ({error.hint})" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    if "duckdb" in parts and not replay_duckdb.is_there():
        print(f"Nothing of DuckDB: {replay_duckdb.SKIP_REASON}")
    verdicts = list(judged(bench.rates))
    print("\n| required | measured | limit | holds |\n|---|---|---|---|")
    for one in verdicts:
        limit = f"{'at least' if one.is_minimum else 'at most'} {one.limit:,.4g}"
        print(f"| {one.what} | {one.value:,.2f} | {limit} | {'yes' if one.holds else 'NO'} |")
    failed = [one.what for one in verdicts if one.is_required and not one.holds]
    for what in failed + bench.problems:
        print(f"FAILED on {on}: {what}")
    return 1 if failed or bench.problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.replay", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the large table (%(default)s)")
    parser.add_argument("--ingested", type=int, default=INGESTED, help="rows of each log")
    parser.add_argument("--cores", type=int, default=CORES)
    parser.add_argument("--memory-mb", type=int, default=MEMORY_MB, help="Java's heap")
    parser.add_argument("--only", action="append", choices=PARTS, help="repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append results, one a line")
    return parser


if __name__ == "__main__":
    sys.exit(main())
