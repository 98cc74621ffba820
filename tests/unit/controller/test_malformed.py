"""Malformed and foreign znodes: set apart, shown, and everything else is served."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.types import LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.statemachines.partition_state import PartitionState
from klamm.zk.store import Create, GetChildren, GetData, WatchEvent, WatchKind
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, ControllerZNode, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster, broker_info

BAD = "/brokers/topics/bad"
B0 = TopicPartition("bad", 0)


@pytest.mark.parametrize("data", [b"", None, b"not json", b'{"partitions":{"0":"x"}}', b"[]"])
def test_a_malformed_topic_is_quarantined(cluster: Cluster, data: bytes | None) -> None:
    cluster.admin.create(BAD, data)
    (tp,) = cluster.create_topic("t", (0, 1))
    assert cluster.state(tp).leader == 0
    assert cluster.admin.get_data_and_stat(BAD)[0] == data  # type: ignore[index]
    for _ in range(2):
        assert list(cluster.active.status().malformed) == [BAD]
        assert cluster.active.context.all_topics == {"t"}
        cluster.assert_nothing_failed()
        assert [row.detail for row in cluster.rows(Kind.ZNODE_MALFORMED)] == [BAD]
        cluster.forget()
        cluster.fail_over()


def test_a_malformed_state_with_another_problem_is_reported_again(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    cluster.write_state(tp, b"?")
    cluster.stop(2)
    for _ in range(2):
        cluster.write_state(tp, b'{"leader":1}')
        cluster.run()
    first, second = (row.outcome for row in cluster.rows(Kind.ZNODE_MALFORMED))
    path = TopicPartitionStateZNode.path(tp)
    assert cluster.logged("Ignoring the malformed znode") == [
        f"Ignoring the malformed znode {path}: {reason}" for reason in (first, second)
    ]
    assert first != second


def test_a_malformed_topic_is_not_read_again_and_again(cluster: Cluster) -> None:
    cluster.admin.create(BAD, b"")
    cluster.run()
    read: list[str] = []
    cluster.server.before_op = lambda _, op: None if isinstance(op, list) else read.append(op.path)
    cluster.create_topic("t", (0,))
    assert "/brokers/topics/t" in read
    assert BAD not in read


def test_a_repaired_topic_is_served(cluster: Cluster) -> None:
    cluster.admin.create(BAD, b"")
    cluster.run()
    cluster.admin.set_data(BAD, b'{"version":3,"partitions":{"0":[1]}}')
    cluster.run()
    assert cluster.state(B0) == LeaderAndIsr(1, 0, (1,), 0)
    assert not cluster.active.malformed
    assert cluster.topic_version("bad") == 2
    # And from then on like any other.
    cluster.add_partitions("bad", (1,), (2,))
    assert cluster.state(TopicPartition("bad", 1)).leader == 2
    cluster.assert_nothing_failed()


def test_a_malformed_topic_that_is_removed_is_forgotten(cluster: Cluster) -> None:
    cluster.admin.create(BAD, b"")
    cluster.run()
    cluster.admin.delete(BAD)
    cluster.run()
    assert not cluster.active.malformed
    assert cluster.active.watches.event_of(WatchEvent(WatchKind.DATA_CHANGED, BAD)) is None
    cluster.create_topic("bad", (1,))
    assert cluster.state(B0).leader == 1


def test_a_known_topic_that_becomes_malformed_is_still_served(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    cluster.admin.set_data("/brokers/topics/t", b"")
    cluster.stop(1)
    assert cluster.state(tp).isr == (0,)
    assert list(cluster.active.malformed) == ["/brokers/topics/t"]
    cluster.admin.set_data("/brokers/topics/t", b'{"version":3,"partitions":{"0":[0],"1":[2]}}')
    cluster.run()
    assert cluster.state(TopicPartition("t", 1)).leader == 2
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def test_a_malformed_topic_that_is_deleted_and_at_once_created_again_is_served(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    path = "/brokers/topics/t"
    cluster.admin.set_data(path, b"")
    cluster.run()
    assert list(cluster.active.malformed) == [path]

    def before_op(_: int, op: object) -> None:
        # The controller lists the topics because one was deleted.
        listed = isinstance(op, GetChildren) and op.path == "/brokers/topics"
        if listed and path not in cluster.server.tree.nodes:
            cluster.admin.create(path, b'{"version":3,"partitions":{"0":[2]}}')

    cluster.server.before_op = before_op
    cluster.delete_topic("t")
    assert not cluster.active.malformed
    assert cluster.state(tp) == LeaderAndIsr(2, 0, (2,), 0)
    cluster.assert_nothing_failed()


def test_a_malformed_state_concerns_its_partition_alone(cluster: Cluster) -> None:
    bad, good = cluster.create_topic("t", (1, 2), (1, 2))
    cluster.write_state(bad, b'{"leader":1}')
    cluster.fail_over()
    path = "/brokers/topics/t/partitions/0/state"
    assert list(cluster.active.malformed) == [path]
    assert cluster.active.context.partition_state(bad) is PartitionState.NEW
    cluster.stop(1)
    assert cluster.state(good) == LeaderAndIsr(2, 1, (2,), 1)
    assert cluster.admin.get_data_and_stat(path)[0] == b'{"leader":1}'  # type: ignore[index]
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("data", [b"garbage", b'{"leader":1}'])
def test_a_malformed_state_that_is_older_than_its_topic_is_quarantined(
    cluster: Cluster, data: bytes
) -> None:
    path = "/brokers/topics/t/partitions/0/state"
    # Seen by a controller only once the topic is whole.
    cluster.paused.update((0, 1, 2))
    cluster.admin.create_recursive(path, data)
    cluster.admin.set_data("/brokers/topics/t", b'{"version":3,"partitions":{"0":[1],"1":[2]}}')
    cluster.resume()
    assert list(cluster.active.status().malformed) == [path]
    assert [row.detail for row in cluster.rows(Kind.ZNODE_MALFORMED)] == [path]
    assert cluster.active.context.partition_state(TopicPartition("t", 0)) is PartitionState.NEW
    assert cluster.state(TopicPartition("t", 1)).leader == 2
    assert cluster.admin.get_data_and_stat(path)[0] == data  # type: ignore[index]
    # Tried again with the next event, and no news by then.
    cluster.stop(0)
    assert len(cluster.rows(Kind.ZNODE_MALFORMED)) == 1


def test_a_state_that_is_repaired_while_its_topic_is_deleted_elects_no_leader(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    sound = TopicPartitionStateZNode.encode(cluster.state(tp), 1)
    cluster.write_state(tp, b"?")
    cluster.fail_over()
    cluster.kill_broker(2)
    cluster.delete_topic("t")
    cluster.forget()
    cluster.write_state(tp, sound)
    cluster.run()
    assert not cluster.active.malformed
    assert not cluster.rows(Kind.PARTITION_TRANSITION, Kind.PARTITION_FAILED)


def test_a_reassignment_completes_when_its_malformed_state_is_repaired(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    cluster.reassign({tp: (1, 2)})
    state = cluster.state(tp)
    in_sync = TopicPartitionStateZNode.encode(state.with_leader_and_isr(0, (0, 1, 2)), 1)
    cluster.write_state(tp, b"?")
    cluster.fail_over()
    assert cluster.active.malformed
    cluster.write_state(tp, in_sync)
    cluster.run()
    assert cluster.logged("can be read") == ["The state of partition t-0 can be read again"]
    assert cluster.active.context.assignments[tp] == ReplicaAssignment((1, 2))
    assert cluster.state(tp).leader == 1
    cluster.assert_nothing_failed()


def test_a_malformed_state_that_is_deleted_is_not_made_again(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    cluster.write_state(tp, b"?")
    cluster.stop(2)
    path = TopicPartitionStateZNode.path(tp)
    assert list(cluster.active.malformed) == [path]
    cluster.forget()
    cluster.admin.delete(path)
    cluster.run()
    assert not cluster.active.malformed
    assert not cluster.rows(Kind.PARTITION_TRANSITION, Kind.PARTITION_FAILED)
    assert cluster.stored(tp) is None


def test_an_isr_change_of_a_malformed_topic_is_not_taken_over(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    cluster.admin.create(BAD, b"?")
    path = TopicPartitionStateZNode.path(B0)
    cluster.admin.create_recursive(path, TopicPartitionStateZNode.encode(cluster.state(tp), 1))
    cluster.admin.propagate_isr_changes([B0, tp])
    cluster.run()
    assert list(cluster.active.context.leaderships) == [tp]
    assert not cluster.admin.get_children("/isr_change_notification")


def test_a_readable_state_that_was_there_before_its_topic_is_not_malformed(
    cluster: Cluster,
) -> None:
    tp = TopicPartition("t", 0)
    cluster.paused.update((0, 1, 2))
    cluster.admin.create_recursive(
        TopicPartitionStateZNode.path(tp),
        TopicPartitionStateZNode.encode(LeaderAndIsr(2, 5, (2,), 0), 1),
    )
    cluster.admin.set_data("/brokers/topics/t", b'{"version":3,"partitions":{"0":[1]}}')
    cluster.resume()
    assert cluster.active.context.partition_state(tp) is PartitionState.NEW
    assert not cluster.active.malformed


@pytest.mark.parametrize(
    "quirks",
    [
        Quirks(malformed_znode_fails_the_event=True),
        Quirks(lost_reply_leaves_the_partition_stuck=True),
    ],
)
def test_quirks_leave_a_malformed_state_that_was_there_unseen(quirks: Quirks) -> None:
    cluster = Cluster(quirks).start(0, 1, 2)
    cluster.paused.update((0, 1, 2))
    cluster.admin.create_recursive("/brokers/topics/t/partitions/0/state", b'{"leader":1}')
    cluster.admin.set_data("/brokers/topics/t", b'{"version":3,"partitions":{"0":[1]}}')
    cluster.resume()
    assert not cluster.rows(Kind.EVENT_FAILED)
    assert not cluster.active.malformed


@pytest.mark.parametrize(
    ("replicas", "reason"),
    [
        (b"", "no replicas"),
        (b"1,1", "duplicate or negative replicas: [1, 1]"),
        (b"0,-1", "duplicate or negative replicas: [0, -1]"),
    ],
)
def test_a_topic_with_a_partition_without_replicas_is_quarantined(
    cluster: Cluster, replicas: bytes, reason: str
) -> None:
    cluster.admin.create(BAD, b'{"version":3,"partitions":{"1":[1],"0":[%b]}}' % replicas)
    (tp,) = cluster.create_topic("t", (0, 1))
    for _ in range(2):
        assert cluster.active.status().malformed == {BAD: f"partition 0 has {reason}"}
        assert cluster.active.context.all_topics == {"t"}
        assert cluster.state(tp).leader == 0
        cluster.fail_over()
    cluster.admin.set_data(BAD, b'{"version":3,"partitions":{"1":[1],"0":[2]}}')
    cluster.run()
    assert cluster.state(B0).leader == 2
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def test_a_known_topic_that_gets_a_partition_without_replicas_is_still_served(
    cluster: Cluster,
) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    cluster.admin.set_data("/brokers/topics/t", b'{"version":3,"partitions":{"0":[0,1],"1":[]}}')
    cluster.run()
    assert cluster.active.malformed == {"/brokers/topics/t": "partition 1 has no replicas"}
    cluster.stop(1)
    assert cluster.state(tp).isr == (0,)


def test_quirk_c2_takes_in_a_partition_without_replicas() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0)
    cluster.admin.create(BAD, b'{"version":3,"partitions":{"0":[]}}')
    cluster.run()
    assert not cluster.active.malformed
    assert cluster.active.context.all_topics == {"bad"}


def test_foreign_and_malformed_brokers_are_quarantined(cluster: Cluster) -> None:
    other = cluster.stores[2]
    other.write([[Create("/brokers/ids/x", b"{}", True)], [Create("/brokers/ids/9", b"{}", True)]])
    cluster.run()
    assert set(cluster.active.malformed) == {"/brokers/ids/x", "/brokers/ids/9"}
    cluster.stop(1)
    assert sorted(cluster.active.context.live_brokers) == [0, 2]
    cluster.assert_nothing_failed()


def test_a_malformed_registration_that_is_repaired_or_deleted_is_no_change(
    cluster: Cluster,
) -> None:
    path, info = "/brokers/ids/9", BrokerInfo(broker_info(9))
    store = cluster.stores[2]
    store.write([[Create(path, b"{}", True)], [Create("/brokers/ids/x", b"{}", True)]])
    cluster.run()
    cluster.admin.delete("/brokers/ids/x")
    cluster.run()
    assert list(cluster.active.malformed) == [path]
    cluster.admin.set_data(path, BrokerIdZNode.encode(info, 0))
    cluster.run()
    assert not cluster.active.malformed
    assert sorted(cluster.active.context.live_brokers) == [0, 1, 2, 9]
    assert not cluster.rows(Kind.EVENT_FAILED)


def test_a_live_broker_whose_registration_is_overwritten_stays_live(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    path = "/brokers/ids/1"
    found = cluster.admin.get_data_and_stat(path)
    assert found is not None
    cluster.admin.set_data(path, b"no json")
    cluster.run()
    cluster.stop(2)
    assert sorted(cluster.active.context.live_brokers) == [0, 1]
    assert cluster.state(tp) == LeaderAndIsr(1, 1, (1,), 1)
    assert list(cluster.active.malformed) == [path]
    cluster.admin.set_data(path, found[0])
    cluster.run()
    assert not cluster.active.malformed
    cluster.admin.set_data(path, b"no json")
    cluster.stop(1)
    assert sorted(cluster.active.context.live_brokers) == [0]
    assert not cluster.active.malformed
    assert cluster.state(tp).leader == -1
    cluster.assert_nothing_failed()


def test_a_registration_that_is_repaired_before_it_is_watched_is_served(cluster: Cluster) -> None:
    path, info = "/brokers/ids/9", BrokerInfo(broker_info(9))
    reads: list[str] = []

    def mend(_: int, op: object) -> None:
        if isinstance(op, GetData) and op.path == path:
            reads.append(path)
            if len(reads) == 2:
                cluster.admin.set_data(path, BrokerIdZNode.encode(info, 0))

    cluster.server.before_op = mend
    cluster.stores[2].write([[Create(path, b"{}", True)]])
    cluster.run()
    assert sorted(cluster.active.context.live_brokers) == [0, 1, 2, 9]
    assert not cluster.active.malformed


def test_a_malformed_topic_config_keeps_elections_clean(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (1, 2))
    path = "/config/topics/t"
    cluster.admin.create_recursive(path, b'{"config":{"unclean.leader.election.enable":true}}')
    cluster.stop(2)
    cluster.start(2)
    cluster.stop(1)
    assert cluster.state(tp).isr == (1,)
    assert path in cluster.active.malformed
    cluster.admin.set_data(path, b'{"config":{"unclean.leader.election.enable":"true"}}')
    cluster.active.enable_unclean_leader_election("t")
    cluster.run()
    assert cluster.state(tp).leader == 2
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def topic_with_malformed_state(cluster: Cluster, data: bytes) -> TopicPartition:
    """Create topic t, whose partition has a malformed state when the next controller loads it."""
    (tp,) = cluster.create_topic("t", (1, 2))
    cluster.write_state(tp, data)
    cluster.fail_over()
    assert list(cluster.active.malformed) == [TopicPartitionStateZNode.path(tp)]
    return tp


def test_states_of_a_topic_that_is_removed_are_forgotten(cluster: Cluster) -> None:
    topic_with_malformed_state(cluster, b"{}")
    cluster.admin.delete_recursive("/brokers/topics/t")
    cluster.run()
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def test_a_topic_of_the_same_name_as_one_with_a_malformed_state_is_reassigned(
    cluster: Cluster,
) -> None:
    tp = topic_with_malformed_state(cluster, b"?")
    cluster.delete_topic("t")
    cluster.create_topic("t", (1,))
    controller = cluster.active
    # As before inter-broker protocol 2.7: the leader writes the ISR that completes it.
    controller.config = msgspec.structs.replace(controller.config, is_alter_isr_enabled=False)
    cluster.reassign({tp: (0,)})
    in_sync = cluster.state(tp).with_leader_and_isr(1, (1, 0))
    cluster.write_state(tp, TopicPartitionStateZNode.encode(in_sync, controller.context.epoch))
    cluster.run()
    assert cluster.active.context.assignments[tp] == ReplicaAssignment((0,))
    cluster.assert_nothing_failed()


@pytest.mark.parametrize("parent", ["/isr_change_notification", "/log_dir_event_notification"])
def test_children_that_are_no_notifications_are_reported_and_deleted(
    cluster: Cluster, parent: str
) -> None:
    cluster.admin.create(f"{parent}/x")
    cluster.run()
    assert [(row.detail, row.outcome) for row in cluster.rows(Kind.ZNODE_MALFORMED)] == [
        (f"{parent}/x", "not a notification")
    ]
    assert not cluster.admin.get_children(parent)
    assert not cluster.active.malformed
    cluster.assert_nothing_failed()


def test_quirk_c2_ignores_children_that_are_no_notifications() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0)
    parents = ("/isr_change_notification", "/log_dir_event_notification")
    for parent in parents:
        cluster.admin.create(f"{parent}/not_a_notification")
    cluster.admin.propagate_isr_changes([B0])
    cluster.admin.propagate_log_dir_event(7)
    for _ in range(2):
        cluster.run()
        left = [cluster.admin.get_children(parent) for parent in parents]
        assert left == [["not_a_notification"]] * 2
        assert not cluster.active.malformed
        cluster.assert_nothing_failed()
        cluster.admin.delete(ControllerZNode.path)


@pytest.mark.parametrize(
    ("parent", "shortest_ignored"),
    [("/isr_change_notification", 10), ("/log_dir_event_notification", 13)],
)
def test_quirk_c2_fails_at_a_name_shorter_than_the_prefix(
    parent: str, shortest_ignored: int
) -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0)
    ignored, short = "x" * shortest_ignored, "x" * (shortest_ignored - 1)
    cluster.admin.create(f"{parent}/{ignored}")
    cluster.run()
    cluster.assert_nothing_failed()
    cluster.admin.create(f"{parent}/{short}")
    cluster.run()
    (failed,) = cluster.rows(Kind.EVENT_FAILED)
    length = len(short)
    assert failed.outcome == (
        f"MalformedZNode: malformed znode {parent}/{short}: "
        f"begin {shortest_ignored}, end {length}, length {length}"
    )
    cluster.admin.propagate_isr_changes([B0])
    cluster.admin.propagate_log_dir_event(7)
    cluster.run()
    assert len(cluster.admin.get_children(parent)) == 3


def test_quirk_c2_fails_the_whole_event() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0, 1, 2)
    cluster.paused.add(0)
    cluster.admin.create(BAD, b"")
    cluster.admin.create("/brokers/topics/good", b'{"version":3,"partitions":{"0":[1]}}')
    cluster.resume()
    assert len(cluster.rows(Kind.EVENT_FAILED)) == 1
    assert not cluster.admin.path_exists("/brokers/topics/good/partitions")
    # Ignored from now on; the next event is processed.
    (tp,) = cluster.create_topic("t", (0,))
    assert cluster.state(tp).leader == 0


def test_quirk_c2_overwrites_a_state_that_is_not_json() -> None:
    cluster = Cluster(Quirks(malformed_znode_fails_the_event=True)).start(0)
    cluster.admin.create(BAD, b"not json")
    cluster.run()
    found = cluster.admin.get_topic_assignments(["bad"]).values["bad"]
    assert found.topic_id is not None
    assert not found.assignment
