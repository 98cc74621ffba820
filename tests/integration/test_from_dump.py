"""Recorded trees go up on a real ZooKeeper and fail over, and only documented writes occur."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import WrongState
from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest
from klamm.lab.actions.actions import MoveController, Start, Stop
from klamm.placement.assign import RACKS_MISSING
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.server.cluster_server import ClusterServer
from klamm.server.dumped_cluster import read_dumped_cluster
from klamm.zk.dump import DumpedZNode, dump
from tests.dumps import (
    RecordedTree,
    Tree,
    recorded_trees,
    registration,
    tree_of,
    unexplained,
)
from tests.server_configs import server_config
from tests.waiting import wait_until

NAMES = (
    "add_partitions-2",
    "api_reassign_cancel-2",
    "create_dead_broker-2",
    "delete_one_down-3",
    "isr_all_dead_clean-3",
    "leader_kill_restart-2",
    "leader_kill_restart-3",
    "reassign_adding_dies-3",
    "shutdown_leader-2",
)
TREES = tuple(tree for tree in recorded_trees() if str(tree) in NAMES)
QUIET_S = 0.3


def settled(server: ClusterServer) -> Tree:
    """The tree once nobody has had anything to do, or changed anything, for a while."""
    last: Tree = {}
    since = 0.0

    def is_quiet() -> bool:
        nonlocal last, since
        now, tree = time.monotonic(), tree_of(dump(server.cluster.store))
        if tree != last or not server.cluster.is_idle:
            last, since = tree, now
        return now - since > QUIET_S

    wait_until(is_quiet, 20, "the cluster to be quiet")
    return last


def test_every_recorded_tree_is_tested() -> None:
    assert [str(tree) for tree in TREES] == list(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("tree", TREES, ids=map(str, TREES))
def test_a_recorded_tree_goes_up_and_only_documented_writes_occur(
    chroot: str, tmp_path: Path, tree: RecordedTree
) -> None:
    cluster = read_dumped_cluster(tree.znodes, str(tree))
    live = frozenset(cluster.running)
    config = server_config(
        dump=cluster,
        zookeeper=f"{chroot}/copy",
        data_dir=tmp_path,
        session_timeout_ms=4000,
        config=tree.config,
    )
    with ClusterServer(config) as server:
        after = settled(server)
        assert unexplained(tree_of(tree.znodes), live, after) == []
        before, moved = server.operations.perform(MoveController()).values()
        assert moved["epoch"] == before["epoch"] + 1
        assert cluster.cluster.candidates is not None
        assert before["id"] == cluster.cluster.candidates[0]
        assert unexplained(after, live, settled(server)) == []


@pytest.mark.slow
def test_no_broker_is_considered_dead_while_others_register(chroot: str, tmp_path: Path) -> None:
    ids = list(range(30))
    state = {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 7, "isr": ids}
    topic = {"version": 1, "partitions": {str(number): ids for number in range(20)}}
    znodes = [
        *(DumpedZNode(f"/brokers/ids/{id_}", registration(id_, True)) for id_ in ids),
        DumpedZNode("/brokers/topics/t", json.dumps(topic)),
        *(
            DumpedZNode(f"/brokers/topics/t/partitions/{number}/state", json.dumps(state))
            for number in range(20)
        ),
    ]
    config = server_config(
        dump=read_dumped_cluster(znodes, "thirty brokers"),
        zookeeper=chroot,
        data_dir=tmp_path,
        config={"auto.leader.rebalance.enable": "false"},
    )
    with ClusterServer(config) as server:
        settled(server)
        states = [z for z in dump(server.cluster.store) if z.path.endswith("/state")]
    assert [z.version for z in states] == [0] * 20


def test_a_broker_that_is_dead_in_the_dump_gets_a_rack(chroot: str, tmp_path: Path) -> None:
    topic = {"version": 1, "partitions": {"0": [0, 3]}}
    znodes = [
        *(DumpedZNode(f"/brokers/ids/{id_}", registration(id_, True)) for id_ in (0, 1)),
        DumpedZNode("/brokers/topics/t", json.dumps(topic)),
    ]
    dumped = read_dumped_cluster(znodes, "a dead broker")
    config = server_config(dump=dumped, zookeeper=chroot, data_dir=tmp_path)
    with ClusterServer(config) as server:
        operations = server.operations

        numbers = itertools.count()

        def create() -> tuple[Errors, str | None]:
            wanted = CreateTopicsRequest((CreatableTopic(f"u{next(numbers)}", 1, 1),), 10_000)
            (created,) = server.admin.create_topics(wanted).topics
            return created.error, created.error_message

        operations.perform(Start(3))
        wait_until(lambda: create() == (Errors.UNKNOWN_SERVER_ERROR, RACKS_MISSING))
        for running in (0, 3):
            with pytest.raises(WrongState, match=f"broker {running} already exists") as refused:
                operations.add(running, "r")
            assert ("klamm broker stop 3" in str(refused.value.hint)) is (running == 3)
        operations.perform(Stop(3))
        assert operations.add(3, "r")["rack"] == "r"
        assert server.cluster.spec.broker_ids == (0, 1, 3)
        wait_until(lambda: BrokerMetadata(3, "r") in server.admin.live_brokers())
        assert create()[0] is Errors.NONE
        operations.perform(Stop(0))
        with pytest.raises(WrongState, match="broker 0 already exists"):
            operations.add(0, "r")
