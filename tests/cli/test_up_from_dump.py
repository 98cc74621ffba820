"""klamm up --from-dump as a process: a copy of a cluster, and what is refused."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.cluster.types import Broker, EndPoint, ReplicaAssignment, TopicPartition
from klamm.server.data_dir import read_address
from klamm.zk.dump import DumpedZNode
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, TopicZNode
from tests.serving import klamm, klamm_up, start_klamm
from tests.waiting import wait_until

SESSION = "0x100000000000001"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def registration(broker_id: int, rack: str | None) -> DumpedZNode:
    broker = Broker(broker_id, (EndPoint(f"host{broker_id}", 9094, "INSIDE", "SSL"),), rack)
    data = BrokerIdZNode.encode(BrokerInfo(broker), 1).decode()
    return DumpedZNode(f"/brokers/ids/{broker_id}", data, ephemeral_owner=SESSION)


def state(partition: int, leader: int, epoch: int, isr: list[int]) -> DumpedZNode:
    values = {
        "controller_epoch": 40,
        "leader": leader,
        "version": 1,
        "leader_epoch": epoch,
        "isr": isr,
    }
    return DumpedZNode(f"/brokers/topics/t/partitions/{partition}/state", json.dumps(values))


def cluster() -> list[DumpedZNode]:
    """Brokers 7, 102 and 70000 run, 102 led them at epoch 41; 90000 holds a replica and is dead."""
    replicas = [(7, 102, 70_000), (102, 7, 70_000), (70_000, 90_000, 7)]
    assignment = {TopicPartition("t", n): ReplicaAssignment(r) for n, r in enumerate(replicas)}
    controller = '{"version":1,"brokerid":102,"timestamp":"1"}'
    return [
        DumpedZNode("/", None),
        DumpedZNode("/brokers/topics/t", TopicZNode.encode(TOPIC_ID, assignment).decode()),
        DumpedZNode("/cluster/id", '{"version":"1","id":"abcdefghijklmnopqrstuv"}'),
        DumpedZNode("/config/topics/t", '{"version":1,"config":{"retention.ms":"1"}}'),
        DumpedZNode("/controller", controller, ephemeral_owner=SESSION),
        DumpedZNode("/controller_epoch", "41"),
        registration(7, "a"),
        registration(102, "b"),
        registration(70_000, None),
        state(0, 7, 5, [7, 102, 70_000]),
        state(1, 102, 9, [102, 70_000, 7]),
        state(2, 90_000, 3, [90_000, 7]),
    ]


def write(path: Path, znodes: list[DumpedZNode]) -> Path:
    lines = [
        json.dumps(
            {
                name: getattr(z, name)
                for name in ("path", "data", "ephemeral_owner")
                if isinstance(getattr(z, name), str | None)
            }
        )
        for z in znodes
    ]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    return path


def values(client: KazooClient, path: str) -> Any:
    return json.loads(client.get(path)[0])


@pytest.mark.slow
def test_a_copy_runs_with_its_ids_and_goes_on_where_it_was(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    path = write(tmp_path / "dump.json", cluster())
    root = f"/{chroot.rpartition('/')[2]}/copy"
    args = ("--from-dump", str(path), "--zookeeper", f"{chroot}/copy")
    with klamm_up(tmp_path / "data", *args, "--config", "auto.leader.rebalance.enable=false") as up:
        status: Any = up.json("status")
        assert status["cluster_id"] == "abcdefghijklmnopqrstuv"
        assert (status["controller"]["controller_id"], status["controller"]["epoch"]) == (102, 42)
        shown = [(b["id"], b["rack"], b["state"], b["is_candidate"]) for b in status["brokers"]]
        assert shown == [
            (7, "a", "running", True),
            (102, "b", "running", True),
            (70_000, None, "running", True),
            (90_000, None, "not started", False),
        ]
        registered = values(zookeeper_client, f"{root}/brokers/ids/7")
        assert registered["endpoints"] == ["INSIDE://host7:9094"]
        assert registered["listener_security_protocol_map"] == {"INSIDE": "SSL"}
        for partition, leader, epoch, isr in (
            (0, 7, 5, [7, 102, 70_000]),
            (1, 102, 9, [102, 70_000, 7]),
        ):
            there = f"{root}/brokers/topics/t/partitions/{partition}/state"
            found = values(zookeeper_client, there)
            assert (found["leader"], found["leader_epoch"], found["isr"]) == (leader, epoch, isr)
            assert found["controller_epoch"] == 40
        assert values(zookeeper_client, f"{root}/config/topics/t")["config"] == {
            "retention.ms": "1"
        }
        described = up.ok("topics", "--zookeeper", f"{chroot}/copy", "--describe")
        assert f"TopicId: {TOPIC_ID}" in described
        assert "Partition: 2\tLeader: 7\tReplicas: 70000,90000,7\tIsr: 7" in described
        assert "broker 90000 is registered" in up.ok("broker", "start", "90000")
        again = up.run("up", *args, "--port", "0", "--data-dir", str(tmp_path / "other"))
        assert again.returncode == 1
        assert again.stderr.startswith(
            "error: a dump can be loaded only into an empty ZooKeeper: "
            "the target is not empty: found /"
        )
        output = up.end()
    lines = output.splitlines()
    assert lines[0] == f"Dump loaded: 16 znodes from {path}"
    assert lines[1] == "Brokers not started, because they are dead in the dump: 90000"
    assert lines[-1] == "klamm has ended"


@pytest.mark.slow
def test_a_cluster_that_was_down_is_started_on_its_own_zookeeper(tmp_path: Path) -> None:
    znodes = [z for z in cluster() if z.ephemeral_owner != SESSION]
    path = write(tmp_path / "dump.json", znodes)
    with klamm_up(tmp_path / "data", "--from-dump", str(path), "--controllers", "1") as up:
        status: Any = up.json("status")
        assert [broker["id"] for broker in status["brokers"]] == [7, 102, 70_000, 90_000]
        assert {broker["state"] for broker in status["brokers"]} == {"running"}
        assert status["controller"]["controller_id"] == 7
        assert "no broker is registered in the dump" in up.end()


@pytest.mark.slow
def test_ctrl_c_while_it_is_loaded_and_the_same_command_again(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    root = f"/{chroot.rpartition('/')[2]}/copy"
    more = [DumpedZNode(f"/config/users/{number:06}", "x" * 300) for number in range(60_000)]
    path = write(tmp_path / "dump.json", [*cluster(), *more])
    words = ("up", "--from-dump", str(path), "--zookeeper", f"{chroot}/copy")
    more_words = ("--port", "0", "--data-dir", str(tmp_path / "data"))
    process = start_klamm(tmp_path, *words, *more_words, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: zookeeper_client.exists(f"{root}/config/users/000000"), 60)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 130, output
    interrupted, ended = output.splitlines()[-2:]
    assert interrupted.startswith("Interrupted: at least ")
    assert "of 60017 znodes and /klamm-loading were written; run the same command" in interrupted
    assert ended == "klamm has ended before the cluster was up; nothing is left running"
    assert not (tmp_path / "data").exists()
    assert zookeeper_client.exists(f"{root}/klamm-loading")
    with klamm_up(tmp_path / "data", *words[1:]) as up:
        status: Any = up.json("status")
        assert status["controller"]["epoch"] == 42
        assert not zookeeper_client.exists(f"{root}/klamm-loading")
        assert len(zookeeper_client.get_children(f"{root}/config/users")) == 60_000


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--brokers", "3"), "give either --from-dump or --brokers, but not both"),
        (("--racks", "a,b"), "give either --from-dump or --racks, but not both"),
        (("--controllers", "4"), "--controllers 4: out of range for 3 brokers"),
        (("--pools", "POOLS"), "broker 5 of pool p is not in the cluster"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    tmp_path: Path, args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "dump.json", cluster())
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools:\n  p: [5, 7]\ntopics:\n  x: p\n")
    words = [str(pools) if word == "POOLS" else word for word in args]
    data_dir = tmp_path / "data"
    code = main(["up", "--from-dump", str(path), *words, "--data-dir", str(data_dir)])
    assert code == 2
    assert capsys.readouterr().err.startswith(f"error: {said}")
    assert not data_dir.exists()


@pytest.mark.parametrize(
    ("znodes", "said"),
    [
        ([DumpedZNode("/", None)], "contains no Kafka cluster: /brokers/topics"),
        ([DumpedZNode("/kafka/brokers/ids", None)], "contains a cluster below the chroot /kafka"),
        ([DumpedZNode("/brokers/topics", None)], "contains no brokers"),
        ([*cluster()[:5], DumpedZNode("/controller_epoch", "x")], "/controller_epoch is malformed"),
    ],
)
def test_a_dump_of_something_else_is_one_line(
    tmp_path: Path, znodes: list[DumpedZNode], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "dump.json", znodes)
    data_dir = tmp_path / "data"
    assert main(["up", "--from-dump", str(path), "--data-dir", str(data_dir)]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith(f"error: {path}") and said in error
    assert hint.startswith("hint: ")
    assert not data_dir.exists()


def test_a_dump_that_does_not_exist_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "none.json"
    assert main(["up", "--from-dump", str(path), "--data-dir", str(tmp_path / "data")]) == 2
    assert capsys.readouterr().err.startswith(f"error: cannot read the dump {path}: No such file")
    refused = klamm(tmp_path / "data", "up", "--port", "0")
    assert refused.stderr.startswith("error: Missing option '--brokers'\nhint: or use --from-")
    assert read_address(tmp_path / "data") is None
