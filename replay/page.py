"""The page of a replay: plots and tables of its answers, violations first.

Turns Answers into report.values; the text output shows the same tables. Computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from klamm.replay.answers import Answer, How, Question, Reading
from klamm.replay.listings import Listing
from klamm.replay.page_plots import churn_maps, leader_rows, offline_plots, reassignment_bars
from klamm.replay.page_tables import (
    PLACED,
    Column,
    after_text,
    duration_cell,
    ids_text,
    key_text,
    longest,
    place_text,
    table_of,
    there,
    time_cell,
    took_text,
    within,
)
from klamm.replay.questions.elections import FLAP_WINDOW_MS, FLAPS
from klamm.replay.run import Answers
from klamm.replay.unread import Unread
from klamm.report.scales import duration_text, time_text
from klamm.report.values import Block, Figure, Page, Section, Table, Tone

_NOUNS: Final = {
    "illegal": ("illegal transition", "illegal transitions"),
    "missing": ("lost row", "lost rows"),
    "lost_transactions": ("run of lost transactions", "runs of lost transactions"),
    "unclean": ("unclean election", "unclean elections"),
    "repeated": ("duplicate row", "duplicate rows"),
    "late_writes": ("late write", "late writes"),
    "shared_epochs": ("epoch with two controllers", "epochs with two controllers"),
}
Limits = Mapping[Question, Sequence[tuple[Reading, Answer]]]


class Asked(NamedTuple):
    """What was replayed: texts for the page's head.

    ``name``: the input. ``from_ms``: earlier events are not counted. ``limits``: questions that
    the sources cannot answer fully. ``folder``: common directory of all log files.
    """

    name: str
    from_ms: int | None
    facts: Sequence[tuple[str, str]]
    limits: Limits
    folder: str = ""


def replay_page(asked: Asked, answers: Answers) -> Page:
    """Return the page of a replay, without empty sections."""
    verdict, tone = verdict_of(answers)
    if asked.folder:
        answers = within(asked.folder, answers)
    begin_ms = max(answers.first_ms or 0, asked.from_ms or 0)
    sections = [
        _violations(answers),
        _availability(answers, begin_ms),
        _leaders(answers, begin_ms),
        _isrs(answers, begin_ms),
        _reassignments(answers, begin_ms),
        _controllers(answers),
        _trouble(answers),
        _damaged(answers.unread),
        _limits(asked.limits),
    ]
    return Page(
        title=f"Replay of {asked.name}",
        verdict=verdict,
        tone=tone,
        figures=list(_figures(answers, asked.limits)),
        facts=[*_extent(answers), *asked.facts, *_logs(answers)],
        sections=[section for section in sections if section.blocks],
    )


def verdict_of(answers: Answers) -> tuple[str, Tone]:
    """Return the violations as one sentence, and its tone."""
    found = answers.violations
    if not found:
        return "No violations found.", Tone.GOOD
    parts = [f"{count:,} {_NOUNS[name][count != 1]}" for name, count in found.items()]
    return f"Violations: {', '.join(parts)}.", Tone.BAD


def _figures(answers: Answers, limits: Limits) -> Iterator[Figure]:
    counts = answers.counts
    violations = sum(answers.violations.values())
    yield _figure(counts["events"], "event")
    logs = f" in {len(answers.logs)} logs" if len(answers.logs) > 1 else ""
    partitions = _figure(counts["partitions"], "partition")
    yield replace(partitions, name=f"{partitions.name}{logs}")
    yield _figure(violations, "violation", Tone.BAD if violations else Tone.GOOD)
    yield _figure(answers.listings["failovers"].total, "controller election")
    name, offline_ms = "offline, summed over partitions", counts["offline_ms"]
    answered = [at.how for _, at in limits.get(Question.OFFLINE, ())]
    if answered and set(answered) == {How.NO}:
        yield Figure("unknown", name)
    else:
        tone = Tone.WARNING if offline_ms else Tone.GOOD
        yield Figure(duration_text(offline_ms), name, tone)
    still = counts["open_reassignments"]
    yield _figure(still, "unfinished reassignment", Tone.WARNING if still else Tone.GOOD)


def _figure(count: int, noun: str, tone: Tone = Tone.PLAIN) -> Figure:
    return Figure(f"{count:,}", noun if count == 1 else f"{noun}s", tone)


def _extent(answers: Answers) -> Iterator[tuple[str, str]]:
    first, last = answers.first_ms, answers.last_ms
    if first is not None and last is not None:
        yield "first event", f"{time_text(first)} UTC"
        yield "last event", f"{time_text(last)} UTC, {duration_text(last - first)} later"


def _logs(answers: Answers) -> Iterator[tuple[str, str]]:
    count = len(answers.logs)
    if count > 1:
        yield "logs", f"{count:,}, by source and run; events in several logs count in each"


# Sections


def _violations(answers: Answers) -> Section:
    listed = (
        table_of(
            answers,
            "illegal",
            "Illegal transitions",
            *PLACED,
            ("from", "from_state"),
            ("to", "to_state"),
            ("controller epoch", "epoch"),
        ),
        table_of(
            answers,
            "gaps",
            "Lost rows",
            ("lost before", lambda row: f"{row['before_file']}:{row['before_line']}"),
            ("time", lambda row: time_text(row["before_t_ms"])),
            ("partition", key_text),
            ("rows", "missing"),
            ("lost after", after_text),
        ),
        _places("Lost transactions", "lost before", answers.unread.lost),
        table_of(
            answers,
            "unclean",
            "Unclean elections",
            *PLACED,
            ("leader", lambda row: f"{row['prev_leader']} → {row['leader']}"),
            ("leader epoch", "leader_epoch"),
            ("ISR before", lambda row: ids_text(row["prev_isr"])),
            ("election", "election"),
        ),
        table_of(
            answers,
            "duplicates",
            "Duplicate rows",
            ("first", place_text),
            ("last", lambda row: f"{row['copy_file']}:{row['copy_line']}"),
            ("controller epoch", "epoch"),
            ("seq", "seq"),
            ("copies", "copies"),
            ("identical", lambda row: "no" if row["is_contradiction"] else "yes"),
        ),
        table_of(
            answers,
            "late_writes",
            "Writes after a newer epoch began",
            *PLACED,
            ("kind", "kind"),
            ("controller", "controller"),
            ("controller epoch", "epoch"),
        ),
        table_of(
            answers,
            "shared_epochs",
            "Epochs with two controllers",
            ("controller epoch", "epoch"),
            ("controllers", lambda row: ids_text(row["controllers"])),
            ("from", lambda row: time_text(row["first_ms"])),
        ),
    )
    text = "Forbidden actions of controllers, and gaps and duplicates in logs, with file and line."
    return Section("Violations", text, there(listed))


def _availability(answers: Answers, begin_ms: int) -> Section:
    columns: tuple[Column, ...] = (
        ("partition", key_text),
        ("from", lambda row: time_cell(row["start_ms"])),
        ("to", lambda row: time_cell(row["end_ms"])),
        ("duration", took_text),
    )
    offline = longest(
        answers,
        "offline_intervals",
        "Longest intervals in OfflinePartition",
        *columns,
        ("ended by", lambda row: row["ended_by"] or "not ended"),
    )
    leaderless = longest(
        answers,
        "leaderless_intervals",
        "Longest intervals without a leader",
        *columns,
        ("previous leader", "lost"),
    )
    failed = table_of(
        answers,
        "failed",
        "Failed transitions",
        *PLACED,
        ("from", "from_state"),
        ("to", "to_state"),
        ("reason", "outcome"),
    )
    blocks: list[Block] = [
        *offline_plots(answers, begin_ms),
        *there([offline, leaderless, failed]),
    ]
    text = "Partitions that clients could not produce to, for lack of a leader."
    return Section("Offline partitions", text, blocks)


def _leaders(answers: Answers, begin_ms: int) -> Section:
    text = "Number of partitions that each broker led."
    return Section("Leaders", text, list(leader_rows(answers, begin_ms)))


def _isrs(answers: Answers, begin_ms: int) -> Section:
    flapping = table_of(
        answers,
        "flapping",
        "Flapping replicas",
        ("replica", key_text),
        ("left", "shrinks"),
        ("rejoined", "expands"),
        ("from", lambda row: time_text(row["start_ms"])),
        ("to", lambda row: time_text(row["end_ms"])),
    )
    text = (
        "How often replicas left and rejoined ISRs. A replica is flapping if it did both at least "
        f"{FLAPS} times within {duration_text(FLAP_WINDOW_MS)}; its worst period is listed."
    )
    blocks: list[Block] = [*churn_maps(answers, begin_ms), *there([flapping])]
    return Section("ISRs", text, blocks)


def _reassignments(answers: Answers, begin_ms: int) -> Section:
    listed = table_of(
        answers,
        "reassignments",
        "Longest reassignments",
        ("partition", key_text),
        ("from", lambda row: time_cell(row["start_ms"])),
        ("duration", took_text),
        ("status", "status"),
        ("last phase", "last_phase"),
        ("controller epochs", "epochs"),
    )
    text = "Unfinished reassignments first, then the longest."
    return Section("Reassignments", text, [*reassignment_bars(answers, begin_ms), *there([listed])])


def _controllers(answers: Answers) -> Section:
    failovers = table_of(
        answers,
        "failovers",
        "Controllers in order of election",
        ("controller epoch", "epoch"),
        ("controller", "controller"),
        ("elected", lambda row: time_cell(row["elected_ms"])),
        ("ready after", lambda row: duration_cell(row["ready_after_ms"])),
        ("silence before", lambda row: duration_cell(row["silent_ms"])),
    )
    text = "Elected controllers, and the time until each was ready."
    return Section("Failovers", text, there([failovers]))


def _trouble(answers: Answers) -> Section:
    counted = ("trouble", "illegal", "missing", "failed", "shrinks")
    topics = table_of(
        answers,
        "topics",
        "Topics with the most problems",
        ("topic", "topic"),
        *((_PROBLEM_COLUMNS[name], name) for name in (*counted, "unclean", "offlines")),
        ("time offline", lambda row: duration_cell(row["offline_ms"])),
    )
    brokers = table_of(
        answers,
        "brokers",
        "Brokers with the most problems",
        ("broker", "broker"),
        *((_PROBLEM_COLUMNS[name], name) for name in counted),
    )
    text = "The column problems is the sum of the counts beside it."
    return Section("Problems", text, there([topics, brokers]))


_PROBLEM_COLUMNS: Final = {
    "trouble": "problems",
    "illegal": "illegal transitions",
    "missing": "lost rows",
    "failed": "failed transitions",
    "shrinks": "ISR shrinks",
    "unclean": "unclean elections",
    "offlines": "times offline",
}


def _damaged(unread: Unread) -> Section:
    kinds = Table("Damaged lines by problem", ("problem", "lines"), list(unread.kinds.items()))
    places = _places("Damaged lines", "place", unread.damaged)
    text = "Unreadable lines and how they start. Places in ZooKeeper's files are byte offsets."
    return Section("Damaged lines", text, there([kinds, places]))


def _places(title: str, where: str, listing: Listing) -> Table:
    rows = [(place_text(row), row["problem"], row["text"]) for row in listing.rows]
    return Table(title, (where, "problem", "text"), rows, listing.total)


def _limits(limits: Limits) -> Section:
    rows = [
        (question, reading, answer.how, answer.why)
        for question, answers in limits.items()
        for reading, answer in answers
    ]
    text = "Questions that these logs answer only in part or not at all; nothing is guessed."
    table = Table("Limited questions", ("question", "source", "answered", "reason"), rows)
    return Section("Limits of these sources", text, [table] if rows else [])
