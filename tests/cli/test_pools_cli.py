"""`klamm pools` on a dump, and once on a real server: what it prints and how it ends."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from klamm.cli.connect import open_store
from klamm.cli.main import main
from klamm.cluster.types import Broker, LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.zk.dump import DumpedZNode, dump
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, TopicPartitionStateZNode, TopicZNode
from tests.serving import RunKlamm
from tests.waiting import WaitingEnds

POOLS = str(Path(__file__).parents[1] / "data" / "pools" / "article.yaml")
Topics = dict[str, list[ReplicaAssignment]]


def lists(*replicas: tuple[int, ...]) -> list[ReplicaAssignment]:
    return [ReplicaAssignment(one) for one in replicas]


TOPICS: Topics = {
    "T1": lists((1,), (4,)),
    "T4": lists((4, 9), (5, 6)),
    "other": lists((7,)),
}


def tree(topics: Topics, brokers: range = range(1, 10), racks: str = "") -> list[DumpedZNode]:
    """The znodes that klamm zk dump gives of such a cluster; every preferred leader leads."""
    found = [
        DumpedZNode("/brokers", None),
        DumpedZNode("/brokers/ids", None),
        DumpedZNode("/brokers/topics", None),
    ]
    for id_ in brokers:
        info = BrokerInfo(Broker(id_, (), racks[id_ - 1] if racks else None))
        found.append(DumpedZNode(BrokerIdZNode.path(id_), BrokerIdZNode.encode(info, 1).decode()))
    for topic, assignments in topics.items():
        partitions = {
            TopicPartition(topic, number): assignment
            for number, assignment in enumerate(assignments)
        }
        found.append(
            DumpedZNode(TopicZNode.path(topic), TopicZNode.encode(None, partitions).decode())
        )
        for tp, assignment in partitions.items():
            state = LeaderAndIsr(assignment.replicas[0], 0, assignment.replicas)
            data = TopicPartitionStateZNode.encode(state, 1).decode()
            found.append(DumpedZNode(TopicPartitionStateZNode.path(tp), data))
    return found


@pytest.fixture
def run(tmp_path: Path, run_klamm: RunKlamm) -> RunKlamm:
    """Run `klamm pools VERB` on the article's pools and a dump of these znodes."""

    def run(verb: str, znodes: list[DumpedZNode], *args: str) -> tuple[int, str, str]:
        path = tmp_path / "dump.json"
        path.write_bytes(msgspec.json.encode(znodes))
        return run_klamm("pools", verb, "--pools", POOLS, "--dump", str(path), *args)

    return run


def test_check_lists_violations_and_ends_with_14(run: RunKlamm) -> None:
    assert run("check", tree(TOPICS)) == (
        14,
        "T1-1 has replicas outside pool pool1: broker 4\n"
        "T4-0 has replicas outside pool pool2: broker 9\n"
        "2 violations, 3 topics, 5 partitions\n"
        "Topics without a pool: other\n",
        "",
    )


def test_pools_check_prints_violations_as_json(run: RunKlamm) -> None:
    moving = ReplicaAssignment((1, 4), adding_replicas=(1,), removing_replicas=(4,))
    code, out, err = run("check", tree({"T1": [moving], "T2": lists((4,))}), "--json")
    assert (code, err) == (14, "")
    assert json.loads(out) == {
        "violations": [
            {
                "kind": "outside-pool",
                "pool": "pool1",
                "topic": "T2",
                "partition": 0,
                "brokers": [4],
                "text": "T2-0 has replicas outside pool pool1: broker 4",
            }
        ],
        "topics_without_pool": [],
        "being_reassigned": [{"topic": "T1", "partition": 0}],
        "unreadable": [],
    }


def test_plan_is_kafkas_json_and_leaves_nothing_to_find(run: RunKlamm, tmp_path: Path) -> None:
    code, out, err = run("plan", tree(TOPICS))
    assert (code, out) == (
        0,
        '{"version":1,"partitions":['
        '{"topic":"T1","partition":1,"replicas":[2],"log_dirs":["any"]},'
        '{"topic":"T4","partition":0,"replicas":[4,5],"log_dirs":["any","any"]}]}\n',
    )
    assert err == (
        "2 partitions, 2 replica moves (1 to broker 2, 1 to broker 5), "
        "1 change of preferred leader.\n"
    )
    (tmp_path / "plan.json").write_text(out)
    left = run("check", tree(TOPICS), "--after", str(tmp_path / "plan.json"))
    assert left[:2] == (0, "0 violations, 3 topics, 5 partitions\nTopics without a pool: other\n")


