"""When leaders that write ISRs themselves tell the controller, and what becomes of their writes."""

from __future__ import annotations

import pytest

from klamm.brokers.leaders.zk_isr_manager import ZkIsrManager
from klamm.cluster.api_errors import Errors
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.unit.brokers.network import T0, T1, ManualClock

GONE = TopicPartition("gone", 0)


class Leader:
    """Broker 1, which leads t-0; its ISR is 1 at first."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.begun_ms = self.clock.time_ms
        self.client = KafkaZkClient(MemoryStore(MemoryServer(self.clock)))
        self.client.create_top_level_paths()
        self.state = LeaderAndIsr(1, 0, (1,), 0)
        data = TopicPartitionStateZNode.encode(self.state, 1)
        self.client.create_recursive(TopicPartitionStateZNode.path(T0), data)
        self.manager = ZkIsrManager(self.client, self.clock.time_ms)

    def proposed(self, *isr: int) -> LeaderAndIsr:
        """The state as it is known, with another ISR."""
        return LeaderAndIsr(1, 0, isr, self.state.zk_version)

    def change(self) -> None:
        """Take broker 2 into the ISR, or out of it."""
        isr = (1,) if len(self.state.isr) == 2 else (1, 2)
        self.manager.submit(T0, self.proposed(*isr), 1)
        [result] = self.manager.maybe_propagate(7, self.clock.time_ms)
        assert isinstance(result.answer, LeaderAndIsr)
        self.state = result.answer

    def wait_until_s(self, second: float) -> None:
        """Let time pass until so many seconds after the beginning, with what is due meanwhile."""
        end_ms = self.begun_ms + 1000 * second
        while (due_ms := self.manager.next_due_ms()) is not None and due_ms <= end_ms:
            self.clock.time_ms = due_ms
            self.manager.on_timer(due_ms)
        self.clock.time_ms = end_ms

    @property
    def notices(self) -> int:
        return len(self.client.get_children("/isr_change_notification"))


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_change_is_sent_after_five_seconds_without_another(leader: Leader) -> None:
    leader.wait_until_s(1)
    leader.change()
    leader.wait_until_s(4)
    leader.change()
    # Looked at every 2.5 s: at 7.5 s the last change is 3.5 s ago, at 10 s it is 6 s.
    leader.wait_until_s(9.9)
    assert leader.notices == 0
    leader.wait_until_s(10)
    assert leader.notices == 1
    assert leader.manager.next_due_ms() is None
    found = leader.client.get_partitions_from_isr_change_notifications(["0000000000"])
    assert found.values == {"0000000000": [T0]}


def test_a_change_of_just_five_seconds_ago_waits_for_the_next_check(leader: Leader) -> None:
    leader.wait_until_s(5)
    leader.change()
    leader.wait_until_s(10)
    assert leader.notices == 0
    leader.wait_until_s(12.5)
    assert leader.notices == 1


def test_a_notification_names_the_changes_since_the_last_one(leader: Leader) -> None:
    data = TopicPartitionStateZNode.encode(leader.state, 1)
    leader.client.create_recursive(TopicPartitionStateZNode.path(T1), data)
    leader.change()
    leader.wait_until_s(10)
    leader.manager.submit(T1, LeaderAndIsr(1, 0, (1, 2), 0), 1)
    leader.manager.maybe_propagate(7, leader.clock.time_ms)
    leader.wait_until_s(20)
    names = ["0000000000", "0000000001"]
    found = leader.client.get_partitions_from_isr_change_notifications(names)
    assert found.values == dict(zip(names, ([T0], [T1]), strict=True))


def test_a_change_is_sent_after_a_minute_even_if_changes_continue(leader: Leader) -> None:
    for second in range(1, 75, 4):
        leader.wait_until_s(second)
        leader.change()
    assert leader.notices == 1
    leader.wait_until_s(62)
    assert leader.notices == 1


def test_the_first_change_after_a_quiet_minute_is_sent_at_the_next_check(leader: Leader) -> None:
    leader.wait_until_s(61)
    leader.change()
    leader.wait_until_s(62.4)
    assert leader.notices == 0
    leader.wait_until_s(62.5)
    assert leader.notices == 1


def test_a_state_that_another_writer_changed_is_not_overwritten(leader: Leader) -> None:
    path = TopicPartitionStateZNode.path(T0)
    other = TopicPartitionStateZNode.encode(LeaderAndIsr(2, 1, (2,), 0), 2)
    leader.client.set_data(path, other)
    leader.manager.submit(T0, leader.proposed(1, 2), 1)
    leader.manager.submit(GONE, leader.state, 1)
    results = leader.manager.maybe_propagate(7, leader.clock.time_ms)
    assert {r.topic_partition: r.answer for r in results} == {
        T0: Errors.INVALID_UPDATE_VERSION,
        GONE: Errors.INVALID_UPDATE_VERSION,
    }
    found = leader.client.get_data_and_stat(path)
    assert found is not None
    assert found[0] == other
    assert leader.manager.next_due_ms() is None


@pytest.mark.parametrize(
    ("isr", "controller_epoch", "is_own"), [((1, 2), 1, True), ((1, 2), 2, False), ((1,), 1, False)]
)
def test_a_write_whose_answer_was_lost_is_recognized(
    leader: Leader, isr: tuple[int, ...], controller_epoch: int, is_own: bool
) -> None:
    data = TopicPartitionStateZNode.encode(leader.proposed(*isr), controller_epoch)
    leader.client.set_data(TopicPartitionStateZNode.path(T0), data)
    leader.manager.submit(T0, leader.proposed(1, 2), 1)
    [result] = leader.manager.maybe_propagate(7, leader.clock.time_ms)
    written = LeaderAndIsr(1, 0, (1, 2), 1)
    assert result.answer == (written if is_own else Errors.INVALID_UPDATE_VERSION)


def test_a_change_that_is_withdrawn_is_not_written(leader: Leader) -> None:
    leader.manager.submit(T0, leader.proposed(1, 2), 1)
    assert leader.manager.pending_count == 1
    leader.manager.clear_pending(T0)
    assert leader.manager.maybe_propagate(7, leader.clock.time_ms) == []
    assert leader.client.get_partition_states([T0]).values[T0].leader_and_isr == leader.state


def test_without_a_session_changes_wait(leader: Leader) -> None:
    leader.change()
    store = leader.client.store
    assert isinstance(store, MemoryStore)
    store.server.expire_session(store.session_id)
    leader.manager.submit(T0, leader.proposed(1), 1)
    assert leader.manager.maybe_propagate(7, leader.clock.time_ms) == []
    assert leader.manager.pending_count == 1
    leader.wait_until_s(20)
    store.reopen()
    assert leader.notices == 0
    leader.wait_until_s(30)
    assert leader.notices == 1
    [result] = leader.manager.maybe_propagate(7, leader.clock.time_ms)
    assert result.answer == LeaderAndIsr(1, 0, (1,), 2)
