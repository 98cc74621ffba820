"""What one transaction of ZooKeeper says about a Kafka cluster."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from klamm.replay.sources.zookeeper_changes import ClusterChange, changes_of
from klamm.replay.sources.zookeeper_rows import ZooKeeperFile, change_batches, changes_in_snapshot
from klamm.zk.snapshot_file import SnapshotEntry, SnapshotNode
from klamm.zk.txn_log import Txn, TxnOp, TxnType, read_txn_log

LOG = Path(__file__).parents[2] / "data/kafka_logs/trace/zookeeper/version-2/log.1"
STATE = b'{"controller_epoch":4,"leader":2,"version":1,"leader_epoch":3,"isr":[2,1]}'
TOPIC = (
    b'{"partitions":{"0":[1,2,3],"1":[2]},"topic_id":"1abTBevTQzWGq8fFVPtI5Q",'
    b'"adding_replicas":{"0":[3]},"removing_replicas":{"0":[1]},"version":3}'
)
IN_PROGRESS = "ReplicaAssignment(replicas=1,2,3, addingReplicas=3, removingReplicas=1)"


def check(version: int, chroot: str = "") -> TxnOp:
    return TxnOp(TxnType.CHECK, f"{chroot}/controller_epoch", version=version + 1)


def create(path: str, data: bytes | None = None, *, ephemeral: bool = False) -> TxnOp:
    return TxnOp(TxnType.CREATE, path, data, is_ephemeral=ephemeral)


def set_data(path: str, data: bytes | None, version: int = 1) -> TxnOp:
    return TxnOp(TxnType.SET_DATA, path, data, version)


def delete(path: str) -> TxnOp:
    return TxnOp(TxnType.DELETE, path)


def error(number: int) -> TxnOp:
    return TxnOp(TxnType.ERROR, number=number)


def txn(*ops: TxnOp) -> Txn:
    return Txn(16, 7, 1, 1, 1000, len(ops) > 1, ops)


def test_a_controllers_write_carries_its_fence() -> None:
    (change,) = changes_of(
        txn(check(4, "/k"), set_data("/k/brokers/topics/a-b/partitions/12/state", STATE, 9))
    )
    assert change == ClusterChange(
        "leadership_written",
        op_index=1,
        chroot="/k",
        topic="a-b",
        partition=12,
        leader=2,
        leader_epoch=3,
        isr=(2, 1),
        epoch=4,
        zk_version=9,
        fence=4,
    )


def test_a_leaders_own_write_has_none() -> None:
    (change,) = changes_of(txn(set_data("/brokers/topics/t/partitions/0/state", STATE, 5)))
    assert (change.chroot, change.fence, change.isr) == ("", None, (2, 1))


def test_a_state_that_is_created_has_version_0() -> None:
    (change,) = changes_of(txn(check(1), create("/brokers/topics/t/partitions/0/state", STATE)))
    assert change.zk_version == 0


def test_an_election_is_one_change() -> None:
    data = b'{"version":1,"brokerid":3,"timestamp":"1"}'
    (change,) = changes_of(
        txn(create("/controller", data, ephemeral=True), set_data("/controller_epoch", b"7", 7))
    )
    assert change == ClusterChange("controller_elected", chroot="", broker=3, epoch=7, zk_version=7)


def test_a_registration_is_one_change_and_new_data_another() -> None:
    (change,) = changes_of(
        txn(create("/brokers/ids/3", None, ephemeral=True), set_data("/brokers/ids/3", b"{}"))
    )
    assert (change.kind, change.broker) == ("broker_online", 3)
    (change,) = changes_of(txn(set_data("/brokers/ids/3", b"{}", 2)))
    assert (change.kind, change.broker) == ("broker_modified", 3)


def test_a_topic_is_a_change_a_partition() -> None:
    created, first, second = changes_of(txn(create("/brokers/topics/t", TOPIC)))
    assert (created.kind, created.topic, created.detail) == ("topic_created", "t", "2 partitions")
    assert (first.kind, first.partition, first.detail) == ("assignment_written", 0, IN_PROGRESS)
    assert (first.reassignment, second.reassignment) == ("t-0->2,3", None)
    again = changes_of(txn(set_data("/brokers/topics/t", TOPIC, 4)))
    assert [(change.kind, change.zk_version) for change in again] == [("assignment_written", 4)] * 2


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"partitions":{"0":[1,2]}}',
        b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}',
    ],
)
def test_topics_of_older_versions_are_read(data: bytes) -> None:
    _, assignment = changes_of(txn(create("/brokers/topics/t", data)))
    assert assignment.detail == (
        "ReplicaAssignment(replicas=1,2, addingReplicas=, removingReplicas=)"
    )


@pytest.mark.parametrize(
    ("path", "kind", "subject"),
    [
        ("/brokers/topics/t", "topic_deleted", {"topic": "t"}),
        (
            "/brokers/topics/t/partitions/7/state",
            "leadership_deleted",
            {"topic": "t", "partition": 7},
        ),
        ("/brokers/ids/4", "broker_offline", {"broker": 4}),
        ("/controller", "controller_resigned", {}),
    ],
)
def test_deletions_are_changes_with_their_fence(
    path: str, kind: str, subject: dict[str, Any]
) -> None:
    (change,) = changes_of(txn(check(5, "/a/b"), delete(f"/a/b{path}")))
    assert change == ClusterChange(kind, op_index=1, chroot="/a/b", fence=5, **subject)


def test_requests_of_tools_in_znodes_are_changes() -> None:
    reassign = (
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,3]},'
        b'{"topic":"u","partition":1,"replicas":[1]}]}'
    )
    changes = changes_of(txn(create("/admin/reassign_partitions", reassign)))
    assert [(c.kind, c.topic, c.partition, c.detail) for c in changes] == [
        ("admin_request", "t", 0, "reassign_partitions 2,3"),
        ("admin_request", "u", 1, "reassign_partitions 1"),
    ]
    elect = b'{"version":1,"partitions":[{"topic":"t","partition":5}]}'
    (change,) = changes_of(txn(create("/admin/preferred_replica_election", elect)))
    assert (change.topic, change.partition, change.detail) == ("t", 5, "preferred_replica_election")
    (change,) = changes_of(txn(create("/admin/delete_topics/controller")))
    assert (change.topic, change.detail) == ("controller", "delete_topics")


@pytest.mark.parametrize(
    ("ops", "outcome", "chroot", "fence"),
    [
        ((check(3, "/k"), error(-101)), "NONODE", "/k", 3),
        ((error(-103), error(-2)), "BADVERSION", None, None),
        ((error(-110), error(-2)), "NODEEXISTS", None, None),
        ((check(3), error(0), error(-110)), "NODEEXISTS", "", 3),
        ((error(-999), error(-2)), "-999", None, None),
    ],
)
def test_a_refused_multi_is_a_refusal_and_no_write(
    ops: tuple[TxnOp, ...], outcome: str, chroot: str | None, fence: int | None
) -> None:
    (change,) = changes_of(txn(*ops))
    found = (change.kind, change.outcome, change.chroot, change.fence)
    assert found == ("write_refused", outcome, chroot, fence)


def test_a_closed_session_shows_what_it_left_where_the_log_does() -> None:
    (closed,) = changes_of(txn(TxnOp(TxnType.CLOSE_SESSION))._replace(cxid=7))
    assert closed == ClusterChange("session_closed", detail="session closed")
    (expired,) = changes_of(txn(TxnOp(TxnType.CLOSE_SESSION))._replace(cxid=0))
    assert expired == ClusterChange("session_closed", detail="session expired")
    paths = ("/k/brokers/ids/1", "/k/controller", "/somebody/else")
    ended = txn(TxnOp(TxnType.CLOSE_SESSION, paths=paths))._replace(cxid=7)
    _, broker, controller = changes_of(ended)
    assert (broker.kind, broker.broker, broker.chroot) == ("broker_offline", 1, "/k")
    assert (controller.kind, controller.detail) == ("controller_resigned", "session closed")


@pytest.mark.parametrize(
    "path",
    [
        "/config/topics/controller",
        "/consumers/g/offsets/controller",
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0",
        "/brokers/seqid",
        "/isr_change_notification/isr_change_0000000001",
        "/elsewhere",
        "/",
    ],
)
def test_other_znodes_are_no_changes(path: str) -> None:
    assert changes_of(txn(create(path, b"x"))) == []


@pytest.mark.parametrize("chroot", ["", "/k", "/a/b", "/cluster", "/brokers", "/config"])
def test_a_cluster_is_named_by_the_path_before_brokers(chroot: str) -> None:
    (change,) = changes_of(txn(create(f"{chroot}/brokers/ids/0", None, ephemeral=True)))
    assert change.chroot == chroot


def test_a_topic_may_have_the_name_of_a_znode() -> None:
    created, *_ = changes_of(txn(create("/brokers/topics/controller", TOPIC)))
    assert (created.kind, created.topic, created.chroot) == ("topic_created", "controller", "")


@pytest.mark.parametrize(
    ("path", "data", "topic", "partition"),
    [
        ("/brokers/topics/t/partitions/0/state", b"nonsense", "t", 0),
        ("/brokers/topics/t/partitions/0/state", b'{"leader":"x"}', "t", 0),
        ("/brokers/topics/t/partitions/0/state", None, "t", 0),
        ("/controller_epoch", b"one", None, -1),
        ("/controller", b"{}", None, -1),
        ("/admin/reassign_partitions", b"[]", None, -1),
    ],
)
def test_a_malformed_znode_is_reported(
    path: str, data: bytes | None, topic: str | None, partition: int
) -> None:
    (change,) = changes_of(txn(create(f"/k{path}", data)))
    found = (change.kind, change.detail, change.topic, change.partition, change.chroot)
    assert found == ("znode_malformed", path, topic, partition, "/k")
    assert change.outcome


def test_a_topic_without_partitions_is_there_and_malformed() -> None:
    created, malformed = changes_of(txn(create("/brokers/topics/t", b"nonsense")))
    assert (created.kind, malformed.kind) == ("topic_created", "znode_malformed")


def test_the_real_log_has_no_malformed_znode() -> None:
    kinds = {
        change.kind
        for found in read_txn_log(LOG)
        if isinstance(found, Txn)
        for change in changes_of(found)
    }
    assert "znode_malformed" not in kinds
    assert {"controller_elected", "leadership_written", "write_refused"} <= kinds


def entry(
    path: str, data: bytes | None, czxid: int, mzxid: int, version: int = 0, owner: int = 0
) -> SnapshotEntry:
    node = SnapshotNode(data, czxid, mzxid, czxid * 10, mzxid * 10, version, owner)
    return SnapshotEntry(czxid, path, node)


def test_a_snapshot_shows_last_writes() -> None:
    controller = b'{"version":1,"brokerid":3,"timestamp":"1"}'
    found = list(
        changes_in_snapshot(
            [
                entry("/brokers/ids/3", b"{}", 5, 6, 1, owner=77),
                entry("/brokers/topics/t", TOPIC, 7, 9, 2),
                entry("/brokers/topics/t/partitions/0/state", STATE, 8, 12, 4),
                entry("/controller", controller, 11, 11, owner=77),
                entry("/controller_epoch", b"2", 1, 11, 2),
            ]
        )
    )
    assert [(at.change.kind, at.zxid, at.t_ms, at.session_id) for at in found] == [
        ("broker_online", 5, 50, 77),
        ("assignment_written", 9, 90, 0),
        ("assignment_written", 9, 90, 0),
        ("topic_created", 7, 70, 0),
        ("leadership_written", 12, 120, 0),
        ("controller_elected", 11, 110, 77),
    ]
    details = [at.change.detail for at in found]
    assert [details[n] for n in (0, 3, 4, 5)] == ["snapshot"] * 4
    assert details[1] == IN_PROGRESS, "that of the znode itself"
    elected = found[-1].change
    assert (elected.broker, elected.epoch, elected.zk_version) == (3, 2, 2)


def test_a_snapshot_without_a_controller_has_its_epoch() -> None:
    (at,) = changes_in_snapshot([entry("/controller_epoch", b"2", 1, 11, 2)])
    assert (at.change.kind, at.change.epoch, at.zxid) == ("epoch_written", 2, 11)


def test_a_controller_of_another_multi_than_the_epochs_is_not_paired() -> None:
    controller = b'{"version":1,"brokerid":3,"timestamp":"1"}'
    found = changes_in_snapshot(
        [
            entry("/controller", controller, 13, 13, owner=77),
            entry("/controller_epoch", b"2", 1, 11, 2),
        ]
    )
    assert [at.change.kind for at in found] == ["controller_created", "epoch_written"]


@pytest.mark.parametrize(
    ("before", "zxids"), [(-1, [8, 9, 10]), (8, []), (9, [8]), (10, [8, 9]), (11, [8, 9, 10])]
)
def test_transactions_of_the_logs_are_not_read_from_a_snapshot(
    before: int, zxids: list[int], tmp_path: Path
) -> None:
    """A snapshot that a running server writes has later changes too."""
    data = b"ZKSN" + struct.pack(">iqii", 2, 0, 0, 0)
    for zxid in (8, 9, 10):
        path = f"/brokers/topics/t/partitions/{zxid}/state".encode()
        data += struct.pack(">i", len(path)) + path + struct.pack(">i", len(STATE)) + STATE
        data += struct.pack(">qqqqqiiiqq", 0, zxid, zxid, 0, 0, 0, 0, 0, 0, 0)
    data += struct.pack(">i", 1) + b"/"
    file = tmp_path / "snapshot.8"
    file.write_bytes(data + struct.pack(">qi", zlib.adler32(data), 1) + b"/")
    read = ZooKeeperFile(0, file, is_snapshot=True, before=before)
    rows = [row for batch in change_batches("r", read) for row in batch.to_pylist()]
    assert [(row["zxid"], row["partition"]) for row in rows] == [(n, n) for n in zxids]
