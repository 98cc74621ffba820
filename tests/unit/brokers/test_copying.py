"""Copies of a cluster whose links are limited: what arrives when, what is shared, and what ends."""

from __future__ import annotations

import pytest

from klamm.brokers.bandwidth.copying import Arrived, Copying, DirectoryMove, ReplicaCopy
from klamm.brokers.bandwidth.model import UNLIMITED, Flow, Resource, ResourceKind
from klamm.brokers.bandwidth.replication_quotas import LogPlace
from klamm.brokers.config import broker_config
from klamm.brokers.leaders.copies import Copies
from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import LEADER_THROTTLED_RATE, NETWORK_IN_CAPACITY
from klamm.cluster.configs import NETWORK_OUT_CAPACITY as WIDTH
from klamm.cluster.data_requests import FetchedPartition, FetchResponse
from klamm.cluster.records import Interval, IntervalRecords
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import TopicPartition
from tests.bandwidth import in_progress
from tests.conformance.factories import ManualClock

T0, T1 = (TopicPartition("t", n) for n in range(2))
OUT, IN = Resource(ResourceKind.NETWORK_OUT, 1), Resource(ResourceKind.NETWORK_IN, 2)
DISK = Resource(ResourceKind.DISK, 1, "d0")
TO_2 = ReplicaCopy(T0, 1, 2)
MOVE = DirectoryMove(T0, 1)


def answer(start: int = 0, batches: int = 10) -> FetchedPartition:
    """A response of batches of one record with 100 bytes each, from this offset on."""
    intervals = tuple(Interval(4, n, n + 1, 100) for n in range(start, start + batches))
    return FetchedPartition(Errors.NONE, 4, start, records=IntervalRecords(intervals))


def batches_of(message: Message) -> list[int]:
    """The offsets of the records in a message to a follower."""
    assert isinstance(message.body, FetchResponse) and message.body.is_unsolicited
    (fetched,) = message.body.partitions.values()
    assert isinstance(fetched.records, IntervalRecords)
    return [n for one in fetched.records.intervals for n in range(one.start, one.end)]


class Cluster:
    """Brokers 1 and 2; broker 1 sends 1,000 bytes a second unless ``out`` says otherwise."""

    def __init__(self, out: int = 1_000) -> None:
        self.clock = ManualClock()
        self.clock.now = 0
        self.sent: list[Message] = []
        self.given: list[tuple[int, object]] = []
        self.cut_links: set[tuple[int, int]] = set()
        self.changes = 0
        self.copying = Copying(
            self.clock,
            self.sent.append,
            lambda address, event: self.given.append((address.id, event)),
            lambda one, other: (one.id, other.id) not in self.cut_links,
        )
        self.copying.on_change = self._on_change
        self.copying.set_capacities({OUT: out})

    def _on_change(self) -> None:
        self.changes += 1

    def pass_time(self, ms: int) -> None:
        self.clock.now += ms
        self.copying.on_timer()

    def begin(self, start: int = 0, copy_id: ReplicaCopy = TO_2, *more: Resource) -> bool:
        return self.copying.begin(Flow(copy_id, (OUT, *more)), 1_000, answer(start))


