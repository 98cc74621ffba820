"""State znodes that were deleted manually: a controller of 2.8.2 logs the same lines."""

from __future__ import annotations

from itertools import pairwise

import pytest

from klamm.cluster.journal import Kind
from klamm.cluster.types import TopicPartition
from klamm.statemachines.replica_state import ReplicaState
from klamm.zk.store import Delete
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

EXCEPTION = "kafka.common.StateChangeFailedException: "


def delete_states(cluster: Cluster, *partitions: TopicPartition) -> None:
    """Delete the state znodes of these partitions."""
    cluster.admin.store.write([[Delete(TopicPartitionStateZNode.path(tp))] for tp in partitions])


def failed_changes(cluster: Cluster) -> list[str]:
    """Return the failed state changes in state-change.log, each with its exception."""
    lines = cluster.state_change_logs[0].getvalue().splitlines()
    found = []
    for line, exception in pairwise(lines):
        if " ERROR " in line:
            text = line.partition("epoch=1] ")[2].removesuffix(" (state.change.logger)")
            found.append(f"{text} - {exception.removeprefix(EXCEPTION)}")
    return found


def no_election(tp: TopicPartition) -> str:
    """Return what Kafka logs of an election without a state."""
    return (
        f"Controller 0 epoch 1 failed to change state for partition {tp} from OfflinePartition to "
        f"OnlinePartition - LeaderAndIsr information doesn't exist for partition {tp} in "
        "OfflinePartition state"
    )


def no_isr(tp: TopicPartition) -> str:
    """Return what Kafka logs of replica 1, which cannot leave an ISR without a state."""
    return (
        f"Controller 0 epoch 1 initiated state change of replica 1 for partition {tp} from "
        "OnlineReplica to OfflineReplica failed - Failed to change state of replica 1 for "
        f"partition {tp} since the leader and isr path in zookeeper is empty"
    )


def test_a_dead_broker_fails_its_partitions_with_kafkas_reasons(cluster: Cluster) -> None:
    (led,) = cluster.create_topic("a", (1, 2))
    (followed,) = cluster.create_topic("b", (0, 1))
    (alone,) = cluster.create_topic("c", (1,))
    delete_states(cluster, led, followed, alone)
    cluster.stop(1)
    assert sorted(failed_changes(cluster)) == sorted(
        [no_election(led), no_election(alone), *map(no_isr, (led, followed, alone))]
    )
    assert not cluster.logged("Retrying leader election")
    reasons = {row.outcome for row in cluster.rows(Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)}
    assert not [one for one in reasons if "NoNode" in str(one)]


def test_a_replica_outside_of_a_missing_isr_fails_too(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1, 2))
    cluster.stop(1)
    cluster.start(1)
    assert cluster.state(tp).isr == (0, 2)
    delete_states(cluster, tp)
    cluster.stop(1)
    assert failed_changes(cluster) == [no_isr(tp)]
    assert cluster.active.context.replica_state(1, tp) is ReplicaState.ONLINE


@pytest.mark.parametrize("replicas", [(0, 1), (1, 0)], ids=["follower", "leader"])
def test_no_state_is_missed_of_a_topic_that_is_deleted(
    cluster: Cluster, replicas: tuple[int, int]
) -> None:
    (tp,) = cluster.create_topic("t", replicas)
    delete_states(cluster, tp)
    cluster.delete_topic("t")
    assert not failed_changes(cluster)
    assert not cluster.admin.get_all_topics_in_cluster()
