"""Topics that Kafka 2.8.2's own kafka-topics makes are brought Online by klamm, and both tools
describe them alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.kafka.locate import SKIP_REASON, run_topic_command
from klamm.lab.actions.tools import ScenarioTools
from klamm.lab.drivers.real_driver import RealDriver
from klamm.statemachines.partition_state import PartitionState
from klamm.world.cluster_spec import ClusterSpec, rack_map
from klamm.world.journal.journal import MemoryJournal
from klamm.world.kafka.jars import kafka_libs
from klamm.world.real.cluster import RealCluster
from tests.integration.real_clusters import real_cluster
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]


@pytest.fixture
def cluster(chroot: str) -> Iterator[RealCluster]:
    """Four brokers in two racks."""
    ids = (0, 1, 2, 3)
    spec = ClusterSpec(broker_ids=ids, racks=rack_map(ids, ["a", "b"]), session_timeout_ms=4000)
    with real_cluster(spec, chroot) as cluster:
        yield cluster


def kafka_topics(cluster: RealCluster, *args: str) -> str:
    """Run Kafka's own tool; it must succeed. Returns what it printed."""
    done = run_topic_command(cluster.connect_string, args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait_for_online(cluster: RealCluster, partitions: int) -> None:
    """Wait until so many partitions are Online and every broker's cache shows their leaders."""

    def online() -> bool:
        active = cluster.active_controller
        if active is None:
            return False
        controller = cluster.nodes[active].node.controller
        assert controller is not None
        states = list(controller.context.partition_states.values())
        caches = [running.node.broker.metadata_cache for running in cluster.nodes.values()]
        return states == [PartitionState.ONLINE] * partitions and all(
            sum(map(cache.num_partitions, cache.topics())) == partitions for cache in caches
        )

    wait_until(online)
    wait_until(lambda: cluster.is_idle)


def test_topics_made_by_kafkas_tool_come_online(cluster: RealCluster) -> None:
    printed = kafka_topics(
        cluster, "--create", "--topic", "auto", "--partitions", "6", "--replication-factor", "2"
    )
    assert printed == "Created topic auto.\n"
    kafka_topics(cluster, "--create", "--topic", "manual", "--replica-assignment", "0:1:2,3:2:1")
    wait_for_online(cluster, 8)
    kafka_topics(cluster, "--alter", "--topic", "manual", "--partitions", "3")
    wait_for_online(cluster, 9)


def test_both_tools_describe_alike(cluster: RealCluster) -> None:
    kafka_topics(
        cluster,
        *("--create", "--topic", "t", "--partitions", "5", "--replication-factor", "3"),
        *("--config", "retention.ms=1000", "--config", "cleanup.policy=compact"),
    )
    wait_for_online(cluster, 5)
    cluster.shut_down(3)
    wait_until(lambda: 3 not in live_brokers(cluster) and cluster.is_idle)
    for flags in ([], ["--under-replicated-partitions"], ["--topics-with-overrides"]):
        args = ["--describe", *flags]
        kafkas = kafka_topics(cluster, *args)
        driver = RealDriver(cluster, MemoryJournal())
        ours = ScenarioTools(cluster.spec)("topics", ["--zookeeper", "z", *args], driver)
        assert ours.stdout == kafkas
        assert "t" in kafkas


def live_brokers(cluster: RealCluster) -> tuple[int, ...]:
    """The brokers that the active controller takes for live; none while nobody is active."""
    active = cluster.active_controller
    if active is None:
        return ()
    controller = cluster.nodes[active].node.controller
    assert controller is not None
    return tuple(controller.context.live_broker_ids)