@pytest.mark.parametrize(
    ("overrides", "defaults", "arrives_ms"),
    [
        ({}, {}, 1_000.0),
        ({}, {WIDTH: "2000"}, 500.0),
        ({WIDTH: "4000"}, {WIDTH: "2000"}, 250.0),
        ({WIDTH: "4000", NETWORK_IN_CAPACITY: "abc"}, {}, 250.0),
        ({WIDTH: "soon"}, {WIDTH: "2000"}, 500.0),
    ],
)
def test_a_brokers_own_config_counts_before_that_of_the_cluster_and_that_before_the_file(
    overrides: dict[str, str],
    defaults: dict[str, str],
    arrives_ms: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(UNLIMITED)
    copies = Copies(1, broker_config({WIDTH: "1000"}), cluster.copying)
    copies.on_config(overrides, {**defaults, LEADER_THROTTLED_RATE: "1"})
    copies.on_config({LEADER_THROTTLED_RATE: "soon", **overrides}, defaults)
    assert caplog.messages[0].startswith(
        f"broker 1: Invalid value soon for configuration {LEADER_THROTTLED_RATE}"
    )
    throttle = Resource(ResourceKind.LEADER_THROTTLE, 1)
    assert cluster.begin(0, TO_2, throttle), "throttles of the cluster have no effect"
    assert cluster.copying.next_due_ms() == arrives_ms


def test_a_copy_arrives_when_its_link_has_carried_it() -> None:
    cluster = Cluster()
    assert cluster.begin()
    assert cluster.copying.next_due_ms() == 1_000.0
    cluster.pass_time(999)
    assert (cluster.sent, cluster.given) == ([], [])
    cluster.pass_time(1)
    (message,) = cluster.sent
    assert (message.source, message.destination) == (Address("broker", 1), Address("broker", 2))
    assert batches_of(message) == list(range(10))
    assert cluster.given == [(1, Arrived(TO_2, 1_000))]
    assert (cluster.copying.next_due_ms(), in_progress(cluster.copying)) == (None, [])


def test_without_a_limit_on_its_links_a_copy_is_not_modelled() -> None:
    cluster = Cluster()
    assert not cluster.copying.begin(Flow(TO_2, (IN,)), 1_000, answer())
    cluster.copying.set_capacities({OUT: UNLIMITED, IN: UNLIMITED})
    assert not cluster.begin() and not cluster.copying.is_limited
    cluster.copying.set_capacities({OUT: 1_000})
    cluster.cut_links.add((1, 2))
    assert not cluster.begin()


def test_a_copy_whose_limit_is_gone_is_still_in_progress() -> None:
    cluster = Cluster()
    cluster.begin()
    cluster.copying.set_capacities({OUT: UNLIMITED})
    assert cluster.copying.is_limited
    cluster.pass_time(1)
    assert not cluster.copying.is_limited and len(cluster.sent) == 1


def test_the_same_copy_continues_and_another_start_replaces_it() -> None:
    cluster = Cluster()
    cluster.begin()
    cluster.pass_time(500)
    assert cluster.begin()
    assert in_progress(cluster.copying) == [(TO_2, 500)]
    assert cluster.begin(start=3)
    assert in_progress(cluster.copying) == [(TO_2, 0)]
    cluster.pass_time(1_000)
    (message,) = cluster.sent
    assert batches_of(message) == list(range(3, 13))


def test_whole_batches_that_have_arrived_are_taken_while_the_copy_continues() -> None:
    cluster = Cluster()
    cluster.begin()
    cluster.clock.now += 99
    assert cluster.copying.take(TO_2) is None
    cluster.clock.now += 151
    assert in_progress(cluster.copying) == [(TO_2, 250)]
    taken = cluster.copying.take(TO_2)
    assert taken is not None and taken.size_bytes == 200 and taken.answer is not None
    assert taken.answer.fetch_offset == 0
    cluster.clock.now += 50
    (again,) = cluster.copying.take_all(2)
    assert again.size_bytes == 100 and again.answer is not None
    assert again.answer.fetch_offset == 2
    assert cluster.copying.take_all(1) == []
    cluster.pass_time(700)
    (message,) = cluster.sent
    assert batches_of(message) == list(range(3, 10))
    assert cluster.given == [(1, Arrived(TO_2, 1_000))]
    assert cluster.copying.take(TO_2) is None


def test_a_move_between_directories_carries_no_records() -> None:
    cluster = Cluster()
    cluster.copying.set_capacities({DISK: 100})
    assert cluster.copying.begin(Flow(MOVE, (DISK,)), 1_000)
    cluster.clock.now += 2_000
    assert cluster.copying.take(MOVE) == Arrived(MOVE, 200)
    assert cluster.copying.take(MOVE) is None
    cluster.clock.now += 1_000
    assert list(cluster.copying.of_owner(1)) == [MOVE]
    assert cluster.copying.end(MOVE) == Arrived(MOVE, 100)
    assert cluster.given == [(1, Arrived(MOVE, 300))]
    assert (cluster.copying.end(MOVE), len(cluster.given)) == (None, 1)
    assert list(cluster.copying.of_owner(1)) == []


def test_a_copy_that_is_given_up_sends_what_has_arrived() -> None:
    cluster = Cluster()
    cluster.begin()
    cluster.clock.now += 350
    cluster.copying.give_up(TO_2)
    (message,) = cluster.sent
    assert batches_of(message) == [0, 1, 2]
    assert cluster.given == [(1, Arrived(TO_2, 350))]
    cluster.begin()
    cluster.copying.give_up(TO_2)
    assert len(cluster.sent) == 1


def test_constant_traffic_takes_its_part_of_a_link() -> None:
    cluster = Cluster()
    cluster.begin()
    cluster.clock.now += 500
    cluster.copying.reserve(T1, 1, {OUT: 750})
    assert cluster.copying.next_due_ms() == 2_500.0, "250 bytes a second for the rest"
    changes = cluster.changes
    cluster.copying.reserve(T1, 1, {OUT: 750})
    assert cluster.changes == changes
    cluster.copying.reserve(T1, 1, {OUT: 500})
    assert cluster.copying.next_due_ms() == 1_500.0
    cluster.copying.reserve(T0, 1, {OUT: 5_000})
    assert cluster.copying.next_due_ms() is None, "nothing is left"
    cluster.copying.reserve(T0, 1, {})
    cluster.copying.reserve(T1, 1, {})
    assert cluster.copying.next_due_ms() == 1_000.0


def test_traffic_is_reserved_once_the_first_limit_is_set() -> None:
    cluster = Cluster(UNLIMITED)
    asked: list[int] = []

    def reserve_all() -> None:
        asked.append(1)
        cluster.copying.reserve(T1, 1, {OUT: 750})

    cluster.copying.join(1, lambda _: None, reserve_all)
    cluster.copying.reserve(T1, 1, {OUT: 100})
    cluster.copying.set_capacities({IN: UNLIMITED})
    assert asked == []
    cluster.copying.set_capacities({OUT: 1_000})
    cluster.copying.set_capacities({OUT: 1_000, IN: 9_000})
    assert asked == [1]
    cluster.begin()
    assert cluster.copying.next_due_ms() == 4_000.0
    cluster.copying.cut(1)
    cluster.begin()
    assert cluster.copying.next_due_ms() == 1_000.0, "a dead leader reserves nothing"


def test_a_paused_broker_neither_sends_nor_receives_nor_moves() -> None:
    cluster = Cluster()
    cluster.copying.set_capacities({DISK: 1_000})
    cluster.begin()
    cluster.copying.begin(Flow(MOVE, (DISK,)), 1_000)
    cluster.pass_time(500)
    for broker_id in (1, 2):
        cluster.copying.set_paused(broker_id, paused=True)
    cluster.pass_time(100)
    assert in_progress(cluster.copying) == [(TO_2, 500), (MOVE, 600)], "disks go on"
    cluster.copying.set_paused(1, paused=False)
    cluster.copying.set_paused(2, paused=False)
    cluster.pass_time(100)
    assert in_progress(cluster.copying) == [(TO_2, 600), (MOVE, 700)]


def test_a_receiver_without_a_limit_may_be_paused_too() -> None:
    cluster = Cluster()
    cluster.begin(0, TO_2, IN)
    cluster.copying.set_paused(2, paused=True)
    cluster.pass_time(500)
    assert in_progress(cluster.copying) == [(TO_2, 0)]
    cluster.copying.cut(2)
    cluster.begin(0, TO_2, IN)
    cluster.copying.set_capacities({IN: 10_000})
    cluster.pass_time(500)
    assert in_progress(cluster.copying) == [(TO_2, 500)], "a new process is not paused"


def test_a_process_that_dies_ends_its_copies() -> None:
    cluster = Cluster()
    to_3, to_1 = ReplicaCopy(T0, 1, 3), ReplicaCopy(T1, 2, 1)
    cluster.copying.set_capacities({Resource(ResourceKind.NETWORK_OUT, 2): 1_000, DISK: 1_000})
    cluster.begin()
    cluster.begin(0, to_3)
    cluster.copying.begin(Flow(to_1, (Resource(ResourceKind.NETWORK_OUT, 2),)), 1_000, answer())
    cluster.copying.begin(Flow(MOVE, (DISK,)), 1_000)
    cluster.clock.now += 420
    ended = cluster.copying.cut(1)
    assert [(one.copy_id, one.size_bytes) for one in ended] == [(MOVE, 420), (to_1, 400)]
    assert [(one.destination.id, batches_of(one)) for one in cluster.sent] == [
        (2, [0, 1]),
        (3, [0, 1]),
    ]
    assert {owner for owner, _ in cluster.given} == {1, 2}
    assert in_progress(cluster.copying) == []


def test_a_link_that_is_cut_ends_its_copies() -> None:
    cluster = Cluster()
    cluster.copying.set_capacities({DISK: 1_000})
    cluster.begin()
    cluster.begin(0, ReplicaCopy(T0, 1, 3))
    cluster.copying.begin(Flow(MOVE, (DISK,)), 1_000)
    cluster.clock.now += 420
    cluster.cut_links.add((1, 2))
    cluster.copying.on_links_cut()
    assert cluster.sent == [], "the link is cut: what arrived is handed over directly"
    (owner, arrived), (follower, message) = cluster.given
    assert (owner, arrived) == (1, Arrived(TO_2, 210))
    assert follower == 2 and isinstance(message, Message) and batches_of(message) == [0, 1]
    assert [copy_id for copy_id, _ in in_progress(cluster.copying)] == [ReplicaCopy(T0, 1, 3), MOVE]


def test_every_change_of_the_next_arrival_is_notified() -> None:
    cluster = Cluster()
    copying = cluster.copying
    for act in (
        cluster.begin,
        lambda: copying.set_capacities({OUT: 500}),
        lambda: copying.reserve(T1, 1, {OUT: 250}),
        lambda: copying.set_paused(1, True),
        lambda: copying.set_paused(1, False),
        lambda: copying.end(TO_2),
    ):
        due_ms, changes = copying.next_due_ms(), cluster.changes
        act()
        assert copying.next_due_ms() != due_ms
        assert cluster.changes > changes


def test_a_copy_that_changes_its_links_arrives_by_the_new_ones() -> None:
    cluster = Cluster()
    cluster.copying.set_capacities({IN: 100})
    cluster.begin()
    cluster.pass_time(500)
    cluster.copying.change(Flow(TO_2, (OUT, IN)))
    assert cluster.copying.next_due_ms() == 5_500.0
    changes = cluster.changes
    cluster.copying.change(Flow(ReplicaCopy(T0, 1, 3), (OUT,)))
    assert cluster.changes == changes


def test_a_replica_is_in_the_directory_that_its_running_broker_names() -> None:
    cluster = Cluster()
    cluster.copying.join(1, {T0: "/d0"}.get, lambda: None)
    assert cluster.copying.place_of(T0, 1) == LogPlace(1, "/d0")
    assert cluster.copying.place_of(T1, 1) == LogPlace(1, "")
    assert cluster.copying.place_of(T0, 2) == LogPlace(2, "")
    cluster.copying.cut(1)
    assert cluster.copying.place_of(T0, 1) == LogPlace(1, "")