def test_plan_as_json_has_current_and_proposed_assignments(run: RunKlamm) -> None:
    code, out, err = run("plan", tree({"T1": lists((4, 2))}), "--json")
    assert (code, err) == (0, "")
    where = {"topic": "T1", "partition": 0, "log_dirs": ["any", "any"]}
    assert json.loads(out) == {
        "replica_moves": 1,
        "leader_moves": 1,
        "current": {"version": 1, "partitions": [where | {"replicas": [4, 2]}]},
        "proposed": {"version": 1, "partitions": [where | {"replicas": [2, 1]}]},
        "not_planned": [],
    }
    only_three = tree({"T1": lists((4, 2)), "T4": lists((9,))}, range(3, 10))
    code, out, _ = run("plan", only_three, "--json")
    planned = json.loads(out)
    assert (code, planned["replica_moves"]) == (14, 1)
    assert planned["not_planned"] == [
        {
            "topic": "T1",
            "partition": 0,
            "reason": "replication factor 2 needs 2 live brokers in pool pool1; it has 1",
        }
    ]


def test_a_dump_that_takes_long_to_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("klamm.cli.waiting.PLAIN_AFTER_S", 0)
    pipe = tmp_path / "dump.json"
    os.mkfifo(pipe)
    said = f"waiting for {pipe} to be read\n"
    errors = WaitingEnds(lambda: pipe.write_bytes(msgspec.json.encode(tree(TOPICS))))
    monkeypatch.setattr("sys.stderr", errors)
    assert main(["pools", "check", "--pools", POOLS, "--dump", str(pipe)]) == 14
    assert (errors.getvalue(), "2 violations" in capsys.readouterr().out) == (said, True)


def test_a_cluster_that_fits_its_pools_has_an_empty_plan(run: RunKlamm) -> None:
    right = tree({"T1": lists((1, 2))})
    assert run("plan", right) == (0, '{"version":1,"partitions":[]}\n', "Nothing to move.\n")
    assert run("check", right) == (0, "0 violations, 1 topic, 1 partition\n", "")


def test_racks_are_respected_unless_disabled(run: RunKlamm) -> None:
    same_rack = tree({"T1": lists((1, 2))}, racks="aabcccccc")
    assert run("check", same_rack)[0] == 14
    assert '"replicas":[1,3]' in run("plan", same_rack)[1]
    assert run("check", same_rack, "--disable-rack-aware")[0] == 0
    assert run("plan", same_rack, "--disable-rack-aware")[2] == "Nothing to move.\n"


def test_a_replication_factor_changes_only_when_asked(run: RunKlamm) -> None:
    more = ("--topic", "T1", "--replication-factor", "2")
    code, out, _ = run("plan", tree({"T1": lists((1,)), "T2": lists((9,))}), *more)
    assert code == 0
    assert [one["replicas"] for one in json.loads(out)["partitions"]] == [[1, 2]]


def test_dead_brokers_are_reported_and_replaced_only_on_request(run: RunKlamm) -> None:
    alone = tree({"T1": lists((2, 1), (2,))}, brokers=range(3, 10))
    code, out, _ = run("check", alone)
    assert (code, out.splitlines()[0]) == (14, "pool pool1 has unregistered brokers 1,2")
    assert run("plan", alone)[2] == "Nothing to move.\n"
    code, out, err = run("plan", tree({"T1": lists((2, 1), (2,))}, range(3, 10)), "--replace-dead")
    assert (code, [one["replicas"] for one in json.loads(out)["partitions"]]) == (14, [[3]])
    assert err == (
        "1 partition, 1 replica move (1 to broker 3), 1 change of preferred leader.\n"
        "not planned: T1-0: replication factor 2 needs 2 live brokers in pool pool1; it has 1\n"
        "warning: T1-1 has no live replica to copy from: it waits for broker 2\n"
    )
    code, out, err = run("plan", tree({"T1": lists((2,))}, range(3, 10)), "--replace-dead")
    assert (code, json.loads(out)["partitions"][0]["replicas"]) == (0, [3])
    assert "warning: T1-0 has no live replica to copy from: it waits for broker 2\n" in err


def test_topics_that_are_being_deleted_are_left_out(run: RunKlamm) -> None:
    marked = [
        DumpedZNode("/admin/delete_topics", None),
        DumpedZNode("/admin/delete_topics/T1", None),
    ]
    assert "T1" not in run("check", [*tree(TOPICS), *marked])[1]


