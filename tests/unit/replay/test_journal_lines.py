"""Lines of a journal: each is a row with its number, or damaged and told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cluster.journal import (
    IMPOSSIBLE_TIME,
    NOT_A_ROW,
    NOT_JSON,
    SCHEMA_VERSION,
    JournalRow,
    Kind,
    parse_row,
)
from klamm.replay.sources.journal import journal_batches, recognizes

LEAST: dict[str, Any] = {
    "v": SCHEMA_VERSION,
    "run_id": "r",
    "t_ms": 7,
    "seq": 3,
    "controller": 0,
    "epoch": 2,
    "kind": "event",
}


def line(**fields: Any) -> bytes:
    return msgspec.json.encode({**LEAST, **fields})


def read(data: bytes, first_line: int = 1) -> list[dict[str, Any]]:
    batches = list(journal_batches(data, "file", first_line))
    return sorted(
        (row for batch in batches for row in batch.to_pylist()), key=lambda row: row["line"]
    )


def problems(data: bytes) -> list[tuple[int, str | None]]:
    return [(row["line"], row["problem"]) for row in read(data)]


def test_every_field_of_a_row_is_read() -> None:
    known = {"isr": [3, 1], "prev_isr": [], "v": SCHEMA_VERSION, "kind": "event"}
    values = {
        field.encode_name: known.get(
            field.name, n + 100 if "int" in str(field.type) else f"word {n}"
        )
        for n, field in enumerate(msgspec.structs.fields(JournalRow))
    }
    (row,) = read(msgspec.json.encode(values) + b"\n", 9)
    of_the_file = {"from": "from_state", "to": "to_state", "run_id": "run"}
    expected = {of_the_file.get(name, name): value for name, value in values.items()}
    expected["reassignment"] = expected.pop("reassignment_id")
    del expected["v"]
    # A run is a cluster: the epochs continue when another process runs it again.
    expected["run"] = expected.pop("cluster_id")
    about_it = {
        "source": "journal",
        "file": "file",
        "line": 9,
        "place": expected["epoch"] << 40 | expected["seq"],
        "has_predecessors": True,
        "problem": None,
        "text": None,
    }
    assert row == {**expected, **about_it}


def test_fields_that_a_row_leaves_out_are_unknown_or_none() -> None:
    (row,) = read(line() + b"\n")
    absent = {name for name, value in row.items() if value is None}
    assert {"topic", "leader", "isr", "since_ms", "key_seq", "zk_version"} <= absent
    assert (row["partition"], row["replica"], row["event_id"], row["cause_id"]) == (-1, -1, 0, 0)
    (row,) = read(line(since_ms=0, key_seq=0) + b"\n")
    assert row["since_ms"] is None and row["key_seq"] is None


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (b"", "not json"),
        (b"[]", "not a row"),
        (b"{", "not json"),
        (b'{"v":1}', "not a row"),
        (line(v=9), "schema version 9"),
        (b'{"run_id":"r"}', "schema version none"),
        (line(kind="party"), "unknown kind"),
        (line(seq="3"), "not a row"),
        (line(seq=None), "not a row"),
        (line(t_ms=1.5), "not a row"),
        (line(t_ms=-1), "impossible time"),
        (line(t_ms=(1 << 63) - 1), "impossible time"),
        (line(epoch=1 << 40), "not a row"),
        (line(isr=[1, None]), "not a row"),
        (line() + line(), "not json"),
        (line().replace(b'"r"', b'"\xff"'), "not json"),
        (line()[:-1] + b',"seq":3}', "not a row"),
    ],
)
def test_a_bad_line_is_reported_and_its_neighbours_are_read(bad: bytes, problem: str) -> None:
    data = b"".join([line(), b"\n", bad, b"\n", line(), b"\n"])
    found = read(data)
    assert [row["line"] for row in found] == [1, 2, 3]
    assert [row["problem"] for row in found] == [None, problem, None]
    assert found[1]["text"] == bad.decode(errors="replace")


def test_half_a_last_line_is_torn_and_a_whole_one_is_a_row() -> None:
    assert problems(line() + b"\n" + line()[:-9]) == [(1, None), (2, "torn")]
    assert problems(line() + b"\n" + line()) == [(1, None), (2, None)]
    assert problems(line()[:-9] + b"\n") == [(1, "not json")]


def test_blank_lines_do_not_hide_two_rows_in_one() -> None:
    data = line() + line() + b"\n\n" + line() + b"\n"
    assert problems(data) == [(1, "not json"), (2, "not json"), (3, None)]


def test_windows_line_ends_are_read() -> None:
    assert problems(line() + b"\r\n" + line() + b"\r\n") == [(1, None), (2, None)]


def test_a_row_distinguishes_a_journal_from_other_json() -> None:
    path = Path("copied.txt")
    assert recognizes(path, b"x\n" + line()) and recognizes(path, line(v=9))
    for other in (b'{"v":1}', b"[1]", b"[2021-09-01 10:00:00]"):
        assert not recognizes(path, other)
    assert {str(kind) for kind in Kind} >= {"event"}


def test_a_broken_character_in_a_field_of_any_version_is_damage() -> None:
    good = line(detail="d\u00e9")
    assert isinstance(parse_row(good), JournalRow)
    assert parse_row(good.replace("\u00e9".encode(), b"\xff")) == NOT_JSON
    unknown = line(**{"of a later version": "x"}).replace(b'"x"', b'"\xff"')
    assert parse_row(unknown) == NOT_JSON


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"[1]", NOT_A_ROW),
        (b'{"v":1}', NOT_A_ROW),
        (line()[:-9], NOT_JSON),
        (b"", NOT_JSON),
        (line(isr="x"), NOT_A_ROW),
        (line(leader="a"), NOT_A_ROW),
        (line(detail={}), NOT_A_ROW),
        (line(t_ms=-1), IMPOSSIBLE_TIME),
        (line(t_ms=10**18), IMPOSSIBLE_TIME),
    ],
)
def test_a_line_that_is_no_row_has_a_problem(damaged: bytes, problem: str) -> None:
    assert parse_row(damaged) == problem


@pytest.mark.parametrize("after", [b"", b"]" * 200_000 + b"}"])
def test_a_line_of_very_many_brackets_is_no_row(after: bytes) -> None:
    deep = b'{"v":1,"a":' + b"[" * 200_000 + after
    assert parse_row(deep) == NOT_A_ROW
    assert problems(line() + b"\n" + deep + b"\n") == [(1, None), (2, NOT_A_ROW)]


ROW = line() + b"\n"


@pytest.mark.parametrize(
    ("name", "head", "is_journal"),
    [
        ("journal.jsonl", b"", True),
        ("journal.00000000000000000900.jsonl.gz", b"x\n", True),
        ("journal.txt", b"x\n", False),
        ("other.jsonl", b'{"a":1}\n', False),
        ("other.jsonl", ROW, True),
        ("any", b"x\n" * 19 + ROW, True),
        ("any", b"x\n" * 20 + ROW, False),
    ],
)
def test_a_journal_is_recognized_by_its_name_or_its_rows(
    name: str, head: bytes, is_journal: bool
) -> None:
    assert recognizes(Path("folder") / name, head) is is_journal
