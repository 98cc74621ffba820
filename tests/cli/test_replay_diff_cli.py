"""`klamm replay diff`: two logs, a log and a live ZooKeeper, a log and a dump of one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.dump import DumpedZNode, dump
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.journal_bytes import journal_bytes
from tests.sim.worlds import create_topic, state_of, three_brokers

CHANGED = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def world() -> SimulatedWorld:
    """A cluster that lost a broker, and with it the only replica of a partition."""
    made = three_brokers()
    create_topic(made, "t", {0: (0, 1, 2), 1: (1, 2, 0), 2: (2, 0, 1)})
    create_topic(made, "single", {0: (2,)})
    made.run_for(2_000)
    made.kill(2)
    made.run_for(10_000)
    return made


@pytest.fixture(scope="module")
def znodes(world: SimulatedWorld) -> list[DumpedZNode]:
    store = world.open_store()
    found = dump(store)
    store.close()
    return found


@pytest.fixture
def journal(world: SimulatedWorld, tmp_path: Path) -> Path:
    return written(tmp_path / "journal.jsonl", world.journal.rows)


@pytest.fixture
def dumped(znodes: list[DumpedZNode], tmp_path: Path) -> Path:
    path = tmp_path / "dump.json"
    path.write_bytes(msgspec.json.encode(znodes))
    return path


def written(path: Path, rows: list[JournalRow]) -> Path:
    path.write_bytes(journal_bytes(rows))
    return path


def diff(capsys: pytest.CaptureFixture[str], *args: object) -> tuple[int, list[str]]:
    """The exit code, and what was printed."""
    capsys.readouterr()
    code = main(["replay", "diff", *map(str, args)])
    return code, capsys.readouterr().out.splitlines()


def test_two_logs_that_are_equal_end_in_0(
    journal: Path, world: SimulatedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shuffled = written(tmp_path / "shuffled.jsonl", world.journal.rows[::-1])
    code, told = diff(capsys, journal, shuffled)
    events = f"journal, {len(world.journal.rows):,} events"
    assert (code, told) == (
        0,
        [
            f"A: {journal} ({events})",
            f"B: {shuffled} ({events})",
            "Compared: 4 partitions and 10 replicas.",
            "The final states agree.",
        ],
    )


def test_strange_names_are_escaped(
    journal: Path, world: SimulatedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        msgspec.structs.replace(row, topic="t\0\u202e") if row.topic == "single" else row
        for row in world.journal.rows
    ]
    code, told = diff(capsys, journal, written(tmp_path / "strange\u202e.jsonl", rows))
    assert code == 14
    assert told[1].startswith(rf"B: {tmp_path}/strange\u202e.jsonl (")
    assert r"  t\u0000\u202e-0: absent in A, present in B" in told


def test_a_row_that_is_not_utf8_is_a_lost_row(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = journal.read_bytes().split(b"\n")
    lines[4] = lines[4].replace(b'"kind":"', b'"kind":"\xff')
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"\n".join(lines))
    _, told = diff(capsys, journal, damaged)
    assert told[1] == f"B: {damaged} (journal, {len(lines) - 2:,} events, 1 lost row)"


def test_a_source_or_run_that_no_side_has_is_refused(
    journal: Path, dumped: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for option, asked in (("--source", "controller.log"), ("--run", "nowhere")):
        assert main(["replay", "diff", str(journal), str(dumped), option, asked]) == 2
        assert f"error: {option} {asked} is neither in A nor in B\n" in capsys.readouterr().err


def test_the_latest_of_several_clusters_is_compared(
    journal: Path, world: SimulatedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (cluster_id,) = {row.cluster_id or row.run_id for row in world.journal.rows}
    older = [
        msgspec.structs.replace(row, run_id="older", cluster_id="older", t_ms=row.t_ms - 1)
        for row in world.journal.rows[: len(world.journal.rows) // 2]
    ]
    both = written(tmp_path / "both.jsonl", older + world.journal.rows)
    assert main(["replay", "diff", str(journal), str(both)]) == 0
    told = capsys.readouterr()
    first, second, *_ = told.err.splitlines()
    assert first == (
        f"{both}: comparing {cluster_id}, the latest of several clusters; --run selects another"
    )
    assert second == f"{journal}: reading logs into a temporary event table"
    assert "The final states agree." in told.out
    assert main(["replay", "diff", str(journal), str(both), "--run", "older"]) == 14


def test_two_logs_that_differ_end_in_14_and_say_where(
    journal: Path, world: SimulatedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = world.journal.rows
    of_it = [n for n, row in enumerate(rows) if (row.topic, row.partition) == CHANGED]
    last = max(n for n in of_it if rows[n].isr is not None)
    changed = [*rows]
    changed[last] = msgspec.structs.replace(rows[last], leader=1)
    code, told = diff(capsys, journal, written(tmp_path / "other.jsonl", changed))
    assert (code, told[3:5]) == (14, ["Differences: 1", "  t-0: leader 0 in A, 1 in B"])
    assert told[5].startswith(f"First divergence: {journal}:{last + 1} in A, ")
    assert told[5].endswith("; B never had this state.") and len(told) == 6


def test_two_logs_that_part_and_end_alike_end_in_14(
    journal: Path, world: SimulatedWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = world.journal.rows
    of_it = [n for n, row in enumerate(rows) if (row.topic, row.partition) == CHANGED]
    first = min(n for n in of_it if rows[n].isr is not None)
    changed = [*rows]
    changed[first] = msgspec.structs.replace(rows[first], leader=1)
    code, told = diff(capsys, journal, written(tmp_path / "other.jsonl", changed))
    assert (code, told[3]) == (14, "The final states agree.")
    assert told[4].startswith(f"First divergence: {journal}:{first + 1} in A, ")


def test_a_log_beside_a_live_zookeeper(
    journal: Path,
    dumped: Path,
    world: SimulatedWorld,
    chroot: str,
    zookeeper_client: KazooClient,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["zk", "load", str(dumped), "--zookeeper", chroot]) == 0
    code, told = diff(capsys, journal, "--zookeeper", chroot)
    assert (code, told[1:]) == (
        0,
        [
            f"B: {chroot} (a live ZooKeeper)",
            "Compared: 4 partitions.",
            f"Not compared: replica states: {chroot} has none.",
            "The final states agree.",
        ],
    )
    stored = state_of(world, *CHANGED)
    data = TopicPartitionStateZNode.encode(LeaderAndIsr(1, stored.leader_epoch + 4, (1,)), 1)
    root = f"/{chroot.rpartition('/')[2]}"
    zookeeper_client.set(root + TopicPartitionStateZNode.path(CHANGED), data)
    zookeeper_client.delete(root + TopicPartitionStateZNode.path(TopicPartition("single", 0)))
    code, told = diff(capsys, journal, "--zookeeper", chroot)
    isr = ",".join(map(str, stored.isr))
    epoch = stored.leader_epoch
    assert code == 14
    assert told[4:] == [
        "Differences: 7",
        "  single-0: isr 2 in A, none in B",
        "  single-0: leader -1 in A, none in B",
        "  single-0: leader_epoch 1 in A, none in B",
        "  single-0: state OfflinePartition in A, NewPartition in B",
        f"  t-0: isr {isr} in A, 1 in B",
        "  t-0: leader 0 in A, 1 in B",
        f"  t-0: leader_epoch {epoch} in A, {epoch + 4} in B",
    ]


def test_malformed_znodes_of_a_dump_are_named(
    journal: Path, dumped: Path, znodes: list[DumpedZNode], capsys: pytest.CaptureFixture[str]
) -> None:
    state = TopicPartitionStateZNode.path(CHANGED)
    spoilt = [msgspec.structs.replace(z, data="{") if z.path == state else z for z in znodes]
    dumped.write_bytes(msgspec.json.encode(spoilt))
    assert main(["replay", "diff", str(journal), str(dumped)]) == 14
    told = capsys.readouterr()
    assert f"warning: malformed znode {state}: not JSON; it counts as missing\n" in told.err
    assert "  t-0: state OnlinePartition in A, NewPartition in B\n" in told.out
    topics = [f"/brokers/topics/{n:02}" for n in range(12)]
    paths = ["/", "/brokers", "/brokers/topics", *topics]
    dumped.write_bytes(msgspec.json.encode([{"path": path, "data": "{"} for path in paths]))
    assert main(["replay", "diff", str(journal), str(dumped)]) == 2
    *warnings, more, error = capsys.readouterr().err.splitlines()
    assert [line.split()[3] for line in warnings] == [f"{path}:" for path in topics[:10]]
    assert more == "warning: 2 more malformed znodes"
    assert error == f"error: {dumped} has no topics"
    dumped.write_bytes(b'[{"path":"/","data":null}]')
    assert main(["replay", "diff", str(journal), str(dumped)]) == 2
    assert "dump it with klamm zk dump --zookeeper" in capsys.readouterr().err


def test_a_log_beside_a_dump(
    journal: Path, dumped: Path, znodes: list[DumpedZNode], capsys: pytest.CaptureFixture[str]
) -> None:
    code, told = diff(capsys, journal, dumped, "--json")
    found: dict[str, Any] = json.loads("\n".join(told))
    assert (code, found["differences"], found["shown"]) == (0, 0, [])
    assert (found["partitions"], found["replicas"], found["first_parting"]) == (4, None, None)
    assert found["b"] == {"name": str(dumped), "what": "a dump of ZooKeeper"}
    topic = "/brokers/topics/single"
    without = [znode for znode in znodes if not znode.path.startswith(topic)]
    dumped.write_bytes(msgspec.json.encode(without))
    code, told = diff(capsys, journal, dumped, "--json")
    found = json.loads("\n".join(told))
    assert (code, found["differences"]) == (14, 1)
    assert found["shown"] == [
        {
            "topic": "single",
            "partition": 0,
            "replica": -1,
            "field": "existence",
            "a": "present",
            "b": "absent",
        }
    ]
