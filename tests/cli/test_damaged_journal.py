"""Damaged journal lines in klamm journal, klamm explain and the API."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import msgspec
import pytest

from klamm.cli.main import main
from klamm.cluster.journal import JournalRow, Kind
from klamm.world.explain.rows import failed_dir_text
from klamm.world.journal.journal import read_journal
from tests.journal_bytes import journal_bytes
from tests.serving import klamm_up
from tests.sim.reassignments import brokers_up, with_topic

Capture = pytest.CaptureFixture[str]


def journal_of_a_creation() -> list[bytes]:
    world = brokers_up()
    with_topic(world, (0, 1), topic="orders")
    return journal_bytes(world.journal.rows).splitlines(keepends=True)


def test_a_damaged_line_is_skipped_and_named(tmp_path: Path, capsys: Capture) -> None:
    lines = journal_of_a_creation()
    damaged = lines[3][:40] + lines[4]  # the result of a restart after a torn write
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([*lines[:3], damaged, *lines[5:], b"\0" * 50]))
    warning = "warning: the journal is damaged: journal.jsonl:"
    for arguments in (
        ["journal", "tail", "-n", "10000", "--data-dir", str(tmp_path)],
        ["explain", "orders-0", "--data-dir", str(tmp_path)],
        ["explain", "orders-0", "--journal", str(path)],
    ):
        assert main(arguments) == 0
        printed = capsys.readouterr()
        *ended, first, last = printed.err.splitlines()
        assert (first, last) == (f"{warning}4: not json", f"{warning}{len(lines)}: torn")
        assert [" has ended: " in line for line in ended] == [True] * ("--data-dir" in arguments)
        assert "orders-0" in printed.out


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"isr": "x"}, "not a row"),
        ({"leader": "a"}, "not a row"),
        ({"detail": {}}, "not a row"),
        ({"t_ms": 10**18}, "impossible time"),
        ({"t_ms": 253_402_300_800_000}, "impossible time"),
        ({"t_ms": -62_135_596_800_001}, "impossible time"),
    ],
)
@pytest.mark.parametrize("at", [0, 3, -1], ids=["first", "fourth", "last"])
def test_every_reader_skips_the_same_line(
    tmp_path: Path, capsys: Capture, changes: dict[str, object], problem: str, at: int
) -> None:
    lines = journal_of_a_creation()
    place = range(len(lines))[at]
    bad = msgspec.json.encode({**msgspec.json.decode(lines[place]), **changes}) + b"\n"
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([b"{\n", *lines[:place], bad, *lines[place:], b"{"]))
    for arguments in (
        ["journal", "tail", "-n", "10000", "--data-dir", str(tmp_path)],
        ["explain", "orders-0", "--journal", str(path)],
        ["explain", "orders-0", "--json", "--journal", str(path)],
        ["drill", "record", "--journal", str(path)],
    ):
        assert main(arguments) == 0
        *_, first, second, last = capsys.readouterr().err.splitlines()
        assert "journal.jsonl:1: not json" in first
        assert f"journal.jsonl:{place + 2}: {problem}" in second
        assert f"journal.jsonl:{len(lines) + 3}: torn" in last


def test_every_reader_reads_a_last_row_that_lacks_only_its_newline(
    tmp_path: Path, capsys: Capture
) -> None:
    lines = journal_of_a_creation()
    of_it = next(line for line in reversed(lines) if b'"partition_transition"' in line)
    path = tmp_path / "journal.jsonl"
    for end in (b"", b"\n"):
        last = msgspec.json.encode({**msgspec.json.decode(of_it), "detail": "the last row"})
        path.write_bytes(b"".join([*lines, last, end]))
        assert main(["journal", "tail", "-n", "1", "--json", "--data-dir", str(tmp_path)]) == 0
        printed = capsys.readouterr()
        assert (printed.out, "torn" in printed.err) == (f"{last.decode()}\n", False)
        assert main(["explain", "orders-0", "--json", "--journal", str(path)]) == 0
        printed = capsys.readouterr()
        assert (json.loads(printed.out)["journal"]["row_count"], printed.err) == (
            len(lines) + 1,
            "",
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "run_start", "detail": '{"a":' + "[" * 200_000},
        {"kind": "event", "detail": "ControlledShutdown(x"},
        {"kind": "partition_transition", "from": "NewPartition", "election": "of a later klamm"},
        {"kind": "reassignment_phase", "to": "U1", "reassignment_id": "orders-0:1->x"},
    ],
)
def test_a_detail_that_no_klamm_writes_ends_no_reader(
    tmp_path: Path, capsys: Capture, changes: dict[str, object]
) -> None:
    lines = journal_of_a_creation()
    of_it = next(line for line in reversed(lines) if b'"replica_transition"' in line)
    strange = msgspec.json.encode({**msgspec.json.decode(of_it), **changes})
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([*lines, strange, b"\n"]))
    for arguments in (["explain", "orders-0"], ["drill", "record"]):
        assert main([*arguments, "--journal", str(path)]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ('{"a":' + "[" * 200_000, "log directory ? of broker 1 failed: reason not recorded"),
        (None, "log directory ? of broker 1 failed: reason not recorded"),
        ('{"log_dir":"/a"}', "log directory /a of broker 1 failed: reason not recorded"),
    ],
    ids=["deep", "none", "without a reason"],
)
def test_the_reason_of_a_failed_directory_may_be_unreadable(detail: str | None, text: str) -> None:
    row = JournalRow(1, "r", 0, 1, -1, 0, Kind.LOG_DIR_FAILED, replica=1, detail=detail)
    assert failed_dir_text(row) == text


def test_of_very_many_damaged_lines_the_first_are_named(tmp_path: Path, capsys: Capture) -> None:
    lines = journal_of_a_creation()
    (tmp_path / "journal.jsonl").write_bytes(b"{}\n" * 1_000 + b"".join(lines))
    journal = str(tmp_path / "journal.jsonl")
    assert main(["explain", "orders-0", "--journal", journal]) == 0
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == 11
    assert warnings[-1].endswith("11: not a row; further damage is not shown")
    assert [line for line in warnings if "further" in line] == warnings[-1:]


@pytest.mark.slow
def test_up_on_a_torn_journal_repairs_it_and_serves_it(tmp_path: Path) -> None:
    lines = journal_of_a_creation()
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join([*lines[:5], b"spoilt\n", *lines[5:], lines[-1][:33]]))
    with klamm_up(tmp_path, "--brokers", "1") as up:
        url = msgspec.convert(up.json("status"), dict[str, object])["url"]
        with urllib.request.urlopen(f"{url}/journal?after=0") as answer:
            page = msgspec.json.decode(answer.read())
        shown = up.ok("journal", "tail", "-n", "10000")
    assert page["damaged"] == ["journal.jsonl:6: not json"]
    kinds = [row["kind"] for row in page["rows"]]
    at = kinds.index(Kind.JOURNAL_REPAIRED)
    assert kinds[at - 1] == Kind.RUN_START
    assert page["rows"][at]["detail"] == '{"cut_bytes":33}'
    assert 'journal repaired {"cut_bytes":33}' in shown
    assert len(read_journal(path)) == path.read_bytes().count(b"\n") - 1
