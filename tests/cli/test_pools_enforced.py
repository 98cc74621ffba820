"""`--pools` of topics, reassign-partitions and up: on znodes, and the article on a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.cluster.journal import JOURNAL_FILE, JournalRow
from klamm.world.journal.journal import read_journal
from tests.cli.test_reassign_against_kafka import plan, registration
from tests.serving import Up, klamm_up
from tests.waiting import wait_until

Capture = pytest.CaptureFixture[str]
POOLS = str(Path(__file__).parents[1] / "data" / "pools" / "article.yaml")
TOPICS = [f"T{number}" for number in range(1, 10)]


@pytest.fixture
def chroot_of_nine(chroot: str, zookeeper_client: KazooClient) -> str:
    """A chroot with brokers 1 to 9, and T1 on two of its pool's."""
    root = chroot[chroot.index("/") :]
    for broker_id in range(1, 10):
        path = f"{root}/brokers/ids/{broker_id}"
        zookeeper_client.create(path, registration(broker_id), makepath=True)
    topic = b'{"version":3,"partitions":{"0":[1,2]}}'
    zookeeper_client.create(f"{root}/brokers/topics/T1", topic, makepath=True)
    return chroot


def brokers_of(client: KazooClient, chroot: str, topic: str) -> list[set[int]]:
    data, _ = client.get(f"{chroot[chroot.index('/') :]}/brokers/topics/{topic}")
    return [set(replicas) for replicas in json.loads(data)["partitions"].values()]


def test_topics_are_made_and_grow_inside_their_pools(
    chroot_of_nine: str, zookeeper_client: KazooClient, capsys: Capture
) -> None:
    topics = ["topics", "--zookeeper", chroot_of_nine, "--yes", "--pools", POOLS]
    new = ["--partitions", "9", "--replication-factor", "2"]
    assert main([*topics, "--create", "--topic", "T4", *new]) == 0
    placed = brokers_of(zookeeper_client, chroot_of_nine, "T4")
    assert len(placed) == 9
    assert set().union(*placed) == {4, 5, 6}
    assert main([*topics, "--alter", "--topic", "T1", "--partitions", "7"]) == 0
    assert set().union(*brokers_of(zookeeper_client, chroot_of_nine, "T1")) == {1, 2, 3}
    capsys.readouterr()
    four = ["--partitions", "1", "--replication-factor", "4"]
    assert main([*topics, "--create", "--topic", "T7", *four]) == 1
    assert capsys.readouterr().out == (
        "Error while executing topic command : Replication factor: 4 larger than available "
        "brokers: 3. Topic T7 belongs to pool pool3 (brokers 7,8,9).\n"
    )
    assert main([*topics, "--create", "--topic", "T7", "--replica-assignment", "7:1"]) == 1
    assert "Partition T7-0 would leave pool pool3 (brokers 7,8,9)" in capsys.readouterr().out
    grown = ["--partitions", "8", "--replica-assignment", ",".join(["1:2"] * 7 + ["1:4"])]
    assert main([*topics, "--alter", "--topic", "T1", *grown]) == 1
    assert "Partition T1-7 would leave pool pool1 (brokers 1,2,3)" in capsys.readouterr().out
    assert main(["topics", "--zookeeper", chroot_of_nine, "--list"]) == 0
    assert capsys.readouterr().out == "T1\nT4\n"


