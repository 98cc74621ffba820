"""Constant rates: nothing is sent, no participant is ahead of another, agreements end in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from klamm.brokers.constant_rate import replica_rates
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.client_requests import DeleteRecordsRequest, MetadataRequest
from klamm.cluster.constant_rate import RATE_MARGIN_MS, RateAgreement, RevokeRates
from klamm.cluster.data_requests import (
    UNKNOWN_OFFSET,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import (
    Address,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    Disconnected,
    Message,
    Request,
    StopReplicaPartitionState,
    StopReplicaRequest,
)
from klamm.cluster.types import NO_BROKER_EPOCH, TopicPartition
from klamm.lab.checks.constant_rates import begin_workload
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.checks.watching import Watcher
from klamm.world.clients import constant_rate_producer as producer
from klamm.world.clients.constant_rate_producer import Rate
from klamm.world.network import LinkFault
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.transport import MAX_DELAY_MS
from tests.sim.constant_rates import IDS, GrowingCluster, PlainProducer, T
from tests.sim.faults import cut_off, degraded
from tests.sim.snapshots import Snapshot, fingerprint
from tests.sim.worlds import create_topic, replicas_of, three_brokers

CLIENT = Address("client", 9)


@pytest.fixture
def cluster() -> GrowingCluster:
    """A cluster whose replicas have followed schedules for a while."""
    cluster = GrowingCluster()
    cluster.world.run_for(2_000)
    cluster.check()
    return cluster


def test_a_round_trip_and_a_notification_take_less_time_than_the_margin() -> None:
    assert 3 * MAX_DELAY_MS < RATE_MARGIN_MS


def test_nothing_is_sent_while_a_schedule_holds(cluster: GrowingCluster) -> None:
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    steps = cluster.world.steps_run
    cluster.world.run_for(240_000)
    assert sent == []
    # Each check takes two steps: the time advances, and the broker runs.
    assert cluster.world.steps_run <= steps + 4 * len(IDS), "ISRs are checked once, in vain"
    produced = cluster.producer.produced(T[0], cluster.now_ms)
    assert produced == 12_100
    ends = cluster.log_ends()
    assert ends[0] == produced
    margin = RATE_MARGIN_MS * 50 / 1000
    assert produced - margin - 1 <= min(ends.values()) < produced
    assert 3 * margin <= cluster.unacknowledged() <= 3 * margin + 1
    cluster.check()


def test_a_follower_that_is_killed_holds_up_acknowledgement_until_the_isr_is_smaller(
    cluster: GrowingCluster,
) -> None:
    cluster.world.kill(1)
    cluster.world.run_for(5_000)
    assert 250 < cluster.unacknowledged() < 265
    ends = cluster.log_ends()
    assert ends[0] - ends[2] <= 3, "the other follower grows on"
    assert ends[0] - ends[1] > 245
    cluster.world.run_for(5_000)
    assert cluster.state().isr == (0, 2)
    assert cluster.unacknowledged() < 10
    cluster.heal()


def test_a_leader_that_is_killed_leaves_a_backlog_to_the_next(cluster: GrowingCluster) -> None:
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    cluster.world.kill(0)
    cluster.world.run_for(5_000)
    asked = [one for one in sent if isinstance(one.body, MetadataRequest)]
    assert len(asked) == 5_000 / producer.RETRY_BACKOFF_MS
    assert set(cluster.log_ends().values()) <= {97, 98, 99, 100}
    cluster.world.run_for(5_000)
    assert cluster.state().leader == 1
    assert cluster.unacknowledged() < 10
    cluster.check()
    cluster.heal()


def test_what_waited_for_longer_than_the_delivery_timeout_is_given_up(
    cluster: GrowingCluster,
) -> None:
    for broker_id in IDS:
        cluster.world.kill(broker_id)
    cluster.world.run_for(200_000)
    cluster.heal()
    progress = cluster.producer.partitions[T[0]]
    given_up = progress.given_up
    assert 50 * 80 < given_up < 50 * 110
    acknowledged = sum(stretch.end - stretch.start for stretch in progress.acknowledged)
    assert acknowledged == progress.decided - given_up


@pytest.mark.parametrize("faults", [degraded(loss=0.3), degraded(reordering=0.3)])
def test_over_a_bad_network_no_replica_follows_a_schedule(
    cluster: GrowingCluster, faults: LinkFault
) -> None:
    cluster.world.transport.faults = (faults,)
    cluster.world.run_for(1_000)
    ends = cluster.log_ends()
    cluster.world.run_for(5_000)
    assert cluster.log_ends()[0] == ends[0]
    assert 250 <= cluster.unacknowledged() <= 320
    cluster.check()
    cluster.heal()
    assert cluster.unacknowledged() < 10


def test_a_follower_that_is_cut_off_leaves_the_isr_for_its_lag(cluster: GrowingCluster) -> None:
    cluster.world.transport.faults = (cut_off(cluster.world, 2),)
    cluster.world.run_for(29_000)
    assert cluster.state().isr == IDS
    cluster.world.run_for(17_000)
    assert cluster.state().isr == (0, 1)
    assert cluster.unacknowledged() < 10
    cluster.check()
    cluster.heal()


def test_a_leader_that_lost_its_producer_makes_its_followers_fetch(cluster: GrowingCluster) -> None:
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    ask_leader(cluster, Disconnected(), cluster.producer.address)
    told = {one.destination.id: one.body for one in sent if isinstance(one.body, FetchResponse)}
    assert {n: body.partitions[T[0]].fetch_offset for n, body in told.items()} == dict.fromkeys(
        (1, 2), UNKNOWN_OFFSET
    )
    cluster.heal()
    cluster.check()


def test_a_paused_leader_does_not_grow(cluster: GrowingCluster) -> None:
    cluster.world.pause(0)
    ends = cluster.log_ends()
    cluster.world.run_for(3_000)
    assert cluster.log_ends() == ends
    cluster.world.resume(0)
    cluster.heal()


def lost_after_a_kill(cluster: GrowingCluster) -> list[str]:
    """Kill a follower, an instant later the others; it comes back, leads, and may lack records
    that were acknowledged in that instant."""
    world = cluster.world
    world.kill(2)
    world.run_for(0.5)
    for outcome in cluster.producer.partitions.values():
        outcome.materialize(cluster.now_ms)
    world.kill(0)
    world.kill(1)
    world.start(2)
    assert world.run_until(lambda: cluster.state().leader == 2)
    world.run_for(1_000)
    cluster.checker.check()
    return cluster.checker.violations


def test_nothing_is_acknowledged_that_a_dead_member_of_the_isr_lacks() -> None:
    cluster = GrowingCluster(records_per_s=20_000.0)
    cluster.world.run_for(2_000)
    assert lost_after_a_kill(cluster) == []


def test_without_a_margin_the_checker_finds_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_rates, "RATE_MARGIN_MS", 0.0)
    monkeypatch.setattr(producer, "RATE_MARGIN_MS", 0.0)
    cluster = GrowingCluster(records_per_s=20_000.0)
    watcher = Watcher(cluster.world, list(INVARIANTS))
    watcher.add_constant_rates(cluster.producer)
    cluster.world.run_for(2_000)
    lost = lost_after_a_kill(cluster)
    assert lost and all("were acknowledged" in violation for violation in lost)
    assert any("were acknowledged" in str(violation) for violation in watcher.violations)


def test_a_restored_world_grows_on_alike(cluster: GrowingCluster) -> None:
    snapshot = Snapshot(cluster.world)
    prints = []
    for world in (snapshot.restore(), snapshot.restore()):
        world.run_for(10_000)
        world.kill(1)
        world.run_for(20_000)
        prints.append(fingerprint(world))
    assert prints[0] == prints[1]


def changes_of(world: SimulatedWorld) -> dict[TopicPartition, list[tuple[object, ...]]]:
    """Each partition's changes of leader, epoch and number of replicas in the ISR, in order. Which
    of two followers returns to an ISR first is left to the network."""
    changes: dict[TopicPartition, list[tuple[object, ...]]] = {tp: [] for tp in T}
    for row in world.journal.rows:
        if row.topic == "t" and row.partition is not None and row.isr is not None:
            state = (row.leader, row.leader_epoch, len(row.isr))
            seen = changes[TopicPartition("t", row.partition)]
            if not seen or seen[-1] != state:
                seen.append(state)
    return changes


def go_through_faults(cluster: GrowingCluster, run_for: Callable[[float], None]) -> None:
    """A follower and leader that is killed, one that is cut off, an orderly shutdown."""
    world = cluster.world
    run_for(5_000)
    world.kill(1)
    run_for(30_000)
    world.start(1)
    run_for(30_000)
    world.transport.faults = (cut_off(world, 2),)
    run_for(60_000)
    world.transport.heal()
    run_for(30_000)
    world.shut_down(0)
    run_for(20_000)
    world.start(0)
    run_for(30_000)


def test_rates_and_a_request_every_100_ms_lead_to_the_same_changes() -> None:
    by_rate, by_request = GrowingCluster(), GrowingCluster(records_per_s=0.0)
    go_through_faults(by_rate, by_rate.world.run_for)
    plain = PlainProducer(by_request.world, records_per_s=50.0)
    go_through_faults(by_request, plain.run_for)
    assert changes_of(by_rate.world) == changes_of(by_request.world)
    assert all(len(seen) > 4 for seen in changes_of(by_rate.world).values())
    # A schedule appends what was sent while there was no leader; requests do not send it again.
    leaderless_s, slack_s = 12.0, 0.5
    for tp in T:
        more = max(by_rate.log_ends(tp).values()) - max(by_request.log_ends(tp).values())
        assert -slack_s * 50 <= more <= (leaderless_s + slack_s) * 50


def keeping_up(cluster: GrowingCluster, leader: int) -> list[int]:
    """The followers that the leader of T[leader] has an agreement with."""
    partition = cluster.world.nodes[leader].node.broker.replica_manager.partitions[T[leader]]
    return [broker_id for broker_id in IDS if broker_id != leader and partition.keeps_up(broker_id)]


def test_the_agreements_with_others_outlast_a_broker_that_is_gone(cluster: GrowingCluster) -> None:
    assert [keeping_up(cluster, n) for n in IDS] == [[1, 2], [0, 2], [0, 1]]
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    cluster.world.kill(1)
    cluster.world.run_for(1)
    assert [keeping_up(cluster, n) for n in (0, 2)] == [[2], [0]]
    cluster.world.run_for(1_000)
    fetches = [one.body for one in sent if isinstance(one.body, FetchRequest)]
    assert {tp for body in fetches for tp in body.partitions} <= {T[1]}
    cluster.check()


def test_only_an_agreement_of_this_leader_epoch_is_revoked(cluster: GrowingCluster) -> None:
    epoch = cluster.state().leader_epoch
    leader, follower = (Address("broker", n) for n in (0, 2))
    for revoked, others in ((epoch - 1, [1, 2]), (epoch + 1, [1, 2]), (epoch, [1])):
        body = RevokeRates({T[0]: revoked})
        cluster.world.nodes[0].node.broker.receive(Message(follower, leader, -1, body))
        assert keeping_up(cluster, 0) == others


def hosted(cluster: GrowingCluster, broker_id: int, tp: TopicPartition = T[0]) -> Partition:
    """A broker's replica, with what has been appended to it so far."""
    return cluster.world.nodes[broker_id].node.broker.replica_manager.partitions[tp]


