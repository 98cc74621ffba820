"""ControlledShutdown through the controller: who is refused, and what moves off a broker."""

from __future__ import annotations

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.requests import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    StopReplicaRequest,
)
from klamm.cluster.types import LeaderAndIsr
from klamm.zk.store import SetData
from tests.unit.controller.cluster import Cluster


def shut_down(cluster: Cluster, broker_id: int, epoch: int = -1) -> ControlledShutdownResponse:
    return cluster.request(ControlledShutdownRequest(broker_id, epoch), ControlledShutdownResponse)


def test_only_an_older_epoch_and_an_unknown_broker_are_refused(cluster: Cluster) -> None:
    known = cluster.active.context.live_broker_epochs[1]
    assert shut_down(cluster, 7).error is Errors.BROKER_NOT_AVAILABLE
    assert shut_down(cluster, 1, known - 1).error is Errors.STALE_BROKER_EPOCH
    assert cluster.active.context.shutting_down_broker_ids == frozenset()
    for epoch in (-1, known, known + 1):
        assert shut_down(cluster, 1, epoch).error is Errors.NONE
    assert cluster.logged("Broker id 7", "controlled shutdown request") == [
        "Broker id 7 does not exist.",
        f"Received controlled shutdown request from an old broker epoch {known - 1} for broker 1. "
        f"Current broker epoch is {known}.",
    ]


def test_a_broker_that_shuts_down_loses_its_leaderships_and_its_followers_stop(
    cluster: Cluster,
) -> None:
    led, followed, alone = cluster.create_topic("t", (1, 2), (2, 1), (1,))
    cluster.create_topic("gone", (1, 9), (2, 1))
    cluster.delete_topic("gone")
    assert cluster.active.context.topics_to_be_deleted == {"gone"}, "it waits for broker 9"
    cluster.active.context.add_shutting_down_broker(0)
    cluster.forget()
    assert shut_down(cluster, 1) == ControlledShutdownResponse(Errors.NONE, ())
    assert cluster.state(led) == LeaderAndIsr(2, 1, (2,), 1)
    assert cluster.state(followed) == LeaderAndIsr(2, 1, (2,), 1)
    assert cluster.state(alone) == LeaderAndIsr(1, 0, (1,), 0)
    assert not cluster.rows(Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
    stopped = [one for one in cluster.brokers[1].requests if isinstance(one, StopReplicaRequest)]
    states = [state for one in stopped for state in one.partition_states]
    assert {(state.topic_partition, state.delete_partition) for state in states} == {
        (followed, False)
    }
    words = ("Shutting down broker", "shutting down brokers", "Live brokers:")
    assert cluster.logged(*words) == [
        "Shutting down broker 1",
        "All shutting down brokers: 0,1",
        "Live brokers: 2",
    ]
    cluster.assert_nothing_failed()


def test_a_deposed_controller_refuses_and_resigns(cluster: Cluster) -> None:
    cluster.create_topic("t", (1, 2))
    cluster.admin.store.write([[SetData("/controller_epoch", b"2")]])
    assert shut_down(cluster, 1).error is Errors.STALE_CONTROLLER_EPOCH
    assert len(cluster.rows(Kind.CONTROLLER_MOVED)) == 1


def test_requests_that_a_failure_left_behind_are_not_sent(cluster: Cluster) -> None:
    (followed,) = cluster.create_topic("t", (2, 1))
    cluster.forget()
    cluster.active.batch.add_stop_replica_request_for_brokers([2], followed, True)
    assert shut_down(cluster, 1).error is Errors.UNKNOWN_SERVER_ERROR
    assert not any(isinstance(one, StopReplicaRequest) for one in cluster.brokers[2].requests)
    assert len(cluster.rows(Kind.CONTROLLER_ELECTED)) == 1, "the controller has resigned"
