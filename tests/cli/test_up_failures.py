"""`klamm up` under failures that end or degrade it: failed failovers, a full disk."""

from __future__ import annotations

import contextlib
import http.client
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from klamm.cli.status import status_lines
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.server.states import Status
from klamm.world.journal.journal import read_journal
from klamm.zk.znodes import TopicZNode
from tests.serving import Up, klamm_up
from tests.waiting import wait_until

ID = "s3nWlBdbSrOVXGRSwPAkdA"
DISK_BYTES = 3 << 20


def chroot_path(chroot: str) -> str:
    return f"/{chroot.rpartition('/')[2]}"


def create_topic(client: KazooClient, chroot: str, topic: str, topic_id: str | None) -> None:
    """Write a topic's znode as a tool does."""
    assignment = {TopicPartition(topic, 0): ReplicaAssignment((0, 1))}
    data = TopicZNode.encode(topic_id, assignment)
    client.create(chroot_path(chroot) + TopicZNode.path(topic), data)


@pytest.mark.slow
def test_failovers_that_always_fail_are_shown_and_end_up(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    args = ("--brokers", "2", "--zookeeper", chroot, "--quirks", "C2")
    with klamm_up(tmp_path, *args) as up:
        for topic in ("a", "b"):
            create_topic(zookeeper_client, chroot, topic, ID)
        zookeeper_client.delete(chroot_path(chroot) + "/controller")
        wait_until(lambda: status(up).failovers.failed >= 2)
        text = "\n".join(status_lines(status(up)))
        assert "Failovers:" in text and "already belongs to another topic" in text
        output = up.wait()
    assert up.process.returncode == 1
    (line,) = [line for line in output.splitlines() if line.startswith("error: ")]
    assert "no controller can take over: 8 consecutive failovers failed" in line
    assert "Traceback" not in output
    rows = read_journal(tmp_path / "journal.jsonl")
    assert 8 <= [row.kind for row in rows].count("event_failed") <= 12


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A separate file system of 3 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a file system cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(disk: Path) -> Path:
    """A file that takes all free space."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return ballast


def get(up: Up, path: str) -> bytes:
    """What the API answers; a command would take a second."""
    connection = http.client.HTTPConnection(up.url.removeprefix("http://"), timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read()


def status(up: Up) -> Status:
    return msgspec.json.decode(get(up, "/status"), type=Status)


def gauge(up: Up, name: str) -> float:
    lines = get(up, "/metrics").decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


@pytest.mark.slow
def test_with_a_full_disk_there_is_no_controller_until_it_has_space(
    chroot: str, zookeeper_client: KazooClient, small_disk: Path
) -> None:
    args = ("--brokers", "3", "--zookeeper", chroot)
    with klamm_up(small_disk, *args) as up:
        before = status(up).controller
        assert before is not None
        epoch = before.epoch
        create_topic(zookeeper_client, chroot, "known", None)
        wait_until(lambda: b'"known"' in get(up, "/topics"))
        ballast = fill(small_disk)
        create_topic(zookeeper_client, chroot, "t", None)
        wait_until(lambda: status(up).controller is None)
        assert "No space left on device" in str(status(up).journal.failure)
        assert not zookeeper_client.exists(chroot_path(chroot) + "/controller")
        assert gauge(up, "klamm_journal_writable") == 0.0
        text = "\n".join(status_lines(status(up)))
        assert "Controller:  none" in text
        (line,) = [line for line in text.splitlines() if line.startswith("Journal:")]
        assert f"Journal:     {small_disk}/" in line
        assert "cannot be written: No space left on device, for " in line
        assert line.endswith(" s; no controller is elected until the journal is writable")
        # Reads continue.
        assert b'"known"' in get(up, "/topics")

        ballast.unlink()
        controller = wait_until(lambda: status(up).controller)
        assert controller.epoch > epoch
        assert gauge(up, "klamm_journal_writable") == 1.0
        online = {"OnlinePartition": 2}
        wait_until(lambda: getattr(status(up).controller, "partitions", None) == online)
        output = up.end()
    assert up.process.returncode == 130
    warnings = [line for line in output.splitlines() if line.startswith("warning: ")]
    (begins,) = [line for line in warnings if "no controller is elected until" in line]
    (ends,) = [line for line in output.splitlines() if "can be written again after" in line]
    assert ends.startswith("info: ") and output.index(begins) < output.index(ends)
    assert "Traceback" not in output and "Logging error" not in output
    lines = (small_disk / "journal.jsonl").read_bytes().splitlines()
    kinds = [msgspec.json.decode(line)["kind"] for line in lines]
    assert "journal_rows_lost" not in kinds
    assert kinds.count("controller_resigned") >= 1
