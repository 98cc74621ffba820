"""Local times of a log in milliseconds since 1970, also where clocks are moved."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from klamm.replay.event_schema import DamagedLine
from klamm.replay.local_time import AMBIGUOUS, NO_SUCH_TIME, LocalClock, is_ambiguous

BERLIN = "Europe/Berlin"
ADELAIDE = "Australia/Adelaide"


def times(zone: str | None, *texts: str) -> tuple[list[str], list[DamagedLine]]:
    """UTC of local times, and what was not certain."""
    clock = LocalClock(zone)
    found = []
    for line, text in enumerate(texts, 1):
        ms = clock.ms(line, text[:16], text[17:19] or "00", text[20:] or "000")
        at = "none" if ms is None else str(datetime.fromtimestamp(ms / 1000, UTC))[:19]
        found.append(at.removeprefix("2021-"))
    clock.close()
    return found, clock.doubts


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        (None, "09-01 10:15:42"),
        ("UTC", "09-01 10:15:42"),
        (BERLIN, "09-01 08:15:42"),
        (ADELAIDE, "09-01 00:45:42"),
    ],
)
def test_local_times_are_converted_by_their_zone(zone: str | None, expected: str) -> None:
    assert times(zone, "2021-09-01 10:15:42") == ([expected], [])
    assert LocalClock(zone).ms(1, "1970-01-02 12:00", "01", "234") is not None
    assert LocalClock(None).ms(1, "1970-01-01 00:01", "01", "234") == 61_234


def test_an_hour_of_another_year_is_independent_in_either_direction() -> None:
    minutes = ("2021-10-31 02:10", "2020-10-25 02:10", "2021-10-31 02:20")
    assert times(BERLIN, *minutes) == (
        ["10-31 00:10:00", "2020-10-25 00:10:00", "10-31 00:20:00"],
        [DamagedLine(line, AMBIGUOUS, minute) for line, minute in enumerate(minutes, 1)],
    )


def test_the_second_of_two_equal_hours_begins_where_times_go_back() -> None:
    found = times(
        BERLIN,
        "2021-10-31 01:59:59",
        "2021-10-31 02:10:00",
        "2021-10-31 02:59:59",
        # Threads write lines a little out of order.
        "2021-10-31 02:59:58",
        "2021-10-31 02:05:00",
        "2021-10-31 02:50:00",
        "2021-10-31 03:00:00",
    )
    assert found == (
        [
            "10-30 23:59:59",
            "10-31 00:10:00",
            "10-31 00:59:59",
            "10-31 00:59:58",
            "10-31 01:05:00",
            "10-31 01:50:00",
            "10-31 02:00:00",
        ],
        [],
    )


def test_an_hour_that_occurs_twice_without_a_hint_is_doubtful() -> None:
    lines = ("2021-10-31 01:00:00", "2021-10-31 02:30:00", "2021-10-31 02:40:00")
    found, doubts = times(BERLIN, *lines, "2021-10-31 03:00:00")
    assert found[1:3] == ["10-31 00:30:00", "10-31 00:40:00"]
    assert doubts == [DamagedLine(2, AMBIGUOUS, "2021-10-31 02:30")]


def test_every_year_has_its_own_doubt() -> None:
    years = [f"{year} 02:30:00" for year in ("2020-10-25", "2021-10-31", "2022-10-30")]
    _, doubts = times(BERLIN, *years)
    assert [doubt.line for doubt in doubts] == [1, 2, 3]
    back = ("2020-10-25 02:50:00", "2020-10-25 02:10:00", "2021-10-31 02:50:00")
    _, doubts = times(BERLIN, *back)
    assert [doubt.line for doubt in doubts] == [3]


def test_half_an_hour_that_occurs_twice_is_told_apart_too() -> None:
    found, doubts = times("Australia/Lord_Howe", "2021-04-04 01:40:00", "2021-04-04 01:35:00")
    assert (found, doubts) == (["04-03 14:40:00", "04-03 15:05:00"], [])
    assert is_ambiguous("Australia/Lord_Howe", "2021-04-04 01:40")
    assert not is_ambiguous("Australia/Lord_Howe", "2021-04-04 01:20")


def test_times_that_clocks_never_showed_are_doubtful() -> None:
    found, doubts = times(BERLIN, "2021-03-28 02:30:00", "2021-03-28 02:30:01")
    assert found == ["03-28 01:30:00", "03-28 01:30:01"]
    assert doubts == [DamagedLine(1, NO_SUCH_TIME, "2021-03-28 02:30")]
    found, doubts = times(None, "2021-13-28 02:30:00")
    assert found == ["none"]
    assert [doubt.problem for doubt in doubts] == [NO_SUCH_TIME]


def test_minutes_that_occur_twice_are_known() -> None:
    assert is_ambiguous(BERLIN, "2021-10-31 02:00")
    assert is_ambiguous(BERLIN, "2021-10-31 02:59")
    for minute in ("2021-10-31 01:59", "2021-10-31 03:00", "2021-03-28 02:30", "2021-99-99 02:00"):
        assert not is_ambiguous(BERLIN, minute)
    assert not is_ambiguous(None, "2021-10-31 02:00")
