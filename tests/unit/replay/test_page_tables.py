"""Which times a page lists: long ones and how many were short, or all."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replay.listings import Listing
from replay.page_tables import longest, took_text
from replay.run import Answers
from replay.unread import Unread


@pytest.mark.parametrize(
    ("took", "is_whole", "shown", "note"),
    [
        ([None, 2_000, 1_000, 999, 9], True, ["not ended", "2.00 s", "1.00 s"], "and 2 shorter"),
        ([2_000, 9], False, ["2.00 s"], "and more than 1 shorter"),
        ([12, 9], True, ["12 ms", "9 ms"], ""),
        ([12, 9], False, ["12 ms", "9 ms"], "There are more"),
        ([2_000], True, ["2.00 s"], ""),
        ([2_000], False, ["2.00 s"], "There are more"),
    ],
)
def test_short_times_do_not_hide_the_long_ones(
    took: Sequence[int | None], is_whole: bool, shown: list[str], note: str
) -> None:
    rows = tuple({"took_ms": ms, "end_ms": ms} for ms in took)
    listings = {"stays": Listing(rows, is_whole)}
    answers = Answers({}, None, None, 1, listings, {}, Unread({}, 0, Listing(), Listing()))
    table = longest(answers, "stays", "Stays", ("took", took_text))
    assert [row[0] for row in table.rows] == shown
    assert table.note.startswith(note) and bool(table.note) == bool(note)
