"""What a replay found, as a page of plots and tables: of what happened first, then of the rest.

Answers -> report.values; the text on a terminal shows the same tables. Draws and computes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from replay.answers import Answer, Question, Reading
from replay.listings import Listing
from replay.page_plots import churn_maps, leader_rows, offline_plots, reassignment_bars
from replay.run import Answers
from replay.unread import Unread
from report.scales import duration_text, time_text
from report.values import Block, Cell, Figure, Page, Section, Table, Tone

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
    ``limits``: what cannot be told."""

    name: str
    from_ms: int | None
    facts: Sequence[tuple[str, str]]
    limits: Limits


def replay_page(asked: Asked, answers: Answers) -> Page:
    """The page. Sections without anything to show are left out."""
    verdict, tone = verdict_of(answers)
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
        figures=list(_figures(answers)),
        facts=[*_extent(answers), *asked.facts],
        sections=[section for section in sections if section.blocks],
    )


def verdict_of(answers: Answers) -> tuple[str, Tone]:
    """One sentence, and how bad it is."""
    found = answers.violations
    if not found:
        return "No violation was found.", Tone.GOOD
    parts = [f"{count:,} {_NOUNS[name][count != 1]}" for name, count in found.items()]
    return f"Violations: {', '.join(parts)}.", Tone.BAD


def _figures(answers: Answers) -> Iterator[Figure]:
    counts = answers.counts
    violations = sum(answers.violations.values())
    yield _figure(counts["events"], "event")
    yield _figure(counts["partitions"], "partition")
    yield _figure(violations, "violation", Tone.BAD if violations else Tone.GOOD)
    yield _figure(len(answers.listings["failovers"].rows), "controller election")
    offline_ms = counts["offline_ms"]
    tone = Tone.WARNING if offline_ms else Tone.GOOD
    yield Figure(duration_text(offline_ms), "Offline, summed over partitions", tone)
    still = counts["open_reassignments"]
    yield _figure(still, "unfinished reassignment", Tone.WARNING if still else Tone.GOOD)


def _figure(count: int, noun: str, tone: Tone = Tone.PLAIN) -> Figure:
    return Figure(f"{count:,}", noun if count == 1 else f"{noun}s", tone)


def _extent(answers: Answers) -> Iterator[tuple[str, str]]:
    first, last = answers.first_ms, answers.last_ms
    if first is not None and last is not None:
        yield "from", f"{time_text(first)} UTC"
        yield "to", f"{time_text(last)} UTC, after {duration_text(last - first)}"


# Sections


def _violations(answers: Answers) -> Section:
    listed = (
        _table(
            answers,
            "illegal",
            "Illegal transitions",
            ("where", _where),
            ("when", _when),
            ("whose", _key),
            ("from", "from_state"),
            ("to", "to_state"),
            ("controller epoch", "epoch"),
        ),
        _table(
            answers,
            "gaps",
            "Lost rows",
            ("before", lambda row: f"{row['before_file']}:{row['before_line']}"),
            ("when", lambda row: time_text(row["before_t_ms"])),
            ("whose", _key),
            ("rows", "missing"),
            ("after", _after),
        ),
        _places("Lost transactions", "before", answers.unread.lost),
        _table(
            answers,
            "unclean",
            "Unclean elections",
            ("where", _where),
            ("when", _when),
            ("whose", _key),
            ("leader", lambda row: f"{row['prev_leader']} → {row['leader']}"),
            ("leader epoch", "leader_epoch"),
            ("ISR before", lambda row: _ids(row["prev_isr"])),
            ("by", "election"),
        ),
        _table(
            answers,
            "duplicates",
            "Rows that are there twice",
            ("first", _where),
            ("controller epoch", "epoch"),
            ("seq", "seq"),
            ("copies", "copies"),
            ("say the same", lambda row: "no" if row["is_contradiction"] else "yes"),
        ),
        _table(
            answers,
            "late_writes",
            "Writes after a newer epoch",
            ("where", _where),
            ("when", _when),
            ("whose", _key),
            ("what", "kind"),
            ("controller", "controller"),
            ("controller epoch", "epoch"),
        ),
        _table(
            answers,
            "shared_epochs",
            "Epochs of two controllers",
            ("run", "run"),
            ("controller epoch", "epoch"),
            ("controllers", lambda row: _ids(row["controllers"])),
            ("from", lambda row: time_text(row["first_ms"])),
        ),
    )
    text = "What no controller may do, and what a log should not be: each with its file and line."
    return Section("Violations", text, _there(listed))


def _availability(answers: Answers, begin_ms: int) -> Section:
    columns: tuple[_Column, ...] = (
        ("whose", _key),
        ("from", lambda row: _time(row["start_ms"])),
        ("to", lambda row: _time(row["end_ms"])),
        ("took", _took),
    )
    offline = _table(
        answers,
        "offline_intervals",
        "Longest in OfflinePartition",
        *columns,
        ("ended by", lambda row: row["ended_by"] or "not ended"),
    )
    leaderless = _table(
        answers, "leaderless_intervals", "Longest without a leader", *columns, ("lost", "lost")
    )
    failed = _table(
        answers,
        "failed",
        "Transitions that failed",
        ("where", _where),
        ("when", _when),
        ("whose", _key),
        ("from", "from_state"),
        ("to", "to_state"),
        ("why", "outcome"),
    )
    blocks: list[Block] = [
        *offline_plots(answers, begin_ms),
        *_there([offline, leaderless, failed]),
    ]
    return Section("Offline partitions", "Partitions that nobody could write to.", blocks)


