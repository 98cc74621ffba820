"""A deposed controller writes nothing, on a real ZooKeeper: paused as by a long garbage collection,
with its session expired meanwhile or still alive.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.journal import Kind
from klamm.controller.events import BrokerChange
from klamm.controller.kafka_controller import KafkaController
from klamm.placement.draws import JavaRandom
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import GetChildren, GetData, Stat
from tests.integration.real_clusters import real_cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

ASSIGNMENT = {n: tuple((n + k) % 4 for k in range(3)) for n in range(8)}
Dump = dict[str, tuple[bytes | None, int]]


@pytest.fixture
def journal() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def cluster(chroot: str, journal: MemoryJournal) -> Iterator[RealCluster]:
    """Brokers 0 to 3 with a topic; 0 is the controller."""
    spec = ClusterSpec(broker_ids=(0, 1, 2, 3), candidates=(0, 1, 2), session_timeout_ms=2000)
    with real_cluster(spec, chroot, journal) as cluster:
        admin = TopicAdmin(KafkaZkClient(cluster.store), JavaRandom(0))
        admin.create_topic_with_assignment("t", {}, ASSIGNMENT)
        wait_until(lambda: len(dump_of_topics(cluster)) == 3 + 2 * len(ASSIGNMENT))
        wait_until(lambda: cluster.is_idle)
        yield cluster


def dump_of_topics(cluster: RealCluster) -> Dump:
    """Data and last zxid of everything under /brokers/topics."""
    dump: Dump = {}
    paths = ["/brokers/topics"]
    while paths:
        store = cluster.store
        found = store.read([GetData(path) for path in paths])
        children = store.read([GetChildren(path) for path in paths])
        for path, result in zip(paths, found, strict=True):
            assert isinstance(result.stat, Stat)
            dump[path] = (result.data, result.stat.mzxid)
        paths = [
            f"{path}/{name}"
            for path, result in zip(paths, children, strict=True)
            for name in result.children or ()
        ]
    return dump


def controller_of(cluster: RealCluster, broker_id: int) -> KafkaController:
    controller = cluster.nodes[broker_id].node.controller
    assert controller is not None
    return controller


def settled_dump(cluster: RealCluster, active: int) -> Dump:
    """The topics once broker 3 is out of every ISR, by the work of ``active``."""
    context = controller_of(cluster, active).context
    wait_until(lambda: 3 not in context.live_broker_ids and cluster.is_idle)
    return dump_of_topics(cluster)


def take_over(cluster: RealCluster) -> int:
    """Wait for a controller other than 0."""
    wait_until(lambda: cluster.active_controller not in (0, None))
    active = cluster.active_controller
    assert active is not None
    wait_until(lambda: cluster.is_idle)
    return active


def test_a_paused_controller_whose_session_expired(
    cluster: RealCluster, journal: MemoryJournal, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.pause(0)
    active = take_over(cluster)
    cluster.shut_down(3)
    before = settled_dump(cluster, active)
    old = controller_of(cluster, 0)
    old.events.put(BrokerChange())
    cluster.resume(0)
    wait_until(lambda: not old.is_elected and cluster.is_idle)
    wait_until(lambda: 0 in controller_of(cluster, active).context.live_broker_ids)
    after = dump_of_topics(cluster)
    states = {path for path in before if not path.endswith("/state")}
    assert {path: after[path] for path in states} == {path: before[path] for path in states}
    for path, (data, _) in after.items():
        if path.endswith("/state") and data != before[path][0]:
            assert b'"controller_epoch":2' in (data or b"")
    late = [row for row in journal.rows if row.epoch == 1 and row.kind == Kind.ISR_REMOVED]
    assert late == []
    assert "broker 0: its ZooKeeper session expired" in caplog.messages


def test_a_paused_controller_whose_session_lives(cluster: RealCluster) -> None:
    thread = cluster.nodes[0].event_thread
    assert thread is not None
    thread.pause()
    old = controller_of(cluster, 0)
    old.events.put(BrokerChange())
    KafkaZkClient(cluster.store).delete("/controller")
    active = take_over_from_a_frozen_thread(cluster)
    cluster.shut_down(3)
    context = controller_of(cluster, active).context
    wait_until(lambda: 3 not in context.live_broker_ids)
    wait_until(lambda: context.offline_partition_count == 0)
    wait_until(lambda: controller_of(cluster, active).channels.is_idle())
    before = dump_of_topics(cluster)
    thread.resume()
    wait_until(lambda: not old.is_elected)
    wait_until(lambda: cluster.is_idle)
    assert dump_of_topics(cluster) == before
    assert cluster.active_controller == active


def take_over_from_a_frozen_thread(cluster: RealCluster) -> int:
    """Wait for a controller other than 0, whose thread does not yet know that it was deposed."""

    def elected() -> list[int]:
        return [id_ for id_ in (1, 2) if controller_of(cluster, id_).is_active]

    wait_until(lambda: len(elected()) == 1)
    return elected()[0]