def test_plans_are_made_and_taken_inside_the_pools(
    chroot_of_nine: str, zookeeper_client: KazooClient, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "topics").write_text('{"version":1,"topics":[{"topic":"T1"}]}')
    tool = ["reassign-partitions", "--zookeeper", chroot_of_nine, "--yes", "--pools", POOLS]
    generate = [*tool, "--generate", "--topics-to-move-json-file", str(tmp_path / "topics")]
    for seed in range(3):
        brokers = ["--broker-list", "2,3,4,5,6,7,8,9", "--seed", str(seed), "--json"]
        assert main([*generate, *brokers]) == 0
        (moved,) = json.loads(capsys.readouterr().out)["proposed"]["partitions"]
        assert sorted(moved["replicas"]) == [2, 3]
    assert main([*generate, "--broker-list", "3,4,5"]) == 1
    assert "Topic T1 belongs to pool pool1 (brokers 1,2,3)." in capsys.readouterr().out
    execute = [*tool, "--execute", "--reassignment-json-file", str(tmp_path / "plan")]
    (tmp_path / "plan").write_text(json.dumps(plan(("T1", 0, [1, 4]))))
    assert main(execute) == 1
    printed = capsys.readouterr()
    assert (
        "Error: Partition T1-0 would leave pool pool1 (brokers 1,2,3): broker 4 is not in it.\n"
    ) in printed.out
    assert "hint: klamm pools plan" in printed.err
    root = chroot_of_nine[chroot_of_nine.index("/") :]
    assert zookeeper_client.exists(f"{root}/admin/reassign_partitions") is None
    (tmp_path / "plan").write_text(json.dumps(plan(("T1", 0, [3, 1]))))
    assert main(execute) == 0
    assert zookeeper_client.exists(f"{root}/admin/reassign_partitions") is not None


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ["topics", "--zookeeper", "h:1", "--list", "--pools", POOLS],
            "--pools has no effect with",
        ),
        (
            ["topics", "--bootstrap-server", "h:1", "--create", "--topic", "t", "--pools", POOLS],
            "--pools requires --zookeeper",
        ),
        (["topics", "--create", "--pools"], "--pools requires a value"),
        (["topics", "--create", "--pools", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
        (
            ["reassign-partitions", "--list", "--bootstrap-server", "h:1", "--pools", POOLS],
            "--pools requires --generate or --execute",
        ),
        (["up", "--brokers", "9", "--pools", POOLS], "broker 9 of pool pool3 is not in the clus"),
        (["up", "--brokers", "9", "--pools", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
    ],
)
def test_bad_input_is_one_line(args: list[str], said: str, capsys: Capture) -> None:
    assert main(args) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {said}")
    assert printed.count("\n") <= 2, "the error and its hint"


# The article's example on a server. Brokers are 0 to 8 here, so the pools are one lower.


@pytest.fixture
def pools_of_up(tmp_path: Path) -> str:
    path = tmp_path / "pools.yaml"
    path.write_text(
        "pools: {pool1: [0-2], pool2: [3-5], pool3: [6-8]}\n"
        "topics: {'T[1-3]': pool1, 'T[4-6]': pool2, 'T[7-9]': pool3}\n"
    )
    return str(path)


def arguments(up: Up) -> list[str]:
    zookeeper = up.json("status")["zookeeper"]
    assert isinstance(zookeeper, dict)
    return ["--zookeeper", zookeeper["connect"]]


def create_topics(up: Up) -> None:
    for topic in TOPICS:
        new = ["--partitions", "9", "--replication-factor", "2"]
        server = ["--bootstrap-server", up.url.removeprefix("http://")]
        up.ok("topics", *server, "--create", "--topic", topic, *new)


def rows_of(up: Up) -> list[JournalRow]:
    return read_journal(up.data_dir / JOURNAL_FILE)


def assert_death_of_2_touches_pool1_alone(up: Up) -> None:
    def described() -> dict[str, Any]:
        topics: Any = up.json("topics", *arguments(up), "--describe")["topics"]
        return {topic["topic"]: topic for topic in topics}

    before, place = described(), len(rows_of(up))
    up.ok("broker", "kill", "2")

    def nobody_is_led_by_2() -> bool:
        return all(
            2 not in (partition["leader"], *partition["isr"])
            for topic in described().values()
            for partition in topic["partitions"]
        )

    wait_until(nobody_is_led_by_2, 60, "the topics of pool1 to lose broker 2")
    after = described()
    assert [topic for topic in TOPICS if after[topic] != before[topic]] == TOPICS[:3]
    told = {row.topic for row in rows_of(up)[place:] if row.topic is not None}
    assert sorted(told) == TOPICS[:3]


UP = ("--brokers", "9", "--controllers", "1", "--session-timeout-ms", "3000")
STILL = ("--config", "auto.leader.rebalance.enable=false")


@pytest.mark.slow
def test_topics_are_moved_into_their_pools(tmp_path: Path, pools_of_up: str) -> None:
    with klamm_up(tmp_path, *UP, *STILL) as up:
        create_topics(up)
        pools, where = ["--pools", pools_of_up], arguments(up)
        assert up.run("pools", "check", *pools, *where).returncode == 14
        (tmp_path / "plan").write_text(up.ok("pools", "plan", *pools, *where))
        file = ["--reassignment-json-file", str(tmp_path / "plan")]
        up.ok("reassign-partitions", *where, "--execute", *file, *pools)
        verify = ["reassign-partitions", *where, "--verify", *file, "--json"]
        wait_until(lambda: up.run(*verify).returncode == 0, 120, "the plan to be carried out")
        up.ok("pools", "check", *pools, *where)
        assert_death_of_2_touches_pool1_alone(up)


@pytest.mark.slow
def test_topics_are_made_inside_their_pools(tmp_path: Path, pools_of_up: str) -> None:
    with klamm_up(tmp_path, *UP, *STILL, "--pools", pools_of_up) as up:
        create_topics(up)
        server = ["--bootstrap-server", up.url.removeprefix("http://")]
        up.ok("topics", *server, "--alter", "--topic", "T5", "--partitions", "12")
        refused = up.run(
            "topics", *server, "--alter", "--topic", "T6", "--partitions", "10",
            "--replica-assignment", ",".join(["3:4"] * 9 + ["3:8"]),
        )  # fmt: skip
        assert refused.returncode == 1
        assert "Partition T6-9 would leave pool pool2 (brokers 3,4,5)" in refused.stdout
        up.ok("pools", "check", "--pools", pools_of_up, *arguments(up))
        assert_death_of_2_touches_pool1_alone(up)
