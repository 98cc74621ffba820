"""Kafka's metrics, as values and as Prometheus text."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from klamm.controller.metrics import ControllerCollector
from tests.unit.controller.cluster import Cluster


def rendered(cluster: Cluster) -> dict[str, float]:
    """{sample: value} of what /metrics would show."""
    registry, collector = CollectorRegistry(), ControllerCollector()
    for broker_id, controller in cluster.controllers.items():
        collector.add(broker_id, controller.metrics)
    registry.register(collector)
    lines = generate_latest(registry).decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def test_the_controller_exports_its_gauges_and_a_candidate_exports_zeros() -> None:
    cluster = Cluster().start(0, 1, 2, candidates=(0, 1))
    cluster.create_topic("t", (2,), (2, 0))
    cluster.create_topic("never had a leader", (9,))
    cluster.stop(2)
    samples = rendered(cluster)
    prefix = "kafka_controller_KafkaController_"
    shown = {
        name.removeprefix(prefix).removesuffix('{controller="0"}'): value
        for name, value in samples.items()
        if name.startswith(prefix) and 'controller="0"' in name
    }
    assert shown == {
        "ActiveControllerCount": 1,
        "OfflinePartitionsCount": 1,
        "PreferredReplicaImbalanceCount": 2,
        "ControllerState": 0,
        "GlobalTopicCount": 2,
        "GlobalPartitionCount": 2,
        "TopicsToDeleteCount": 0,
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": 0,
        "ReplicasIneligibleToDeleteCount": 0,
    }
    assert samples[f'{prefix}ActiveControllerCount{{controller="1"}}'] == 0
    assert samples[f'{prefix}GlobalTopicCount{{controller="1"}}'] == 0


def test_timers_queues_and_channels_are_exported() -> None:
    cluster = Cluster().start(0, 1)
    cluster.brokers[1].is_silent = True
    cluster.create_topic("t", (0, 1))
    for ms in (20, 30):
        cluster.active.events.rate_and_time["IsrChangeRateAndTimeMs"].update(ms)
    samples = rendered(cluster)
    stats, channels = (
        "kafka_controller_ControllerStats_",
        "kafka_controller_ControllerChannelManager_",
    )
    me = '{controller="0"}'
    # One for the child watch, one for the id that the controller wrote itself.
    assert samples[f"{stats}TopicChangeRateAndTimeMs_count{me}"] == 2
    assert samples[f"{stats}LeaderElectionRateAndTimeMs_count{me}"] == 1
    assert samples[f"{stats}IsrChangeRateAndTimeMs_sum{me}"] == 50
    assert samples[f"{stats}UncleanLeaderElectionsPerSec_total{me}"] == 0
    assert samples["kafka_controller_ControllerEventManager_EventQueueSize" + me] == 0
    assert samples[f"kafka_controller_ControllerEventManager_EventQueueTimeMs_count{me}"] > 3
    assert samples[f"{channels}TotalQueueSize{me}"] == 1
    assert samples[f'{channels}QueueSize{{broker_id="1",controller="0"}}'] == 1
    assert samples[f'{channels}QueueSize{{broker_id="0",controller="0"}}'] == 0
    cluster.brokers[1].is_silent = False
    cluster.advance(100_000)
    after, waited = rendered(cluster), f"{channels}RequestRateAndQueueTimeMs_"
    broker = '{broker_id="1",controller="0"}'
    assert after[f"{waited}count{broker}"] == samples[f"{waited}count{broker}"] + 1
    assert after[f"{waited}sum{broker}"] == samples[f"{waited}sum{broker}"] + 100_000


def gauges(cluster: Cluster) -> dict[str, int]:
    """The gauges of topic deletions that are not 0."""
    found = cluster.active.metrics.gauges()
    return {name: value for name, value in found.items() if "Delete" in name and value}


def test_a_deletion_that_waits_for_a_dead_broker_is_counted_until_it_is_done() -> None:
    cluster = Cluster().start(0, 1, 2, candidates=(0, 1))
    cluster.create_topic("t", (0, 1), (1, 2))
    cluster.create_topic("other", (0, 2))
    cluster.stop(2)
    cluster.delete_topic("t")
    assert gauges(cluster) == {
        "TopicsToDeleteCount": 1,
        "ReplicasToDeleteCount": 1,
        "TopicsIneligibleToDeleteCount": 1,
    }
    old = cluster.active
    cluster.paused.add(0)
    cluster.admin.delete("/controller")
    cluster.run()
    cluster.resume()
    assert old.metrics.gauges()["TopicsToDeleteCount"] == 0
    assert gauges(cluster)["TopicsToDeleteCount"] == 1
    cluster.start(2)
    assert gauges(cluster) == {}


def test_events_are_timed_while_they_wait_and_while_they_run() -> None:
    cluster = Cluster().start(0, 1)
    name = 'kafka_controller_ControllerEventManager_EventQueueTimeMs_{}{{controller="0"}}'
    before = rendered(cluster)
    cluster.active.enable_unclean_leader_election("t")
    cluster.clock.advance_to(cluster.clock.monotonic_ms() + 250)
    cluster.run()
    after = rendered(cluster)
    assert after[name.format("sum")] - before[name.format("sum")] == 250
    assert after[name.format("count")] - before[name.format("count")] == 1
