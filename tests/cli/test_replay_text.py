"""What the replay commands understand and print, apart from the logs that they read."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZipFile

import pytest

from klamm.cli import replay_diff, replay_sql
from klamm.cli.main import main
from klamm.cli.replay_run import _is_narrow, filter_facts, read_filters, show_page
from klamm.cluster.errors import UsageError
from klamm.replay.diff import Difference, Differences, Divergence, Side
from klamm.replay.filters import Filters
from klamm.replay.spark_cluster import PACKAGES
from klamm.report.values import Cell, Figure, Page, Section, Table, Tone


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10000", 10_000),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.001", 1),
        ("1970-01-01T00:00:00.0006", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02T00:00:00Z", 86_400_000),
    ],
)
def test_times_of_the_command_line(text: str, ms: int) -> None:
    assert read_filters(text, (), (), text, text) == Filters(as_of_ms=ms, from_ms=ms, to_ms=ms)


@pytest.mark.parametrize("option", ["--from", "--to", "--as-of"])
def test_a_year_alone_is_refused_as_a_time(option: str) -> None:
    given = {"--from": None, "--to": None, "--as-of": None, option: "2026"}
    with pytest.raises(UsageError, match=f"{option} 2026: invalid time"):
        read_filters(given["--as-of"], (), (), given["--from"], given["--to"])


@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("epoch:10", Filters(as_of_epoch=10)),
        ("epoch:0x10", Filters(as_of_epoch=16)),
        ("zxid:10", Filters(as_of_zxid=10)),
        ("zxid:0x7fffffffffffffff", Filters(as_of_zxid=2**63 - 1)),
        ("epoch:0", Filters(as_of_epoch=0)),
    ],
)
def test_moments_of_the_command_line(text: str, filters: Filters) -> None:
    found = read_filters(text, (), (), None, None)
    assert found == filters
    assert _is_narrow(found)


@pytest.mark.parametrize("text", ["zxid:0x8000000000000000", "epoch:", "zxid:f", "epoch:1.5"])
def test_moments_that_are_no_numbers(text: str) -> None:
    with pytest.raises(UsageError, match=f"--as-of {text}: invalid number"):
        read_filters(text, (), (), None, None)


@pytest.mark.parametrize(
    ("filters", "is_narrow"),
    [
        (Filters(), False),
        (Filters(from_ms=0, to_ms=5), False),
        (Filters(topics=("t",)), True),
        (Filters(brokers=(0,)), True),
        (Filters(as_of_ms=0), True),
    ],
)
def test_states_are_listed_of_selected_partitions(filters: Filters, is_narrow: bool) -> None:
    assert _is_narrow(filters) is is_narrow


def test_the_facts_of_a_page_name_every_filter_that_is_set() -> None:
    filters = Filters(("t", "u"), (1, 0), 0, 1_500, 2_000, 7, 0x1F)
    assert list(filter_facts(filters)) == [
        ("only topics", "t, u"),
        ("only partitions of brokers", "1, 0"),
        ("counted from", "1970-01-01 00:00:00.000 UTC"),
        ("read up to", "1970-01-01 00:00:01.500 UTC"),
        ("as of", "1970-01-01 00:00:02.000 UTC"),
        ("as of controller epoch", "7"),
        ("as of zxid", "0x1f"),
    ]
    assert list(filter_facts(Filters())) == []


def shown(table: Table, states: dict[str, Any] | None = None) -> list[str]:
    page = Page(
        title="Title",
        verdict="Verdict.",
        tone=Tone.BAD,
        figures=[Figure("1", "event", Tone.PLAIN), Figure("2", "partitions", Tone.BAD)],
        facts=[("read", "x")],
        sections=[Section("Empty", "", []), Section("Things", "about them", [table])],
    )
    file = io.StringIO()
    show_page(page, states, file)
    return file.getvalue().splitlines()


def test_lines_of_a_table_have_no_trailing_blanks() -> None:
    lines = shown(Table("Table", ("number", "name"), [(1, "long"), (2, "x"), (3, None)]))
    assert [line for line in lines if line.endswith(" ")] == []


@pytest.mark.parametrize(
    ("count", "total", "more"), [(10, None, None), (11, None, 1), (10, 1_234, 1_224), (3, 3, None)]
)
def test_the_first_rows_of_a_table_are_shown(
    count: int, total: int | None, more: int | None
) -> None:
    rows: Sequence[Sequence[Cell]] = [(f"row {n}", n) for n in range(count)]
    lines = shown(Table("Table", ("name", "number"), rows, total, "a note"))
    assert lines[:4] == ["Title", "Verdict.", "read: x", "1 event, 2 partitions"]
    assert "Empty" not in lines and "Things" in lines and lines[-1] == "a note"
    assert [f"row {n}" for n in range(min(count, 10))] == [
        line.split("  ")[0].strip(" │|") for line in lines if line.lstrip(" │|").startswith("row ")
    ]
    assert [line for line in lines if line.startswith("and ")] == (
        [] if more is None else [f"and {more:,} more"]
    )


def test_cells_cannot_control_the_terminal() -> None:
    lines = "\n".join(shown(Table("Table", ("name", "n"), [("a\x1b[31m\u202eb", None)])))
    assert "a\ufffd[31m\ufffdb" in lines and "None" not in lines


def test_states_of_partitions_are_shown() -> None:
    first = [
        {"topic": "t", "partition": n, "state": "OnlinePartition", "leader": 1, "isr": isr}
        for n, isr in enumerate(([1, 2], [], None))
    ]
    lines = shown(Table("Table", ("a",), [("x",)]), {"partitions": 1_003, "first": first})
    states = lines[lines.index("States") :]
    assert "and 1,000 more" in states
    cells = [line.replace("│", " ").split() for line in states if "OnlinePartition" in line]
    assert cells == [
        ["t", "0", "OnlinePartition", "1", "1,2"],
        ["t", "1", "OnlinePartition", "1", "empty"],
        ["t", "2", "OnlinePartition", "1"],
    ]


def sides() -> list[Side]:
    return [
        Side(name, what, partitions="", replicas=None, writes="", names="", is_whole=True)
        for name, what in (("x", "journal, 5 events"), ("y", "a dump of ZooKeeper"))
    ]


DIFFERENCE = Difference("t", 0, -1, "leader", "1", "2")
LINES = ["A: x (journal, 5 events)", "B: y (a dump of ZooKeeper)"]


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            Differences(1_000, None, 0, [], None, []),
            ["Compared: 1,000 partitions.", "The final states agree."],
        ),
        (
            Differences(4, 1_200, 1_001, [DIFFERENCE], None, ["replica states: y has none"]),
            [
                "Compared: 4 partitions and 1,200 replicas.",
                "Not compared: replica states: y has none.",
                "Differences: 1,001",
                "  t-0: leader 1 in A, 2 in B",
                "  and 1,000 more",
            ],
        ),
        (
            Differences(1, 0, 0, [], Divergence("A", "f", 7, 1_000, "t", 3, 1, 2, None, None), []),
            [
                "Compared: 1 partitions and 0 replicas.",
                "The final states agree.",
                "First divergence: f:7 in A, 1970-01-01 00:00:01.000: t-3 leader 1, leader epoch "
                "2; B never had this state.",
            ],
        ),
        (
            Differences(1, 0, 0, [], Divergence("B", "f", 7, 0, "t", 3, -1, 2, (3, 1), 0), []),
            [
                "Compared: 1 partitions and 0 replicas.",
                "The final states agree.",
                "First divergence: f:7 in B, 1970-01-01 00:00:00.000: t-3 leader -1, leader epoch "
                "2, ISR 3,1, version 0; A never had this state.",
            ],
        ),
    ],
)
def test_what_is_said_of_a_comparison(found: Differences, lines: list[str]) -> None:
    assert list(replay_diff._lines(sides(), found)) == LINES + lines
    values = json.loads(json.dumps(replay_diff._as_json(sides(), found)))
    assert values["a"] == {"name": "x", "what": "journal, 5 events"}
    assert (values["partitions"], values["differences"]) == (found.partitions, found.total)
    assert (values["first_parting"] is None) is (found.divergence is None)


@pytest.mark.parametrize(
    ("name", "content", "is_dump"),
    [
        ("d.json", "", True),
        ("d", '[{"path"', True),
        ("d", '\n [\n  {"path"', True),
        ("d", "[2021-09-01 10:00:00,000] INFO", False),
        ("d", '{"v":1}', False),
        ("d", " " * 70 + "[{", False),
    ],
)
def test_a_dump_is_recognized(tmp_path: Path, name: str, content: str, is_dump: bool) -> None:
    (tmp_path / name).write_text(content)
    assert replay_diff._is_dump(tmp_path / name) is is_dump
    assert not replay_diff._is_dump(tmp_path)


NAIVE = datetime(2026, 1, 2, 10, 15, 0, 250_600)


@pytest.mark.parametrize(
    ("value", "plain", "text"),
    [
        (None, None, ""),
        (5, 5, "5"),
        ("a\n b", "a\n b", "a b"),
        (NAIVE, "2026-01-02 10:15:00.251", "2026-01-02 10:15:00.251"),
        ([1, None], [1, None], "1,"),
        ({7: [NAIVE]}, {"7": ["2026-01-02 10:15:00.251"]}, None),
    ],
)
def test_values_of_a_query(value: Any, plain: Any, text: str | None) -> None:
    assert replay_sql._values([[value]]) == [[plain]]
    if text is not None:
        assert replay_sql._text(value) == text


@pytest.mark.parametrize("words", [[], ["--overwrite"]])
def test_an_archive_does_not_replace_a_directory(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "package", "--out", str(tmp_path), *words]) == 2
    assert f"error: {tmp_path} already exists\n" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_archive_is_replaced_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "klamm.zip").write_text("precious")
    assert main(["replay", "package", "--out", str(file)]) == 2
    assert file.read_text() == "precious"
    assert main(["replay", "package", "--out", str(file), "--overwrite"]) == 0
    packed = set(map(PurePosixPath, ZipFile(file).namelist()))
    assert {path.parts[:2] for path in packed} == {
        ("klamm", name) for name in ("__init__.py", "interrupts.py", *PACKAGES)
    }
    assert PurePosixPath("klamm/replay/sources/kafka_logs.py") in packed
    assert not any(path.suffix == ".pyc" for path in packed)
    assert list(tmp_path.iterdir()) == [file]
