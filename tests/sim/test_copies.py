"""Replication takes network and disk: how long reassignments of simulated clusters take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from klamm.brokers.bandwidth.copying import ReplicaCopy
from klamm.cluster.data_requests import FetchResponse, ProduceRequest
from klamm.cluster.records import CountedBatch, size_of
from klamm.cluster.requests import Address, DescribeLogDirsRequest, DescribeLogDirsResponse, Message
from klamm.cluster.types import TopicPartition
from klamm.lab.checks.constant_rates import begin_workload
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.preloading import preload_replicas
from klamm.world.simulated.world import SimulatedWorld
from tests.bandwidth import in_progress
from tests.held_followers import hold, release
from tests.sim.faults import cut_off
from tests.sim.reassignments import brokers_up, reassign, stored, with_topic
from tests.sim.snapshots import Snapshot, fingerprint
from tests.sim.test_config_changes import alter
from tests.sim.worlds import replicas_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MB = 1_000_000
GB = 1_000 * MB
TB = 1_000 * GB
MESSAGES_MS = 500.0
"""What requests and ZooKeeper take besides the copying itself, at most."""
NETWORK_IN = "klamm.network.in.bytes.per.second"
NETWORK_OUT = "klamm.network.out.bytes.per.second"
DISK = "klamm.log.dir.bytes.per.second"
CLIENT = Address("client", 0)


def cluster(
    *assignment: tuple[int, ...],
    size_bytes: int = 10 * GB,
    config: Mapping[str, str] | None = None,
    **spec: Any,
) -> SimulatedWorld:
    """Four brokers, and a topic whose partitions hold so much."""
    settings = {"auto.leader.rebalance.enable": "false", **(config or {})}
    world = brokers_up(4, config=settings, **spec)
    with_topic(world, *assignment)
    for partition in range(len(assignment)):
        fill(world, TopicPartition("t", partition), size_bytes)
    return world


def limited(*assignment: tuple[int, ...], **spec: Any) -> SimulatedWorld:
    """The same; all networks carry 100 MB/s."""
    networks = dict.fromkeys((NETWORK_IN, NETWORK_OUT), str(100 * MB))
    return cluster(*assignment, config=networks, **spec)


def fill(world: SimulatedWorld, tp: TopicPartition, size_bytes: int) -> None:
    """Let a partition hold so much."""
    brokers = [running.node.broker for running in world.nodes.values()]
    preload_replicas(brokers, tp, size_bytes, world.clock)


def isr(world: SimulatedWorld, tp: TopicPartition) -> tuple[int, ...]:
    return stored(world, tp).state.isr


def joined_ms(world: SimulatedWorld, tp: TopicPartition, broker_id: int) -> float:
    """How long it takes from now on until a broker is in the ISR."""
    began_ms = world.clock.monotonic_ms()
    assert world.run_until(lambda: broker_id in isr(world, tp), timeout_ms=1e9), isr(world, tp)
    assert not world.errors
    return world.clock.monotonic_ms() - began_ms


def log_end(world: SimulatedWorld, broker_id: int, tp: TopicPartition = T0) -> int:
    return {t: log.log_end_offset for t, log, _ in replicas_of(world, broker_id)}.get(tp, 0)


def throttle(world: SimulatedWorld, bytes_per_s: int, *brokers: int) -> None:
    """As reassign-partitions --throttle does."""
    replicas = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
    alter(world, "topics", "t", replicas)
    for broker_id in brokers:
        rates = {
            f"{side}.replication.throttled.rate": str(bytes_per_s)
            for side in ("leader", "follower")
        }
        alter(world, "brokers", str(broker_id), rates)
    world.run_for(100)


def test_a_reassignment_takes_its_bytes_by_the_bandwidth() -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(100_000, abs=MESSAGES_MS)
    assert world.run_until(lambda: stored(world, T0).assignment.replicas == (0, 2))


def test_without_capacities_copying_takes_no_time() -> None:
    world = cluster((0, 1))
    reassign(world, {T0: (0, 2)})
    assert joined_ms(world, T0, 2) < MESSAGES_MS
    assert not world.copying.is_limited


def test_two_copies_of_one_leader_share_its_network() -> None:
    world = limited((0, 1), (0, 1))
    reassign(world, {T0: (0, 2), T1: (0, 3)})
    assert joined_ms(world, T0, 2) == pytest.approx(200_000, abs=MESSAGES_MS)
    assert joined_ms(world, T1, 3) < MESSAGES_MS


def test_the_default_of_all_brokers_holds_for_those_without_their_own() -> None:
    world = cluster((0, 1), (0, 1))
    alter(world, "brokers", "<default>", {NETWORK_IN: str(50 * MB)})
    alter(world, "brokers", "3", {NETWORK_IN: str(100 * MB)})
    reassign(world, {T0: (0, 2), T1: (0, 3)})
    assert joined_ms(world, T1, 3) == pytest.approx(100_000, abs=MESSAGES_MS)
    assert joined_ms(world, T0, 2) == pytest.approx(100_000, abs=MESSAGES_MS)
    alter(world, "brokers", "<default>", {})
    world.run_for(1_000)
    alter(world, "brokers", "3", {})
    world.run_for(1_000)
    assert not world.copying.is_limited


@pytest.mark.parametrize("most_bytes", [0, 1, 100_000])
def test_replicas_in_sync_fetch_as_much_at_once_as_configured(most_bytes: int) -> None:
    world = cluster((0, 1), size_bytes=0, config={"replica.fetch.max.bytes": str(most_bytes)})
    sizes = fetched_bytes(world)
    batch = ProduceRequest(1, 30_000, {T0: CountedBatch(300, 300_000)})
    world.transport.send(Message(CLIENT, Address("broker", 0), 1, batch))
    world.run_for(20_000)
    assert set(sizes) == {max(1_000, most_bytes)}
    assert log_end(world, 1) == 300


def test_a_slow_disk_of_one_broker_holds_up_its_own_copies_alone() -> None:
    world = limited((0, 1), (0, 1))
    alter(world, "brokers", "2", {DISK: str(20 * MB)})
    reassign(world, {T0: (0, 2), T1: (0, 3)})
    assert joined_ms(world, T1, 3) == pytest.approx(125_000, abs=MESSAGES_MS)
    assert joined_ms(world, T0, 2) == pytest.approx(375_000, abs=MESSAGES_MS)


def test_a_throttle_is_what_a_reassignment_takes() -> None:
    world = limited((0, 1))
    throttle(world, 20 * MB, 0, 1, 2)
    reassign(world, {T0: (0, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(500_000, abs=MESSAGES_MS)


def test_a_throttle_alone_is_enough_of_a_limit() -> None:
    world = cluster((0, 1))
    throttle(world, 20 * MB, 0, 1, 2)
    reassign(world, {T0: (0, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(500_000, abs=MESSAGES_MS)


@pytest.mark.parametrize("change", ["rates", "replicas"])
def test_a_throttle_that_is_taken_away_half_way(change: str) -> None:
    world = limited((0, 1))
    throttle(world, 20 * MB, 0, 1, 2)
    reassign(world, {T0: (0, 2)})
    world.run_for(250_000)
    if change == "replicas":
        alter(world, "topics", "t", {})
    else:
        for broker_id in (0, 1, 2):
            alter(world, "brokers", str(broker_id), {})
    assert joined_ms(world, T0, 2) == pytest.approx(50_000, abs=2 * MESSAGES_MS)


def test_a_rate_that_is_none_changes_nothing() -> None:
    world = limited((0, 1))
    alter(world, "brokers", "0", {NETWORK_OUT: "fast"})
    reassign(world, {T0: (0, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(100_000, abs=MESSAGES_MS)


def test_records_produced_meanwhile_take_time_and_delay_no_replica() -> None:
    world = limited((0, 1))
    seen_isrs: set[tuple[int, ...]] = set()
    reassign(world, {T0: (0, 2)})
    batch = ProduceRequest(1, 30_000, {T0: CountedBatch(1_000, MB)})
    began_ms = world.clock.monotonic_ms()
    while 2 not in isr(world, T0):
        world.transport.send(Message(CLIENT, Address("broker", 0), 1, batch))
        world.run_for(100)
        seen_isrs.add(isr(world, T0))
        assert log_end(world, 0) - log_end(world, 1) <= 3_000 or 1 not in isr(world, T0)
    # 100 MB/s, less 10 for the replica that is in sync, less 10 that are added.
    assert world.clock.monotonic_ms() - began_ms == pytest.approx(125_000, rel=0.02)
    assert seen_isrs <= {(0, 1), (0, 1, 2), (0, 2)}, seen_isrs


def test_a_copy_that_has_arrived_holds_nothing_back() -> None:
    """The copy took 20 s, in which a follower of Kafka would have fetched 2,000 times."""
    world = limited((0, 1), size_bytes=2 * GB)
    reassign(world, {T0: (0, 2)})
    batch = ProduceRequest(1, 30_000, {T0: CountedBatch(1_000, MB)})
    while 2 not in isr(world, T0):
        world.transport.send(Message(CLIENT, Address("broker", 0), 1, batch))
        world.run_for(100)
        ((end, high_watermark),) = (
            (log.log_end_offset, high_watermark)
            for tp, log, high_watermark in replicas_of(world, 0)
            if tp == T0
        )
        assert end - high_watermark <= 1_000


def test_hours_of_copying_are_a_handful_of_messages() -> None:
    world = limited(*[(0, 1)] * 10, size_bytes=TB)
    sent: list[Message] = []
    world.transport.add_tap(lambda m: sent.append(m) if isinstance(m.body, FetchResponse) else None)
    tps = [TopicPartition("t", n) for n in range(10)]
    steps = 0

    def is_over() -> bool:
        nonlocal steps
        steps += 1
        return not in_progress(world.copying) and steps > 100

    reassign(world, dict.fromkeys(tps, (0, 2)))
    assert world.run_until(is_over, timeout_ms=1e9)
    assert world.clock.monotonic_ms() == pytest.approx(100_000_000, rel=0.001)
    world.run_for(1_000)
    assert {isr(world, tp) for tp in tps} == {(0, 2)}
    assert len(sent) < 50
    assert steps < 20_000


@pytest.mark.parametrize("victim", [0, 2])
def test_a_crash_in_mid_flow_keeps_what_has_come(victim: int) -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 1, 2)})
    world.run_for(60_000)
    assert log_end(world, 2) == 0
    world.kill(victim)
    world.run_for(100)
    # The link was free but for the first moments.
    assert 5_900_000 < log_end(world, 2) <= 6_000_000
    if victim == 2:
        world.run_for(30_000)
        world.start(victim)
    # A leader's successor goes on once its session is over.
    rest_ms = 40_000 + (6_000 if victim == 0 else 0)
    assert joined_ms(world, T0, 2) == pytest.approx(rest_ms, abs=2_000)
    assert log_end(world, 2) == 10_000_000


def test_a_link_that_is_cut_in_mid_flow_lets_through_what_has_passed() -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 1, 2)})
    world.run_for(60_000)
    world.transport.faults = (cut_off(world, 2),)
    world.run_for(60_000)
    had = log_end(world, 2)
    assert 5_900_000 < had <= 6_000_000
    world.transport.heal()
    # Its fetch was lost on the link, and is given up after replica.socket.timeout.ms.
    assert 40_000 <= joined_ms(world, T0, 2) <= 70_000 + MESSAGES_MS


def test_a_new_leader_epoch_in_mid_flow_costs_nothing() -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 1, 2)})
    world.run_for(60_000)
    world.stop(1)
    world.run_for(100)
    assert 5_900_000 < log_end(world, 2) <= 6_100_000
    assert joined_ms(world, T0, 2) == pytest.approx(40_000, abs=MESSAGES_MS)


def test_copies_of_a_paused_broker_stand_still() -> None:
    world = limited((0, 1), session_timeout_ms=1_000_000)
    reassign(world, {T0: (0, 1, 2)})
    world.run_for(60_000)
    world.pause(2)
    world.run_for(300_000)
    assert in_progress(world.copying)[0][1] == pytest.approx(6 * GB, rel=0.01)
    world.resume(2)
    assert joined_ms(world, T0, 2) == pytest.approx(40_000, abs=MESSAGES_MS)


def test_a_description_of_log_dirs_shows_what_has_come() -> None:
    world = limited((0, 1))
    answers: list[DescribeLogDirsResponse] = []
    world.transport.register(CLIENT, lambda m: answers.append(m.body))  # type: ignore[arg-type]
    reassign(world, {T0: (0, 2)})
    for _ in range(2):
        world.run_for(30_000)
        body = DescribeLogDirsRequest(None)
        world.transport.send(Message(CLIENT, Address("broker", 2), 1, body))
    world.run_for(100)
    sizes = [answer.log_dirs[0].logs[T0].size_bytes for answer in answers]
    assert sizes == pytest.approx([3 * GB, 6 * GB], rel=0.01)
    assert joined_ms(world, T0, 2) == pytest.approx(40_000, abs=MESSAGES_MS)


def test_a_restored_world_goes_on_with_its_copies() -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 2)})
    world.run_for(30_000)
    snapshot = Snapshot(world)
    ends = []
    for copy in (snapshot.restore(), snapshot.restore()):
        assert [copy_id for copy_id, _ in in_progress(copy.copying)] == [ReplicaCopy(T0, 0, 2)]
        assert joined_ms(copy, T0, 2) == pytest.approx(70_000, abs=MESSAGES_MS)
        copy.run_for(1_000)
        ends.append(fingerprint(copy))
    assert len(set(ends)) == 1


def fetched_bytes(world: SimulatedWorld) -> list[int]:
    """The sizes of what followers are sent from now on."""
    sent: list[int] = []

    def look_on(message: Message) -> None:
        if isinstance(message.body, FetchResponse):
            found = [one.records for one in message.body.partitions.values()]
            sent.extend(size_of(records) for records in found if records is not None)

    world.transport.add_tap(look_on)
    return sent


def test_a_link_that_is_cut_again_and_again_sends_nothing_twice() -> None:
    world = limited((0, 1))
    reassign(world, {T0: (0, 1, 2)})
    for _ in range(3):
        world.run_for(20_000)
        world.transport.faults = (cut_off(world, 2),)
        world.run_for(3_000)
        world.transport.heal()
    # Asked for where it is within 2.5 s of each mending, it goes on from there.
    rest_ms = 100_000 - 3 * 20_000
    assert joined_ms(world, T0, 2) <= rest_ms + 3 * 2_500
    assert log_end(world, 2) == 10_000_000


def test_a_follower_that_takes_nothing_is_not_sent_the_same_again_and_again() -> None:
    world = limited((0, 1), size_bytes=0)
    hold(world, 1)
    sent = fetched_bytes(world)
    batch = ProduceRequest(1, 30_000, {T0: CountedBatch(1_000, MB)})
    for _ in range(100):
        world.transport.send(Message(CLIENT, Address("broker", 0), 1, batch))
        world.run_for(100)
    world.run_for(100_000)
    assert sent == [MB], "of a hundred"
    release(world, 1)
    assert joined_ms(world, T0, 1) < 5_000
    assert sum(sent) == 100 * MB
    assert log_end(world, 1) == 100_000


def growing(world: SimulatedWorld, *tps: TopicPartition, bytes_per_s: int) -> None:
    """Let partitions grow at a constant rate, until everybody goes by it."""
    begin_workload(world, dict.fromkeys(tps, Rate(bytes_per_s / 1_000, 1_000)))
    world.run_for(5_000)


def test_copies_share_what_constant_rates_leave() -> None:
    world = limited((0, 1), (0, 1))
    growing(world, T1, bytes_per_s=40 * MB)
    reassign(world, {T0: (0, 1, 2)})
    # Broker 0 sends 40 MB/s to broker 1 all the time; a fetch that comes before the leader has
    # heard of the epoch is sent again after a second.
    assert joined_ms(world, T0, 2) == pytest.approx(10_000 / 60 * 1_000, abs=3 * MESSAGES_MS)


def test_a_constant_rate_comes_to_its_leader_and_takes_room_there() -> None:
    world = limited((1, 2), (0, 3))
    growing(world, T1, bytes_per_s=40 * MB)
    reassign(world, {T0: (1, 2, 0)})
    assert joined_ms(world, T0, 0) == pytest.approx(10_000 / 60 * 1_000, abs=MESSAGES_MS)


def test_a_rate_that_leaves_nothing_lets_copies_stand_still_until_it_is_over() -> None:
    world = limited((0, 1), (0, 1))
    growing(world, T1, bytes_per_s=100 * MB)
    reassign(world, {T0: (0, 1, 2)})
    world.run_for(100_000)
    [(copy_id, carried_bytes)] = in_progress(world.copying)
    assert (copy_id, carried_bytes) == (ReplicaCopy(T0, 0, 2), 0)
    world.kill(1)
    assert joined_ms(world, T0, 2) == pytest.approx(100_000, abs=2_000)


def test_limits_that_come_later_know_of_rates_that_were_there() -> None:
    world = cluster((0, 1), (0, 1))
    growing(world, T1, bytes_per_s=40 * MB)
    for broker_id in range(4):
        alter(world, "brokers", str(broker_id), {NETWORK_OUT: str(100 * MB)})
    reassign(world, {T0: (0, 1, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(10_000 / 60 * 1_000, abs=3 * MESSAGES_MS)


def test_a_topic_that_is_throttled_later_counts_the_rates_that_were_there() -> None:
    world = cluster((0, 1), (0, 1))
    alter(world, "brokers", "0", {"leader.replication.throttled.rate": str(100 * MB)})
    growing(world, T1, bytes_per_s=40 * MB)
    alter(world, "topics", "t", {"leader.replication.throttled.replicas": "*"})
    world.run_for(100)
    reassign(world, {T0: (0, 1, 2)})
    assert joined_ms(world, T0, 2) == pytest.approx(10_000 / 60 * 1_000, abs=3 * MESSAGES_MS)
