"""Listings: which rows of an answer are shown, in which order, and how many there are."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, literal
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.listings import (
    MOST_DRAWN,
    MOST_LISTED,
    Listing,
    first_listed,
    first_rows,
    in_strings,
    number_listed,
)
from tests.spark.conftest import table_in


@pytest.fixture(scope="module")
def table(duckdb: Engine) -> EventTable:
    """The names of two topics."""
    given = [{"topic": topic, "seq": n} for n, topic in enumerate(("t", "u"))]
    return table_in(duckdb, *given)


def values(columns: str, *rows: tuple[Any, ...]) -> str:
    """A query for these rows."""
    listed = ", ".join(
        f"({', '.join('NULL' if one is None else str(one) for one in row)})" for row in rows
    )
    return f"SELECT * FROM (VALUES {listed}) AS given({columns})"


def listed(table: EventTable, name: str, sql: str, **known: int) -> Listing:
    return first_listed(table, table.engine, {name: sql}, known)[name]


def test_the_first_rows_are_listed_and_all_are_counted(table: EventTable) -> None:
    several = "SELECT range % 7 AS t_ms, range AS place, 1 AS file, range AS line FROM range({})"
    found = listed(table, "illegal", several.format(MOST_LISTED + 50))
    assert (len(found.rows), found.total, found.is_whole) == (MOST_LISTED, MOST_LISTED + 50, False)
    order = [(row["t_ms"], row["place"]) for row in found.rows]
    assert order == sorted(order) and order[0] == (0, 0)
    found = listed(table, "illegal", several.format(MOST_LISTED))
    assert (len(found.rows), found.total, found.is_whole) == (MOST_LISTED, MOST_LISTED, True)
    # A number that is known is not counted again; what is known to be empty is not asked.
    found = listed(table, "illegal", several.format(MOST_LISTED + 50), illegal=7_000)
    assert (len(found.rows), found.total) == (MOST_LISTED, 7_000)
    assert listed(table, "illegal", "no SQL", illegal=0) == Listing()


def test_what_is_drawn_has_more_rows(table: EventTable) -> None:
    sql = "SELECT 1 AS source, 1 AS run, -range AS t_ms, 1 AS what FROM range({})"
    found = listed(table, "marks", sql.format(MOST_LISTED + 1))
    assert len(found.rows) == found.total == MOST_LISTED + 1
    assert found.rows[0]["t_ms"] == -MOST_LISTED
    found = listed(table, "marks", sql.format(MOST_DRAWN + 1))
    assert (len(found.rows), found.total) == (MOST_DRAWN, MOST_DRAWN + 1)


def test_intervals_that_have_not_ended_come_first_then_the_longest(table: EventTable) -> None:
    t, u = xxhash64("t"), xxhash64("u")
    sql = values(
        "took_ms, start_ms, topic, partition, source, run",
        (5, 9, t, 0, 4, 1),
        (5, 9, t, 0, 1, 1),
        (None, 3, u, 1, 1, 1),
        (7, 2, t, 2, 1, 1),
        (7, 1, u, 3, 1, 1),
        (None, None, t, 4, 1, 1),
        (None, 3, u, 0, 1, 1),
    )
    found = listed(table, "offline_intervals", sql)
    assert [(row["took_ms"], row["topic"], row["partition"]) for row in found.rows] == [
        *((None, "u", 0), (None, "u", 1), (None, "t", 4)),
        *((7, "u", 3), (7, "t", 2), (5, "t", 0), (5, "t", 0)),
    ]
    # Rows that two logs have in common are in the order of the logs.
    assert [row["source"] for row in found.rows[-2:]] == ["journal", "zookeeper"]
    (first,) = table.engine.fetch(
        first_rows({"offline_intervals": sql}, 1)["offline_intervals"]
    ).rows
    assert first[0] is None and first[3] == 0


def test_only_topics_and_brokers_with_problems_are_listed(table: EventTable) -> None:
    t, u = xxhash64("t"), xxhash64("u")
    sql = values(
        "trouble, leaderless_ms, source, run, topic",
        (0, 0, 1, 1, t),
        (0, 8, 1, 1, u),
        (3, 0, 1, 1, t),
    )
    found = listed(table, "topics", sql)
    assert [(row["topic"], row["trouble"]) for row in found.rows] == [("t", 3), ("u", 0)]
    assert found.total == 2
    brokers = values("trouble, source, run, broker", (0, 1, 1, 5), (1, 1, 1, 7), (4, 1, 1, 6))
    found = listed(table, "brokers", brokers)
    assert [row["broker"] for row in found.rows] == [6, 7]
    for name, query, number in (("topics", sql, 2), ("brokers", brokers, 2), ("other", sql, 3)):
        counted = table.engine.fetch(f"SELECT {number_listed(name)} FROM ({query})").rows
        assert counted == [(number,)]


def test_codes_become_words_and_an_unknown_hash_a_number(table: EventTable) -> None:
    row = {"topic": xxhash64("t"), "state": 4, "source": 1, "run": None, "n": 5}
    other = {**row, "topic": 99, "state": 0}
    found = in_strings({"a": [row, other], "b": []}, table)
    assert found == {
        "a": (
            {"topic": "t", "state": "OfflinePartition", "source": "journal", "run": None, "n": 5},
            {"topic": "99", "state": None, "source": "journal", "run": None, "n": 5},
        ),
        "b": (),
    }


def test_a_quote_in_a_literal_is_doubled(duckdb: Engine) -> None:
    assert duckdb.fetch(f"SELECT {literal(chr(39) + 'a')}").rows == [("'a",)]


def test_all_hashes_are_looked_up_however_many_there_are(duckdb: Engine) -> None:
    many = 20_001
    names = f"(SELECT 'topic' AS domain, n AS code, 't' || n AS name FROM range({many}) AS r(n))"
    table = EventTable(duckdb, "events", names, "damaged", Manifest(1, []))
    hashes = [{"topic": code} for code in range(-1, many)]
    found = in_strings({"topics": hashes, "none": []}, table)
    shown = ["-1", *(f"t{code}" for code in range(many))]
    assert found == {"topics": tuple({"topic": name} for name in shown), "none": ()}
