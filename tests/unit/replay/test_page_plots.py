"""The lines of offline partitions and of leaders over time."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.replay.data_loss import DataLoss
from klamm.replay.listings import Listing
from klamm.replay.page_plots import leader_rows, offline_plots
from klamm.replay.run import Answers

RUN = {"source": "journal", "run": "r"}


def test_no_interval_hides_who_was_offline_in_it() -> None:
    intervals = (
        {**RUN, "bucket_ms": -10, "offline": 2, "most": 9},
        {**RUN, "bucket_ms": 0, "offline": 0, "most": 3},
        {**RUN, "bucket_ms": 50, "offline": 0, "most": 15},
        {**RUN, "bucket_ms": 70, "offline": 4, "most": 4},
    )
    listings = {
        "offline_intervals": Listing(total=1),
        "offline_timeline": Listing(intervals, len(intervals)),
        "epochs": Listing((RUN,), 1),
    }
    assert not listings["offline_intervals"].is_whole
    nothing = DataLoss({}, 0, Listing(), Listing())
    (plot,) = offline_plots(Answers({}, 0, 90, 10, listings, {}, nothing), 0)
    assert plot.steps.points == [
        *((0, 0), (0, 2), (0, 3), (10, 0)),
        *((50, 15), (60, 0), (70, 4), (80, 4)),
    ]
    assert plot.end_ms == 90
    (empty,) = offline_plots(Answers({}, 0, None, 10, listings, {}, nothing), 0)
    assert empty.end_ms == 0


def answers_of(name: str, rows: list[dict[str, Any]]) -> Answers:
    found = Listing(tuple({**RUN, **row} for row in rows), len(rows))
    listings = {name: found, "epochs": Listing((RUN,), 1)}
    return Answers({}, 0, 90, 10, listings, {}, DataLoss({}, 0, Listing(), Listing()))


def test_partitions_are_offline_from_the_start_to_the_end_of_intervals() -> None:
    intervals = [
        {"start_ms": None, "end_ms": 30},
        {"start_ms": 5, "end_ms": 20},
        {"start_ms": 30, "end_ms": 50},
        {"start_ms": 60, "end_ms": None},
        {"start_ms": 1, "end_ms": 9},
    ]
    (plot,) = offline_plots(answers_of("offline_intervals", intervals), 10)
    assert plot.steps.points == [(10, 2), (20, 1), (30, 1), (50, 0), (60, 1)]
    assert not list(offline_plots(answers_of("offline_intervals", intervals[-1:]), 10))


@pytest.mark.parametrize(("leaderless", "names"), [(0, []), (2, ["no leader"])])
def test_each_broker_has_a_row_and_so_have_partitions_without_a_leader(
    leaderless: int, names: list[str]
) -> None:
    rows = [
        {"broker": broker, "bucket_ms": t_ms, "leaders": count}
        for broker, t_ms, count in ((2, 0, 5), (-1, 0, 0), (-1, 20, leaderless), (1, 20, 6))
    ]
    (plot,) = leader_rows(answers_of("leaders_over_time", rows), 10)
    assert [steps.name for steps in plot.rows] == [*names, "broker 1", "broker 2"]
    assert [steps.points for steps in plot.rows][-2:] == [[(20, 6)], [(10, 5)]]
    assert (plot.begin_ms, plot.end_ms) == (10, 90)
