"""Which rows a page lists, and how it tells logs and files apart."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from klamm.cli.replay_run import filter_facts, show_page
from klamm.replay.answers import Answer, How, Question, Reading, limits
from klamm.replay.data_loss import DataLoss
from klamm.replay.filters import Filters
from klamm.replay.listings import Listing
from klamm.replay.page import replay_page
from klamm.replay.page_head import Replayed, total_column
from klamm.replay.page_tables import (
    after_text,
    duration_cell,
    ids_text,
    key_text,
    longest,
    or_unknown,
    paths_within,
    place_text,
    table_of,
    time_cell,
    took_text,
)
from klamm.replay.run import Answers
from klamm.report.values import Table, Tone

Row = dict[str, Any]


def answers_of(**rows: Sequence[Row]) -> Answers:
    """Answers with these listings alone, whole."""
    found = {name: Listing(tuple(listed), len(listed)) for name, listed in rows.items()}
    listings = defaultdict(Listing, {"epochs": Listing(), **found})
    loss = DataLoss({}, 0, Listing(), Listing())
    return Answers(defaultdict(int), 0, 9, 1, listings, {}, loss)


@pytest.mark.parametrize(
    ("took", "more", "shown", "note"),
    [
        ([None, 2_000, *[999] * 8, 7, 6], 0, 10, "and 2 shorter than 1 s"),
        ([*[2_000] * 12, 9, 8], 0, 12, "and 2 shorter than 1 s"),
        ([*[2_000] * 12, 9, 8], 300, 12, "and 302 shorter than 1 s"),
        ([12, 9], 0, 2, ""),
        ([*[55] * 100], 217, 10, "and 307 shorter than 1 s"),
        ([2_000], 0, 1, ""),
        ([2_000] * 100, 3, 100, ""),
    ],
)
def test_short_times_do_not_hide_the_long_ones(
    took: Sequence[int | None], more: int, shown: int, note: str
) -> None:
    rows = tuple({"took_ms": ms, "end_ms": ms} for ms in took)
    stays = Listing(rows, len(rows) + more)
    answers = replace(answers_of(), listings={"epochs": Listing(), "stays": stays})
    table = longest(answers, "stays", "Stays", ("took", took_text))
    told = ["not ended" if ms is None else f"{ms} ms" if ms < 1_000 else "2.00 s" for ms in took]
    assert [row[0] for row in table.rows] == told[:shown]
    assert table.note == note
    assert table.total == (shown if note else len(rows) + more)


def test_rows_of_several_logs_name_their_log() -> None:
    def columns(*logs: tuple[str, str]) -> tuple[Sequence[str], Sequence[Any]]:
        of = [{"source": source, "run": run, "topic": "t"} for source, run in logs]
        table = table_of(answers_of(epochs=of, topics=of), "topics", "T", ("topic", "topic"))
        return table.columns, table.rows

    assert columns(("journal", "a")) == (["topic"], [("t",)])
    both = ["a", "t"], ["b", "t"]
    assert columns(("journal", "a"), ("journal", "b")) == (["run", "topic"], [*map(tuple, both)])
    names, rows = columns(("zookeeper", "/"), ("journal", "a"))
    assert names == ["source", "topic"] and rows[0] == ("zookeeper", "t")
    names, rows = columns(("zookeeper", "/"), ("zookeeper", "/b"), ("journal", "a"))
    assert names == ["source", "run", "topic"] and rows[1] == ("zookeeper", "/b", "t")


def test_the_folder_of_all_files_is_not_in_each_row() -> None:
    rows = [{"file": name, "line": 3} for name in ("/a/b/c/log", "/a/bb/log", "/a/b/log")]
    table = table_of(
        paths_within("/a/b", answers_of(late_writes=rows)), "late_writes", "", ("", place_text)
    )
    assert [row[0] for row in table.rows] == ["c/log:3", "/a/bb/log:3", "log:3"]


@pytest.mark.parametrize(
    ("readings", "told"),
    [
        ([Reading.ZOOKEEPER], "unknown"),
        ([Reading.STATE_CHANGE_INFO, Reading.CONTROLLER_INFO], "unknown"),
        ([Reading.ZOOKEEPER, Reading.JOURNAL], "0 ms"),
        ([Reading.STATE_CHANGE_TRACE], "0 ms"),
        ([Reading.CONTROLLER_DEBUG], "unknown"),
    ],
)
def test_sources_that_cannot_know_show_no_time_offline(readings: list[Reading], told: str) -> None:
    page = replay_page(Replayed("x", None, [], limits(readings)), answers_of())
    (figure,) = (at for at in page.figures if at.name.startswith("in OfflinePartition"))
    assert figure.value == told


@pytest.mark.parametrize(("ms", "told"), [(0, "unknown"), (1_500, "at least 1.50 s")])
def test_a_total_without_the_length_of_an_interval_says_so(ms: int, told: str) -> None:
    counts = defaultdict(int, offline_ms=ms, undated=1)
    page = replay_page(Replayed("x", None, [], {}), replace(answers_of(), counts=counts))
    (figure,) = (at for at in page.figures if at.name.startswith("in OfflinePartition"))
    assert figure.value == told


def test_no_two_facts_of_a_page_have_one_name() -> None:
    logs = [{"source": "journal", "run": run} for run in "ab"]
    filters = Filters(("t",), (1,), 2, 3, 4, 5, 6)
    page = replay_page(Replayed("x", 2, list(filter_facts(filters)), {}), answers_of(epochs=logs))
    names = [name for name, _ in page.facts]
    assert len(set(names)) == len(names) == 9
    assert dict(page.facts)["as of zxid"] == "0x6"


def test_each_of_several_logs_has_its_own_totals() -> None:
    zero = dict.fromkeys(("illegal", "missing", "lost_tails", "repeated", "late_writes"), 0)
    times = {"leaderless_ms": 0, "offline_ms": 0, "undated": 0, "open_reassignments": 0}
    logs = [
        {"source": source, "run": "r", "events": n, "partitions": 1, "elections": 3, **zero}
        | {"unclean": 2, "shared_epochs": 0, **times}
        for source, n in (("journal", 17), ("zookeeper", 15))
    ]
    readings = {"journal": [Reading.JOURNAL], "zookeeper": [Reading.ZOOKEEPER]}
    answers = answers_of(logs=logs, epochs=logs)
    answers = replace(answers, counts=defaultdict(int, unclean=4, lost_transactions=1))
    page = replay_page(Replayed("x", None, [], {}, readings), answers)
    assert not page.figures
    (table,) = page.sections[0].blocks
    assert isinstance(table, Table)
    assert table.rows == [
        ("journal", 17, 1, 2, 3, "0 ms", "0 ms", 0),
        ("zookeeper", 15, 1, 2, 3, "0 ms", "unknown", 0),
    ]
    assert page.verdict == (
        "Violations in journal: 2 unclean elections; in zookeeper: 2 unclean elections, "
        "1 range of lost transactions."
    )


@pytest.mark.parametrize("sources", [["journal"], ["journal", "kafka logs", "zookeeper"]])
def test_no_heading_breaks_inside_a_word_at_80_columns(
    sources: Sequence[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    names = ("trouble", "illegal", "missing", "failed", "shrinks", "unclean", "offlines")
    counts = dict.fromkeys(names, 7)
    topics = [
        {
            "source": source,
            "run": "r",
            "topic": "a-topic-with-a-long-name",
            **dict.fromkeys(counts, 7),
        }
        | {"offline_ms": 83_000, "undated": 0, "leaderless_ms": 3_723_000}
        for source in sources
    ]
    answers = answers_of(topics=topics, epochs=topics)
    show_page(replay_page(Replayed("x", None, [], {}), answers), None)
    printed = capsys.readouterr().out
    lines = re.sub("\x1b[^m]*m", "", printed).splitlines()
    assert max(map(len, lines[lines.index("Problems") :])) <= 80
    for word in ("illegal", "shrinks", "unclean", "offline", "leader"):
        assert any(word in line.split() for line in lines), word


def test_a_value_that_the_source_of_a_row_cannot_know_is_unknown() -> None:
    zero = dict.fromkeys(("illegal", "missing", "failed", "shrinks", "unclean", "offlines"), 0)
    topics = [
        {"source": source, "run": "r", "topic": "t", "trouble": 1, **zero}
        | {"offline_ms": 0, "undated": 0, "leaderless_ms": 5}
        for source in ("journal", "zookeeper")
    ]
    elected = {"run": "r", "controller": 1, "epoch": 1, "elected_ms": 5, "since_older_epoch_ms": 3}
    failovers = [
        {"source": source, **elected, "ready_after_ms": None} for source in ("journal", "zookeeper")
    ]
    readings = {"journal": [Reading.JOURNAL], "zookeeper": [Reading.ZOOKEEPER]}
    answers = answers_of(topics=topics, failovers=failovers, epochs=topics)
    page = replay_page(Replayed("x", None, [], {}, readings), answers)
    tables = {
        block.title: block
        for section in page.sections
        for block in section.blocks
        if isinstance(block, Table)
    }
    found = tables["Topics with the most problems"]
    by_source = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
    unknown = {name for name, cell in by_source["zookeeper"].items() if cell == "unknown"}
    assert unknown == {*("illegal", "times offline", "time offline")}
    assert by_source["zookeeper"]["no live leader"] == "5 ms"
    assert "unknown" not in by_source["journal"].values()
    assert by_source["journal"]["times offline"] == 0
    ready = [row[4] for row in tables["Controllers in order of election"].rows]
    assert ready == ["not ready", "unknown"]


def test_totals_of_intervals_without_a_start_are_lower_bounds() -> None:
    zero = dict.fromkeys(("illegal", "missing", "failed", "shrinks", "unclean"), 4)
    topics = [
        {"source": "journal", "run": "r", "topic": "t", "trouble": 1, **zero, "offlines": offlines}
        | {"offline_ms": 1_500 * offlines, "undated": undated, "leaderless_ms": 7}
        for offlines, undated in ((3, 0), (3, 1), (0, 1), (0, 0))
    ]
    page = replay_page(Replayed("x", None, [], {}), answers_of(topics=topics, epochs=topics[:1]))
    (found,) = (
        block
        for section in page.sections
        for block in section.blocks
        if isinstance(block, Table) and block.title == "Topics with the most problems"
    )
    named = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert [
        (row["times offline"], row["time offline"], row["no live leader"], row["illegal"])
        for row in named
    ] == [
        (3, "4.50 s", "7 ms", 4),
        ("at least 3", "at least 4.50 s", "7 ms", 4),
        ("unknown", "unknown", "7 ms", 4),
        (0, "0 ms", "7 ms", 4),
    ]


@pytest.mark.parametrize(
    ("row", "key", "after"),
    [
        ({"replica": -1, "after_file": None}, "t-3", "start of the epoch"),
        ({"replica": None, "after_file": "f", "after_line": 8}, "t-3", "f:8"),
        ({"replica": 0, "after_file": "f", "after_line": 0}, "t-3 on broker 0", "f:0"),
        ({"after_file": "f", "after_line": 1}, "t-3", "f:1"),
    ],
)
def test_a_row_names_its_partition_or_replica_and_its_predecessor(
    row: Row, key: str, after: str
) -> None:
    assert key_text({"topic": "t", "partition": 3, **row}) == key
    assert after_text(row) == after


def test_values_that_are_missing_are_shown_as_unknown_or_empty() -> None:
    assert [or_unknown(cell) for cell in (None, "", 0, "x")] == ["unknown", "unknown", 0, "x"]
    assert [ids_text(ids) for ids in (None, [], [2, 10])] == ["", "", "2,10"]
    assert (time_cell(None), duration_cell(None)) == ("", "")
    assert (time_cell(0), duration_cell(0)) == ("1970-01-01 00:00:00.000", "0 ms")


@pytest.mark.parametrize(
    ("found", "verdict", "tone"),
    [
        ({}, "No violations found.", Tone.GOOD),
        ({"unclean": 1, "missing": 2}, "Violations: 2 lost rows, 1 unclean election.", Tone.BAD),
    ],
)
def test_the_verdict_of_a_page_counts_violations(
    found: dict[str, int], verdict: str, tone: Tone
) -> None:
    numbers = ("events", "partitions", "elections", "leaderless_ms", "offline_ms", "undated")
    zero = dict.fromkeys((*numbers, "open_reassignments"), 0)
    logs = [{"source": "journal", "run": "r", **zero}]
    answers = replace(answers_of(logs=logs, epochs=logs), counts=defaultdict(int, found))
    page = replay_page(Replayed("x", None, [], {}), answers)
    assert (page.title, page.verdict, page.tone) == ("Replay of x", verdict, tone)
    assert all(section.blocks for section in page.sections)
    assert "Logs" not in [section.title for section in page.sections]


@pytest.mark.parametrize(
    ("readings", "cell"),
    [
        ([], "5 ms"),
        ([Reading.STATE_CHANGE_INFO], "unknown"),
        ([Reading.STATE_CHANGE_INFO, Reading.STATE_CHANGE_TRACE], "5 ms"),
    ],
)
def test_one_log_of_a_source_that_can_tell_is_enough(readings: list[Reading], cell: str) -> None:
    asked = Replayed("x", None, [], {}, {"kafka logs": readings})
    _, of = total_column(asked, "", "offline_ms", Question.OFFLINE)
    assert callable(of)
    assert of({"source": "kafka logs", "offline_ms": 5, "undated": 0}) == cell


def a_row_of_each_listing() -> dict[str, Sequence[Row]]:
    log = {"source": "journal", "run": "r"}
    placed = {**log, "file": "f", "line": 7, "t_ms": 1_000, "topic": "t", "partition": 3}
    before = {"before_file": "b", "before_line": 8, "before_t_ms": 2_000, "missing": 9}
    lost = {**placed, **before, "after_file": "a", "after_line": 6, "epoch": 4, "replica": 5}
    lasted = {**placed, "start_ms": 1_000, "end_ms": 3_500, "took_ms": 2_500}
    moved = {**placed, "from_state": "A", "to_state": "B", "epoch": 4, "replica": 5}
    elected = {"leader": 2, "leader_epoch": 8, "prev_isr": [1, 4], "election": "UNCLEAN"}
    copied = {"copy_file": "c", "copy_line": 5, "epoch": 4, "seq": 6, "copies": 2}
    ready = {"elected_ms": 1_000, "ready_after_ms": 5, "since_older_epoch_ms": 6}
    mark = {**log, "t_ms": 2_000, "times": 6}
    return {
        "epochs": [log],
        "illegal": [moved],
        "lost_rows": [lost],
        "lost_tails": [{**placed, "epoch": 4, "partitions": 5, "known": 6, "leader_epoch": 8}],
        "gaps": [lost],
        "unclean": [{**placed, **elected, "prev_leader": 1}],
        "duplicates": [{**placed, **copied, "is_contradiction": one} for one in (False, True)],
        "late_writes": [{**placed, "kind": "isr_changed", "controller": 1, "epoch": 4}],
        "shared_epochs": [{**log, "epoch": 4, "controllers": [1, 2], "first_ms": 1_000}],
        "offline_intervals": [
            {**lasted, "start_ms": None, "took_ms": None, "ended_by": "election"},
            {**lasted, "end_ms": None, "ended_by": None},
        ],
        "leaderless_intervals": [{**lasted, "lost": 2}, {**lasted, "lost": None}],
        "failed": [{**moved, "outcome": "no leader"}],
        "flapping": [{**lasted, "replica": 5, "shrinks": 6, "expands": 8}],
        "reassignments": [
            {**lasted, "status": "done", "last_phase": phase, "epochs": 2} for phase in (None, "B6")
        ],
        "failovers": [{**log, **ready, "epoch": 4, "controller": 1}],
        "starts": [
            {**log, "t_ms": 1_000, "detail": "x starts", "first_epoch": first, "last_epoch": last}
            for first, last in ((None, None), (1, 1), (2, 4))
        ],
        "marks": [
            {**mark, "what": "broker failure", "brokers": [8, 9]},
            {**mark, "what": "controller election", "brokers": [0]},
        ],
    }


ONE_S, TWO_S, END = (f"1970-01-01 00:00:0{s:.3f}" for s in (1, 2, 3.5))
TABLES = {
    "Violations: Illegal transitions": [
        "place | time (UTC) | partition | from | to | controller epoch",
        f"f:7 | {ONE_S} | t-3 on broker 5 | A | B | 4",
    ],
    "Violations: Lost rows": [
        "lost before | time (UTC) | controller epoch | rows | lost after",
        f"b:8 | {TWO_S} | 4 | 9 | a:6",
    ],
    "Violations: Controller epochs whose last rows are lost": [
        "proved at | time (UTC) | by controller epoch | partitions | first | "
        "leader epoch in the journal | leader epoch in ZooKeeper",
        f"f:7 | {ONE_S} | 4 | 5 | t-3 | 6 | 8",
    ],
    "Violations: Lost rows of partitions and replicas": [
        "lost before | time (UTC) | partition | rows | lost after",
        f"b:8 | {TWO_S} | t-3 on broker 5 | 9 | a:6",
    ],
    "Violations: Lost transactions": ["lost before | problem | text", "f:7 | gone | x"],
    "Violations: Unclean elections": [
        "place | time (UTC) | partition | leader | leader epoch | ISR before | election",
        f"f:7 | {ONE_S} | t-3 | 1 → 2 | 8 | 1,4 | UNCLEAN",
    ],
    "Violations: Duplicate rows": [
        "first | last | controller epoch | seq | copies | identical",
        "f:7 | c:5 | 4 | 6 | 2 | yes",
        "f:7 | c:5 | 4 | 6 | 2 | no",
    ],
    "Violations: Writes by a controller after a newer epoch began": [
        "place | time (UTC) | partition | kind | controller | controller epoch",
        f"f:7 | {ONE_S} | t-3 | isr_changed | 1 | 4",
    ],
    "Violations: Epochs with two controllers": [
        "controller epoch | controllers | from (UTC)",
        f"4 | 1,2 | {ONE_S}",
    ],
    "Partitions without a live leader: Longest intervals without a live leader": [
        "partition | from (UTC) | to (UTC) | duration | previous leader",
        f"t-3 | {ONE_S} | {END} | 2.50 s | 2",
        f"t-3 | {ONE_S} | {END} | 2.50 s | unknown",
    ],
    "Partitions without a live leader: Longest intervals in OfflinePartition": [
        "partition | from (UTC) | to (UTC) | duration | ended by",
        f"t-3 | unknown | {END} | unknown | election",
        f"t-3 | {ONE_S} |  | not ended | not ended",
    ],
    "Partitions without a live leader: Failed transitions": [
        "place | time (UTC) | partition | from | to | reason",
        f"f:7 | {ONE_S} | t-3 on broker 5 | A | B | no leader",
    ],
    "ISRs: Flapping replicas": [
        "replica | left | rejoined | from (UTC) | to (UTC)",
        f"t-3 on broker 5 | 6 | 8 | {ONE_S} | {END}",
    ],
    "Reassignments: Longest reassignments": [
        "partition | from (UTC) | duration | status | last phase | controller epochs",
        f"t-3 | {ONE_S} | 2.50 s | done | unknown | 2",
        f"t-3 | {ONE_S} | 2.50 s | done | B6 | 2",
    ],
    "Failovers: Starts of klamm up": [
        "time (UTC) | run | controller epochs",
        f"{ONE_S} | x | none",
        f"{ONE_S} | x | 1",
        f"{ONE_S} | x | 2 to 4",
    ],
    "Failovers: Controllers in order of election": [
        "controller epoch | controller | elected (UTC) | ready after | "
        "after last event of older epochs",
        f"4 | 1 | {ONE_S} | 5 ms | 6 ms",
    ],
    "Failovers: Broker failures": ["time (UTC) | failures | brokers", f"{TWO_S} | 6 | 8,9"],
    "Damaged lines: Damaged lines by problem": ["problem | lines", "bad | 12345"],
    "Damaged lines: Damaged lines": ["place | problem | text", "f:7 | bad | x"],
    "Limits of these sources: Limited questions": [
        "question | source | answered | reason",
        "lost rows | zookeeper | partly | only zxids",
    ],
}
"""A page's tables of ``a_row_of_each_listing``: the titles of the columns, and the rows."""


