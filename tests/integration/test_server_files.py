"""server/journal_tail.py and server/data_dir.py: rows of a growing file, a lock, an address."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.server.data_dir import (
    DataDir,
    ServerAddress,
    default_data_dir,
    is_held,
    read_address,
)
from klamm.server.journal_tail import last_rows, rows_after, torn_line
from tests.disk_limits import files_limited_to
from tests.waiting import replace_sleep


def row(number: int, width: int = 1) -> bytes:
    fields = {"v": 1, "run_id": "r", "t_ms": 0, "seq": number, "controller": 1, "epoch": 1}
    return msgspec.json.encode({**fields, "kind": "event", "detail": "x" * width})


def rows(first: int, last: int, width: int = 1) -> list[bytes]:
    return [row(number, width) for number in range(first, last + 1)]


def text(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("width", [1, 1000, 70_000])
@pytest.mark.parametrize("count", [0, 1, 3, 9, 10, 11, 10_000])
def test_the_last_rows_of_a_file_are_read(tmp_path: Path, count: int, width: int) -> None:
    path = tmp_path / "journal"
    whole = text(rows(1, 10, width))
    path.write_bytes(whole)
    part = last_rows(path, count)
    assert part.lines == rows(1, 10, width)[10 - min(count, 10) :]
    assert part.next == len(whole)


def test_a_row_being_written_is_left_out_until_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    one, two, three, four = rows(1, 2) + rows(3, 3, 100_000) + rows(4, 4)
    path.write_bytes(text([one, two]) + three[:90_000])
    part = last_rows(path, 10)
    found = part.lines, part.next, part.damaged
    assert found == ([one, two], len(text([one, two])), ())
    assert rows_after(path, part.next) == ([], part.next, ())
    with path.open("ab") as file:
        file.write(three[90_000:] + b"\n" + text([four]))
    after = rows_after(path, part.next)
    assert after.lines == [three, four]
    assert after.next == path.stat().st_size
    assert rows_after(path, after.next) == ([], after.next, ())


def test_rows_after_come_in_pages_that_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(text(rows(1, 500, 37)))
    place, seen = 0, []
    while (part := rows_after(path, place, max_bytes=100)).lines:
        assert len(part.lines) == 1
        seen += part.lines
        place = part.next
    assert seen == rows(1, 500, 37)


def test_a_row_longer_than_a_page(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(text(rows(1, 2, 1000)))
    assert rows_after(path, 0, max_bytes=10) == (rows(1, 1, 1000), len(text(rows(1, 1, 1000))), ())


def test_damaged_lines_are_left_out_and_named(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    one, two, three = rows(1, 3)
    torn_and_glued = one[:20] + two
    spoilt = two.replace(b'"x"', b'"\xff"')
    path.write_bytes(text([one, torn_and_glued, b"", b"{}", two, spoilt, b"\0" * 90_000, three]))
    named = (
        "journal.jsonl:2: not json",
        "journal.jsonl:3: not json",
        "journal.jsonl:4: not a row",
        "journal.jsonl:6: not json",
        "journal.jsonl:7: not json",
    )
    size = path.stat().st_size
    assert rows_after(path, 0) == ([one, two, three], size, named)
    assert last_rows(path, 10) == ([one, two, three], size, named)
    assert rows_after(path, len(one) + 1, max_bytes=10) == (
        [two],
        size - len(text([spoilt, b"\0" * 90_000, three])),
        named[:3],
    )


def test_a_last_row_without_its_newline_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    *first, last = rows(1, 3)
    whole = text([*first, last])
    path.write_bytes(whole[:-1])
    assert last_rows(path, 2) == ([first[-1], last], len(whole), ())
    assert last_rows(path, 0) == ([], len(whole), ())
    assert rows_after(path, 0) == ([*first, last], len(whole), ())
    assert torn_line(path) == ()
    assert rows_after(path, len(whole)) == ([], len(whole), ())
    more = text(rows(4, 4))
    path.write_bytes(whole + more)
    assert rows_after(path, len(whole)) == (rows(4, 4), len(whole + more), ())
    path.write_bytes(whole[:-2])
    assert rows_after(path, 0) == (first, len(text(first)), ())
    assert last_rows(path, 1) == (first[-1:], len(text(first)), ())
    assert torn_line(path) == ("journal:3: torn",)


def test_no_journal_has_no_rows(tmp_path: Path) -> None:
    assert last_rows(tmp_path / "none", 5) == ([], 0, ())
    assert rows_after(tmp_path / "none", 7) == ([], 7, ())
    (tmp_path / "empty").touch()
    assert last_rows(tmp_path / "empty", 5) == ([], 0, ())


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    first, second = DataDir(tmp_path / "d"), DataDir(tmp_path / "d")
    first.open()
    first.write_address(ServerAddress("http://127.0.0.1:1", 42, "t"))
    running = r"process 42 \(http://127.0.0.1:1\) is running in"
    for take in (second.open, second.check_not_held):
        with pytest.raises(EnvironmentProblem, match=running):
            take()
    assert read_address(tmp_path / "d") == ServerAddress("http://127.0.0.1:1", 42, "t")
    first.close()
    first.close()
    assert read_address(tmp_path / "d") is None
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "klamm.lock").touch()  # of a process that was killed
    second.check_not_held()
    second.open()
    second.close()


def test_a_reader_that_looks_at_the_lock_does_not_prevent_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = os.open(tmp_path / "klamm.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(reader, fcntl.LOCK_SH)
    replace_sleep(monkeypatch, lambda _: os.close(reader))
    starting = DataDir(tmp_path)
    starting.open()
    assert is_held(tmp_path)
    starting.close()
    assert not is_held(tmp_path)


def test_the_address_file_is_for_this_user_alone(tmp_path: Path) -> None:
    held = DataDir(tmp_path)
    held.open()
    held.write_address(ServerAddress("http://127.0.0.1:1", 42, "t"))
    held.write_address(ServerAddress("http://127.0.0.1:2", 42, "t"))
    assert stat.S_IMODE((tmp_path / "server.json").stat().st_mode) == 0o600
    assert b'"http://127.0.0.1:2"' in (tmp_path / "server.json").read_bytes()
    held.close()


def test_a_stale_address_goes_when_the_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text('{"url":"http://127.0.0.1:1","pid":1}')
    held = DataDir(tmp_path)
    held.open()
    assert read_address(tmp_path) is None
    held.close()


def test_a_temporary_directory_is_removed() -> None:
    held = DataDir(None)
    held.open()
    (held.path / "file").touch()
    held.close()
    assert not held.path.exists()


def test_temporary_segments_begin_and_end_with_nothing(tmp_path: Path) -> None:
    held, folder = DataDir(tmp_path), tmp_path / "temporary-segments"
    folder.mkdir()
    (folder / "of a process that was killed").touch()
    with held.temporary_segments() as given:
        assert given == folder and not folder.exists()
        given.mkdir()
        (given / "file").touch()
    assert not folder.exists()
    with held.temporary_segments():
        pass  # no broker has started


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "d"):
        with pytest.raises(EnvironmentProblem, match="cannot be used: Not a directory"):
            DataDir(path).open()


def test_what_was_made_for_nothing_is_removed(tmp_path: Path) -> None:
    held = DataDir(tmp_path / "a" / "b")
    held.open()
    assert (tmp_path / "a" / "b").exists()
    held.close()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    for path in (tmp_path / "mine", tmp_path / "mine" / "new"):
        held = DataDir(path)
        held.open()
        (held.path / "journal.jsonl").touch()
        held.close()
        assert [file.name for file in path.iterdir() if file.is_file()] == ["journal.jsonl"]


def test_a_lock_file_that_its_holder_removes_is_not_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (DataDir(tmp_path) for _ in range(3))
    first.open()
    flock = fcntl.flock

    def when_the_first_ends(lock: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        first.close()
        flock(lock, how)

    monkeypatch.setattr(fcntl, "flock", when_the_first_ends)
    second.open()
    with pytest.raises(EnvironmentProblem, match="another klamm is running in"):
        third.open()
    second.close()


def test_a_broken_address_file_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text("{")
    with pytest.raises(UsageError, match=r"server\.json cannot be read"):
        read_address(tmp_path)


def test_the_data_directory_is_that_of_the_environment_or_in_the_home() -> None:
    assert default_data_dir({"KLAMM_DATA_DIR": "/x"}) == Path("/x")
    assert default_data_dir({}) == Path(os.path.expanduser("~/.klamm"))


def test_runs_are_counted_also_if_the_one_before_was_killed(tmp_path: Path) -> None:
    for expected in range(3):
        held = DataDir(tmp_path)
        held.open()
        assert held.next_incarnation() == expected
        # A run that was killed while it wrote leaves this behind.
        (tmp_path / "runs.tmp").write_text("")
        held.close()
    with files_limited_to(0), pytest.raises(EnvironmentProblem, match="runs cannot be written: "):
        DataDir(tmp_path).next_incarnation()
    assert (tmp_path / "runs").read_text() == "3\n"
    (tmp_path / "runs").write_text("many")
    with pytest.raises(EnvironmentProblem, match="runs does not contain a number"):
        DataDir(tmp_path).next_incarnation()
