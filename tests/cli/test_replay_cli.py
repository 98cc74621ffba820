"""`klamm replay ingest`: what it prints, how it ends, and what it leaves behind."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from klamm.cli.main import main
from klamm.cli.replay_ingest import manifest_lines
from klamm.cluster.errors import UsageError
from klamm.cluster.journal import SCHEMA_VERSION
from klamm.replay.event_table import (
    FileSummary,
    Manifest,
    OutOfOrder,
    RunCoverage,
    SourceSummary,
)
from klamm.replay.sources.registry import find_logs
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
CUT = "truncated zstd, rest of the file unread"


def row(seq: int, detail: str = "x") -> str:
    fields = {"v": SCHEMA_VERSION, "run_id": "r", "t_ms": 1000, "seq": seq, "controller": 0}
    return json.dumps({**fields, "epoch": 1, "kind": "event", "detail": detail}) + "\n"


def zstd(data: bytes) -> bytes:
    return pa.compress(data, "zstd", asbytes=True)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.write_text("".join(row(n) for n in range(1, 4)) + '{"v":1,\n')
    return path


@contextlib.contextmanager
def started(*args: str, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    command = [*prefix, sys.executable, "-m", "klamm", "replay", "ingest", *args]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("content", "args", "message"),
    [
        (None, [], "does not exist"),
        (b"", [], "is empty"),
        (b"hello\n", [], "is not a log that klamm knows"),
        (b'{"a":1}\n', [], "is not a log that klamm knows"),
        (row(1), ["--timezone", "Mars/Phobos"], "unknown time zone 'Mars/Phobos'"),
        (row(1), ["--timezone", "../etc"], "unknown time zone '../etc'"),
        (row(1), ["SAME"], "is given twice"),
        (row(1), ["COPY"], "is a copy of "),
        (row(1), ["--out", "."], "already exists"),
        (row(1), ["--follow", "--overwrite"], "--follow cannot be combined with --overwrite"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    content: bytes | str | None,
    args: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path, copy = tmp_path / "events", tmp_path / "copy"
    if content is not None:
        for file in (path, copy):
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
    places = {"SAME": str(path), "COPY": str(copy)}
    given = [places.get(arg, arg) for arg in args]
    out = str(tmp_path / "table")
    assert main(["replay", "ingest", str(path), "--out", out, *given]) == 2
    said = capsys.readouterr()
    assert said.out == "" and message in said.err.splitlines()[0]
    assert said.err.count("\n") <= 2
    assert not (tmp_path / "table").exists() and not (tmp_path / "table.partial").exists()


def test_a_directory_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("hello\n")
    (tmp_path / "notes" / "empty").touch()
    out = str(tmp_path / "table")
    assert main(["replay", "ingest", str(tmp_path / "notes"), "--out", out]) == 2
    assert "error: no logs found in " in capsys.readouterr().err


def test_servers_may_have_equal_snapshots(tmp_path: Path) -> None:
    for server in ("one", "two"):
        (tmp_path / server).mkdir()
        (tmp_path / server / "snapshot.0").write_bytes(b"ZKSN\0\0\0\2" + b"\xff" * 8)
    (found,) = find_logs([tmp_path])
    assert [path.parent.name for path in found.paths] == ["one", "two"]
    with pytest.raises(UsageError, match=r"one/snapshot\.0 is given twice"):
        find_logs([tmp_path, tmp_path / "one"])


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_file_beside_its_compressed_copy_is_refused(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = "".join(row(n) for n in range(1, 2_000)).encode()
    packed = tmp_path / "journal.jsonl.packed"
    (tmp_path / "journal.jsonl").write_bytes(whole)
    packed.write_bytes(pack(whole))
    with pytest.raises(UsageError, match=r"journal\.jsonl\.packed is a copy of \S+/journal\.jsonl"):
        find_logs([tmp_path])
    for other in (pack(whole[:-1]), pack(whole)[:-9]):
        packed.write_bytes(other)
        (found,) = find_logs([tmp_path])
        assert [path.name for path in found.paths] == ["journal.jsonl", "journal.jsonl.packed"]


def test_a_journal_brings_its_rotated_files_along(tmp_path: Path) -> None:
    whole = "".join(row(n) for n in range(1, 31)).encode().splitlines(keepends=True)
    names, end = [], 0
    for n in (0, 10):
        rotated = b"".join(whole[n : n + 10])
        end += len(rotated)
        names.append(f"journal.jsonl.{end:020d}")
        (tmp_path / names[-1]).write_bytes(rotated)
    # A crash left the first both plain and compressed, and the second half compressed.
    packed = tmp_path / f"{names[0]}.gz"
    packed.write_bytes(gzip.compress(b"".join(whole[:10])))
    (tmp_path / f"{names[1]}.gz.tmp").write_bytes(packed.read_bytes()[:40])
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(whole[20:]))
    expected = [packed.name, names[1], "journal.jsonl"]
    for given in ([journal], [tmp_path / names[1], journal], [journal, packed]):
        (found,) = find_logs(given)
        assert sorted(path.name for path in found.paths) == sorted(expected)
    (found,) = find_logs([tmp_path])
    assert sorted(path.name for path in found.paths) == sorted(expected)
    journal.write_bytes(b"")
    (found,) = find_logs([journal])
    assert [path.name for path in found.paths] == expected[:2]


def test_what_is_no_table_is_never_replaced(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").mkdir()
    args = ["replay", "ingest", str(journal), "--overwrite", "--out"]
    assert main([*args, str(tmp_path / "precious")]) == 2
    assert "is not an event table and is not overwritten" in capsys.readouterr().err
    (tmp_path / "table.partial").mkdir()
    assert main([*args, str(tmp_path / "table")]) == 2
    assert "another ingest is running, or one was killed" in capsys.readouterr().err
    assert (tmp_path / "precious").is_dir() and (tmp_path / "table.partial").is_dir()


def test_ingest_reports_what_it_read_as_json(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table"
    assert main(["replay", "ingest", str(journal), "--out", str(table), "--json"]) == 0
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert (said["table"], said["schema_version"]) == (str(table), 1)
    assert said["sources"][0]["damaged"] == {"not json": 1}
    assert said["some_damaged"][0]["line"] == 4
    assert [json.loads(line)["note"].split(":")[0] for line in err.splitlines()] == [
        "read journal",
        "write names",
        "count events",
    ]


def test_a_step_that_takes_long_is_named(
    journal: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("klamm.cli.waiting.PLAIN_AFTER_S", 0.0)
    assert main(["replay", "ingest", str(journal), "--out", str(tmp_path / "table")]) == 0
    assert "running step: read journal\n" in capsys.readouterr().err


def test_ingest_reports_what_it_read_as_text() -> None:
    order = OutOfOrder("f", 3, 1, after=2)
    run = RunCoverage("r", 3, 1, 2, 1000, 2000, missing=1, repeated=0, out_of_order=order)
    kafka = RunCoverage("k", 1, 0, 0, 1000, 1000, missing=None, repeated=None)
    files = [FileSummary("f", 9, "")]
    sources = [
        SourceSummary("journal", files, 3000, {}, {"torn": 1}, [run], 2.0),
        SourceSummary("controller.log", files * 2, 1, {}, {CUT: 1}, [kafka], 0.5, 1.25),
        SourceSummary("zookeeper", files, 5, {}, {"lost transactions": 2}, [], 1.0),
    ]
    damaged = [{"file": "f", "line": 4, "problem": "torn", "text": '{"v'}]
    assert list(manifest_lines(Manifest(1, sources), damaged)) == [
        "journal: 3,000 events from 1 file in 2.0 s (1,500 per second)",
        "  run r: 1970-01-01 00:00:01.000 to 1970-01-01 00:00:02.000 UTC, "
        "controller epochs 1 to 2, 1 row missing",
        "  out of order: epoch 1 follows epoch 2 at f:3; replayed in order of sequence numbers",
        "  damaged, torn: 1 line",
        "controller.log: 1 event from 2 files in 0.5 s (2 per second), and 1.2 s to find the "
        "predecessor of each event",
        "  run k: 1970-01-01 00:00:01.000 to 1970-01-01 00:00:01.000 UTC",
        f"  damaged, {CUT}: 1 file",
        "zookeeper: 5 events from 1 file in 1.0 s (5 per second)",
        "  lost transactions: 2 runs",
        '  f:4: torn: {"v',
    ]


def test_a_full_disk_leaves_no_table(tmp_path: Path) -> None:
    disk, journal = tmp_path / "disk", tmp_path / "journal.jsonl"
    disk.mkdir()
    journal.write_text("".join(row(n, os.urandom(500).hex()) for n in range(1, 3_000)))
    inside = f'mount -t tmpfs -o size=300k none {disk} && "$@"; code=$?; ls {disk}; exit $code'
    unshare = ("unshare", "-rm", "sh", "-c")
    if subprocess.run([*unshare, "mount -t tmpfs none /mnt"], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    prefix = (*unshare, inside, "sh")
    with started(str(journal), "--out", str(disk / "t"), prefix=prefix) as ingest:
        out, err = ingest.communicate(timeout=110)
    assert (ingest.returncode, out) == (1, "")
    last = err.splitlines()[-2:]
    assert last[0] == f"error: no space left on the disk while writing {disk}/t.partial"
    assert last[1].startswith("hint: ")


def stops_while_it_writes(ingest: subprocess.Popen[str], folder: Path) -> bool:
    """Stop the process; let it go on, and return False, if it has not begun to write events.

    However busy the machine is, the process does not end before the next signal.
    """
    ingest.send_signal(signal.SIGSTOP)
    if (folder / "events").exists():
        return True
    ingest.send_signal(signal.SIGCONT)
    assert ingest.poll() is None, "it ended before it was seen to write"
    return False


def test_ctrl_c_leaves_nothing_and_says_so_in_one_line(tmp_path: Path) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    with journal.open("w") as file:
        for n in range(1, 400_000):
            file.write(row(n))
    with started(str(journal), "--out", str(table)) as ingest:
        wait_until(lambda: stops_while_it_writes(ingest, tmp_path / "table.partial"), 60)
        ingest.send_signal(signal.SIGINT)
        ingest.send_signal(signal.SIGCONT)
        out, err = ingest.communicate(timeout=60)
    assert (ingest.returncode, out) == (130, ""), err
    assert err.splitlines()[-1] == "Interrupted"
    assert [path.name for path in tmp_path.iterdir()] == ["journal.jsonl"]


def test_ctrl_c_ends_what_is_followed_and_makes_the_table_whole(tmp_path: Path) -> None:
    journal, table = tmp_path / "journal.jsonl", tmp_path / "table"
    journal.write_text(row(1) + row(2) + row(3)[:20])
    with started(str(journal), "--out", str(table), "--follow", "--json") as ingest:
        stored = table / "events" / "source=1" / "batch=0"
        wait_until(lambda: stored.exists() or ingest.poll() is not None, 100)
        ingest.send_signal(signal.SIGINT)
        out, err = ingest.communicate(timeout=100)
    assert ingest.returncode == 130, err
    assert json.loads(err.splitlines()[-1])["error"]["message"].endswith("events read so far")
    assert json.loads(out)["sources"][0]["rows"] == 2
    assert (table / "manifest.json").exists()
