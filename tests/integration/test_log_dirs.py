"""Log directories that fail, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.errors import NotFound, WrongState
from klamm.cluster.status import RUNNING
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.lab.actions.actions import FailLogDir, Start
from klamm.lab.checks.agreement import check_cluster
from klamm.placement.draws import JavaRandom
from klamm.server.broker_operations import FAILED, BrokerOperations
from klamm.server.closing import Closing
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.integration.real_clusters import real_cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def cluster(chroot: str) -> Iterator[RealCluster]:
    """Brokers 0 to 2; of 1, which leads both, t-0 is in d0 and t-1 in d1."""
    config = {"log.dirs": "d0,d1", "auto.leader.rebalance.enable": "false"}
    spec = ClusterSpec(broker_ids=(0, 1, 2), session_timeout_ms=2000, config=config)
    with real_cluster(spec, chroot) as cluster:
        admin = TopicAdmin(KafkaZkClient(cluster.store), JavaRandom(0))
        admin.create_topic_with_assignment("t", {}, {0: (1, 0), 1: (1, 2)})
        wait_until(lambda: len(states(cluster)) == 2 and cluster.is_idle)
        yield cluster


def states(cluster: RealCluster) -> dict[TopicPartition, LeaderAndIsr]:
    """What the state znodes hold."""
    found = KafkaZkClient(cluster.store).get_partition_states([T0, T1]).values
    return {tp: state.leader_and_isr for tp, state in found.items()}


def leaders(cluster: RealCluster) -> list[int]:
    """The leaders of t-0 and t-1."""
    return [states(cluster)[tp].leader for tp in (T0, T1)]


def test_one_directory_fails_and_then_the_last(cluster: RealCluster) -> None:
    operations = BrokerOperations(cluster, Closing())
    failed = operations.perform(FailLogDir(1, "d0"))
    assert (failed["halted"], failed["state"]) == (False, RUNNING)
    wait_until(lambda: leaders(cluster) == [0, 1])
    wait_until(lambda: cluster.is_idle and check_cluster(cluster, cluster.store) == [])
    assert KafkaZkClient(cluster.store).get_children("/log_dir_event_notification") == []
    assert operations.state_of(1) == RUNNING
    failed = operations.perform(FailLogDir(1, "d1"))
    assert (failed["halted"], failed["state"]) == (True, FAILED)
    reason = operations.reason_of(1)
    assert reason == "all log directories have failed: d1: injected failure of d1"
    wait_until(lambda: leaders(cluster) == [0, 2])
    assert cluster.errors == []
    operations.perform(Start(1))
    assert (operations.state_of(1), operations.reason_of(1)) == (RUNNING, None)
    wait_until(lambda: all(1 in state.isr for state in states(cluster).values()))
    wait_until(lambda: cluster.is_idle and check_cluster(cluster, cluster.store) == [])


def test_a_directory_or_a_broker_that_is_not_there(cluster: RealCluster) -> None:
    with pytest.raises(NotFound, match="broker 1 has no log directory 'd2'") as refused:
        cluster.fail_log_dir(1, "d2")
    assert refused.value.hint == "it has d0, d1"
    with pytest.raises(WrongState, match="broker 9 is not running"):
        cluster.fail_log_dir(9, "d0")
