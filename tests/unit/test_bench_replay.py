"""What the benchmark of replay makes of its figures, and what it sees of memory and time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.replay import Rate, judged
from bench.usage import Usage, family_mb
from klamm.replay.engines import DUCKDB, SPARK
from tests.waiting import wait_until

GOOD = [
    Rate(DUCKDB, 2_000_000, 3.0, 6.0, 1_000),
    Rate(DUCKDB, 20_000_000, 20.0, 40.0, 2_400),
    Rate(SPARK, 2_000_000, 9.0, 18.0, 1_000),
    Rate(SPARK, 20_000_000, 38.0, 70.0, 2_900),
    Rate("ingest, JSONL", 1_000_000, 3.0, 6.0, 1_500),
]


def test_good_figures_meet_every_requirement() -> None:
    assert [one.what for one in judged(GOOD) if not one.holds] == []
    assert len(list(judged(GOOD))) == 6
    times = {("hot", "duckdb"): 1.3, ("brokers", "spark"): 1.21}
    assert [one.holds for one in judged([], times)] == [True, False]


@pytest.mark.parametrize(
    ("slow", "what"),
    [
        (Rate(DUCKDB, 20_000_000, 29.0, 50.0, 900), "duckdb: rows/s"),
        (Rate(DUCKDB, 20_000_000, 20.0, 40.0, 4_001), "duckdb: peak memory, MB"),
        (Rate(DUCKDB, 2_000_000, 6.1, 12.0, 900), "duckdb: 2,000,000 rows, s"),
        (Rate(SPARK, 20_000_000, 41.0, 80.0, 900), "spark: rows/s"),
        (Rate(SPARK, 20_000_000, 38.0, 70.0, 3_001), "spark: peak memory, MB"),
        (Rate("ingest, JSONL", 1_000_000, 4.0, 8.0, 900), "ingest, JSONL: a second"),
    ],
)
def test_each_figure_that_is_too_bad_fails_its_requirement(slow: Rate, what: str) -> None:
    rates = [slow if (r.what, r.rows) == (slow.what, slow.rows) else r for r in GOOD]
    assert any(one.what.startswith(what) for one in judged(rates) if not one.holds)


def test_memory_and_time_of_children_count() -> None:
    text = "x = bytearray(300_000_000); x[::4096] = b'1' * len(x[::4096]); print(1); input()"
    before_mb = family_mb()
    with (
        Usage() as used,
        subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child,
    ):
        assert child.stdout is not None and child.stdout.readline() == b"1\n"
        # Other children, such as a ZooKeeper, may shrink meanwhile.
        assert family_mb() >= before_mb + 200
        wait_until(lambda: used.peak_mb >= before_mb + 200)
        child.communicate(b"\n")
    assert used.peak_mb >= before_mb + 200
    assert used.cpu_s > 0
