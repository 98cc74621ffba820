"""klamm up --segments: real files in the data directory, found again, and what is refused."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from klamm.cluster.journal import Kind
from klamm.world.journal.journal import read_journal
from tests.serving import klamm, klamm_up
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
ARGS = ("--brokers", "2", "--segments", "--config", "log.dirs=d0,d1")


def test_logs_are_files_and_are_found_again(tmp_path: Path) -> None:
    topic = ("--create", "--topic", "t", "--partitions", "2", "--replication-factor", "2")
    with klamm_up(tmp_path, *ARGS) as up:
        created = up.run("topics", *topic, "--bootstrap-server", up.url)
        assert created.returncode == 0, created.stderr
        up.ok(
            "produce", "--topic", "t", "--partition", "0", "--records", "10", "--record-size", "9"
        )
        up.end()
    folders = [tmp_path / "brokers" / str(id_) / dir_ for id_ in range(2) for dir_ in ("d0", "d1")]
    names = sorted(path.name for folder in folders for path in folder.glob("t-*"))
    assert names == ["t-0", "t-0", "t-1", "t-1"]
    assert all((folder / ".kafka_cleanshutdown").exists() for folder in folders)
    with klamm_up(tmp_path, *ARGS) as up:
        read = ("--topic", "t", "--partition", "0", "--from-beginning", "--max-messages", "10")
        assert up.ok("consume", *read).count("k" * 9) == 10
        held = folders[0] / ".lock"
        with held.open("r+") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_damaged_replica_is_restored_and_the_rest_serves(tmp_path: Path) -> None:
    """A flipped magic byte used to end klamm up."""
    topic = ("--create", "--topic", "t", "--partitions", "1", "--replication-factor", "2")
    with klamm_up(tmp_path, *ARGS) as up:
        created = up.run("topics", *topic, "--bootstrap-server", up.url)
        assert created.returncode == 0, created.stderr
        up.ok("produce", "--topic", "t", "--records", "10", "--record-size", "9")
        up.ok("broker", "stop", "1")
        up.end()
    (path,) = (tmp_path / "brokers" / "1").glob("d*/t-0/*.log")
    data = bytearray(path.read_bytes())
    data[16] = 1
    path.write_bytes(data)
    with klamm_up(tmp_path, *ARGS) as up:
        wait_until(lambda: up.json("status")["brokers"][0]["under_replicated"] == 0, 30)
        rows = read_journal(tmp_path / "journal.jsonl")
        found = [row for row in rows if row.kind == Kind.LOG_REPAIRED and row.replica == 1]
        assert [row.outcome for row in found] == ["taken_offline", "cut_to_restore"]
        assert str(path) in (found[0].detail or "")
        read = ("--topic", "t", "--from-beginning", "--max-messages", "10")
        assert up.ok("consume", *read).count("k" * 9) == 10


def test_a_directory_that_another_holds_or_owns_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "brokers" / "0" / "d0"
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = klamm(tmp_path, "up", "--port", "0", *ARGS)
    assert refused.returncode == 1
    assert f"Failed to acquire lock on file .lock in {folder}" in refused.stderr
    (folder / "meta.properties").write_text("cluster.id=other\nversion=0\nbroker.id=0\n")
    refused = klamm(tmp_path, "up", "--port", "0", *ARGS)
    assert refused.returncode == 1
    assert "doesn't match stored clusterId Some(other) in meta.properties" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("log_dirs", ["/var/../kafka", "d0,../d1"])
def test_log_dirs_elsewhere_are_refused(tmp_path: Path, log_dirs: str) -> None:
    config = f"log.dirs={log_dirs}"
    args = ("--brokers", "1", "--segments", "--config", config)
    refused = klamm(tmp_path, "up", "--port", "0", *args)
    assert refused.returncode == 2
    first, hint = refused.stderr.splitlines()
    refused_dir = log_dirs.split(",")[-1]
    assert first == (
        f"error: log directory {refused_dir}: with segment files, log directories must not "
        "contain '..'"
    )
    assert hint.startswith("hint: set log.dirs to folder names, such as d0,d1")
