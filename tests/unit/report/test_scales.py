"""Round marks, no lost peaks, and times and durations in words."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from klamm.report.scales import Scale, duration_text, number_marks, thinned, time_marks, time_text

SECOND = 1000
DAY = 86_400 * SECOND
MOMENT = 1_630_490_400_000  # 2021-09-01 10:00


def test_values_outside_a_scale_are_taken_to_its_ends() -> None:
    scale = Scale(10, 20, 100, 0)
    assert [scale.at(value) for value in (5, 10, 15, 20, 99)] == [100, 100, 50, 0, 0]
    assert Scale(10, 10, 7, 9).at(10) == 7


@pytest.mark.parametrize(
    ("span_ms", "texts"),
    [
        (4, ["2021-09-01 10:00:00.000", *(f"10:00:00.00{n}" for n in range(1, 5))]),
        (40 * SECOND, ["2021-09-01 10:00:00", "10:00:05"]),
        (3 * 3600 * SECOND, ["2021-09-01 10:00", "10:30", "11:00"]),
        (20 * 3600 * SECOND, ["2021-09-01 12:00", "15:00", "18:00", "21:00", "2021-09-02 00:00"]),
        (5 * DAY, ["2021-09-02", "2021-09-03"]),
    ],
)
def test_marks_of_time_are_round_and_dated_once_a_day(span_ms: int, texts: list[str]) -> None:
    marks = time_marks(MOMENT, MOMENT + span_ms)
    assert [mark.text for mark in marks][: len(texts)] == texts
    assert len(marks) <= 9
    assert all(MOMENT <= mark.value <= MOMENT + span_ms for mark in marks)


def test_there_are_few_marks_however_long_the_time() -> None:
    for power in range(15):
        assert len(time_marks(MOMENT, MOMENT + 7 * 10**power)) <= 9


@pytest.mark.parametrize(
    ("high", "values"),
    [(0, [0, 1]), (1, [0, 1]), (3, [0, 1, 2, 3]), (7, [0, 2, 4, 6, 8]), (99, [0, 50, 100])],
)
def test_marks_of_numbers_are_whole_and_cover_the_highest(high: int, values: list[int]) -> None:
    assert [mark.value for mark in number_marks(high)] == values
    assert number_marks(high)[-1].value >= high


def test_a_thinned_line_keeps_its_ends_and_every_peak_and_dip() -> None:
    draw = random.Random(5)
    points = [(at * 10, float(draw.randrange(50))) for at in range(30_000)]
    points[17_321] = (173_210, 9_000.0)
    points[23_456] = (234_560, -1.0)
    kept = thinned(points, 400)
    assert len(kept) <= 400
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert {(173_210, 9_000.0), (234_560, -1.0)} <= set(kept)
    assert max(after[0] - before[0] for before, after in pairwise(kept)) <= 3_000
    assert kept == sorted(kept)
    assert thinned(points[:300], 400) == points[:300]


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.00 s"),
        (1_239, "1.23 s"),
        (59_999, "59.99 s"),
        (125_000, "2 min 05 s"),
        (7_500_000, "2 h 05 min"),
        (3 * DAY + 3_600_000, "3 d 01 h"),
        (-1_500, "-1.50 s"),
    ],
)
def test_durations_are_shown_in_at_most_two_units(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    assert time_text(MOMENT) == "2021-09-01 10:00:00.000"
    assert time_text(10**18) == "1000000000000000000 ms"
    assert time_marks(10**18, 10**18 + 2, 2)[0].text == str(10**18)
