"""The head of a replay's page: verdict, totals, and the totals of each log if there are several."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from klamm.replay.answers import Answer, How, Question, Reading, how_answered
from klamm.replay.engines import Row
from klamm.replay.event_schema import ZOOKEEPER_LOG
from klamm.replay.listings import Listing
from klamm.replay.page_tables import UNKNOWN, Column, at_least, table_of, there
from klamm.replay.run import VIOLATIONS, Answers
from klamm.report.scales import duration_text, time_text
from klamm.report.values import Cell, Figure, Section, Tone

_NOUNS: Final = {
    "illegal": ("illegal transition", "illegal transitions"),
    "missing": ("lost row", "lost rows"),
    "lost_tails": ("epoch with a lost end", "epochs with lost ends"),
    "lost_transactions": ("range of lost transactions", "ranges of lost transactions"),
    "unclean": ("unclean election", "unclean elections"),
    "repeated": ("duplicate row", "duplicate rows"),
    "late_writes": ("late write", "late writes"),
    "shared_epochs": ("epoch with two controllers", "epochs with two controllers"),
}
Limits = Mapping[Question, Sequence[tuple[Reading, Answer]]]


class Replayed(NamedTuple):
    """What was replayed, for the head of the page.

    - ``name``: paths of the input.
    - ``from_ms``: earlier events are not counted; None: all events are counted.
    - ``facts``: more names and values to show.
    - ``limits``: questions that these logs cannot answer fully.
    - ``readings``: the kinds and log levels of the logs of each source.
    - ``folder``: common directory of all log files.
    """

    name: str
    from_ms: int | None
    facts: Sequence[tuple[str, str]]
    limits: Limits
    readings: Mapping[str, Collection[Reading]] = {}
    folder: str = ""


def violations_sentence(answers: Answers) -> tuple[str, Tone]:
    """Return a sentence that counts the violations, and its tone (good or bad).

    If there are logs of several sources, each is counted separately.
    """
    found = answers.violations
    if not found:
        return "No violations found.", Tone.GOOD
    by_source = _violations_by_source(answers)
    if len({source for source, _ in answers.logs}) > 1 and by_source:
        parts = [f"{source}: {_counted(counts)}" for source, counts in by_source.items()]
        return f"Violations in {'; in '.join(parts)}.", Tone.BAD
    return f"Violations: {_counted(found)}.", Tone.BAD


def _violations_by_source(answers: Answers) -> dict[str, dict[str, int]]:
    """Return the number of violations of each kind by source, without sources that have none."""
    found: dict[str, dict[str, int]] = {}
    for name in VIOLATIONS:
        for row in answers.listings.get("logs", Listing()).rows:
            if row.get(name):
                of_source = found.setdefault(row["source"], {})
                of_source[name] = of_source.get(name, 0) + row[name]
    if lost := answers.counts["lost_transactions"]:
        found.setdefault(ZOOKEEPER_LOG, {})["lost_transactions"] = lost
    return found


def _counted(violations: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {_NOUNS[name][n != 1]}" for name, n in violations.items())


def figures(answers: Answers, limits: Limits) -> Iterator[Figure]:
    """Yield the totals of a single log. Of several logs nothing: see ``logs``."""
    if len(answers.logs) > 1:
        return
    counts = answers.counts
    violations = sum(answers.violations.values())
    yield _figure(counts["events"], "event")
    yield _figure(counts["partitions"], "partition")
    yield _figure(violations, "violation", Tone.BAD if violations else Tone.GOOD)
    yield _figure(answers.listings["failovers"].total, "controller election")
    leaderless, offline = counts["leaderless_ms"], counts["offline_ms"]
    for question, spent, ms, undated in (
        (Question.LEADERLESS, "without a live leader according to the log", leaderless, 0),
        (Question.OFFLINE, "in OfflinePartition", offline, counts["undated"]),
    ):
        name = f"{spent}, summed over partitions"
        answered = [at.how for _, at in limits.get(question, ())]
        if answered and set(answered) == {How.NO}:
            yield Figure(UNKNOWN, name)
        else:
            spent_text = str(at_least(duration_text(ms), ms, undated))
            yield Figure(spent_text, name, Tone.WARNING if ms or undated else Tone.GOOD)
    still = counts["open_reassignments"]
    yield _figure(still, "unfinished reassignment", Tone.WARNING if still else Tone.GOOD)


def _figure(count: int, noun: str, tone: Tone = Tone.PLAIN) -> Figure:
    return Figure(f"{count:,}", noun if count == 1 else f"{noun}s", tone)


def extent(answers: Answers) -> Iterator[tuple[str, str]]:
    """Yield the times of the first and last event, with their labels."""
    first, last = answers.first_ms, answers.last_ms
    if first is not None and last is not None:
        yield "first event", f"{time_text(first)} UTC"
        yield "last event", f"{time_text(last)} UTC, {duration_text(last - first)} later"


def logs(asked: Replayed, answers: Answers) -> Section:
    """Return a section with the totals of each log; it is empty if there is only one log."""
    table = table_of(
        answers,
        "logs",
        "Totals of each log",
        ("events", "events"),
        ("partitions", "partitions"),
        ("violations", lambda row: sum(row.get(name, 0) for name in VIOLATIONS)),
        ("elections", "elections"),
        total_column(asked, "no live leader", "leaderless_ms", Question.LEADERLESS),
        total_column(asked, "time offline", "offline_ms", Question.OFFLINE),
        ("unfinished reassignments", "open_reassignments"),
    )
    text = (
        "Each source and run is counted separately, because several logs may describe the same "
        "cluster. Elections are those of controllers. Times are summed over partitions. A "
        "partition is offline while it is in OfflinePartition."
    )
    return Section("Logs", text, there([table]) if len(answers.logs) > 1 else [])


def total_column(asked: Replayed, title: str, name: str, question: Question) -> Column:
    """Return a column with a count or duration, which is unknown if the logs cannot tell it."""

    def cell(row: Row) -> Cell:
        if not can_tell(asked, question, row):
            return UNKNOWN
        undated = row["undated"] if question is Question.OFFLINE else 0
        text = duration_text(row[name]) if name.endswith("_ms") else row[name]
        return at_least(text, row[name], undated)

    return title, cell


def can_tell(asked: Replayed, question: Question, row: Row) -> bool:
    """Return whether the logs of a row's source answer a question, at least in part."""
    readings = asked.readings.get(row["source"], ())
    return not readings or any(how_answered(question, at).how is not How.NO for at in readings)
