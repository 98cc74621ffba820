"""What the active controller writes: election, fence, groups, and what is there already.

The same cases for the store in memory and for the one on a real ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from klamm.cluster.errors import ControllerMoved, OperationTooBig, SessionExpired, StateChangeFailed
from klamm.cluster.quirks import Quirks
from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.controller_client import ControllerZkClient
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Create, Delete, Exists, GetData, ResultCode, SetData, Store, WriteOp
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.conformance.factories import StoreFactory, ok

NOW_MS = 1_700_000_000_000
STATE = LeaderAndIsr(1, 0, (1, 2))
States = dict[TopicPartition, LeaderIsrAndControllerEpoch]


def tps(count: int, topic: str = "t") -> list[TopicPartition]:
    return [TopicPartition(topic, i) for i in range(count)]


def new_states(partitions: list[TopicPartition], epoch: int) -> States:
    return {tp: LeaderIsrAndControllerEpoch(STATE, epoch) for tp in partitions}


def prepared(store: Store, *topics: str) -> KafkaZkClient:
    client = KafkaZkClient(store)
    client.create_top_level_paths()
    for topic in topics:
        client.create_topic_assignment(topic, None, {})
    return client


def versions(store: Store, partitions: list[TopicPartition]) -> list[int | None]:
    found = store.read([Exists(TopicPartitionStateZNode.path(tp)) for tp in partitions])
    return [None if result.stat is None else result.stat.version for result in found]


def test_the_first_election_and_the_next(store_factory: StoreFactory) -> None:
    first, second = store_factory.open(), store_factory.open()
    reader = prepared(first)
    assert ControllerZkClient(first).register_controller_and_increment_epoch(1, NOW_MS) == (1, 1)
    assert reader.get_controller_id() == 1
    assert reader.get_controller_epoch() == (1, 1)
    stat = first.read([GetData("/controller")])[0].stat
    assert stat is not None
    assert stat.ephemeral_owner == first.session_id
    with pytest.raises(ControllerMoved, match="Controller moved to another broker"):
        ControllerZkClient(second).register_controller_and_increment_epoch(2, NOW_MS)
    first.close()
    assert ControllerZkClient(second).register_controller_and_increment_epoch(2, NOW_MS) == (2, 2)


def test_an_old_controller_znode_of_the_same_session_is_no_victory(store: Store) -> None:
    prepared(store)
    client = ControllerZkClient(store)
    _, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    with pytest.raises(ControllerMoved):
        client.register_controller_and_increment_epoch(1, NOW_MS)
    client.delete_controller(version)
    assert client.register_controller_and_increment_epoch(1, NOW_MS) == (2, 2)


def test_a_controller_takes_over_from_another(store_factory: StoreFactory) -> None:
    first, second = store_factory.open(), store_factory.open()
    reader = prepared(first)
    _, version = ControllerZkClient(first).register_controller_and_increment_epoch(1, NOW_MS)
    other = ControllerZkClient(second)
    taken = other.register_controller_and_increment_epoch(2, NOW_MS, replaces_controller=True)
    assert taken == (2, 2)
    assert (reader.get_controller_id(), reader.get_controller_epoch()) == (2, (2, 2))
    with pytest.raises(ControllerMoved):
        ControllerZkClient(first).delete_controller(version)
    second.close()
    vacant = ControllerZkClient(first)
    taken = vacant.register_controller_and_increment_epoch(1, NOW_MS, replaces_controller=True)
    assert taken == (3, 3)


class Between:
    """A store on which another election happens just before the first transaction."""

    def __init__(self, store: Store, elect: Callable[[], object]) -> None:
        self._store = store
        self._elect: Callable[[], object] | None = elect
        self.session_id = store.session_id
        self.read = store.read

    def write(self, transactions: Sequence[Sequence[WriteOp]]) -> Any:
        elect, self._elect = self._elect, None
        if elect is not None:
            elect()
        return self._store.write(transactions)


def test_a_take_over_fails_if_another_controller_is_elected_meanwhile(
    store_factory: StoreFactory,
) -> None:
    first, second, third = (store_factory.open() for _ in range(3))
    reader = prepared(second)
    ControllerZkClient(first).register_controller_and_increment_epoch(1, NOW_MS)

    def elect() -> None:
        first.close()
        ControllerZkClient(second).register_controller_and_increment_epoch(2, NOW_MS)

    late = ControllerZkClient(cast("Store", Between(third, elect)))
    with pytest.raises(ControllerMoved):
        late.register_controller_and_increment_epoch(3, NOW_MS, replaces_controller=True)
    assert (reader.get_controller_id(), reader.get_controller_epoch()) == (2, (2, 2))


@pytest.mark.parametrize("group_size", [1, 2, 500])
def test_creating_partition_states(store: Store, group_size: int) -> None:
    prepared(store, "t", "u")
    client = ControllerZkClient(store, group_size=group_size)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    partitions = [*tps(5), *tps(1, "u")]
    outcome = client.create_partition_states(new_states(partitions, epoch), version)
    assert outcome.finished == dict.fromkeys(partitions, STATE)
    assert outcome.retry == []
    below = [f"/brokers/topics/{p}" for p in ("t/partitions", "t/partitions/4", "u/partitions/0")]
    assert [result.data for result in store.read([GetData(path) for path in below])] == [None] * 3
    found = KafkaZkClient(store).get_partition_states(partitions)
    assert found.values == new_states(partitions, epoch)


@pytest.mark.parametrize("group_size", [1, 2, 500])
@pytest.mark.parametrize("made", range(4))
def test_half_made_partitions_are_completed(store: Store, group_size: int, made: int) -> None:
    """C3 in docs/deviations.md: a controller crashed between its pipelined batches."""
    prepared(store, "t")
    client = ControllerZkClient(store, group_size=group_size)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    left = ["", "/partitions", "/partitions/0", "/partitions/2"][: made + 1]
    ok(store, *(Create(f"/brokers/topics/t{name}", None) for name in left[1:]))
    outcome = client.create_partition_states(new_states(tps(4), epoch), version)
    assert outcome.finished == dict.fromkeys(tps(4), STATE)
    assert versions(store, tps(4)) == [0] * 4


@pytest.mark.parametrize("group_size", [1, 2, 500])
def test_a_state_that_is_there_is_adopted_if_it_is_ours(store: Store, group_size: int) -> None:
    """The quirk lost_reply_leaves_the_partition_stuck (C4) turns this off."""
    prepared(store, "t")
    client = ControllerZkClient(store, group_size=group_size)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    states = new_states(tps(6), epoch)
    there = dict(list(states.items())[1:5])
    assert client.create_partition_states(there, version).finished == dict.fromkeys(there, STATE)
    foreign = TopicPartitionStateZNode.encode(LeaderAndIsr(2, 0, (2,)), epoch)
    ok(store, SetData(TopicPartitionStateZNode.path(tps(6)[2]), foreign))
    finished = client.create_partition_states(states, version).finished
    failed = finished.pop(tps(6)[2])
    assert isinstance(failed, StateChangeFailed)
    assert "NodeExists for /brokers/topics/t/partitions/2/state" in failed.reason
    assert finished == dict.fromkeys(finished, STATE)
    assert len(finished) == 5
    like_kafka = ControllerZkClient(store, Quirks(lost_reply_leaves_the_partition_stuck=True))
    refused = like_kafka.create_partition_states(states, version).finished
    assert {type(result) for result in refused.values()} == {StateChangeFailed}


def test_a_state_of_a_newer_controller_means_deposed(store: Store) -> None:
    prepared(store, "t")
    client = ControllerZkClient(store)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    client.create_partition_states(new_states(tps(1), epoch + 1), version)
    with pytest.raises(ControllerMoved):
        client.create_partition_states(new_states(tps(1), epoch), version)


def test_states_of_a_topic_that_is_gone_fail_alone(store: Store) -> None:
    prepared(store, "t")
    client = ControllerZkClient(store)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    states = new_states([*tps(3, "gone"), *tps(3)], epoch)
    finished = client.create_partition_states(states, version).finished
    assert [type(result) for result in finished.values()] == [StateChangeFailed] * 3 + [
        LeaderAndIsr
    ] * 3


@pytest.mark.parametrize("group_size", [1, 2, 500])
def test_update_leader_and_isr_distinguishes_each_partition(store: Store, group_size: int) -> None:
    prepared(store, "t")
    client = ControllerZkClient(store, group_size=group_size)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    partitions = tps(12)
    client.create_partition_states(new_states(partitions, epoch), version)
    for number in (0, 3, 4, 9, 11):
        ok(store, SetData(TopicPartitionStateZNode.path(partitions[number]), b"{}"))
    ok(store, Delete(TopicPartitionStateZNode.path(partitions[7])))
    updates = {tp: STATE.with_leader_and_isr(2, (2,)) for tp in partitions}
    outcome = client.update_leader_and_isr(updates, epoch, version)
    assert sorted(outcome.retry) == [partitions[n] for n in (0, 3, 4, 9, 11)]
    (missing,) = outcome.missing.items()
    reason = "KeeperErrorCode = NoNode for /brokers/topics/t/partitions/7/state"
    assert missing == (partitions[7], StateChangeFailed(reason))
    assert outcome.finished == {
        partitions[n]: LeaderAndIsr(2, 1, (2,), 1) for n in (1, 2, 5, 6, 8, 10)
    }
    assert versions(store, partitions) == [1] * 7 + [None] + [1] * 4


Write = Callable[[ControllerZkClient, int], object]
EVERY_WRITE: dict[str, Write] = {
    "create_partition_states": lambda c, v: c.create_partition_states(new_states(tps(3), 1), v),
    "update_leader_and_isr": lambda c, v: c.update_leader_and_isr({tps(1)[0]: STATE}, 1, v),
    "set_topic_assignments": lambda c, v: c.set_topic_assignments(
        [TopicIdReplicaAssignment("t", "x", {})], v
    ),
    "delete_topics": lambda c, v: c.delete_topics(["t"], v),
    "delete_topic_configs": lambda c, v: c.delete_topic_configs(["t"], v),
    "delete_topic_deletions": lambda c, v: c.delete_topic_deletions(["t"], v),
    "delete_notifications": lambda c, v: c.delete_notifications(["/isr_change_notification/x"], v),
    "delete_below": lambda c, v: c.delete_below("/config", v),
    "delete_controller": lambda c, v: c.delete_controller(v),
    "fenced_write": lambda c, v: c.fenced_write([Create("/zombie", None)], v),
    "write_until_known": lambda c, v: c.write_until_known([Create("/zombie", None)], v),
    "write_each": lambda c, v: c.write_each([Create("/zombie", None)], v),
}


@pytest.mark.parametrize("name", EVERY_WRITE)
def test_a_deposed_controller_writes_nothing(store_factory: StoreFactory, name: str) -> None:
    zombie, successor = store_factory.open(), store_factory.open()
    reader = prepared(zombie, "t")
    reader.set_or_create_entity_configs("topics", "t", {})
    reader.create_delete_topic_path("t")
    old = ControllerZkClient(zombie)
    _, version = old.register_controller_and_increment_epoch(1, NOW_MS)
    ok(successor, Delete("/controller"))
    new = ControllerZkClient(successor)
    new.register_controller_and_increment_epoch(2, NOW_MS)
    before = tree(successor)
    with pytest.raises(ControllerMoved, match="Controller epoch zkVersion check fails"):
        EVERY_WRITE[name](old, version)
    assert tree(successor) == before


def tree(store: Store, path: str = "/") -> dict[str, object]:
    client = KafkaZkClient(store)
    found: dict[str, object] = {path: client.get_data_and_stat(path)}
    for child in client.get_children(path):
        if (path, child) != ("/", "zookeeper"):
            found |= tree(store, f"{path.rstrip('/')}/{child}")
    return found


def test_an_expired_controller_writes_nothing(store_factory: StoreFactory) -> None:
    store, other = store_factory.open(), store_factory.open()
    prepared(store, "t")
    client = ControllerZkClient(store)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    store_factory.expire(store)
    before = tree(other)
    with pytest.raises(SessionExpired):
        client.create_partition_states(new_states(tps(2), epoch), version)
    with pytest.raises(SessionExpired):
        client.register_controller_and_increment_epoch(1, NOW_MS)
    assert tree(other) == before
    assert "/controller" not in before


@pytest.mark.parametrize("bad", [[0], [7], [0, 1, 2], [2, 5, 9], [0, 2, 4, 6, 8], list(range(10))])
@pytest.mark.parametrize("group_size", [1, 3, 4, 500])
def test_bad_items_do_not_take_the_others_with_them(
    store: Store, bad: list[int], group_size: int
) -> None:
    prepared(store)
    client = ControllerZkClient(store, group_size=group_size)
    _, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    ok(store, Create("/x", None), *(Create(f"/x/{n}", None) for n in bad))
    ops: list[WriteOp] = [Create(f"/x/{n}", b"new") for n in range(10)]
    results = client.fenced_write(ops, version)
    assert [n for n, r in enumerate(results) if r.code is ResultCode.NODEEXISTS] == bad
    assert {r.code for n, r in enumerate(results) if n not in bad} <= {ResultCode.OK}
    data = [result.data for result in store.read([GetData(f"/x/{n}") for n in range(10)])]
    assert data == [None if n in bad else b"new" for n in range(10)]


def test_groups_are_bounded_in_bytes(store: Store) -> None:
    prepared(store)
    client = ControllerZkClient(store, group_bytes=10_000)
    _, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    sizes = [4_000, 4_000, 4_000, 900_000, 1, 1, 9_000, 9_000]
    ops: list[WriteOp] = [Create(f"/n{i}", b"x" * size) for i, size in enumerate(sizes)]
    assert {r.code for r in client.fenced_write(ops, version)} == {ResultCode.OK}
    with pytest.raises(OperationTooBig, match="/big"):
        client.fenced_write([Create("/small", None), Create("/big", b"x" * (1 << 20))], version)
    assert store.read([Exists("/small")])[0].code is ResultCode.NONODE


def test_topic_znodes_are_rewritten(store: Store) -> None:
    reader = prepared(store, "t", "u")
    client = ControllerZkClient(store)
    _, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    topic_id = "P22SxLbARtavHwABAgMEBQ"
    topics = [
        TopicIdReplicaAssignment(name, topic_id, {TopicPartition(name, 0): ReplicaAssignment((1,))})
        for name in ("t", "gone", "u")
    ]
    failed = client.set_topic_assignments(topics, version)
    assert list(failed) == ["gone"]
    assert reader.get_topic_assignments(["t", "u"]).values == {"t": topics[0], "u": topics[2]}


def test_deletions_fenced(store: Store) -> None:
    reader = prepared(store, "t")
    client = ControllerZkClient(store, group_size=2)
    epoch, version = client.register_controller_and_increment_epoch(1, NOW_MS)
    client.create_partition_states(new_states(tps(5), epoch), version)
    assert client.delete_topics(["t", "gone"], version) == {}
    assert client.delete_topics(["t", "gone"], version) == {}
    assert reader.get_all_topics_in_cluster() == []
    reader.propagate_isr_changes(tps(1))
    parent = "/isr_change_notification"
    reader.create_recursive(f"{parent}/odd/er")
    notices = [f"{parent}/{name}" for name in ("isr_change_0000000000", "isr_change_7", "odd")]
    client.delete_notifications(notices, version)
    assert reader.get_children(parent) == []
    reader.create_recursive(f"{parent}/odd/er")
    client.delete_below(parent, version)
    assert reader.get_children(parent) == []
