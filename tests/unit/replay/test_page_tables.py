"""Which rows a page lists, and how it tells logs and files apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from klamm.cli.replay_run import facts_of
from klamm.replay.answers import Reading, limits
from klamm.replay.filters import Filters
from klamm.replay.listings import Listing
from klamm.replay.page import Asked, replay_page
from klamm.replay.page_tables import longest, place_text, table_of, took_text, within
from klamm.replay.run import Answers
from klamm.replay.unread import Unread

Row = dict[str, Any]


def answers_of(**rows: Sequence[Row]) -> Answers:
    """Answers with these listings alone, whole."""
    found = {name: Listing(tuple(listed), len(listed)) for name, listed in rows.items()}
    listings = defaultdict(Listing, {"epochs": Listing(), **found})
    unread = Unread({}, 0, Listing(), Listing())
    return Answers(defaultdict(int), 0, 9, 1, listings, {}, unread)


@pytest.mark.parametrize(
    ("took", "more", "shown", "note"),
    [
        ([None, 2_000, *[999] * 8, 7, 6], 0, 10, "and 2 shorter than 1 s"),
        ([*[2_000] * 12, 9, 8], 0, 12, "and 2 shorter than 1 s"),
        ([*[2_000] * 12, 9, 8], 300, 12, "and 302 shorter than 1 s"),
        ([12, 9], 0, 2, ""),
        ([*[55] * 100], 217, 10, "and 307 shorter than 1 s"),
        ([2_000], 0, 1, ""),
        ([2_000] * 100, 3, 100, ""),
    ],
)
def test_short_times_do_not_hide_the_long_ones(
    took: Sequence[int | None], more: int, shown: int, note: str
) -> None:
    rows = tuple({"took_ms": ms, "end_ms": ms} for ms in took)
    stays = Listing(rows, len(rows) + more)
    answers = replace(answers_of(), listings={"epochs": Listing(), "stays": stays})
    table = longest(answers, "stays", "Stays", ("took", took_text))
    told = ["not ended" if ms is None else f"{ms} ms" if ms < 1_000 else "2.00 s" for ms in took]
    assert [row[0] for row in table.rows] == told[:shown]
    assert table.note == note
    assert table.total == (shown if note else len(rows) + more)


def test_rows_of_several_logs_say_whose_they_are() -> None:
    def columns(*logs: tuple[str, str]) -> tuple[Sequence[str], Sequence[Any]]:
        of = [{"source": source, "run": run, "topic": "t"} for source, run in logs]
        table = table_of(answers_of(epochs=of, topics=of), "topics", "T", ("topic", "topic"))
        return table.columns, table.rows

    assert columns(("journal", "a")) == (["topic"], [("t",)])
    both = ["a", "t"], ["b", "t"]
    assert columns(("journal", "a"), ("journal", "b")) == (["run", "topic"], [*map(tuple, both)])
    names, rows = columns(("zookeeper", "/"), ("journal", "a"))
    assert names == ["source", "topic"] and rows[0] == ("zookeeper", "t")
    names, rows = columns(("zookeeper", "/"), ("zookeeper", "/b"), ("journal", "a"))
    assert names == ["source", "run", "topic"] and rows[1] == ("zookeeper", "/b", "t")


def test_the_folder_of_all_files_is_not_in_each_row() -> None:
    rows = [{"file": name, "line": 3} for name in ("/a/b/c/log", "/a/bb/log", "/a/b/log")]
    table = table_of(
        within("/a/b", answers_of(late_writes=rows)), "late_writes", "", ("", place_text)
    )
    assert [row[0] for row in table.rows] == ["c/log:3", "/a/bb/log:3", "log:3"]


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        ([Reading.ZOOKEEPER], "unknown"),
        ([Reading.STATE_CHANGE_INFO, Reading.CONTROLLER_INFO], "unknown"),
        ([Reading.ZOOKEEPER, Reading.JOURNAL], "0 ms"),
        ([Reading.STATE_CHANGE_TRACE], "0 ms"),
    ],
)
def test_no_time_offline_is_told_by_who_cannot_know(readings: list[Reading], told: str) -> None:
    page = replay_page(Asked("x", None, [], limits(readings)), answers_of())
    (figure,) = (at for at in page.figures if at.name.startswith("offline"))
    assert figure.value == told


def test_no_two_facts_of_a_page_have_one_name() -> None:
    logs = [{"source": "journal", "run": run} for run in "ab"]
    filters = Filters(("t",), (1,), 2, 3, 4, 5, 6)
    page = replay_page(Asked("x", 2, list(facts_of(filters)), {}), answers_of(epochs=logs))
    names = [name for name, _ in page.facts]
    assert len(set(names)) == len(names) == 10
    assert dict(page.facts)["as of zxid"] == "0x6"
    assert [at.name for at in page.figures][1] == "partitions in 2 logs"
