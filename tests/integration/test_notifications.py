"""Configs, ISRs and nonsense that are told by znodes, on a real ZooKeeper: what follows is the same
there as in the simulated world."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.brokers.leaders.zk_isr_manager import ZkIsrManager
from klamm.cluster.journal import Kind
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.checks.agreement import check_cluster
from klamm.placement.draws import JavaRandom
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Create, ResultCode
from tests.integration.real_clusters import real_cluster
from tests.sim.bad_input import LEFT, NOTICES, REQUESTS
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

T0 = TopicPartition("t", 0)
UNCLEAN = "unclean.leader.election.enable"
OLD = {"inter.broker.protocol.version": "2.6"}
ASSIGNMENT = {0: (1, 2), 1: (2, 0)}


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def config() -> dict[str, str]:
    return {}


@pytest.fixture
def cluster(chroot: str, journal: MemoryJournal, config: dict[str, str]) -> Iterator[RealCluster]:
    """Brokers 0 to 2, of which 0 is the controller and 2 is no candidate; topics t and u."""
    config = {"auto.leader.rebalance.enable": "false", **config}
    spec = ClusterSpec(
        broker_ids=(0, 1, 2), candidates=(0, 1), session_timeout_ms=3000, config=config
    )
    with real_cluster(spec, chroot, journal) as cluster:
        create(cluster, "t")
        yield cluster
        assert cluster.errors == []


def create(cluster: RealCluster, topic: str) -> None:
    """Create a topic as the tool does, and wait until its leaders lead."""
    client = KafkaZkClient(cluster.store)
    TopicAdmin(client, JavaRandom(0)).create_topic_with_assignment(topic, {}, ASSIGNMENT)
    tps = [TopicPartition(topic, n) for n in ASSIGNMENT]
    wait_until(lambda: len(client.get_partition_states(tps).values) == len(tps))
    wait_until(lambda: cluster.is_idle)


def state(cluster: RealCluster) -> LeaderAndIsr:
    """The state of t-0."""
    return KafkaZkClient(cluster.store).get_partition_states([T0]).values[T0].leader_and_isr


def alter(cluster: RealCluster, entity_type: str, name: str, value: str) -> None:
    """Allow unclean elections, or not, as the tool does."""
    client = KafkaZkClient(cluster.store)
    client.set_or_create_entity_configs(entity_type, name, {UNCLEAN: value})
    client.create_config_change_notification(f"{entity_type}/{name}")


def put(cluster: RealCluster, path: str, data: bytes | None) -> None:
    """Write a znode; those above it that are missing come in the same transaction.

    One by one, the controller would take away the first before the next is there.
    """
    client = KafkaZkClient(cluster.store)
    if client.set_data(path, data) is not None:
        return
    parts = path.split("/")
    above = ["/".join(parts[:end]) for end in range(2, len(parts))]
    missing = [Create(parent, None) for parent in above if not client.path_exists(parent)]
    [result] = cluster.store.write([[*missing, Create(path, data)]])
    assert result.code is ResultCode.OK, path


@pytest.mark.parametrize("entity", [("topics", "t"), ("brokers", "<default>")])
def test_unclean_elections_enabled(cluster: RealCluster, entity: tuple[str, str]) -> None:
    cluster.shut_down(2)
    wait_until(lambda: state(cluster).isr == (1,))
    cluster.shut_down(1)
    wait_until(lambda: state(cluster).leader == -1)
    cluster.start(2)
    alter(cluster, *entity, "true")
    wait_until(lambda: state(cluster).leader == 2)
    assert state(cluster).isr == (2,)
    assert all(
        running.node.broker.dynamic_config_manager.malformed == {}
        for running in cluster.nodes.values()
    )


@pytest.mark.parametrize("config", [OLD])
def test_leaders_write_isrs(cluster: RealCluster, journal: MemoryJournal) -> None:
    assert isinstance(cluster.nodes[1].node.broker.alter_isr_manager, ZkIsrManager)
    cluster.shut_down(2)
    wait_until(lambda: state(cluster).isr == (1,))
    cluster.start(2)
    wait_until(lambda: state(cluster).isr == (1, 2))
    wait_until(lambda: any(row.kind == Kind.ISR_CHANGED for row in tuple(journal.rows)))
    wait_until(lambda: cluster.is_idle)
    client = KafkaZkClient(cluster.store)
    assert client.get_children("/isr_change_notification") == []
    assert check_cluster(cluster, cluster.store) == []


def test_the_controller_serves_on_whatever_it_finds(
    cluster: RealCluster, journal: MemoryJournal
) -> None:
    client = KafkaZkClient(cluster.store)
    # A state that is written by hand has another version than its leader knows, mended or not.
    left = [bad for bad in LEFT if not bad.path.endswith("/state")]
    for bad in (*REQUESTS, *NOTICES, *left):
        before = client.get_data_and_stat(bad.path)
        put(cluster, bad.path, bad.data)
        wait_until(lambda: cluster.is_idle)
        if bad in left:
            found = client.get_data_and_stat(bad.path)
            assert found is not None, bad
            assert found[0] == bad.data
            # The next one is put into a tree that was mended, or has nothing there.
            if before is None:
                client.delete(bad.path)
            else:
                client.set_data(bad.path, before[0])
        else:
            wait_until(lambda path=bad.path: not client.path_exists(path))  # type: ignore[misc]
    wait_until(lambda: cluster.is_idle)
    create(cluster, "after")
    assert not [row for row in tuple(journal.rows) if row.kind == Kind.EVENT_FAILED]
    KafkaZkClient(cluster.store).delete("/controller")
    wait_until(lambda: cluster.active_controller is not None and cluster.is_idle)
    create(cluster, "later")
    assert not [row for row in tuple(journal.rows) if row.kind == Kind.EVENT_FAILED]
    controller = cluster.nodes[cluster.active_controller or 0].node.controller
    assert controller is not None
    wait_until(lambda: controller.malformed == {})
    assert check_cluster(cluster, cluster.store) == []
