"""Plots of a replay's page, one for each source and run.

Listings must be in order of source, run and time. ``begin_ms`` is where a plot's time axis begins;
earlier changes are summed up there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, Final

from klamm.replay.questions.reassignments import DONE, OPEN
from klamm.replay.run import Answers
from klamm.report.scales import duration_text
from klamm.report.values import Bar, Gantt, HeatMap, StepPlot, StepRows, Steps, Tone

MOST_RUNS: Final = 4
_MOST_BROKERS: Final = 40
_NO_BROKER: Final = -1
_Row = dict[str, Any]


def offline_plots(answers: Answers, begin_ms: int) -> Iterator[StepPlot]:
    """Plot the number of Offline partitions over time.

    Exact if the listing has every interval; else by buckets of time, with the largest possible
    number inside each bucket.
    """
    end_ms = _end(answers, begin_ms)
    intervals = answers.listings["offline_intervals"]
    name = "offline_intervals" if intervals.is_whole else "offline_timeline"
    note = "" if intervals.is_whole else f"{_every(answers)} In between: the possible maximum."
    for of_run, rows in _runs(answers, name):
        if intervals.is_whole:
            points = _points_of_intervals(rows, begin_ms)
        else:
            points = _points_of_buckets(rows, begin_ms, answers.bucket_ms)
        if any(value for _, value in points):
            steps = Steps("partitions in OfflinePartition", points)
            yield StepPlot(f"Offline partitions over time{of_run}", steps, end_ms, note)


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
    for of_run, rows in _runs(answers, "leaders_over_time"):
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
            f"Leaders per broker over time{of_run}",
            steps[:_MOST_BROKERS],
            begin_ms,
            end_ms,
            f"All rows share one scale; the number is the final value. {_every(answers)}",
            len(steps),
        )


def churn_maps(answers: Answers, begin_ms: int) -> Iterator[HeatMap]:
    """Plot how often the replicas of each broker left or joined an ISR, by bucket of time."""
    end_ms = _end(answers, begin_ms)
    width_ms = answers.bucket_ms
    for of_run, rows in _runs(answers, "isr_churn"):
        brokers = sorted({row["broker"] for row in rows})
        place = {broker: n for n, broker in enumerate(brokers)}
        counts = {
            (place[row["broker"]], max((row["bucket_ms"] - begin_ms) // width_ms, 0)): (
                row["shrinks"] + row["expands"]
            )
            for row in rows
        }
        yield HeatMap(
            f"ISR changes by broker over time{of_run}",
            [f"broker {broker}" for broker in brokers],
            (end_ms - begin_ms) // width_ms + 1,
            begin_ms,
            width_ms,
            counts,
            note="Number of times that a replica of the broker left or joined an ISR.",
        )


def reassignment_bars(answers: Answers, begin_ms: int) -> Iterator[Gantt]:
    """Plot the listed reassignments as bars, in order of start time."""
    is_whole = answers.listings["reassignments"].is_whole
    note = "" if is_whole else "Only unfinished reassignments and the longest others."
    for of_run, rows in _runs(answers, "reassignments"):
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
        yield Gantt(f"Reassignments over time{of_run}", bars, _end(answers, begin_ms), note)


def _outcome(row: _Row) -> str:
    if row["status"] == OPEN and row["last_phase"]:
        return f"open, last {row['last_phase']}"
    return str(row["status"])


def _runs(answers: Answers, name: str) -> Iterator[tuple[str, Sequence[_Row]]]:
    """Yield for each run a title suffix (empty if there is only one log) and its rows."""
    rows = sorted(answers.listings[name].rows, key=lambda row: (row["source"], row["run"]))
    runs = [
        (key, list(of_run))
        for key, of_run in groupby(rows, lambda row: (row["source"], row["run"]))
    ]
    for (source, run), of_run in runs[:MOST_RUNS]:
        yield ("" if len(answers.logs) == 1 else f", {source} of {run}"), of_run


def _end(answers: Answers, begin_ms: int) -> int:
    return max(answers.last_ms or 0, begin_ms)


def _every(answers: Answers) -> str:
    return f"Resolution: {duration_text(answers.bucket_ms)}."