def test_a_malformed_topic_is_reported_and_makes_a_clean_check_inconclusive(run: RunKlamm) -> None:
    broken = DumpedZNode("/brokers/topics/T2", "{")
    code, out, err = run("check", [*tree({"T1": lists((1,))}), broken])
    assert (code, out) == (12, "0 violations, 1 topic, 1 partition\n")
    assert err == "warning: malformed znode /brokers/topics/T2: not JSON\n"


def test_show_lists_pools_patterns_and_what_is_where(
    run: RunKlamm, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run("show", tree(TOPICS, racks="abcabcabc"))
    assert code == 0
    assert out.splitlines()[:5] == [
        "Pool   Broker  Weight  Live  Rack  Leads  Replicas  Foreign",
        "pool1  1       1       yes   a     1      1         0",
        "pool1  2       1       yes   b     0      0         0",
        "pool1  3       1       yes   c     0      0         0",
        "pool2  4       1       yes   a     2      2         1",
    ]
    assert out.endswith(
        "Pattern  Pool   Topics\n"
        "T[1-3]   pool1  1\n"
        "T[4-6]   pool2  1\n"
        "T[7-9]   pool3  0\n"
        "\n"
        "Topics without a pool: other\n"
    )
    shown = json.loads(run("show", tree(TOPICS), "--json")[1])
    assert shown["topics"][0] == {"topic": "T1", "pool": "pool1", "patterns": ["T[1-3]"]}
    assert main(["pools", "show", "--pools", POOLS]) == 0
    assert capsys.readouterr().out.startswith("Pool   Broker  Weight\npool1  1       1\n")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["check"], 1, "error: no running klamm found"),
        (["check", "--zookeeper", "b:1", "--server", "a"], 2, "error: --server and --data-dir"),
        (
            ["check", "--dump", "a", "--zookeeper", "b:1"],
            2,
            "error: --dump cannot be combined with --zoo",
        ),
        (["check", "--dump", "/nothing"], 2, "error: cannot read the dump /nothing: No such file"),
        (["check", "--dump", POOLS], 2, f"error: {POOLS} is not a dump: line 1: JSON is malformed"),
        (["plan", "--replication-factor", "2"], 2, "error: --replication-factor requires --topic"),
        (["plan", "--replication-factor", "0"], 2, "error: Invalid value"),
    ],
)
def test_what_is_wrong_is_one_line(
    args: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("KLAMM_DATA_DIR", str(tmp_path))
    assert main(["pools", *args, "--pools", POOLS]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(said)
    assert len(printed.err.splitlines()) <= 2


@pytest.mark.parametrize(
    ("znodes", "code", "said"),
    [
        ([DumpedZNode("/", None)], 1, "error: znode /brokers/ids does not exist\n"),
        (
            [DumpedZNode("brokers", None)],
            2,
            " is not a dump: line 1: 'brokers' is not a valid znode path\n",
        ),
        ([DumpedZNode("/a", base64="?")], 2, " is not a dump: line 1: invalid base64 data of /a"),
        (
            [DumpedZNode("/a", "", ephemeral_owner="x")],
            2,
            " is not a dump: line 1: the ephemeral_owner of /a",
        ),
    ],
)
def test_a_dump_of_something_else_is_one_line(
    run: RunKlamm, znodes: list[DumpedZNode], code: int, said: str
) -> None:
    ended, out, err = run("check", znodes)
    assert (ended, out) == (code, "")
    assert err.startswith("error: ") and said in err


def test_unknown_topics_and_partitions_are_refused(run: RunKlamm, tmp_path: Path) -> None:
    assert run("plan", tree(TOPICS), "--topic", "T2")[::2] == (
        1,
        "error: Topic T2 does not exist\n",
    )
    path = tmp_path / "plan.json"
    path.write_text('{"partitions":[{"topic":"T1","partition":7,"replicas":[1]}]}')
    code, out, err = run("check", tree(TOPICS), "--after", str(path))
    assert (code, out) == (1, "")
    assert err == f"error: {path}: partition T1-7 does not exist\n"


def test_a_live_zookeeper_and_its_dump_say_the_same(
    run: RunKlamm, chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_store(chroot) as store:
        client = KafkaZkClient(store)
        for znode in tree(TOPICS):
            assert isinstance(znode.data, str | None)
            client.set_or_create(znode.path, None if znode.data is None else znode.data.encode())
        dumped = dump(store)
    for verb in ("check", "plan", "show"):
        code = main(["pools", verb, "--pools", POOLS, "--zookeeper", chroot])
        printed = capsys.readouterr()
        assert run(verb, dumped) == (code, printed.out, printed.err)
    with open_store(chroot) as store:
        assert dump(store) == dumped