def test_a_page_has_a_table_for_each_listing(capsys: pytest.CaptureFixture[str]) -> None:
    place = {"file": "f", "line": 7, "text": "x"}
    damaged, gone = (Listing(({**place, "problem": what},), 1) for what in ("bad", "gone"))
    loss = DataLoss({"bad": 12_345}, 1, damaged, gone)
    answers = replace(answers_of(**a_row_of_each_listing()), data_loss=loss)
    gaps = {Question.GAPS: [(Reading.ZOOKEEPER, Answer(How.PARTLY, "only zxids"))]}
    page = replay_page(Replayed("x", None, [], gaps), answers)
    found = {
        f"{section.title}: {table.title}": [
            " | ".join(map(str, row)) for row in (table.columns, *table.rows)
        ]
        for section in page.sections
        for table in section.blocks
        if isinstance(table, Table)
    }
    assert found == TABLES
    show_page(page, None)
    assert ["bad", "12,345"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("runs", "is_listed"), [("r", False), ("ab", False), ("rr", True)])
def test_starts_are_listed_if_a_cluster_was_started_again(runs: str, is_listed: bool) -> None:
    of_start = {"source": "journal", "t_ms": 5, "detail": "x y", "first_epoch": 1, "last_epoch": 2}
    starts = [{"run": run, **of_start} for run in runs]
    answers = answers_of(starts=starts, marks=[], epochs=starts[:1])
    page = replay_page(Replayed("x", None, [], {}), answers)
    titles = [getattr(block, "title", "") for at in page.sections for block in at.blocks]
    assert ("Starts of klamm up" in titles) is is_listed
