"""Every recorded tree goes up in the simulated world and fails over: what is written then."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from klamm.lab.checks.agreement import check_simulated_world
from klamm.server.dumped_cluster import DumpedCluster, read_dumped_cluster
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.dump import DumpedZNode, dump
from klamm.zk.dump_load import load
from klamm.zk.store import Create, Delete
from tests.dumps import RULES, RecordedTree, Tree, recorded_trees, tree_of, unexplained
from tests.server_configs import server_config
from tests.sim.worlds import active_controller

TREES = tuple(recorded_trees())
DOCS = Path(__file__).parents[2] / "docs" / "rehearsal.md"


def epoch(tree: Tree) -> int:
    """The controller's epoch."""
    return int(tree["/controller_epoch"] or b"0")


def disagreements(world: SimulatedWorld, tree: Tree) -> list[str]:
    """Where somebody differs from ZooKeeper; of topics that are deleted brokers know nothing."""
    prefix = "/admin/delete_topics/"
    deleted = tuple(f"{p.removeprefix(prefix)}-" for p in tree if p.startswith(prefix))
    lines = check_simulated_world(world)
    return [line for line in lines if not deleted or not line.startswith(deleted)]


def up(tree: RecordedTree, cluster: DumpedCluster) -> SimulatedWorld:
    """A world that went up from a tree, as klamm up --from-dump does."""
    config = server_config(dump=cluster, session_timeout_ms=2000, config=tree.config, seed=1)
    world = SimulatedWorld(config.spec("run", "cluster"))
    load(world.open_store(), cluster.plan, last=[Create("/klamm", b"{}")])
    for broker_id in config.started_broker_ids:
        world.start(broker_id, holds_controller=True)
    world.run_for(100)
    first, *others = world.spec.candidates or ()
    world.begin_candidacy(first)
    assert world.run_until(lambda: world.controller_context is not None)
    assert active_controller(world).config.broker_id == first
    for broker_id in others:
        world.begin_candidacy(broker_id)
    world.run_for(4_000)
    assert world.errors == []
    return world


@pytest.mark.parametrize("tree", TREES, ids=map(str, TREES))
def test_a_recorded_tree_goes_up_and_only_documented_writes_occur(tree: RecordedTree) -> None:
    cluster = read_dumped_cluster(tree.znodes, str(tree))
    dumped, live = tree_of(tree.znodes), frozenset(cluster.running)
    world = up(tree, cluster)
    store = world.open_store()
    after = tree_of(dump(store))
    assert unexplained(dumped, live, after) == []
    assert epoch(after) == epoch(dumped) + 1
    assert disagreements(world, after) == []
    store.write([[Delete("/controller")]])
    world.run_for(4_000)
    moved = tree_of(dump(store))
    assert unexplained(after, live, moved) == []
    assert epoch(moved) == epoch(dumped) + 2
    assert disagreements(world, moved) == []


def changed(tree: RecordedTree, without: str, *added: DumpedZNode) -> RecordedTree:
    """A tree without the znodes that match, and with others."""
    kept = [znode for znode in tree.znodes if not re.fullmatch(without, znode.path)]
    return tree._replace(znodes=(*kept, *added))


def json_znode(path: str, value: object) -> DumpedZNode:
    return DumpedZNode(path, json.dumps(value), ephemeral_owner="0x0")


T0 = {"topic": "t", "partition": 0}
PENDING = {
    "a topic without an id": (
        "/brokers/topics/t",
        json_znode("/brokers/topics/t", {"version": 1, "partitions": {"0": [1, 2, 0]}}),
    ),
    "a topic without states": ("/brokers/topics/t/.*",),
    "a reassignment": (
        "",
        json_znode(
            "/admin/reassign_partitions",
            {"version": 1, "partitions": [{**T0, "replicas": [2, 0]}]},
        ),
    ),
    "a deletion": ("", DumpedZNode("/admin/delete_topics/t", None, ephemeral_owner="0x0")),
    "an election": (
        "/brokers/topics/t/partitions/0/state",
        json_znode("/admin/preferred_replica_election", {"version": 1, "partitions": [T0]}),
        json_znode(
            "/brokers/topics/t/partitions/0/state",
            {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 4, "isr": [1, 2, 0]},
        ),
    ),
    "notifications": (
        "",
        json_znode(
            "/isr_change_notification/isr_change_0000000007", {"version": 1, "partitions": [T0]}
        ),
        json_znode(
            "/log_dir_event_notification/log_dir_event_0000000003",
            {"version": 1, "broker": 1, "event": 1},
        ),
    ),
}
DONE = {
    "a topic without an id": lambda t: b"topic_id" in (t["/brokers/topics/t"] or b""),
    "a topic without states": lambda t: "/brokers/topics/t/partitions/0/state" in t,
    "a reassignment": lambda t: (
        b'"0":[2,0]' in (t["/brokers/topics/t"] or b"") and "/admin/reassign_partitions" not in t
    ),
    "a deletion": lambda t: not [path for path in t if path.endswith("/t")],
    "an election": lambda t: (
        b'"leader":1' in (t["/brokers/topics/t/partitions/0/state"] or b"")
        and "/admin/preferred_replica_election" not in t
    ),
    "notifications": lambda t: not [path for path in t if "_notification/" in path],
}


@pytest.mark.parametrize("work", PENDING)
def test_what_was_pending_is_done_and_nothing_else(work: str) -> None:
    (recorded,) = (tree for tree in TREES if str(tree) == "leader_kill_restart-1")
    tree = changed(recorded, *PENDING[work])
    cluster = read_dumped_cluster(tree.znodes, work)
    world = up(tree, cluster)
    after = tree_of(dump(world.open_store()))
    assert unexplained(tree_of(tree.znodes), frozenset(cluster.running), after) == []
    assert DONE[work](after), after
    assert disagreements(world, after) == []


def test_the_docs_list_every_write_that_may_be() -> None:
    text = " ".join(DOCS.read_text().split())
    assert [rule.reason for rule in RULES if rule.reason not in text] == []
