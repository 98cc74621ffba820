"""`klamm journal tail` of files, and where the rows that commands read are from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cli.journal import DamageWarnings, FileSource, writer_of
from klamm.cli.journal_origin import CountedRows, JournalOrigin, chosen_source
from klamm.cli.main import main
from klamm.cluster.errors import UsageError
from klamm.server.data_dir import DataDir, ServerAddress
from klamm.server.journal_tail import JournalPart, last_rows, rows_after
from klamm.world.explain.journal_text import time_zone
from tests.scripted_api import STATUS, scripted_api
from tests.waiting import replace_sleep

ROWS = [
    {
        **{"v": 1, "run_id": "r", "t_ms": n, "controller": 0, "epoch": 1, "seq": n},
        **{"kind": "topic_created", "detail": f"t{n}"},
    }
    for n in range(5)
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The data directory of a cluster that has ended, with five rows."""
    (tmp_path / "journal.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    return tmp_path


def tail(folder: Path, *args: str) -> int:
    return main(["journal", "tail", "--data-dir", str(folder), *args])


def ended(folder: Path) -> str:
    path = folder / "journal.jsonl"
    return f"warning: the cluster of {path} has ended: these are its last rows\n"


@pytest.mark.parametrize(("options", "shown"), [((), 5), (("-n", "2"), 2), (("-n", "0"), 0)])
def test_the_last_rows_of_a_cluster_that_has_ended(
    folder: Path, options: tuple[str, ...], shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tail(folder, *options) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == [f"t{n}" for n in range(5 - shown, 5)]
    assert err == ended(folder)
    assert tail(folder, *options, "--json") == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == ROWS[5 - shown :]
    assert json.loads(err)["warning"] in ended(folder)


def test_rows_of_a_cluster_that_runs_need_no_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held = DataDir(folder)
    held.open()
    assert tail(folder, "-n", "1") == 0
    held.close()
    assert capsys.readouterr().err == ""


def test_new_rows_are_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waits: list[float] = []

    def sleep(wait_s: float) -> None:
        waits.append(wait_s)
        if len(waits) == 3:
            raise KeyboardInterrupt
        if len(waits) == 1:
            with (folder / "journal.jsonl").open("a") as file:
                file.write(f"{json.dumps({**ROWS[0], 'detail': 'new'})}\n")

    replace_sleep(monkeypatch, sleep)
    assert tail(folder, "-n", "1", "-f") == 130
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["t4", "new"]
    assert err == f"{ended(folder)}Interrupted\n"


def test_the_rows_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    page: dict[str, Any] = {"rows": ROWS[3:], "next": 9, "damaged": ["journal.jsonl:7: not JSON"]}
    with scripted_api({"GET /journal?last=2": page}) as api:
        assert main(["journal", "tail", "-n", "2", "--server", api.address]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[-1] for line in out.splitlines()] == ["t3", "t4"]
    assert err == "warning: the journal is damaged: journal.jsonl:7: not JSON\n"


def test_a_row_that_is_none_ends_the_command(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = {"rows": [{"kind": "topic_created"}], "next": 9, "damaged": []}
    with scripted_api({"GET /journal?last=20": page}) as api:
        assert main(["journal", "tail", "--server", api.address]) == 1
    assert capsys.readouterr().err.startswith("error: not a journal row: ")


def test_damage_is_named_once_and_not_without_end(capsys: pytest.CaptureFixture[str]) -> None:
    warnings = DamageWarnings()
    for _ in range(2):
        warnings.show(str(number) for number in range(20))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "warning: the journal is damaged: 0"
    assert len(lines) == 11
    assert lines[-1] == "warning: the journal is damaged: 10; further damage is not shown"
    warnings = DamageWarnings()
    for _ in range(2):
        warnings.show(("x",))
    assert capsys.readouterr().err == "warning: the journal is damaged: x\n"


def origin(**changes: Any) -> str:
    given = {"path": "j", "cluster": None, "is_written": False, "row_count": 1_234}
    return JournalOrigin(**{**given, "first_ms": None, "last_ms": None, **changes}).text


def test_where_rows_are_from_in_one_line() -> None:
    assert origin() == "Journal: j, 1,234 rows; no running klamm writes to this file"
    assert origin(is_written=True, row_count=1) == (
        "Journal: j, 1 row; a running klamm writes to this file"
    )
    assert origin(cluster="u") == "Journal: j, 1,234 rows; its cluster runs at u"
    times = origin(first_ms=1_000_000_000_000, last_ms=1_000_000_060_000)
    assert f" {time_zone()}; no running klamm" in times and " from 2001-09-09 " in times


def test_the_last_rows_of_a_long_journal_are_whole(tmp_path: Path) -> None:
    lines = [json.dumps({**ROWS[0], "seq": n}).encode() for n in range(2_000)]
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    assert last_rows(path, 3) == (lines[-3:], path.stat().st_size, ())


class OneRowParts(FileSource):
    """Reads one row after the other."""

    def after(self, place: int) -> JournalPart:
        return rows_after(self.path, place, max_bytes=1)


@pytest.mark.parametrize("kind", [FileSource, OneRowParts])
def test_rows_are_counted_while_they_are_read(folder: Path, kind: type[FileSource]) -> None:
    rows = CountedRows(kind(folder / "journal.jsonl"))
    for _ in range(2):
        assert [msgspec.to_builtins(row) for row in rows.rows()] == ROWS
    found = rows.origin
    assert (found.row_count, found.first_ms, found.last_ms) == (5, 0, 4)
    assert (found.path, found.cluster, found.is_written) == (
        str(folder / "journal.jsonl"),
        None,
        False,
    )
    with (folder / "journal.jsonl").open("a") as journal:
        journal.write(f"{json.dumps(ROWS[1])}\n")  # as in a copy of several files
    assert len(list(rows.rows())) == 6
    assert (rows.origin.first_ms, rows.origin.last_ms) == (0, 4)
    (folder / "journal.jsonl").write_text("")
    with pytest.raises(UsageError, match="has no journal rows"):
        list(CountedRows(FileSource(folder / "journal.jsonl")).rows())


def test_who_writes_a_journal(folder: Path) -> None:
    path = folder / "journal.jsonl"
    assert writer_of(path) == (False, None)
    held = DataDir(folder)
    held.open()
    assert writer_of(path) == (True, None)
    assert writer_of(folder / "copy.jsonl") == (False, None)
    for data_dir, writer in ((str(folder), (True, "u")), ("elsewhere", (True, None))):
        with scripted_api({"GET /status": {**STATUS, "data_dir": data_dir}}) as api:
            held.write_address(ServerAddress(f"http://{api.address}", os.getpid()))
            assert writer_of(path) == writer
            assert writer_of(folder / "copy.jsonl") == (False, None)
    assert writer_of(path) == (True, None), "it no longer answers"
    held.close()


def test_sources_that_contradict(folder: Path) -> None:
    path = folder / "journal.jsonl"
    for server, data_dir in (("h:1", None), (None, folder)):
        with pytest.raises(UsageError, match="give either --journal, or --server or --data-dir"):
            chosen_source(path, server, data_dir)
    with pytest.raises(UsageError, match="no such journal: "):
        chosen_source(folder / "none", None, None)
