"""Plots of a replay's page, one for each log (source and run).

Listings must be sorted by source, run and time. ``begin_ms`` is the start of a plot's time axis,
where the effect of all earlier changes is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, Final

from klamm.cluster.counting import brokers_text, counted
from klamm.replay.listings import Listing
from klamm.replay.questions.reassignments import DONE, OPEN
from klamm.replay.questions.timeline import (
    BROKER_FAILURE,
    CONTROLLER_ELECTION,
    LEADER_ELECTION,
    REASSIGNMENT,
)
from klamm.replay.run import Answers
from klamm.report.scales import duration_text
from klamm.report.values import (
    Bar,
    Gantt,
    HeatMap,
    Life,
    LifeLines,
    Marker,
    StepPlot,
    StepRows,
    Steps,
    Tone,
)

MOST_RUNS: Final = 4
_MOST_BROKERS: Final = 40
_NO_BROKER: Final = -1
_TIME: Final = "time in UTC"
_TONES: Final = {
    BROKER_FAILURE: Tone.BAD,
    CONTROLLER_ELECTION: Tone.WARNING,
    REASSIGNMENT: Tone.PLAIN,
    LEADER_ELECTION: Tone.PLAIN,
}
"""The kinds of marks in plots, in the order in which the page shows them."""
_Row = dict[str, Any]


def offline_plots(answers: Answers, begin_ms: int) -> Iterator[StepPlot]:
    """Plot the number of offline partitions over time.

    The plot is exact if all intervals are listed. Otherwise it shows, for each time bucket, the
    number at its end and the largest possible number within it.
    """
    end_ms = _end(answers, begin_ms)
    intervals = answers.listings["offline_intervals"]
    name = "offline_intervals" if intervals.is_whole else "offline_timeline"
    note = "" if intervals.is_whole else f"{_every(answers)} Peaks are upper bounds."
    for of_run, marks, rows in _runs(answers, name):
        if intervals.is_whole:
            points = _points_of_intervals(rows, begin_ms)
        else:
            points = _points_of_buckets(rows, begin_ms, answers.bucket_ms)
        if any(value for _, value in points):
            steps = Steps("partitions in OfflinePartition", points)
            title = f"Offline partitions over time{of_run} (partitions; {_TIME})"
            yield StepPlot(title, steps, end_ms, note, marks)


def _points_of_intervals(rows: Sequence[_Row], begin_ms: int) -> list[tuple[int, float]]:
    changes: Counter[int] = Counter({begin_ms: 0})
    for row in rows:
        changes[max(row["start_ms"] or begin_ms, begin_ms)] += 1
        if row["end_ms"] is not None:
            changes[max(row["end_ms"], begin_ms)] -= 1
    times = sorted(changes)
    return list(zip(times, accumulate(changes[t_ms] for t_ms in times), strict=True))


def _points_of_buckets(
    rows: Sequence[_Row], begin_ms: int, width_ms: int
) -> list[tuple[int, float]]:
    points: list[tuple[int, float]] = [(begin_ms, 0)]
    for row in rows:
        if row["bucket_ms"] >= begin_ms:
            points.append((row["bucket_ms"], max(points[-1][1], row["most"])))
        points.append((max(row["bucket_ms"] + width_ms, begin_ms), row["offline"]))
    return points


def leader_rows(answers: Answers, begin_ms: int) -> Iterator[StepRows]:
    """Plot the number of partitions that each broker led, and of partitions without a leader."""
    end_ms = _end(answers, begin_ms)
    for of_run, marks, rows in _runs(answers, "leaders_over_time"):
        by_broker: dict[int, list[tuple[int, float]]] = {}
        for row in rows:
            points = by_broker.setdefault(row["broker"], [])
            points.append((max(row["bucket_ms"], begin_ms), row["leaders"]))
        steps = [
            Steps("no leader" if broker == _NO_BROKER else f"broker {broker}", points)
            for broker, points in sorted(by_broker.items())
            if broker != _NO_BROKER or any(value for _, value in points)
        ]
        yield StepRows(
            f"Leaders per broker over time{of_run} (partitions; {_TIME})",
            steps[:_MOST_BROKERS],
            begin_ms,
            end_ms,
            "All rows share one scale; the number is the final value. A broker that died leads "
            "its partitions until their leader changes, here and in ZooKeeper. "
            f"{_every(answers)}",
            len(steps),
            marks,
        )


def churn_maps(answers: Answers, begin_ms: int) -> Iterator[HeatMap]:
    """Plot how often the replicas of each broker left or joined an ISR in each time bucket."""
    end_ms = _end(answers, begin_ms)
    width_ms = answers.bucket_ms
    for of_run, marks, rows in _runs(answers, "isr_churn"):
        brokers = sorted({row["broker"] for row in rows})
        place = {broker: n for n, broker in enumerate(brokers)}
        counts = {
            (place[row["broker"]], max((row["bucket_ms"] - begin_ms) // width_ms, 0)): (
                row["shrinks"] + row["expands"]
            )
            for row in rows
        }
        unit = f"changes per {duration_text(width_ms)}"
        yield HeatMap(
            f"ISR changes by broker over time{of_run} ({unit}; {_TIME})",
            [f"broker {broker}" for broker in brokers],
            (end_ms - begin_ms) // width_ms + 1,
            begin_ms,
            width_ms,
            counts,
            note="Number of times that a replica of the broker left or joined an ISR.",
            marks=marks,
            end_ms=end_ms,
        )


def reassignment_bars(answers: Answers, begin_ms: int) -> Iterator[Gantt]:
    """Plot the listed reassignments as bars, sorted by start time."""
    is_whole = answers.listings["reassignments"].is_whole
    note = (
        "" if is_whole else "Only unfinished reassignments and the longest finished ones are shown."
    )
    for of_run, marks, rows in _runs(answers, "reassignments"):
        bars = [
            Bar(
                f"{row['topic']}-{row['partition']}",
                row["start_ms"],
                row["end_ms"],
                _outcome(row),
                {DONE: Tone.GOOD, OPEN: Tone.WARNING}.get(row["status"], Tone.PLAIN),
            )
            for row in sorted(rows, key=lambda row: row["start_ms"])
        ]
        yield Gantt(
            f"Reassignments over time{of_run} (duration; {_TIME})",
            bars,
            _end(answers, begin_ms),
            note,
            marks=marks,
            begin_ms=begin_ms,
        )


def _outcome(row: _Row) -> str:
    if row["status"] == OPEN and row["last_phase"]:
        return f"open, last {row['last_phase']}"
    return str(row["status"])


def life_lines_plot(answers: Answers, rows: Sequence[_Row], begin_ms: int) -> LifeLines:
    """Return the timelines of partitions: state, leader and ISR size over time.

    ``rows``: result of the query ``questions.timeline.life_lines``, with names for codes.
    """
    marks = _marks(answers)
    runs = {log: n for n, log in enumerate(answers.logs)}
    lives = {}
    for (log, topic, partition), changes in groupby(
        rows, lambda row: (_log_of(row), row["topic"], row["partition"])
    ):
        of_partition = list(changes)
        lives[f"{topic}-{partition}{_of_run(answers, *log)}"] = Life(
            [(row["t_ms"], row["leader"], row["in_sync"], row["state"]) for row in of_partition],
            of_partition[0]["changes"],
            runs[log],
        )
    total = answers.counts["partitions"]
    note = "Leader, number of in-sync replicas and state over time."
    if len(lives) < total:
        note += (
            f" This page has {len(lives):,} of {total:,} partitions: those in its tables, and those"
            " with the most changes. Use --topic to see the partitions of a topic."
        )
    of_runs = [marks.get(log, ()) for log in runs]
    title, end_ms = f"Timeline ({_TIME})", _end(answers, begin_ms)
    return LifeLines(title, lives, begin_ms, end_ms, of_runs, note)


def _runs(answers: Answers, name: str) -> Iterator[tuple[str, tuple[Marker, ...], Sequence[_Row]]]:
    """Yield the marks and the rows of each log, with a suffix for the titles of its plots.

    The suffix is empty if there is only one log.
    """
    rows = sorted(answers.listings[name].rows, key=_log_of)
    marks = _marks(answers)
    runs = [(log, list(of_run)) for log, of_run in groupby(rows, _log_of)]
    for log, of_run in runs[:MOST_RUNS]:
        yield _of_run(answers, *log), marks.get(log, ()), of_run


def _log_of(row: _Row) -> tuple[str, str]:
    return row["source"], row["run"]


def _of_run(answers: Answers, source: str, run: str) -> str:
    return "" if len(answers.logs) == 1 else f", {source} of {run}"


def _marks(answers: Answers) -> dict[tuple[str, str], tuple[Marker, ...]]:
    """Return the marks of each log, sorted by kind, then by time."""
    rows = answers.listings.get("marks", Listing()).rows
    kinds = list(_TONES)
    return {
        log: tuple(
            Marker(row["t_ms"], row["what"], _mark_text(row), _TONES[row["what"]])
            for row in sorted(of_run, key=lambda row: (kinds.index(row["what"]), row["t_ms"]))
        )
        for log, of_run in groupby(sorted(rows, key=_log_of), _log_of)
    }


def _mark_text(row: _Row) -> str:
    """Return the text of a mark: what happened, how often, and on which brokers."""
    what = row["what"] if row["times"] == 1 else counted(row["times"], row["what"])
    return f"{what} on {brokers_text(row['brokers'])}" if row["brokers"] else what


def _end(answers: Answers, begin_ms: int) -> int:
    return max(answers.last_ms or 0, begin_ms)


def _every(answers: Answers) -> str:
    return f"Resolution: {duration_text(answers.bucket_ms)}."