def ask_leader(cluster: GrowingCluster, body: Request, source: Address = CLIENT) -> None:
    """Let the leader of t-0 handle a request at once."""
    broker = cluster.world.nodes[0].node.broker
    broker.receive(Message(source, broker.address, 7, body))


def test_log_directories_are_described_with_the_records_that_are_due(
    cluster: GrowingCluster,
) -> None:
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    cluster.world.run_for(10_000)
    ask_leader(cluster, DescribeLogDirsRequest())
    [response] = [one.body for one in sent if isinstance(one.body, DescribeLogDirsResponse)]
    sizes = {tp: log.size_bytes for tp, log in response.log_dirs[0].logs.items()}
    produced = cluster.producer.produced(T[0], cluster.now_ms)
    record_bytes = cluster.producer.partitions[T[0]].rate.record_size_bytes
    assert sizes[T[0]] == produced * record_bytes
    assert 0 < produced - sizes[T[1]] / record_bytes < 4, "a follower is a margin behind"


@pytest.mark.parametrize("replicas", [(0,), (0, 1, 2)])
def test_what_grows_by_a_schedule_is_flushed_when_flush_ms_is_over(
    replicas: tuple[int, ...],
) -> None:
    config = {"log.flush.interval.ms": "1000", "log.flush.scheduler.interval.ms": "1000"}
    world = three_brokers(config=config)
    create_topic(world, "t", {0: replicas})
    world.run_for(1_000)
    workload = begin_workload(world, {T[0]: Rate(50.0)})
    world.run_for(2_000)
    for _ in range(3):
        world.run_for(10_000)
        produced = workload.produced(T[0], world.clock.monotonic_ms())
        flushed = {
            broker_id: log.recovery_point
            for broker_id in replicas
            for _, log, _ in replicas_of(world, broker_id)
        }
        assert [produced - n < 2.1 * 50 for n in flushed.values()] == [True] * len(replicas)


