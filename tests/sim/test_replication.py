"""Records in a simulated cluster: brokers that keep or lose what they wrote, and bad networks."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProducedPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.replica_checks import check_views
from tests.sim.faults import cut_off, degraded
from tests.sim.replication import IDS, Cluster, replica_views
from tests.sim.snapshots import Snapshot, fingerprint


def ends(cluster: Cluster) -> dict[int, int]:
    """Log ends by broker, of those that run."""
    return {
        view.broker_id: view.intervals[-1].end if view.intervals else 0
        for view in replica_views(cluster.world)
        if view.broker_id in cluster.world.nodes
    }


@pytest.fixture
def cluster() -> Cluster:
    """A cluster whose three replicas have ten records."""
    cluster = Cluster()
    number = cluster.produce(0, 10)
    cluster.world.run_for(500)
    assert cluster.answers == {number: ProducedPartition(Errors.NONE, 0, 0, 0)}
    return cluster


def test_a_broker_that_is_killed_finds_what_it_wrote(cluster: Cluster) -> None:
    for broker_id in IDS:
        cluster.world.kill(broker_id)
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.world.run_for(20_000)
    assert ends(cluster) == dict.fromkeys(IDS, 10)
    cluster.check()


def test_a_machine_that_stops_loses_what_was_not_flushed(cluster: Cluster) -> None:
    cluster.world.stop(2)
    cluster.world.run_for(1_000)
    cluster.produce(0, 1_000)
    cluster.world.run_for(500)
    cluster.world.kill(0, loses_unflushed=True)
    cluster.world.kill(1, loses_unflushed=True)
    for broker_id in (0, 1):
        cluster.world.start(broker_id)
    cluster.world.run_for(20_000)
    assert 10 <= max(ends(cluster).values()) < 1_010
    assert cluster.checker.acknowledged
    check_views(cluster.checker, replica_views(cluster.world))
    assert cluster.checker.violations, "every member of the ISR has lost acknowledged records"


@pytest.mark.parametrize(
    "config",
    [
        {"log.flush.interval.messages": "1"},
        {"log.flush.interval.ms": "200", "log.flush.scheduler.interval.ms": "100"},
    ],
    ids=["by count", "by time"],
)
def test_a_machine_that_stops_has_what_was_flushed(config: dict[str, str]) -> None:
    cluster = Cluster(config=config)
    cluster.produce(0, 1_000)
    cluster.world.run_for(2_000)
    for broker_id in IDS:
        cluster.world.kill(broker_id, loses_unflushed=True)
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.world.run_for(20_000)
    assert ends(cluster) == dict.fromkeys(IDS, 1_000)
    cluster.heal()


def test_flush_messages_of_a_topic_may_be_changed_meanwhile(cluster: Cluster) -> None:
    store = cluster.world.open_store()
    client = KafkaZkClient(store)
    client.set_or_create_entity_configs("topics", "t", {"flush.messages": "1"})
    client.create_config_change_notification("topics/t")
    store.close()
    cluster.world.run_for(100)
    cluster.produce(0, 1_000)
    cluster.world.run_for(500)
    for broker_id in IDS:
        cluster.world.kill(broker_id, loses_unflushed=True)
    for broker_id in IDS:
        cluster.world.start(broker_id)
    cluster.world.run_for(20_000)
    assert ends(cluster) == dict.fromkeys(IDS, 1_010)


def test_what_one_machine_loses_it_gets_again(cluster: Cluster) -> None:
    cluster.produce(0, 1_000)
    cluster.world.run_for(500)
    cluster.world.kill(0, loses_unflushed=True)
    cluster.world.run_for(20_000)
    cluster.produce(cluster.state().leader, 5)
    cluster.heal()
    assert ends(cluster) == dict.fromkeys(IDS, 1_015)


def test_a_paused_follower_leaves_the_isr_with_its_session_and_comes_back(
    cluster: Cluster,
) -> None:
    cluster.world.pause(2)
    number = cluster.produce(0, 5)
    cluster.world.run_for(3_000)
    assert number not in cluster.answers
    cluster.world.run_for(7_000)
    assert cluster.answers[number].error is Errors.NONE
    assert cluster.state().isr == (0, 1)
    cluster.world.resume(2)
    cluster.heal()


def test_a_follower_that_is_cut_off_but_alive_leaves_the_isr_for_its_lag(cluster: Cluster) -> None:
    cluster.world.transport.faults = (cut_off(cluster.world, 2),)
    number = cluster.produce(0, 5)
    cluster.world.run_for(29_000)
    assert cluster.state().isr == IDS
    assert number not in cluster.answers
    cluster.world.run_for(17_000)
    assert cluster.state().isr == (0, 1)
    assert cluster.answers[number].error is Errors.REQUEST_TIMED_OUT
    cluster.heal()


def test_min_insync_replicas_of_the_cluster() -> None:
    cluster = Cluster(config={"min.insync.replicas": "2"})
    for broker_id in (1, 2):
        cluster.world.stop(broker_id)
    cluster.world.run_for(1_000)
    number = cluster.produce(0)
    cluster.world.run_for(100)
    assert cluster.answers[number].error is Errors.NOT_ENOUGH_REPLICAS


def test_a_network_that_loses_repeats_and_reorders_loses_no_record(cluster: Cluster) -> None:
    cluster.world.transport.faults = (degraded(loss=0.2, repetition=0.2, reordering=0.3),)
    for _ in range(40):
        cluster.produce(0, 3)
        cluster.world.run_for(300)
        cluster.check()
    assert len(cluster.answers) > 10
    cluster.heal()


def test_the_same_seed_gives_the_same_end() -> None:
    def run() -> str:
        cluster = Cluster(seed=7)
        cluster.world.transport.faults = (degraded(loss=0.1, repetition=0.1, reordering=0.3),)
        for _ in range(5):
            cluster.produce(0, 3)
            cluster.world.run_for(100)
        cluster.world.kill(0, loses_unflushed=True)
        cluster.world.run_for(20_000)
        cluster.world.transport.heal()
        return fingerprint(cluster.world)

    assert run() == run()


def test_a_restored_world_goes_on_with_its_records(cluster: Cluster) -> None:
    cluster.world.kill(2)
    cluster.world.run_for(10_000)
    snapshot = Snapshot(cluster.world)
    first, second = snapshot.restore(), snapshot.restore()
    for world in (first, second):
        world.start(2)
        world.run_for(5_000)
    assert fingerprint(first) == fingerprint(second)
    assert {view.intervals[-1].end for view in replica_views(first)} == {10}
