"""ZooKeeper's logs as events: a real cluster's, and stories whose end is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from klamm.replay.engines import Engine
from klamm.replay.event_schema import RAW_SCHEMA
from klamm.replay.sources.zookeeper_reader import FORMAT, ZooKeeperLogs
from klamm.zk.txn_log import Txn, TxnOp, TxnType, read_txn_log
from tests.scenarios import SCENARIOS, read_scenario
from tests.spark.reading import At, Told
from tests.spark.zookeeper_logs import Story, check, error, read_events, write_log

pytestmark = pytest.mark.timeout(300)

SERVER = Path(__file__).parents[1] / "data/kafka_logs/trace/zookeeper"
LOG = SERVER / "version-2/log.1"
TRACED = (
    "api_reassign_cancel",
    "controller_kill",
    "create_manual",
    "delete_one_down",
    "isr_all_dead_unclean",
    "reassign_controller_moves",
    "reassign_move_all",
    "rolling_restart",
)
RECORDED = tuple(name for name in TRACED if name in SCENARIOS)


def run_of(name: str) -> str:
    return f"/oracle-{name}-4011"


@pytest.fixture(scope="module")
def real(engine: Engine) -> Told:
    """A log that holds one cluster after the other."""
    return read_events(engine, SERVER)


def last_states(rows: list[At]) -> dict[str, tuple[object, ...]]:
    """By path, until the topic went; the order of an ISR depends on who asked first."""
    states: dict[str, tuple[object, ...]] = {}
    for row in rows:
        path = f"/brokers/topics/{row.topic}/partitions/{row.partition}/state"
        if row.kind == "leadership_written":
            found = (row.leader, row.leader_epoch, row.epoch, set(row.isr), row.zk_version)
            states[path] = found
        elif row.kind == "leadership_deleted" and row.controller >= 0:
            del states[path]
    return states


def test_every_chroot_is_a_run(real: Told) -> None:
    assert {row.run for row in real.events} == set(map(run_of, TRACED))
    assert real.damaged == []


@pytest.mark.parametrize("name", RECORDED)
def test_the_log_of_a_cluster_ends_as_another_run_of_its_scenario_did(
    real: Told, name: str
) -> None:
    tree = read_scenario(name)["steps"][-1]["tree"]
    recorded = {}
    for path, znode in tree.items():
        if path.endswith("/state"):
            data = znode["data"]
            fields = (data["leader"], data["leader_epoch"], data["controller_epoch"])
            recorded[path] = (*fields, set(data["isr"]), znode["version"])
    assert last_states(real.of(run_of(name))) == recorded
    elected = real.of(run_of(name), "controller_elected")[-1]
    epoch = tree["/controller_epoch"]
    assert (elected.epoch, elected.zk_version) == (epoch["data"], epoch["version"])


def test_there_are_recorded_scenarios() -> None:
    assert len(RECORDED) >= 6


def test_every_write_is_its_controllers(real: Told) -> None:
    controllers = {
        (row.run, row.epoch): row.controller
        for row in real.events
        if row.kind == "controller_elected"
    }
    written = [row for row in real.events if row.kind == "leadership_written"]
    assert len(written) > 50
    assert all(row.controller == controllers[row.run, row.epoch] for row in written)
    assert all(row.detail is None for row in written)


def test_a_killed_controllers_cluster(real: Told) -> None:
    rows = real.of(
        run_of("controller_kill"),
        "controller_elected",
        "controller_resigned",
        "broker_online",
        "broker_offline",
    )
    told = [(row.kind, row.controller, row.epoch, row.replica, row.detail) for row in rows]
    assert told[:8] == [
        ("broker_online", -1, -1, 0, None),
        ("controller_elected", 0, 1, -1, None),
        ("broker_online", -1, 1, 2, None),
        ("broker_online", -1, 1, 1, None),
        ("broker_offline", -1, 1, 0, "session expired"),
        ("controller_resigned", 0, 1, -1, "session expired"),
        ("controller_elected", 2, 2, -1, None),
        ("broker_online", -1, 2, 0, None),
    ]


def test_refusals_are_reported_and_are_no_writes(real: Told) -> None:
    refused = [row for row in real.events if row.kind == "write_refused"]
    assert Counter(row.outcome for row in refused) == {"NONODE": 11, "NODEEXISTS": 3}
    # Who came too late to be the controller; and the controller, who had to make parents first.
    lost = [(row.run, row.replica, row.controller) for row in refused if row.replica >= 0]
    assert lost == [
        (run_of("controller_kill"), 1, -1),
        (run_of("reassign_controller_moves"), 0, -1),
        (run_of("rolling_restart"), 2, -1),
    ]
    assert all(row.controller >= 0 and row.epoch > 0 for row in refused if row.replica < 0)


def test_a_reassignment_is_read_from_the_writes_of_its_znodes(real: Told) -> None:
    rows = real.of(run_of("reassign_move_all"), "admin_request", "assignment_written")
    assert [(row.detail, row.reassignment) for row in rows[2:]] == [
        ("reassign_partitions 2,3", None),
        (
            "ReplicaAssignment(replicas=2,3,0,1, addingReplicas=2,3, removingReplicas=0,1)",
            "t-0->2,3",
        ),
        ("ReplicaAssignment(replicas=2,3, addingReplicas=, removingReplicas=)", None),
    ]


def test_places_follow_zookeepers_order(real: Told) -> None:
    for name in TRACED:
        rows = real.of(run_of(name))
        assert [row.zxid for row in rows] == sorted(row.zxid for row in rows)
        assert all(row.place >> 12 == row.zxid for row in rows)


@pytest.mark.spark
@pytest.mark.slow
def test_every_operation_is_a_row(spark: SparkSession) -> None:
    spark.dataSource.register(ZooKeeperLogs)
    rows = spark.read.format(FORMAT).load(str(SERVER)).collect()
    expected = [
        (txn.zxid, index, txn.offset, txn.session_id, txn.t_ms, op.type.name, op.path, op.data)
        for txn in read_txn_log(LOG)
        if isinstance(txn, Txn)
        for index, op in enumerate(txn.ops)
    ]
    found = sorted(
        (row.zxid, row.op_index, row.offset, row.session, row.t_ms, row.type, row.path, row.data)
        for row in rows
    )
    assert [row[:7] for row in found] == [row[:7] for row in expected]
    assert [row[7] and bytes(row[7]) for row in found] == [row[7] for row in expected]
    assert {row.file for row in rows} == {str(LOG)}


def stale_controller(story: Story) -> None:
    """Two controllers: the fence holds once, and once it does not."""
    story.register(10, 1, "/stale")
    story.elect(10, 1, 1, "/stale")
    story.lead(10, 1, 0, chroot="/stale")
    story.register(20, 2, "/stale")
    story.delete(99, "/stale/controller")
    story.elect(20, 2, 2, "/stale")
    story.lead(20, 2, 1, leader=2, epoch=2, chroot="/stale")
    story.txn(10, error(-103), error(-2))
    story.lead(10, 1, 2, leader=1, epoch=1, chroot="/stale")
    story.lead(20, None, 3, leader=2, epoch=1, isr="2", chroot="/stale")
    story.txn(77, error(-103), error(-2))


def lives(story: Story) -> None:
    """Ephemerals that end by hand, with their session, or whose owner was followed."""
    story.register(30, 1, "/lives")
    story.register(31, 2, "/lives")
    story.delete(31, "/lives/brokers/ids/2")
    story.register(32, 2, "/lives")
    story.close(31)
    story.close(30, ("/lives/brokers/ids/1", "/lives/somebody"))
    story.close(32)
    story.close(33, ("/lives/brokers/ids/7",))


def made_again(story: Story) -> None:
    """A chroot that was deleted and made again: versions of /controller_epoch begin anew."""
    for session, broker, first in ((40, 4, 1), (50, 5, 11)):
        story.txn(session, TxnOp(TxnType.CREATE, "/again/controller_epoch", b"0"))
        story.register(session, broker, "/again")
        data = b'{"version":1,"brokerid":%d}' % broker
        story.txn(
            session,
            TxnOp(TxnType.CREATE, "/again/controller", data, is_ephemeral=True),
            TxnOp(TxnType.SET_DATA, "/again/controller_epoch", b"%d" % first, 1),
        )
        story.lead(session, 1, 0, epoch=first, chroot="/again")
        for path in ("controller_epoch", "controller", "brokers/topics/t/partitions/0/state"):
            story.delete(99, f"/again/{path}")


def old_kafka(story: Story) -> None:
    """Before 2.2 the two znodes of an election were written one after the other."""
    story.register(60, 6, "/old")
    data = b'{"version":1,"brokerid":6}'
    story.txn(60, TxnOp(TxnType.CREATE, "/old/controller", data, is_ephemeral=True))
    story.txn(60, TxnOp(TxnType.SET_DATA, "/old/controller_epoch", b"3", 3))


@pytest.fixture(scope="module")
def stories(duckdb: Engine, tmp_path_factory: pytest.TempPathFactory) -> Told:
    story = Story()
    chapters: tuple[Callable[[Story], None], ...] = (stale_controller, lives, made_again, old_kafka)
    for chapter in chapters:
        chapter(story)
    story.txn(99, TxnOp(TxnType.CREATE, "/elsewhere", b"x"))
    story.txn(70, check(5, "/unknown"), TxnOp(TxnType.DELETE, "/unknown/brokers/topics/t"))
    story.lead(99, None, 4, chroot="/unknown", epoch=5)
    story.txn(70, TxnOp(TxnType.SET_DATA, "/malformed/brokers/topics/t", b"nonsense", 3))
    path = write_log(tmp_path_factory.mktemp("stories"), story.txns)
    return read_events(duckdb, path)


def test_a_deposed_controllers_writes_are_its_own(stories: Told) -> None:
    rows = stories.of("/stale", "controller_elected", "leadership_written", "write_refused")
    found = [(row.kind, row.controller, row.epoch, row.outcome, row.detail) for row in rows]
    assert found == [
        ("controller_elected", 1, 1, None, None),
        ("leadership_written", 1, 1, None, None),
        ("controller_elected", 2, 2, None, None),
        ("leadership_written", 2, 2, None, None),
        ("write_refused", 1, 1, "BADVERSION", None),
        ("leadership_written", 1, 1, None, None),
        ("leadership_written", -1, 2, None, "written by broker 2"),
    ]


def test_an_ephemeral_ends_once(stories: Told) -> None:
    rows = stories.of("/lives")
    assert [(row.kind, row.replica, row.detail) for row in rows] == [
        ("broker_online", 1, None),
        ("broker_online", 2, None),
        ("broker_offline", 2, None),
        ("broker_online", 2, None),
        ("broker_offline", 1, "session closed"),
        ("broker_offline", 2, "session closed"),
        ("broker_offline", 7, "session closed"),
    ]


def test_a_fence_stands_for_the_epoch_of_its_time(stories: Told) -> None:
    rows = stories.of("/again", "leadership_written", "controller_resigned")
    assert [(row.kind, row.controller, row.epoch) for row in rows] == [
        ("leadership_written", 4, 1),
        ("controller_resigned", 4, 1),
        ("leadership_written", 5, 11),
        ("controller_resigned", 5, 11),
    ]


def test_an_epoch_written_by_itself_is_its_owners(stories: Told) -> None:
    (row,) = stories.of("/old", "controller_elected")
    assert (row.controller, row.epoch, row.zk_version) == (6, 3, 3)


def test_what_cannot_be_known_is_not_guessed(stories: Told) -> None:
    deleted, written = stories.of("/unknown")
    assert (deleted.kind, deleted.controller, deleted.epoch) == ("topic_deleted", -1, -1)
    # The data says its epoch, but nobody says who wrote it.
    assert (written.controller, written.epoch, written.detail) == (-1, 5, None)
    for row in stories.events:
        unknown = (row.from_state, row.to_state, row.since_ms, row.key_seq, row.prev_leader)
        assert unknown == (None,) * 5
        assert (row.prev_isr, row.election, row.has_predecessors) == (None, None, False)


def test_a_malformed_znode_is_reported(stories: Told) -> None:
    (row,) = stories.of("/malformed")
    assert (row.kind, row.topic, row.detail) == ("znode_malformed", "t", "/brokers/topics/t")
    assert stories.damaged == []


def test_events_have_the_schema(stories: Told) -> None:
    assert list(stories.events[0].as_dict()) == RAW_SCHEMA.names
    assert {row.source for row in stories.events} == {"zookeeper"}
    assert all(row.t_ms == 1_000 * row.zxid for row in stories.events)
