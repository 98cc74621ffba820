"""What a replay found, as a page of plots and tables: of what happened first, then of the rest.

Answers -> report.values; the text on a terminal shows the same tables. Draws and computes nothing.
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
    "repeated": ("row that is there twice", "rows that are there twice"),
    "late_writes": ("late write", "late writes"),
    "shared_epochs": ("epoch of two controllers", "epochs of two controllers"),
}
Limits = Mapping[Question, Sequence[tuple[Reading, Answer]]]


class Asked(NamedTuple):
    """What the answers are of: words for the page's head, and from when on things were counted.
    ``limits``: what cannot be told. ``folder`` is that of all files."""

    name: str
    from_ms: int | None
    facts: Sequence[tuple[str, str]]
    limits: Limits
    folder: str = ""


def replay_page(asked: Asked, answers: Answers) -> Page:
    """The page. Sections without anything to show are left out."""
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
    """One sentence, and how bad it is."""
    found = answers.violations
    if not found:
        return "No violation was found.", Tone.GOOD
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
    name, offline_ms = "Offline, summed over partitions", counts["offline_ms"]
    told = [at.how for _, at in limits.get(Question.OFFLINE, ())]
    if told and set(told) == {How.NO}:
        yield Figure("not told", name)
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
        yield "last event", f"{time_text(last)} UTC, after {duration_text(last - first)}"


def _logs(answers: Answers) -> Iterator[tuple[str, str]]:
    count = len(answers.logs)
    if count > 1:
        yield "logs", f"{count:,}, by source and run; what several tell of is counted in each"


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
            ("before", lambda row: f"{row['before_file']}:{row['before_line']}"),
            ("when", lambda row: time_text(row["before_t_ms"])),
            ("whose", key_text),
            ("rows", "missing"),
            ("after", after_text),
        ),
        _places("Lost transactions", "before", answers.unread.lost),
        table_of(
            answers,
            "unclean",
            "Unclean elections",
            *PLACED,
            ("leader", lambda row: f"{row['prev_leader']} → {row['leader']}"),
            ("leader epoch", "leader_epoch"),
            ("ISR before", lambda row: ids_text(row["prev_isr"])),
            ("by", "election"),
        ),
        table_of(
            answers,
            "duplicates",
            "Rows that are there twice",
            ("first", place_text),
            ("last", lambda row: f"{row['copy_file']}:{row['copy_line']}"),
            ("controller epoch", "epoch"),
            ("seq", "seq"),
            ("copies", "copies"),
            ("say the same", lambda row: "no" if row["is_contradiction"] else "yes"),
        ),
        table_of(
            answers,
            "late_writes",
            "Writes after a newer epoch",
            *PLACED,
            ("what", "kind"),
            ("controller", "controller"),
            ("controller epoch", "epoch"),
        ),
        table_of(
            answers,
            "shared_epochs",
            "Epochs of two controllers",
            ("controller epoch", "epoch"),
            ("controllers", lambda row: ids_text(row["controllers"])),
            ("from", lambda row: time_text(row["first_ms"])),
        ),
    )
    text = "What no controller may do, and what a log should not be: each with its file and line."
    return Section("Violations", text, there(listed))


def _availability(answers: Answers, begin_ms: int) -> Section:
    columns: tuple[Column, ...] = (
        ("whose", key_text),
        ("from", lambda row: time_cell(row["start_ms"])),
        ("to", lambda row: time_cell(row["end_ms"])),
        ("took", took_text),
    )
    offline = longest(
        answers,
        "offline_intervals",
        "Longest in OfflinePartition",
        *columns,
        ("ended by", lambda row: row["ended_by"] or "not ended"),
    )
    leaderless = longest(
        answers, "leaderless_intervals", "Longest without a leader", *columns, ("lost", "lost")
    )
    failed = table_of(
        answers,
        "failed",
        "Transitions that failed",
        *PLACED,
        ("from", "from_state"),
        ("to", "to_state"),
        ("why", "outcome"),
    )
    blocks: list[Block] = [
        *offline_plots(answers, begin_ms),
        *there([offline, leaderless, failed]),
    ]
    return Section("Offline partitions", "Partitions that nobody could write to.", blocks)


def _leaders(answers: Answers, begin_ms: int) -> Section:
    text = "How many partitions each broker led."
    return Section("Leaders", text, list(leader_rows(answers, begin_ms)))


def _isrs(answers: Answers, begin_ms: int) -> Section:
    flapping = table_of(
        answers,
        "flapping",
        "Flapping replicas",
        ("whose", key_text),
        ("left", "shrinks"),
        ("came back", "expands"),
        ("from", lambda row: time_text(row["start_ms"])),
        ("to", lambda row: time_text(row["end_ms"])),
    )
    text = (
        "How often replicas left the set of in-sync replicas, and came back. A replica flaps that "
        f"did both {FLAPS} times within {duration_text(FLAP_WINDOW_MS)}; its worst time is listed."
    )
    blocks: list[Block] = [*churn_maps(answers, begin_ms), *there([flapping])]
    return Section("ISRs", text, blocks)


def _reassignments(answers: Answers, begin_ms: int) -> Section:
    listed = table_of(
        answers,
        "reassignments",
        "Longest reassignments",
        ("whose", key_text),
        ("from", lambda row: time_cell(row["start_ms"])),
        ("took", took_text),
        ("status", "status"),
        ("last phase", "last_phase"),
        ("epochs it took", "epochs"),
    )
    text = "Unfinished ones first, then the longest."
    return Section("Reassignments", text, [*reassignment_bars(answers, begin_ms), *there([listed])])


def _controllers(answers: Answers) -> Section:
    failovers = table_of(
        answers,
        "failovers",
        "Controllers, in order",
        ("controller epoch", "epoch"),
        ("controller", "controller"),
        ("elected", lambda row: time_cell(row["elected_ms"])),
        ("ready after", lambda row: duration_cell(row["ready_after_ms"])),
        ("silence before", lambda row: duration_cell(row["silent_ms"])),
    )
    text = "Who was elected, and how long it took until it served."
    return Section("Failovers", text, there([failovers]))


def _trouble(answers: Answers) -> Section:
    counted = ("trouble", "illegal", "missing", "failed", "shrinks")
    topics = table_of(
        answers,
        "topics",
        "Topics with most trouble",
        ("topic", "topic"),
        *((name, name) for name in (*counted, "unclean", "offlines")),
        ("Offline", lambda row: duration_cell(row["offline_ms"])),
    )
    brokers = table_of(
        answers,
        "brokers",
        "Brokers with most trouble",
        ("broker", "broker"),
        *((name, name) for name in counted),
    )
    text = "Trouble is the sum of the counts beside it; shrinks are replicas that left an ISR."
    return Section("Trouble", text, there([topics, brokers]))


def _damaged(unread: Unread) -> Section:
    kinds = Table("Damaged lines by kind", ("problem", "lines"), list(unread.kinds.items()))
    places = _places("Damaged lines", "where", unread.damaged)
    text = "What could not be read, and how it begins; ZooKeeper's files are counted in bytes."
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
    text = "None of these was guessed."
    table = Table("Questions without a whole answer", ("question", "source", "told", "why"), rows)
    return Section("What these sources cannot tell", text, [table] if rows else [])
