"""What the benchmark of replay makes of its figures, and what it sees of memory and time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bench.replay import (
    ANSWERS,
    DUCKDB_ANSWERS,
    DUCKDB_PASS,
    PASS,
    WINDOWS,
    Rate,
    judged,
)
from bench.usage import Usage, family_mb
from tests.waiting import wait_until

GOOD = [
    Rate(PASS, 2_000_000, 1.0, 2.0, 900),
    Rate(ANSWERS, 2_000_000, 3.0, 6.0, 1_000),
    Rate(PASS, 20_000_000, 9.0, 18.0, 1_800),
    Rate(ANSWERS, 20_000_000, 28.0, 50.0, 2_400),
    Rate(WINDOWS, 20_000_000, 70.0, 130.0, 4_000),
    Rate(DUCKDB_PASS, 20_000_000, 7.0, 14.0, 1_000),
    Rate(DUCKDB_ANSWERS, 20_000_000, 20.0, 40.0, 1_000),
    Rate("ingest, JSONL", 1_000_000, 5.0, 9.0, 1_500),
]


def test_good_figures_hold() -> None:
    assert [one.what for one in judged(GOOD) if not one.holds] == []
    assert len(list(judged(GOOD))) == 9


@pytest.mark.parametrize(
    ("slow", "what"),
    [
        (Rate(PASS, 20_000_000, 21.0, 40.0, 900), f"{PASS}: rows/s"),
        (Rate(ANSWERS, 20_000_000, 41.0, 80.0, 900), f"{ANSWERS}: rows/s"),
        (Rate(ANSWERS, 20_000_000, 31.0, 60.0, 900), f"{ANSWERS}: times the time a row"),
        (Rate(ANSWERS, 20_000_000, 28.0, 50.0, 3_001), "peak memory, MB"),
        (Rate(WINDOWS, 20_000_000, 55.0, 99.0, 900), "times as fast as windows"),
        (Rate(DUCKDB_ANSWERS, 20_000_000, 18.0, 36.0, 900), f"{ANSWERS}: times DuckDB's time"),
        (Rate("ingest, JSONL", 1_000_000, 7.0, 14.0, 900), "ingest, JSONL: a second"),
    ],
)
def test_each_requirement_can_fail(slow: Rate, what: str) -> None:
    rates = [slow if (r.what, r.rows) == (slow.what, slow.rows) else r for r in GOOD]
    assert any(one.what.startswith(what) for one in judged(rates) if not one.holds)


def test_a_goal_is_not_required() -> None:
    assert [one.what for one in judged(GOOD) if not one.is_required] == [
        f"{PASS}: times DuckDB's time (a goal)",
        f"{ANSWERS}: times DuckDB's time (a goal)",
    ]


def test_memory_and_time_of_children_count() -> None:
    text = "x = bytearray(80_000_000); x[::4096] = b'1' * len(x[::4096]); print(1); input()"
    before_mb = family_mb()
    with (
        Usage() as used,
        subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child,
    ):
        assert child.stdout is not None and child.stdout.readline() == b"1\n"
        assert family_mb() >= before_mb + 75
        wait_until(lambda: used.peak_mb >= before_mb + 75)
        child.communicate(b"\n")
    assert used.peak_mb >= before_mb + 75
    assert used.cpu_s > 0
