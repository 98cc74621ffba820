"""Replies lost and processes killed at every operation: what the clients make of it.

On the store in memory, which can break at any operation; the conformance suite shows that a real
connection breaks in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.cluster.errors import ControllerMoved, StateChangeFailed
from klamm.cluster.outcome import WriteOutcome
from klamm.cluster.types import Broker, LeaderAndIsr, LeaderIsrAndControllerEpoch, TopicPartition
from klamm.zk.controller_client import ControllerZkClient
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import Crashed, LostReply, MemoryServer, MemoryStore
from klamm.zk.store import Delete, GetData, ReadResult, SetData, TxnResult
from klamm.zk.znodes import PERSISTENT_ZK_PATHS, BrokerInfo, TopicPartitionStateZNode
from tests.conformance.factories import ManualClock

STATE = LeaderAndIsr(1, 0, (1, 2))
PARTITIONS = [TopicPartition(topic, i) for topic in "tu" for i in range(4)]
STATES = {tp: LeaderIsrAndControllerEpoch(STATE, 1) for tp in PARTITIONS}
MOVED = {tp: LeaderAndIsr(2, 1, (2,), 0) for tp in PARTITIONS}

Work = Callable[[ControllerZkClient, int], object]


class FaultAt:
    """Raises a fault at one operation, counted from 0, before or after it takes place."""

    def __init__(self, fault: type[BaseException], index: int, after: bool) -> None:
        self._fault = fault
        self._left = index
        self._after = after
        self.struck = False

    def strike(self, server: MemoryServer) -> None:
        """Count from now on."""
        if self._after:
            server.after_op = lambda session_id, op, result: self._count()
        else:
            server.before_op = lambda session_id, op: self._count()

    def _count(self) -> None:
        if self._left == 0:
            self.struck = True
            self._left = -1
            raise self._fault
        self._left -= 1


def world() -> tuple[MemoryServer, MemoryStore]:
    server = MemoryServer(ManualClock())
    store = MemoryStore(server)
    client = KafkaZkClient(store)
    client.create_top_level_paths()
    for topic in "tu":
        client.create_topic_assignment(topic, None, {})
    return server, store


def contents(server: MemoryServer) -> dict[str, tuple[bytes | None, int]]:
    """Data and version of every znode but the registration of the controller."""
    return {
        path: (node.data, node.version)
        for path, node in server.tree.items()
        if not path.startswith("/controller")
    }


CREATE: Work = lambda c, v: c.create_partition_states(STATES, v)  # noqa: E731
UPDATE: Work = lambda c, v: c.update_leader_and_isr(MOVED, 1, v)  # noqa: E731
DELETE: Work = lambda c, v: c.delete_topics(["t"], v)  # noqa: E731
WORKS: dict[str, list[Work]] = {
    "create": [CREATE],
    "update": [CREATE, UPDATE],
    "delete": [CREATE, DELETE],
}


@pytest.mark.parametrize("after", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize("group_size", [1, 2, 500])
@pytest.mark.parametrize("work", WORKS)
def test_a_lost_reply_changes_no_outcome(work: str, group_size: int, after: bool) -> None:
    *preparation, last = WORKS[work]
    index = 0
    expected: object = None
    while True:
        server, store = world()
        client = ControllerZkClient(store, group_size=group_size)
        _, version = client.register_controller_and_increment_epoch(1, 0)
        for step in preparation:
            step(client, version)
        fault = FaultAt(LostReply, index - 1, after)
        fault.strike(server)
        outcome = last(client, version)
        if index == 0:
            expected, tree = outcome, contents(server)
        assert outcome == expected
        assert contents(server) == tree
        if index and not fault.struck:
            break
        index += 1
    assert index >= 2


@pytest.mark.parametrize("after", [False, True], ids=["not-done", "done"])
def test_a_lost_reply_loses_no_election(after: bool) -> None:
    index = 0
    while True:
        server, store = world()
        fault = FaultAt(LostReply, index, after)
        fault.strike(server)
        client = ControllerZkClient(store)
        assert client.register_controller_and_increment_epoch(1, 0) == (1, 1)
        assert KafkaZkClient(store).get_controller_epoch() == (1, 1)
        if not fault.struck:
            break
        index += 1
    assert index >= 3


@pytest.mark.parametrize("after", [False, True], ids=["not-done", "done"])
def test_a_lost_reply_loses_no_registration(after: bool) -> None:
    index = 0
    while True:
        server, store = world()
        fault = FaultAt(LostReply, index, after)
        fault.strike(server)
        epoch = KafkaZkClient(store).register_broker(BrokerInfo(Broker(1)), 0)
        node = server.tree.nodes["/brokers/ids/1"]
        assert (node.czxid, node.version, node.owner) == (epoch, 1, store.session_id)
        if not fault.struck:
            break
        index += 1
    assert index >= 1


class Overtaken:
    """A controller whose update is lost while another session writes one of the states."""

    def __init__(self, data: bytes | None, done: bool) -> None:
        self.server, store = world()
        self.client = ControllerZkClient(store)
        _, self.version = self.client.register_controller_and_increment_epoch(1, 0)
        self.client.create_partition_states(STATES, self.version)
        self._other = MemoryStore(self.server)
        self._data = data
        if done:
            self.server.after_op = lambda session_id, op, result: self._overtake()
        else:
            self.server.before_op = lambda session_id, op: self._overtake()

    def _overtake(self) -> None:
        self.server.before_op = self.server.after_op = None
        path = TopicPartitionStateZNode.path(PARTITIONS[3])
        gone = self._data is None
        self._other.write([[Delete(path) if gone else SetData(path, self._data)]])
        raise LostReply

    def update(self) -> WriteOutcome:
        return self.client.update_leader_and_isr(MOVED, 1, self.version)


OTHERS = [b"{}", TopicPartitionStateZNode.encode(LeaderAndIsr(1, 0, (1,)), 1)]


@pytest.mark.parametrize("data", OTHERS, ids=["malformed", "state"])
@pytest.mark.parametrize("done", [False, True])
def test_a_lost_update_that_another_overtook_is_to_be_planned_again(
    data: bytes, done: bool
) -> None:
    outcome = Overtaken(data, done).update()
    tp = PARTITIONS[3]
    assert outcome.retry == [tp]
    assert outcome.finished == {p: s.with_zk_version(1) for p, s in MOVED.items() if p != tp}


def test_a_lost_update_that_another_repeated_is_to_be_planned_again() -> None:
    tp = PARTITIONS[3]
    outcome = Overtaken(TopicPartitionStateZNode.encode(MOVED[tp], 1), done=True).update()
    assert outcome.retry == [tp]


def test_a_state_that_an_earlier_controller_created_alike_is_not_taken_for_ones_own() -> None:
    _, store = world()
    client = ControllerZkClient(store)
    _, version = client.register_controller_and_increment_epoch(1, 0)
    client.create_partition_states(STATES, version)
    again = {tp: LeaderIsrAndControllerEpoch(STATE, 2) for tp in PARTITIONS}
    for failure in client.create_partition_states(again, version).finished.values():
        assert isinstance(failure, StateChangeFailed)
        assert "NodeExists" in failure.reason and "the znode contains" in failure.reason


@pytest.mark.parametrize("done", [False, True])
def test_a_lost_update_of_a_state_that_is_deleted_meanwhile_fails(done: bool) -> None:
    outcome = Overtaken(None, done).update()
    failure = outcome.missing[PARTITIONS[3]]
    assert TopicPartitionStateZNode.path(PARTITIONS[3]) in failure.reason
    assert outcome.retry == []
    assert sum(isinstance(one, LeaderAndIsr) for one in outcome.finished.values()) == 7


def test_a_lost_update_that_a_newer_controller_overtook_means_deposed() -> None:
    newer = TopicPartitionStateZNode.encode(LeaderAndIsr(1, 1, (1,)), 2)
    with pytest.raises(ControllerMoved, match="another controller"):
        Overtaken(newer, done=True).update()


def test_a_read_back_that_lags_behind_does_not_hide_what_was_written() -> None:
    """A follower of the ensemble may answer from before the write that was lost."""
    server, store = world()
    client = ControllerZkClient(store, group_size=1)
    _, version = client.register_controller_and_increment_epoch(1, 0)
    client.create_partition_states(STATES, version)
    tp = PARTITIONS[0]
    before = store.read([GetData(TopicPartitionStateZNode.path(tp))])[0]

    def lag(session_id: int, op: object, result: ReadResult | TxnResult) -> None:
        if isinstance(result, TxnResult):
            server.after_op = lag_once
            raise LostReply

    def lag_once(session_id: int, op: object, result: ReadResult | TxnResult) -> None:
        assert isinstance(result, ReadResult)
        server.after_op = None
        result.data, result.stat = before.data, before.stat

    server.after_op = lag
    outcome = client.update_leader_and_isr({tp: MOVED[tp]}, 1, version)
    assert outcome.finished == {tp: MOVED[tp].with_zk_version(1)}
    assert outcome.retry == []


def test_an_election_that_another_won_while_ours_was_lost() -> None:
    server, store = world()
    other = ControllerZkClient(MemoryStore(server))

    def overtake(session_id: int, op: object) -> None:
        if isinstance(op, list) and len(op) == 2:
            server.before_op = None
            assert other.register_controller_and_increment_epoch(2, 0) == (1, 1)
            raise LostReply

    server.before_op = overtake
    with pytest.raises(ControllerMoved, match="Controller moved to another broker"):
        ControllerZkClient(store).register_controller_and_increment_epoch(1, 0)
    assert KafkaZkClient(store).get_controller_id() == 2


@pytest.mark.parametrize("after", [False, True], ids=["not-done", "done"])
def test_a_lost_reply_leaves_no_top_level_path_out(after: bool) -> None:
    for index in range(40):
        server = MemoryServer(ManualClock())
        FaultAt(LostReply, index, after).strike(server)
        KafkaZkClient(MemoryStore(server)).create_top_level_paths()
        assert set(PERSISTENT_ZK_PATHS) <= set(server.tree.nodes)


def test_single_writes_survive_lost_replies() -> None:
    server, store = world()
    client = KafkaZkClient(store)

    def lose_next() -> None:
        FaultAt(LostReply, 0, after=True).strike(server)

    lose_next()
    assert client.create("/a", b"1")
    lose_next()
    assert client.create_recursive("/b/c", b"1")
    lose_next()
    assert not client.create("/a", b"2")
    lose_next()
    assert client.set_data("/a", b"3") == 2
    lose_next()
    client.delete("/a")
    assert not client.path_exists("/a")
    lose_next()
    assert client.create_or_get_cluster_id("id") == "id"


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("group_size", [1, 2, 500])
def test_the_next_controller_completes_what_a_killed_one_began(
    group_size: int, after: bool
) -> None:
    index = 0
    while True:
        server, store = world()
        client = ControllerZkClient(store, group_size=group_size)
        _, version = client.register_controller_and_increment_epoch(1, 0)
        fault = FaultAt(Crashed, index, after)
        fault.strike(server)
        try:
            CREATE(client, version)
        except Crashed:
            server.before_op = server.after_op = None
            server.expire_session(store.session_id)
        if not fault.struck:
            break
        complete_creation(server, group_size)
        index += 1
    assert index >= 3


def complete_creation(server: MemoryServer, group_size: int) -> None:
    """What the next controller does: read, and create what is missing."""
    store = MemoryStore(server)
    reader, client = KafkaZkClient(store), ControllerZkClient(store, group_size=group_size)
    epoch, version = client.register_controller_and_increment_epoch(2, 0)
    assert epoch == 2
    found = reader.get_partition_states(PARTITIONS)
    states = {tp: LeaderIsrAndControllerEpoch(STATE, epoch) for tp in found.missing}
    assert client.create_partition_states(states, version).finished == dict.fromkeys(states, STATE)
    complete = reader.get_partition_states(PARTITIONS).values
    assert [s.leader_and_isr for s in complete.values()] == [STATE] * len(PARTITIONS)
