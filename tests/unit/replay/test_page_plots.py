"""The plots of a page: their lines, bars and maps, and the marks of each log."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.replay.data_loss import DataLoss
from klamm.replay.listings import Listing
from klamm.replay.page_plots import (
    churn_maps,
    leader_rows,
    life_lines_plot,
    offline_plots,
    reassignment_bars,
)
from klamm.replay.run import Answers
from klamm.report.values import Bar, Life, Marker, Tone

RUN = {"source": "journal", "run": "r"}
OTHER = {"source": "journal", "run": "s"}
MARKS = (
    *(("leader election", None), ("broker failure", [8])),
    *(("broker failure", [8, 9]), ("controller election", [0])),
)
MARKERS = (
    Marker(2, "broker failure", "2 broker failures on broker 8", Tone.BAD),
    Marker(3, "broker failure", "3 broker failures on brokers 8,9", Tone.BAD),
    Marker(4, "controller election", "4 controller elections on broker 0", Tone.WARNING),
    Marker(1, "leader election", "leader election", Tone.PLAIN),
)
"""What the plots of a log with MARKS show."""


def test_no_interval_hides_a_broker_that_was_offline_in_it() -> None:
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


def answers_of(
    name: str, rows: list[dict[str, Any]], logs: tuple[dict[str, Any], ...] = (RUN,)
) -> Answers:
    found = tuple({**log, **row} for row in rows for log in logs)
    marks = tuple(
        {**log, "what": what, "t_ms": n, "times": n, "brokers": brokers}
        for n, (what, brokers) in enumerate(MARKS, 1)
        for log in logs
    )
    listings = {
        name: Listing(found, len(found)),
        "epochs": Listing(logs, len(logs)),
        "marks": Listing(marks, len(marks)),
    }
    return Answers(
        {"partitions": 3}, 0, 90, 10, listings, {}, DataLoss({}, 0, Listing(), Listing())
    )


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


def test_isr_changes_are_counted_by_broker_and_bucket() -> None:
    rows = [
        {"broker": broker, "bucket_ms": t_ms, "shrinks": shrinks, "expands": expands}
        for broker, t_ms, shrinks, expands in ((7, 10, 1, 0), (7, 30, 2, 3), (2, 20, 0, 4))
    ]
    (plot,) = churn_maps(answers_of("isr_churn", rows), 10)
    assert plot.title == "ISR changes by broker over time (changes per 10 ms; time in UTC)"
    assert (plot.rows, plot.columns) == (["broker 2", "broker 7"], 9)
    assert (plot.begin_ms, plot.width_ms, plot.end_ms) == (10, 10, 90)
    assert plot.counts == {(1, 0): 1, (1, 2): 5, (0, 1): 4}
    assert plot.marks == MARKERS


def test_reassignments_are_bars_in_the_order_of_their_start() -> None:
    rows = [
        {"topic": "t", "partition": n, "start_ms": start, "end_ms": end}
        | {"status": status, "last_phase": phase}
        for n, start, end, status, phase in (
            (1, 50, None, "open", "A2"),
            (2, 40, None, "open", None),
            (3, 20, 45, "done", "B6"),
            (4, 30, 35, "cancelled", "B6"),
        )
    ]
    plots = list(reassignment_bars(answers_of("reassignments", rows, (RUN, OTHER)), 10))
    assert [plot.title for plot in plots] == [
        f"Reassignments over time, journal of {run} (duration; time in UTC)" for run in "rs"
    ]
    for plot in plots:
        assert plot.bars == [
            Bar("t-3", 20, 45, "done", Tone.GOOD),
            Bar("t-4", 30, 35, "cancelled", Tone.PLAIN),
            Bar("t-2", 40, None, "open", Tone.WARNING),
            Bar("t-1", 50, None, "open, last A2", Tone.WARNING),
        ]
        assert (plot.begin_ms, plot.end_ms, plot.note, plot.marks) == (10, 90, "", MARKERS)


def test_timelines_of_two_logs_name_their_logs() -> None:
    answers = answers_of("topics", [], (RUN, OTHER))
    rows = [
        {**log, "topic": "t", "partition": 0, "t_ms": t_ms, "changes": 7}
        | {"leader": leader, "in_sync": 2, "state": "OnlinePartition"}
        for log in (RUN, OTHER)
        for t_ms, leader in ((5, 1), (6, 2))
    ]
    plot = life_lines_plot(answers, rows, 10)
    changes = [(5, 1, 2, "OnlinePartition"), (6, 2, 2, "OnlinePartition")]
    assert plot.lives == {
        f"t-0, journal of {run}": Life(changes, 7, n) for n, run in enumerate("rs")
    }
    assert (plot.begin_ms, plot.end_ms, plot.runs) == (10, 90, [MARKERS, MARKERS])
    assert "This page has 2 of 3 partitions: " in plot.note