def test_what_rests_is_packed_at_the_check_of_retention_and_what_grows_is_not(
    cluster: GrowingCluster,
) -> None:
    idle = TopicPartition("u", 0)
    create_topic(cluster.world, "u", {0: (0, 1)})
    cluster.world.run_for(1_000)
    body = ProduceRequest(1, 30_000, {idle: CountedBatch(1, 100)})
    cluster.world.transport.send(Message(CLIENT, Address("broker", 0), 0, body))
    cluster.world.run_for(1_000)
    assert not isinstance(hosted(cluster, 0, idle).log.kept, bytes)
    assert cluster.world.run_until(
        lambda: isinstance(hosted(cluster, 0, idle).log.kept, bytes), timeout_ms=300_000
    )
    assert isinstance(hosted(cluster, 0, idle).known, bytes), "its followers"
    assert not isinstance(hosted(cluster, 0).log.kept, bytes)


def test_records_that_are_due_belong_to_the_epoch_in_which_they_were(
    cluster: GrowingCluster,
) -> None:
    cluster.world.run_for(10_000)
    epoch, produced = cluster.state().leader_epoch, cluster.producer.produced(T[0], cluster.now_ms)
    cluster.world.shut_down(1)
    assert cluster.world.run_until(lambda: cluster.state().leader_epoch > epoch)
    cluster.world.run_for(1_000)
    ended = hosted(cluster, 0).log.end_offset_for(epoch)
    assert (ended.leader_epoch, ended.end_offset >= produced) == (epoch, True)
    cluster.check()


