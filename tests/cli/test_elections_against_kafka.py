"""Kafka 2.8.2's own election tools and klamm's, side by side: same bytes and znodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.cli.main import main
from klamm.tools.elections.command import run_election_command
from klamm.world.kafka.jars import kafka_libs
from tests.cli.test_reassign_against_kafka import without_frames
from tests.cli.test_topics_against_kafka import znodes
from tests.unit.tools.election_world import Answers
from tests.unit.tools.vectors import memory_server, services

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]

PREFERRED = "kafka.admin.PreferredReplicaLeaderElectionCommand"
ELECTION = "kafka.admin.LeaderElectionCommand"


def partitions(*pairs: tuple[str, int]) -> object:
    return {"partitions": [{"topic": topic, "partition": number} for topic, number in pairs]}


FILES: dict[str, object] = {
    "one": partitions(("t0", 0)),
    "few": partitions(("x", 1), ("t1", 1), ("t0", 0)),
    "many": partitions(("x", 1), *((f"t{n}", p) for n in range(3) for p in (0, 1, 2))),
    "unknown": partitions(*((f"x{n}", n) for n in range(5))),
    "twice": partitions(*((f"t{n}", 0) for n in range(6)), *((f"t{n}", 0) for n in range(6))),
    "nothing": {},
    "none": partitions(),
    "no_partition": {"partitions": [{"topic": "a"}]},
    "number": 5,
}
LINES = [
    *(f"--path-to-json-file {name}" for name in (*FILES, "absent")),
    "",
    "--zookeeper w:1",
    "--help",
    "--version",
    "--bootstrap-server s:1",
    "--admin.config x",
    "--nope",
]
ELECTION_LINES = [
    "--version",
    "--help",
    "",
    "--topic x",
    "--bootstrap-server s:1",
    "--bootstrap-server s:1 --election-type x",
    "--bootstrap-server s:1 --election-type preferred --topic t",
    "--bootstrap-server s:1 --election-type unclean --all-topic-partitions --partition 1",
    "--bootstrap-server s:1 --election-type unclean --topic t --partition x",
    "--bootstrap-server s:1 --election-type zzz --all-topic-partitions",
    *(
        f"--bootstrap-server s:1 --election-type PREferred --path-to-json-file {name}"
        for name in ("twice", "nothing", "no_partition", "number", "absent")
    ),
    "--bootstrap-server s:1 --election-type unclean --all-topic-partitions --admin.config absent",
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_text(json.dumps(content))
    return tmp_path


def words(line: str, files: Path) -> list[str]:
    given = line.split()
    return [
        str(files / word) if before in ("--path-to-json-file", "--admin.config") else word
        for before, word in zip(["", *given], given, strict=False)
    ]


def test_preferred_elections(
    chroot: str, zookeeper_client: KazooClient, capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    root = chroot[chroot.index("/") :]
    for name in ("kafka", "klamm"):
        for number in range(3):
            path = f"{root}/{name}/brokers/topics/t{number}"
            topic = b'{"version":3,"partitions":{"0":[0,1],"1":[1]}}'
            zookeeper_client.create(path, topic, makepath=True)
            for partition in (0, 1):
                zookeeper_client.create(f"{path}/partitions/{partition}", makepath=True)
    for line in LINES:
        args = words(line, files)
        expected = run_tool(PREFERRED, ["--zookeeper", f"{chroot}/kafka", *args])
        for attempt in (1, 2):
            klamm = ["preferred-replica-election", "--yes", "--zookeeper", f"{chroot}/klamm"]
            code = main([*klamm, *args])
            printed = capsys.readouterr()
            assert printed.out == without_frames(expected.stdout), line
            assert code == expected.returncode, line
            if line != "--help":
                assert printed.err == without_causes(expected.stderr), line
            found = [contents(zookeeper_client, f"{root}/{name}") for name in ("klamm", "kafka")]
            assert found[0] == found[1], line
            if attempt == 2 or line != "--path-to-json-file one" or code != 0:
                break
            expected = run_tool(PREFERRED, ["--zookeeper", f"{chroot}/kafka", *args])
        for name in ("kafka", "klamm"):
            if zookeeper_client.exists(f"{root}/{name}/admin/preferred_replica_election"):
                zookeeper_client.delete(f"{root}/{name}/admin/preferred_replica_election")


@pytest.mark.parametrize("line", ELECTION_LINES)
def test_checks_of_leader_election(line: str, files: Path) -> None:
    args = words(line, files)
    expected = run_tool(ELECTION, args)
    result = run_election_command(args, services(memory_server(), Answers({})))
    assert result.stdout == expected.stdout
    assert result.stderr == without_frames(expected.stderr)
    assert result.exit_code == expected.returncode


def contents(client: KazooClient, path: str) -> dict[str, object]:
    """Everything below ``path``; the election's partitions sorted."""
    found = znodes(client, path)
    asked = found.get("/admin/preferred_replica_election")
    if isinstance(asked, tuple):
        asked[0]["partitions"].sort(key=lambda item: (item["topic"], item["partition"]))
    return found


def without_causes(text: str) -> str:
    """A tool's words without Java's frames, and without the causes that are Java's own."""
    kept: Sequence[str] = [
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith(("\tat ", "\t... "))
        and (not line.startswith("Caused by: ") or "kafka.admin" in line)
    ]
    return "".join(kept)
