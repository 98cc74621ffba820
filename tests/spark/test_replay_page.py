"""A replay's page and directory, and two logs side by side, of journals of a simulated cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JournalRow, Kind
from klamm.replay.diff import Side, compare, side_of, stored_side
from klamm.replay.engines import Engine
from klamm.replay.engines import rows as rows_in
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.ingest import make_table
from klamm.replay.page import life_rows, replay_page
from klamm.replay.page_head import Replayed
from klamm.replay.result_folder import as_values, result_folder, write_answers, write_tables
from klamm.replay.run import Answers, answering
from klamm.replay.views import ask, make_views
from klamm.report.page import page_html
from klamm.report.plots import WIDTH, frame_of
from klamm.report.scales import time_text
from klamm.report.values import Gantt, HeatMap, StepPlot, StepRows, Table
from tests.browser import CHROMIUM, Browser, browser
from tests.spark.journals import eventful_journal, spoilt
from tests.spark.stored_states import StoredState, znodes_of
from tests.unit.report.pages import loaded, read_page

pytestmark = pytest.mark.timeout(300)

SEED = 3


def made(duckdb: Engine, folder: Path, rows: Sequence[JournalRow]) -> EventTable:
    """The event table of a journal of these rows."""
    folder.mkdir(parents=True)
    journal = folder / "journal.jsonl"
    journal.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    make_table(duckdb, [journal], folder / "table")
    return open_table(duckdb, folder / "table")


@pytest.fixture(scope="module")
def rows() -> list[JournalRow]:
    return eventful_journal()


@pytest.fixture(scope="module")
def whole(
    duckdb: Engine, rows: list[JournalRow], tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    return made(duckdb, tmp_path_factory.mktemp("page") / "whole", rows)


@pytest.fixture(scope="module")
def broken(
    duckdb: Engine, rows: list[JournalRow], tmp_path_factory: pytest.TempPathFactory
) -> EventTable:
    return made(duckdb, tmp_path_factory.mktemp("page") / "broken", spoilt(rows, SEED))


@pytest.fixture(scope="module")
def answers(broken: EventTable) -> Iterator[Answers]:
    with answering(broken) as found:
        yield found


def test_a_page_has_every_plot_and_names_what_is_wrong(answers: Answers) -> None:
    page = replay_page(Replayed("a journal", None, [("read", "x")], {}), answers)
    kinds = {type(block) for section in page.sections for block in section.blocks}
    assert kinds == {StepPlot, StepRows, HeatMap, Gantt, Table}
    root = read_page(page_html(page))
    assert loaded(root) == []
    assert answers.violations
    assert root.only("p", "verdict").text == page.verdict != "No violations found."
    tables = {t.only("caption").text: t for t in root.all("table")}
    illegal = answers.listings["illegal"].rows
    assert illegal
    assert [
        row.all("td")[0].text for row in tables["Illegal transitions"].only("tbody").all("tr")
    ] == [f"{row['file']}:{row['line']}" for row in illegal]
    (offline,) = (b for s in page.sections for b in s.blocks if isinstance(b, StepPlot))
    stays = answers.listings["offline_intervals"]
    assert stays.is_whole
    begun = [row for row in stays.rows if row["start_ms"] is not None]
    highest = max(
        sum(
            other["start_ms"] <= row["start_ms"]
            and (other["end_ms"] is None or other["end_ms"] > row["start_ms"])
            for other in begun
        )
        for row in begun
    )
    assert max(value for _, value in offline.steps.points) == highest > 0
    (bars,) = (b.bars for s in page.sections for b in s.blocks if isinstance(b, Gantt))
    assert len(bars) == len(answers.listings["reassignments"].rows)


def opened(tab: Browser, page: Path) -> None:
    tab.open(page)
    tab.until("!document.getElementById('tools').hidden")


def time_axis(tab: Browser) -> tuple[float, float, float]:
    """Scroll to the first plot; left and right of its time axis, and the middle of its height."""
    left, width, y = tab.run(
        "(() => { const plot = document.querySelector('.plot'); "
        "plot.scrollIntoView({block: 'center'}); const box = plot.getBoundingClientRect(); "
        "return [box.left, box.width, box.top + box.height / 2]; })()"
    )
    scale = width / WIDTH
    axis = frame_of([]).x
    return left + axis.begin * scale, left + axis.end * scale, y


VIEWS = (
    "[...new Set([...document.querySelectorAll('.time')].map(at => at.getAttribute('viewBox')"
    ".split(' ').filter((_, n) => n % 2 == 0).map(parseFloat).join()))]"
)
"""The distinct time axes of all plots: begin and width."""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: make chromium installs it")
def test_a_browser_zooms_all_plots_and_finds_a_partition(
    whole: EventTable, rows: list[JournalRow], tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    with answering(whole) as found:
        page = replay_page(Replayed("x", None, [], {}), found, life_rows(whole, found))
        file.write_text(page_html(page), encoding="utf-8")
        begin_ms, end_ms = found.first_ms or 0, found.last_ms or 0
    with browser(tmp_path / "profile") as tab:
        opened(tab, file)
        label = tab.run("document.getElementById('range').textContent")
        assert label == f"{time_text(begin_ms)} to {time_text(end_ms)} UTC"
        (unzoomed,) = tab.run(VIEWS)
        check_zoom(tab, unzoomed)
        died = next(row for row in rows if row.kind == Kind.BROKER_OFFLINE)
        left, right, y = time_axis(tab)
        share = (died.t_ms - begin_ms) / (end_ms - begin_ms)
        tab.mouse("mouseMoved", left + (right - left) * share, y)
        under = tab.run("document.getElementById('under').textContent")
        assert f"broker failure on broker {died.replica}" in under
        check_search(tab, rows)
        shown = {"Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled"}
        assert [event for event in tab.events if event["method"] in shown] == []
        asked = [e for e in tab.events if e["method"] == "Network.requestWillBeSent"]
        assert [e["params"]["request"]["url"] for e in asked] == [file.as_uri()]
        tab.call("Emulation.setScriptExecutionDisabled", value=True)
        tab.open(file)
        assert tab.run(VIEWS) == [unzoomed], "the plots are there without JavaScript"
        assert tab.run("document.getElementById('tools').hidden")


def check_zoom(tab: Browser, unzoomed: str) -> None:
    """Zoom by mouse, keyboard and button; all plots follow."""
    first = tab.run("document.querySelector('.ticks').textContent")
    left, right, y = time_axis(tab)
    tab.drag(left + (right - left) / 4, left + (right - left) / 2, y)
    (zoomed,) = tab.run(VIEWS)
    x, width = map(float, zoomed.split(","))
    x0, width0 = map(float, unzoomed.split(","))
    assert x == pytest.approx(x0 + width0 / 4, rel=0.01)
    assert width == pytest.approx(width0 / 4, rel=0.01)
    assert tab.run("document.querySelector('.ticks').textContent") != first
    tab.double_click((left + right) / 2, y)
    assert tab.run(VIEWS) == [unzoomed]
    tab.run("document.querySelector('svg.plot').focus()")
    tab.call("Input.dispatchKeyEvent", type="keyDown", key="+", text="+")
    assert tab.run(VIEWS) != [unzoomed]
    tab.run("document.querySelector('[data-do=reset]').click()")
    assert tab.run(VIEWS) == [unzoomed]


def check_search(tab: Browser, rows: Sequence[JournalRow]) -> None:
    """Search for a partition that the page does not have, then for one that it has."""
    tab.run("document.getElementById('search').focus()")
    tab.call("Input.insertText", text="nowhere")
    assert tab.run("document.getElementById('life').hidden")
    assert "not on this page" in tab.run("document.querySelector('.search').textContent")
    tab.run("document.getElementById('search').select()")
    tab.call("Input.insertText", text="t-0")
    assert not tab.run("document.getElementById('life').hidden")
    elected = next(
        row
        for row in rows
        if (row.topic, row.partition, row.kind) == ("t", 0, Kind.PARTITION_TRANSITION)
        and (row.leader or 0) > 0
    )
    lines = tab.run("[...document.querySelectorAll('#life tbody tr')].map(at => at.textContent)")
    begin = f"{time_text(elected.t_ms)}broker {elected.leader}"
    assert any(line.startswith(begin) for line in lines)
    titles = tab.run("[...document.querySelectorAll('#life .life title')].map(t => t.textContent)")
    assert any(title.startswith("OnlinePartition, ") for title in titles)


def test_answers_are_written_whole_or_not_at_all(
    broken: EventTable, answers: Answers, tmp_path: Path
) -> None:
    out = tmp_path / "answers"
    with pytest.raises(ZeroDivisionError), result_folder(out, overwrite=False) as folder:
        (folder / "half").touch()
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    with result_folder(out, overwrite=False) as folder:
        write_tables(folder, broken, answers)
        write_answers(folder, as_values(answers))
    assert json.loads((out / "answers.json").read_text())["violations"] == answers.violations
    assert {path.name for path in out.iterdir()} == {
        "answers.json",
        "damaged",
        *answers.tables,
    }
    stored = pq.read_table(out / "illegal").to_pylist()
    listed = answers.listings["illegal"].rows
    names = ("file", "line", "topic", "from_state", "to_state")
    assert {tuple(row[n] for n in names) for row in stored} == {
        tuple(row[n] for n in names) for row in listed
    }
    states = pq.read_table(out / "partitions")["state"].to_pylist()
    assert {type(state) for state in states} == {str}
    with pytest.raises(UsageError, match="already exists"), result_folder(out, overwrite=False):
        pass
    precious = tmp_path / "precious"
    precious.mkdir()
    with (
        pytest.raises(UsageError, match="is not overwritten"),
        result_folder(precious, overwrite=True),
    ):
        pass
    with result_folder(out, overwrite=True) as folder:
        write_answers(folder, {})
    assert [path.name for path in out.iterdir()] == ["answers.json"]


def test_a_log_agrees_with_itself(whole: EventTable) -> None:
    found = compare(whole.engine, side_of(whole, "a"), side_of(whole, "b"))
    assert (found.total, found.shown, found.divergence, found.not_compared) == (0, [], None, [])
    assert found.partitions > 5 and (found.replicas or 0) > found.partitions


def test_two_logs_part_where_one_was_changed(
    duckdb: Engine, rows: list[JournalRow], whole: EventTable, tmp_path: Path
) -> None:
    last = {(r.topic, r.partition): n for n, r in enumerate(rows) if r.isr is not None}
    is_last = (n for n in last.values() if rows[n].topic != "single")
    line = max(n for n in is_last if rows[n].kind != Kind.PARTITION_SNAPSHOT)
    row = rows[line]
    other = [*rows]
    other[line] = msgspec.structs.replace(row, isr=(9,))
    found = compare(
        duckdb, side_of(whole, "a"), side_of(made(duckdb, tmp_path / "other", other), "b")
    )
    assert found.divergence is not None and row.isr is not None
    assert (found.divergence.topic, found.divergence.partition) == (row.topic, row.partition)
    assert (found.divergence.line, found.divergence.t_ms) == (line + 1, row.t_ms)
    (difference,) = found.shown
    assert (difference.topic, difference.partition) == (row.topic, row.partition)
    assert (difference.field, difference.b) == ("isr", "9")
    assert difference.a == ",".join(map(str, row.isr))


def test_a_log_beside_a_tree_of_znodes(duckdb: Engine, whole: EventTable) -> None:
    mine = side_of(whole, "a")
    partitions = f"SELECT * EXCLUDE (state) FROM {mine.partitions}"
    stored = [StoredState(**at) for at in rows_in(duckdb, whole.in_words(partitions))]
    assert compare(duckdb, mine, tree(duckdb, stored)).total == 0
    # Rows come in any order. Another leader of a partition without one would change its state, too.
    first, second, *rest = sorted(stored, key=lambda one: (one.leader or 0) < 0)
    assert first.leader is not None
    assert first.leader >= 0
    changed = first._replace(leader=first.leader + 50)
    added = StoredState("only-there", 3, 1, 0, [1], 0)
    found = compare(duckdb, mine, tree(duckdb, [changed, *rest, added]))
    assert found.divergence is None and found.replicas is None
    assert sorted(found.shown) == sorted(
        [
            (first.topic, first.partition, -1, "leader", str(first.leader), str(changed.leader)),
            (second.topic, second.partition, -1, "existence", "present", "absent"),
            ("only-there", 3, -1, "existence", "absent", "present"),
        ]
    )


def tree(duckdb: Engine, stored: Sequence[StoredState]) -> Side:
    return stored_side(duckdb, "b", "a tree", *znodes_of(stored))


def test_views_of_events_and_partitions_show_kinds_and_topics_as_text(
    duckdb: Engine, rows: list[JournalRow], whole: EventTable
) -> None:
    query = "SELECT kind, count(*) AS n FROM events GROUP BY kind"
    make_views(whole, f"{query} partitions")
    counted = dict(ask(duckdb, query, 100).rows)
    assert counted == {kind: sum(row.kind == kind for row in rows) for kind in counted}
    assert sum(counted.values()) == len(rows)
    topics = ask(duckdb, "SELECT DISTINCT topic FROM partitions", 100).rows
    assert {topic for (topic,) in topics} == {"t", "pair", "lone"}