def _leaders(answers: Answers, begin_ms: int) -> Section:
    text = "How many partitions each broker led."
    return Section("Leaders", text, list(leader_rows(answers, begin_ms)))


def _isrs(answers: Answers, begin_ms: int) -> Section:
    flapping = _table(
        answers,
        "flapping",
        "Flapping replicas",
        ("whose", _key),
        ("left", "shrinks"),
        ("came back", "expands"),
    )
    text = "How often replicas left the set of in-sync replicas, and came back."
    blocks: list[Block] = [*churn_maps(answers, begin_ms), *_there([flapping])]
    return Section("ISRs", text, blocks)


def _reassignments(answers: Answers, begin_ms: int) -> Section:
    listed = _table(
        answers,
        "reassignments",
        "Longest reassignments",
        ("whose", _key),
        ("from", lambda row: _time(row["start_ms"])),
        ("took", _took),
        ("status", "status"),
        ("last phase", "last_phase"),
        ("epochs it took", "epochs"),
    )
    text = "Unfinished ones first, then the longest."
    return Section(
        "Reassignments", text, [*reassignment_bars(answers, begin_ms), *_there([listed])]
    )


def _controllers(answers: Answers) -> Section:
    failovers = _table(
        answers,
        "failovers",
        "Controllers, in order",
        ("controller epoch", "epoch"),
        ("controller", "controller"),
        ("elected", lambda row: _time(row["elected_ms"])),
        ("ready after", lambda row: _duration(row["ready_after_ms"])),
        ("silence before", lambda row: _duration(row["silent_ms"])),
    )
    text = "Who was elected, and how long it took until it served."
    return Section("Failovers", text, _there([failovers]))


def _trouble(answers: Answers) -> Section:
    counted = ("trouble", "illegal", "missing", "failed", "shrinks")
    topics = _table(
        answers,
        "topics",
        "Topics with most trouble",
        ("topic", "topic"),
        *((name, name) for name in (*counted, "unclean", "offlines")),
        ("Offline", lambda row: _duration(row["offline_ms"])),
        only=lambda row: row["trouble"] > 0,
    )
    brokers = _table(
        answers,
        "brokers",
        "Brokers with most trouble",
        ("broker", "broker"),
        *((name, name) for name in counted),
        only=lambda row: row["trouble"] > 0,
    )
    text = "Trouble is the sum of the counts beside it; shrinks are replicas that left an ISR."
    return Section("Trouble", text, _there([topics, brokers]))


def _damaged(unread: Unread) -> Section:
    kinds = Table("Damaged lines by kind", ("problem", "lines"), list(unread.kinds.items()))
    places = _places("Damaged lines", "where", unread.damaged)
    text = "What could not be read, and how it begins; ZooKeeper's files are counted in bytes."
    return Section("Damaged lines", text, _there([kinds, places]))


def _places(title: str, where: str, listing: Listing) -> Table:
    rows = [(_where(row), row["problem"], row["text"]) for row in listing.rows]
    note = "" if listing.is_whole else "There are more than are listed."
    return Table(title, (where, "problem", "text"), rows, note=note)


def _limits(limits: Limits) -> Section:
    rows = [
        (question, reading, answer.how, answer.why)
        for question, answers in limits.items()
        for reading, answer in answers
    ]
    text = "None of these was guessed."
    table = Table("Questions without a whole answer", ("question", "source", "told", "why"), rows)
    return Section("What these sources cannot tell", text, [table] if rows else [])


# Rows


_Column = tuple[str, str | Callable[[dict[str, Any]], Cell]]


def _table(
    answers: Answers,
    name: str,
    title: str,
    *columns: _Column,
    only: Callable[[dict[str, Any]], bool] = lambda _: True,
) -> Table:
    """A listing as a table: a column is a name and the row's field, or what is made of the row."""
    listing = answers.listings.get(name, Listing())
    rows = [
        tuple(row[how] if isinstance(how, str) else how(row) for _, how in columns)
        for row in listing.rows
        if only(row)
    ]
    total = answers.counts.get(_TOTALS.get(name, ""), len(rows))
    note = "" if listing.is_whole else "There are more than are listed."
    heads = [head for head, _ in columns]
    return Table(title, heads, rows, max(total, len(rows)), "" if total > len(rows) else note)


_TOTALS: Final = {
    "illegal": "illegal",
    "failed": "failed",
    "unclean": "unclean",
    "late_writes": "late_writes",
    "shared_epochs": "shared_epochs",
}
"""Which count is the number of a listing's rows."""


def _there(tables: Iterable[Table]) -> list[Table]:
    return [table for table in tables if table.rows]


def _key(row: Mapping[str, Any]) -> str:
    replica = row.get("replica", -1)
    on = f" on broker {replica}" if replica is not None and replica >= 0 else ""
    return f"{row['topic']}-{row['partition']}{on}"


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['file']}:{row['line']}"


def _when(row: Mapping[str, Any]) -> str:
    return time_text(row["t_ms"])


def _after(row: Mapping[str, Any]) -> str:
    if row["after_file"] is None:
        return "the first are lost"
    return f"{row['after_file']}:{row['after_line']}"


def _time(t_ms: int | None) -> str:
    return "" if t_ms is None else time_text(t_ms)


def _duration(ms: int | None) -> str:
    return "" if ms is None else duration_text(ms)


def _took(row: Mapping[str, Any]) -> str:
    return "not ended" if row["end_ms"] is None else _duration(row["took_ms"])


def _ids(ids: Sequence[int] | None) -> str:
    return "" if ids is None else ",".join(map(str, ids))