def test_records_that_are_sent_in_between_come_after_those_that_are_due(
    cluster: GrowingCluster,
) -> None:
    cluster.world.run_for(10_000)
    ask_leader(cluster, ProduceRequest(1, 30_000, {T[0]: CountedBatch(7, 700)}))
    assert keeping_up(cluster, 0) == []
    cluster.world.run_for(2_000)
    more = cluster.log_ends()[0] - cluster.producer.produced(T[0], cluster.now_ms)
    assert 7 <= more <= 7 + 8, "what was not acknowledged is sent again"
    assert keeping_up(cluster, 0) == [1, 2]
    cluster.check()


def test_records_are_deleted_from_followers_of_a_schedule_too(cluster: GrowingCluster) -> None:
    ask_leader(cluster, DeleteRecordsRequest({T[0]: 50}, 30_000))
    cluster.world.run_for(1_000)
    starts = [hosted(cluster, broker_id).log.log_start_offset for broker_id in IDS]
    assert starts == [50, 50, 50]


def test_a_fetch_with_an_agreement_of_another_connection_has_to_be_repeated(
    cluster: GrowingCluster,
) -> None:
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    follower = cluster.world.nodes[2].node.broker
    log = hosted(cluster, 2).log
    asked = {T[0]: FetchPartition(log.log_end_offset, cluster.state().leader_epoch, 0)}
    follower.rates.name_agreements(asked)
    agreed = asked[T[0]].agreement
    for connection, expected in ((agreed.connection + 1, True), (agreed.connection, False)):
        agreement = RateAgreement(agreed.schedule, connection)
        fetch = FetchRequest(2, {T[0]: replace(asked[T[0]], agreement=agreement)})
        ask_leader(cluster, fetch, follower.address)
        answer = [one.body for one in sent if one.correlation_id == 7][-1].partitions.get(T[0])
        assert (answer is not None and answer.fetch_offset == UNKNOWN_OFFSET) is expected


def test_a_leader_tells_a_follower_that_it_cannot_reach_less_often(
    cluster: GrowingCluster,
) -> None:
    cluster.world.transport.faults = (cut_off(cluster.world, 2),)
    sent: list[Message] = []
    cluster.world.transport.add_tap(sent.append)
    cluster.world.run_for(10_000)
    told = [
        one
        for one in sent
        if (one.source.id, one.destination) == (0, Address("broker", 2))
        and isinstance(one.body, FetchResponse)
    ]
    assert 3 <= len(told) <= 6, "every 2.5 s instead of 0.5 s"


def test_a_replica_that_is_stopped_follows_its_schedule_no_longer(cluster: GrowingCluster) -> None:
    broker = cluster.world.nodes[1].node.broker
    stopped = StopReplicaPartitionState(T[0], cluster.state().leader_epoch + 1, False)
    epoch = broker.replica_manager.controller_epoch
    body = StopReplicaRequest(0, epoch, NO_BROKER_EPOCH, (stopped,))
    broker.receive(Message(Address("controller", 0), broker.address, 7, body))
    end = cluster.log_ends()[1]
    cluster.world.run_for(100)
    assert keeping_up(cluster, 0) == [2]
    assert cluster.log_ends()[1] == end


def test_a_follower_that_lacks_nothing_is_offered_the_schedule_again() -> None:
    cluster = GrowingCluster(records_per_s=0.02)
    cluster.world.run_for(120_000)
    assert keeping_up(cluster, 0) == [1, 2]
    cluster.world.transport.faults = (cut_off(cluster.world, 2),)
    cluster.world.run_for(5_000)
    assert keeping_up(cluster, 0) == [1]
    cluster.world.transport.heal()
    cluster.world.run_for(5_000)
    assert keeping_up(cluster, 0) == [1, 2]
    assert len(set(cluster.log_ends().values())) == 1, "nothing was produced meanwhile"
