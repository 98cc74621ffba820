"""ISRs that leaders propose: what is stored, what is refused, who hears of it."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.requests import AlterIsrRequest, AlterIsrResponse, UpdateMetadataRequest
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.zk.store import Delete, SetData
from klamm.zk.znodes import TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)


def grown(quirks: Quirks = NO_QUIRKS) -> Cluster:
    """Broker 2 came back: the ISR of t-0 is [0, 1], epoch 1, version 1."""
    cluster = Cluster(quirks).start(0, 1, 2)
    cluster.create_topic("t", (0, 1, 2))
    cluster.stop(2)
    cluster.start(2)
    assert cluster.state(T0) == LeaderAndIsr(0, 1, (0, 1), 1)
    cluster.forget()
    return cluster


@pytest.fixture
def cluster() -> Cluster:
    return grown()


def propose(
    cluster: Cluster, state: LeaderAndIsr, tp: TopicPartition = T0, epoch: int | None = None
) -> LeaderAndIsr | Errors:
    """Propose a state as its leader does: the new state, or the error of the partition."""
    broker_epoch = cluster.active.context.live_broker_epochs[state.leader]
    request = AlterIsrRequest(state.leader, broker_epoch if epoch is None else epoch, {tp: state})
    answer = cluster.request(request, AlterIsrResponse)
    return answer.partitions[tp] if answer.error is Errors.NONE else answer.error


def test_an_expansion_is_stored_and_sent(cluster: Cluster) -> None:
    assert propose(cluster, LeaderAndIsr(0, 1, (0, 1, 2), 1)) == LeaderAndIsr(0, 1, (0, 1, 2), 2)
    assert cluster.state(T0) == LeaderAndIsr(0, 1, (0, 1, 2), 2)
    for broker in cluster.brokers.values():
        (told,) = broker.requests
        assert isinstance(told, UpdateMetadataRequest)
        assert told.partition_states[0].isr == (0, 1, 2)
    (row,) = cluster.rows(Kind.ISR_CHANGED)
    assert (row.isr, row.prev_isr, row.zk_version, row.leader_epoch) == ((0, 1, 2), (0, 1), 2, 1)
    cluster.assert_nothing_failed()


@pytest.mark.parametrize(
    ("proposed", "error"),
    [
        (LeaderAndIsr(0, 0, (0,), 1), Errors.FENCED_LEADER_EPOCH),
        (LeaderAndIsr(0, 1, (0,), 0), Errors.INVALID_UPDATE_VERSION),
        (LeaderAndIsr(0, 2, (0,), 1), Errors.NOT_CONTROLLER),
        (LeaderAndIsr(0, 1, (0,), 2), Errors.NOT_CONTROLLER),
    ],
)
def test_a_stale_proposal_is_refused_and_changes_nothing(
    cluster: Cluster, proposed: LeaderAndIsr, error: Errors
) -> None:
    assert propose(cluster, proposed) is error
    assert cluster.state(T0) == LeaderAndIsr(0, 1, (0, 1), 1)
    (row,) = cluster.rows(Kind.ALTER_ISR_REFUSED)
    assert (row.outcome, row.isr) == (error.name, proposed.isr)
    failed = f"Failed to update ISR to {proposed} for partition t-0, bad ZK version."
    outdated = [failed] if error is Errors.INVALID_UPDATE_VERSION else []
    assert cluster.logged("Failed to update ISR") == outdated
    cluster.assert_nothing_failed()


def test_a_refused_isr_is_followed_by_the_current_one_to_every_broker(cluster: Cluster) -> None:
    cluster.active.context.add_shutting_down_broker(1)
    propose(cluster, LeaderAndIsr(0, 0, (0,), 1))
    for broker in cluster.brokers.values():
        (told,) = broker.requests
        assert isinstance(told, UpdateMetadataRequest)
        assert [state.isr for state in told.partition_states] == [(0, 1)]


def test_an_isr_with_a_dead_broker_is_answered_with_the_current_isr(cluster: Cluster) -> None:
    current = LeaderAndIsr(0, 1, (0, 1), 1)
    assert propose(cluster, LeaderAndIsr(0, 1, (0, 1, 9), 1)) == current
    assert cluster.state(T0) == current
    (row,) = cluster.rows(Kind.ALTER_ISR_REFUSED)
    assert (row.outcome, row.isr) == ("OPERATION_NOT_ATTEMPTED", (0, 1, 9))
    cluster.assert_nothing_failed()


def test_a_state_znode_that_is_gone_is_not_made_again(cluster: Cluster) -> None:
    path = TopicPartitionStateZNode.path(T0)
    cluster.admin.delete(path)
    error = Errors.UNKNOWN_SERVER_ERROR
    assert propose(cluster, LeaderAndIsr(0, 1, (0,), 1)) is error
    assert not cluster.admin.path_exists(path)
    assert cluster.state_of(0, T0) == LeaderAndIsr(0, 1, (0, 1), 1)
    assert [row.outcome for row in cluster.rows(Kind.ALTER_ISR_REFUSED)] == [error.name]
    (logged,) = cluster.logged("Failed to update ISR for partition t-0: ")
    assert path in logged


def test_the_state_that_is_there_is_granted_without_a_write(cluster: Cluster) -> None:
    assert propose(cluster, LeaderAndIsr(0, 1, (0, 1), 0)) == LeaderAndIsr(0, 1, (0, 1), 1)
    assert cluster.state(T0).zk_version == 1


def test_proposals_for_unknown_partitions_or_by_unknown_brokers_are_refused(
    cluster: Cluster,
) -> None:
    state = LeaderAndIsr(0, 1, (0,), 1)
    unknown = propose(cluster, state, TopicPartition("u", 0))
    assert unknown is Errors.UNKNOWN_TOPIC_OR_PARTITION
    known = cluster.active.context.live_broker_epochs[0]
    for epoch in (1, known - 1, known + 1):
        assert propose(cluster, state, epoch=epoch) is Errors.STALE_BROKER_EPOCH
    stranger = LeaderAndIsr(8, 1, (0,), 1)
    answer = cluster.request(AlterIsrRequest(8, 1, {T0: stranger}), AlterIsrResponse)
    assert answer == AlterIsrResponse(Errors.STALE_BROKER_EPOCH, {})
    stale = "Ignoring AlterIsr due to stale broker epoch"
    assert cluster.logged("Ignoring AlterIsr") == [
        *(f"{stale} {epoch} for broker 0" for epoch in (1, known - 1, known + 1)),
        "Ignoring AlterIsr due to unknown broker 8",
    ]


def test_a_broker_that_is_not_the_controller_refuses(cluster: Cluster) -> None:
    cluster.start(3, candidates=(3,))
    answer = cluster.request(AlterIsrRequest(0, 1, {}), AlterIsrResponse, 3)
    assert answer == AlterIsrResponse(Errors.NOT_CONTROLLER, {})


def test_one_bad_partition_leaves_the_others_alone(cluster: Cluster) -> None:
    (u0,) = cluster.create_topic("u", (0, 1))
    epoch = cluster.active.context.live_broker_epochs[0]
    fenced, good = LeaderAndIsr(0, 0, (0,), 1), LeaderAndIsr(0, 0, (0,), 0)
    answer = cluster.request(AlterIsrRequest(0, epoch, {T0: fenced, u0: good}), AlterIsrResponse)
    assert answer == AlterIsrResponse(
        Errors.NONE, {T0: Errors.FENCED_LEADER_EPOCH, u0: LeaderAndIsr(0, 0, (0,), 1)}
    )
    assert cluster.state(u0).isr == (0,)


def test_a_fence_that_fails_is_answered_and_resigned(cluster: Cluster) -> None:
    fenced_off(cluster)
    assert propose(cluster, LeaderAndIsr(0, 1, (0,), 1)) is Errors.NOT_CONTROLLER
    assert not cluster.controllers[0].is_active
    assert len(cluster.rows(Kind.CONTROLLER_MOVED)) == 1


def fenced_off(cluster: Cluster) -> None:
    """Another controller is elected behind the back of broker 0."""
    write = cluster.admin.store.write
    write([[SetData("/controller_epoch", b"2")]])
    write([[SetData("/controller", b'{"version":1,"brokerid":5,"timestamp":"1"}')]])
    cluster.controllers[0].events._queue.clear()


def test_with_quirk_c5_a_deposed_controller_continues() -> None:
    cluster = grown(Quirks(fenced_controller_does_not_resign=True))
    fenced_off(cluster)
    assert propose(cluster, LeaderAndIsr(0, 1, (0,), 1)) is Errors.UNKNOWN_SERVER_ERROR
    assert cluster.controllers[0].is_active
    assert cluster.logged("Error when processing") == ["Error when processing AlterIsr"]


def test_kafka_14140_lets_a_dead_replica_in() -> None:
    cluster = grown(Quirks(kafka_14140=True))
    answer = propose(cluster, LeaderAndIsr(0, 1, (0, 1, 9), 1))
    assert answer == LeaderAndIsr(0, 1, (0, 1, 9), 2)


def test_kafka_14154_answers_from_a_stale_cache() -> None:
    proposed = LeaderAndIsr(0, 1, (0, 1), 5)
    assert propose(grown(), proposed) is Errors.NOT_CONTROLLER
    cluster = grown(Quirks(kafka_14154=True))
    assert propose(cluster, proposed) == LeaderAndIsr(0, 1, (0, 1), 1)


def test_a_shutting_down_replica_stays_out(cluster: Cluster) -> None:
    cluster.active.context.add_shutting_down_broker(2)
    proposed = LeaderAndIsr(0, 1, (0, 1, 2), 1)
    assert propose(cluster, proposed) == LeaderAndIsr(0, 1, (0, 1), 1)


def test_an_isr_without_a_state_znode_is_an_unknown_error(cluster: Cluster) -> None:
    path = TopicPartitionStateZNode.path(T0)
    cluster.admin.store.write([[Delete(path)]])
    assert propose(cluster, LeaderAndIsr(0, 1, (0, 1, 2), 1)) is Errors.UNKNOWN_SERVER_ERROR
    text = f"Failed to update ISR for partition t-0: KeeperErrorCode = NoNode for {path}"
    assert cluster.logged(text)
