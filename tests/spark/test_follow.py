"""A journal that grows: each line is read once, whatever happens between."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.engines import Engine
from klamm.replay.event_table import Manifest, is_table, open_table, read_manifest, some_damaged
from klamm.replay.follow import follow, open_followed
from klamm.replay.opening import inspect_paths
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)
DEADLINE_S = 100


def row(seq: int) -> bytes:
    return b'{"v":1,"run_id":"r","t_ms":1,"seq":%d,"controller":0,"epoch":1,"kind":"event"}\n' % seq


def rows(first: int, last: int) -> bytes:
    return b"".join(map(row, range(first, last + 1)))


class Following:
    """A journal that is being followed in another thread."""

    def __init__(self, engine: Engine, journal: Path, table: Path) -> None:
        self.read = 0
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        found = open_followed(journal, table)
        self._done: Future[Manifest] = self._pool.submit(
            follow, engine, found, table, self._stop, on_batch=self._count
        )

    def _count(self, count: int) -> None:
        self.read += count

    def wait_for(self, count: int) -> None:
        wait_until(lambda: self.read >= count or self._done.done(), DEADLINE_S)
        # What was stored just before a stop may be stored again.
        assert self.read >= count

    def stopped(self) -> Manifest:
        self._stop.set()
        return self._done.result(DEADLINE_S)

    def failed(self) -> BaseException | None:
        return self._done.exception(DEADLINE_S)

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown()


@pytest.fixture
def follower(duckdb: Engine, tmp_path: Path) -> Callable[[Path], Following]:
    return lambda journal: Following(duckdb, journal, tmp_path / "table")


@contextmanager
def following(start: Callable[[Path], Following], journal: Path) -> Iterator[Following]:
    started = start(journal)
    try:
        yield started
    finally:
        started.close()


def append(journal: Path, data: bytes) -> None:
    with journal.open("ab") as file:
        file.write(data)


def rotate(journal: Path) -> None:
    """Rotate as klamm up does with a large journal."""
    rotated = journal.with_name(f"{journal.name}.{journal.stat().st_size:020d}.gz")
    rotated.write_bytes(gzip.compress(journal.read_bytes()))
    journal.unlink()


def seqs_and_lines(duckdb: Engine, table: Path) -> list[tuple[int, int]]:
    events = open_table(duckdb, table).events
    found = duckdb.fetch(f"SELECT seq, line FROM {events} ORDER BY line, seq").rows
    return [(seq, line) for seq, line in found]


def test_stop_and_restart_give_equal_totals(
    duckdb: Engine, follower: Callable[[Path], Following], tmp_path: Path
) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    append(journal, rows(1, 5) + row(6)[:30])
    with following(follower, journal) as first:
        first.wait_for(5)
        assert not is_table(table)
        append(journal, row(6)[30:] + b"nonsense\n" + rows(7, 8) + row(9)[:-1])
        first.wait_for(8)
        assert first.stopped().rows == 8
    lines = [(n, n) for n in range(1, 7)] + [(7, 8), (8, 9)]
    assert seqs_and_lines(duckdb, table) == lines
    append(journal, b"\n" + rows(10, 25))
    rotate(journal)
    append(journal, rows(26, 40))
    with following(follower, journal) as second:
        second.wait_for(32)
        with pytest.raises(UsageError, match=r"is incomplete until the command that follows"):
            inspect_paths([table])
        manifest = second.stopped()
    assert seqs_and_lines(duckdb, table) == lines + [(n, n + 1) for n in range(9, 41)]
    (source,) = manifest.sources
    assert (source.rows, source.damaged) == (40, {"not json": 1})
    assert source.files[0].size == journal.stat().st_size
    (run,) = source.runs
    assert (run.rows, run.missing, run.repeated) == (40, 0, 0)
    assert [at["line"] for at in some_damaged(duckdb, table, 9)] == [7]


def test_starting_and_storing_are_no_idle_time(duckdb: Engine, tmp_path: Path) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    append(journal, rows(1, 5))
    found = open_followed(journal, table)
    manifest = follow(duckdb, found, table, threading.Event(), idle_timeout_s=0)
    assert [source.rows for source in manifest.sources] == [5]
    # A journal that began anew gives no more rows, and the table stays the whole one that it was.
    journal.write_bytes(rows(11, 12))
    with pytest.raises(EnvironmentProblem, match="was truncated") as caught:
        follow(duckdb, open_followed(journal, table), table, threading.Event(), idle_timeout_s=0)
    assert caught.value.hint is not None and caught.value.hint.startswith(f"{table} has the rows")
    assert inspect_paths([table]).table == table
    assert read_manifest(table) == manifest


def test_a_batch_that_was_stored_before_a_crash_replaces_itself(
    duckdb: Engine, follower: Callable[[Path], Following], tmp_path: Path
) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    append(journal, rows(1, 3))
    with following(follower, journal) as first:
        first.wait_for(3)
        first.stopped()
    followed = json.loads((table / "followed.json").read_bytes())
    (table / "followed.json").write_text(json.dumps({"journal": followed["journal"]}))
    append(journal, row(4))
    with following(follower, journal) as second:
        second.wait_for(4)
        assert second.stopped().rows == 4
    assert seqs_and_lines(duckdb, table) == [(n, n) for n in range(1, 5)]


def test_a_batch_that_could_not_be_stored_is_read_again(duckdb: Engine, tmp_path: Path) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    append(journal, rows(1, 3))
    found = open_followed(journal, table)
    (table / "damaged").write_bytes(b"")  # where a directory has to be made
    with pytest.raises(FileExistsError):
        follow(duckdb, found, table, threading.Event(), idle_timeout_s=0)
    (table / "damaged").unlink()
    found = open_followed(journal, table)
    assert follow(duckdb, found, table, threading.Event(), idle_timeout_s=0).rows == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: os.truncate(path, 100), "was truncated"),
        (lambda path: path.write_bytes(rows(11, 20)), "was truncated"),
        (lambda path: os.replace(shutil.copy(path, f"{path}.new"), path), "was replaced"),
        (lambda path: path.rename(f"{path}.1"), "no longer exists"),
    ],
    ids=["truncated", "written anew", "replaced", "removed"],
)
def test_a_journal_that_is_not_the_same_any_more_is_an_error(
    follower: Callable[[Path], Following],
    tmp_path: Path,
    change: Callable[[Path], object],
    message: str,
) -> None:
    journal = tmp_path / "journal.jsonl"
    append(journal, rows(1, 5))
    with following(follower, journal) as first:
        first.wait_for(5)
        change(journal)
        error = first.failed()
    assert isinstance(error, EnvironmentProblem)
    assert str(error).startswith(str(journal)) and message in str(error)
    assert read_manifest(tmp_path / "table").rows == 5
    assert not (tmp_path / "table" / "next").exists()


def test_what_cannot_be_followed_is_refused(tmp_path: Path) -> None:
    journal, other = tmp_path / "journal.jsonl", tmp_path / "journal2.jsonl"
    for path in (journal, other):
        path.write_bytes(row(int(path is journal)))
    (tmp_path / "full").mkdir()
    with pytest.raises(UsageError, match="takes one journal"):
        open_followed(tmp_path, tmp_path / "table")
    with pytest.raises(UsageError, match="already exists and does not follow"):
        open_followed(journal, tmp_path / "full")
    assert not (tmp_path / "table").exists()
    open_followed(journal, tmp_path / "table")
    with pytest.raises(UsageError, match=r"follows \S+/journal.jsonl, not \S+/journal2.jsonl"):
        open_followed(other, tmp_path / "table")
    compressed = tmp_path / "journal.jsonl.gz"
    compressed.write_bytes(gzip.compress(row(1)))
    with pytest.raises(UsageError, match="is compressed and cannot be followed"):
        open_followed(compressed, tmp_path / "another")
    assert not (tmp_path / "another").exists()
    (tmp_path / "table/followed.json").write_bytes(b"{")
    with pytest.raises(UsageError, match=r"followed.json is damaged"):
        open_followed(journal, tmp_path / "table")


def test_a_journal_without_a_whole_line_gives_no_table(
    follower: Callable[[Path], Following], tmp_path: Path
) -> None:
    journal = tmp_path / "journal.jsonl"
    append(journal, row(1)[:-1])
    with (
        following(follower, journal) as first,
        pytest.raises(EnvironmentProblem, match="no lines were read from"),
    ):
        first.stopped()
    assert not is_table(tmp_path / "table")
    append(journal, b"\n")
    with following(follower, journal) as second:
        second.wait_for(1)
        assert second.stopped().rows == 1
