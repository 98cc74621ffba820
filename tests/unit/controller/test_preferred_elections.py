"""Preferred leaders: elections by znode, at a failover and by the check for imbalance.

Sources: processReplicaLeaderElection, fetchPendingPreferredReplicaElections and
checkAndTriggerAutoLeaderRebalance (kafka.controller.KafkaController).
"""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import Kind
from klamm.cluster.requests import (
    NO_SUCH_PARTITION,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from klamm.cluster.types import ElectionType, LeaderAndIsr, TopicPartition
from klamm.zk.store import Delete, ReadOp, Transaction
from klamm.zk.znodes import ControllerZNode, PreferredReplicaElectionZNode, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster

PATH = "/admin/preferred_replica_election"
CHECK_MS = 300_000
"""Default of leader.imbalance.check.interval.seconds."""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().start(0, 1, 2, 3)


def led_by(cluster: Cluster, tp: TopicPartition, leader: int, *isr: int) -> None:
    """Let ZooKeeper have this leader and ISR; the next controller reads them."""
    state = LeaderAndIsr(leader, 1, isr)
    cluster.write_state(tp, TopicPartitionStateZNode.encode(state, 1))


def fail_over(cluster: Cluster) -> None:
    cluster.fail_over()
    cluster.forget()
    log = cluster.controller_logs[0]
    log.seek(0)
    log.truncate()


def several(cluster: Cluster) -> list[TopicPartition]:
    """Partitions of which one needs and can have an election, and others do not or cannot."""
    moved, there, outside = cluster.create_topic("t", (1, 2), (1, 2), (3, 2))
    (deleted,) = cluster.create_topic("u", (1, 2))
    led_by(cluster, moved, 2, 1, 2)
    led_by(cluster, outside, 2, 2)
    led_by(cluster, deleted, 2, 1, 2)
    cluster.stop(3)
    (leaderless,) = cluster.create_topic("v", (3,))
    (waiting,) = cluster.create_topic("w", (1, 3))
    cluster.delete_topic("w")
    return [moved, there, outside, waiting, leaderless, TopicPartition("none", 0)]


def test_a_znode_asks_for_elections(cluster: Cluster) -> None:
    asked = several(cluster)
    fail_over(cluster)
    assert cluster.admin.create_preferred_replica_election(asked)
    cluster.run()
    assert cluster.state(asked[0]).leader == 1
    assert cluster.state(asked[2]).leader == 2
    assert cluster.moves() == ["t-0 Online>Online"]
    assert not cluster.admin.path_exists(PATH)
    assert cluster.logged("Skipping", "completed preferred", "Error completing", "still") == [
        "Skipping replica leader election (PREFERRED) for partition none-0 by ZkTriggered since it "
        "doesn't exist.",
        "Skipping replica leader election (PREFERRED) for partitions HashSet(w-0) by ZkTriggered "
        "since the respective topics are being deleted",
        "Skipping replica leader election for partition v-0 since it never had a leader",
        "Error completing replica leader election (PREFERRED) for partition t-2: Failed to elect "
        "leader for partition t-2 under strategy PreferredReplicaPartitionLeaderElectionStrategy",
        "Partition t-0 completed preferred replica leader election. New leader is 1",
        "Partition t-2 failed to complete preferred replica leader election to 3. Leader is still "
        "2",
    ]
    cluster.assert_nothing_failed()


def test_the_next_controller_resumes_the_elections_of_the_znode() -> None:
    cluster = Cluster().start(0, 1, 2, 3, candidates=(0, 1))
    asked = several(cluster)
    cluster.paused.add(0)
    assert cluster.admin.create_preferred_replica_election(asked)
    cluster.fail_over()
    assert cluster.state_of(1, asked[0]).leader == 1
    assert not cluster.admin.path_exists(PATH)
    words = ("referred replica election for", "undergoing", "that completed")
    assert cluster.logged(*words, controller=1) == [
        "Partitions undergoing preferred replica election: t-0,t-1,t-2,w-0,v-0,none-0",
        "Partitions that completed preferred replica election: t-1,none-0",
        "Skipping preferred replica election for partitions due to topic deletion: w-0",
        "Resuming preferred replica election for partitions: t-0,t-2,v-0",
    ]
    assert len(cluster.logged("partition v-0 since it never had a leader", controller=1)) == 1


@pytest.mark.timeout(10)
def test_a_failover_takes_no_longer_for_each_of_many_elections(cluster: Cluster) -> None:
    cluster.admin.delete(ControllerZNode.path)
    many = [TopicPartition("gone", partition) for partition in range(20_000)]
    cluster.admin.create_preferred_replica_election(many)
    cluster.run()
    completed = "Partitions that completed preferred replica election: gone-0,gone-1,"
    assert cluster.logged(completed)
    assert not cluster.admin.path_exists(PATH)
    cluster.assert_nothing_failed()


def is_removal(op: ReadOp | Transaction) -> bool:
    return isinstance(op, list) and any(isinstance(o, Delete) and o.path == PATH for o in op)


def test_elections_that_are_added_while_others_run_are_run_too(cluster: Cluster) -> None:
    first, second = cluster.create_topic("t", (1, 2), (1, 2))
    for tp in (first, second):
        led_by(cluster, tp, 2, 1, 2)
    fail_over(cluster)
    data = PreferredReplicaElectionZNode.encode([second])
    cluster.write_before(is_removal, lambda: cluster.admin.set_data(PATH, data))
    cluster.admin.create_preferred_replica_election([first])
    cluster.run()
    assert [cluster.state(tp).leader for tp in (first, second)] == [1, 1]
    assert not cluster.admin.path_exists(PATH)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["deleted by another", "malformed"])
def test_a_znode_that_is_gone_or_malformed_is_no_failure(
    cluster: Cluster, is_deleted: bool
) -> None:
    if is_deleted:
        cluster.write_before(is_removal, lambda: cluster.admin.delete(PATH))
    cluster.admin.create(PATH, b'{"version":1,"partitions":[]}' if is_deleted else b"?")
    cluster.run()
    reported = [row.detail for row in cluster.rows(Kind.ZNODE_MALFORMED)]
    assert reported == ([] if is_deleted else [PATH])
    assert not cluster.admin.path_exists(PATH)
    assert cluster.active.malformed == {}
    cluster.assert_nothing_failed()


def test_a_topic_that_allows_unclean_elections_leaves_the_others_alone(cluster: Cluster) -> None:
    partitions = [cluster.create_topic(topic, (1, 2))[0] for topic in ("t", "u")]
    cluster.stop(2)
    cluster.start(2)
    cluster.stop(1)
    for topic in ("t", "u"):
        cluster.admin.set_or_create_entity_configs(
            "topics", topic, {"unclean.leader.election.enable": "true"}
        )
    for topic, leaders in (("t", [2, -1]), (None, [2, 2])):
        cluster.active.enable_unclean_leader_election(topic)
        cluster.run()
        assert [cluster.state(tp).leader for tp in partitions] == leaders
    assert cluster.logged("Unclean leader election") == [
        "Unclean leader election has been enabled for topic t",
        "Unclean leader election has been enabled by default",
    ]


def imbalanced(cluster: Cluster, count: int, others: int) -> list[TopicPartition]:
    """Partitions whose preferred leader is 1; broker 2 leads the last of them."""
    tps = cluster.create_topic("t", *[(1, 2)] * count)
    for tp in tps[count - others :]:
        led_by(cluster, tp, 2, 1, 2)
    fail_over(cluster)
    return tps


def elected(cluster: Cluster) -> set[str | None]:
    rows = cluster.rows(Kind.PARTITION_TRANSITION)
    return {f"{row.topic}-{row.partition}" for row in rows if row.leader == 1}


@pytest.mark.parametrize(
    ("count", "others", "moves"), [(10, 1, False), (9, 1, True), (20, 3, True)]
)
def test_more_than_a_tenth_led_by_others_is_an_imbalance(
    cluster: Cluster, count: int, others: int, moves: bool
) -> None:
    tps = imbalanced(cluster, count, others)
    cluster.advance(4_000)
    assert elected(cluster) == set()
    cluster.advance(CHECK_MS)
    assert elected(cluster) == ({str(tp) for tp in tps[count - others :]} if moves else set())
    cluster.assert_nothing_failed()


def test_the_check_is_repeated_and_skips_partitions_that_cannot_be_moved(cluster: Cluster) -> None:
    tps = imbalanced(cluster, 4, 2)
    # A replica outside the ISR cannot lead, and a partition that moves is left alone.
    led_by(cluster, tps[2], 2, 2)
    fail_over(cluster)
    cluster.brokers[3].is_silent = True
    cluster.reassign({tps[3]: (1, 2, 3)})
    cluster.advance(CHECK_MS + 5_000)
    assert elected(cluster) == set()
    (new,) = cluster.create_topic("u", (1, 2))
    led_by(cluster, new, 2, 1, 2)
    fail_over(cluster)
    cluster.advance(CHECK_MS + 5_000)
    assert elected(cluster) == {"u-0"}


def test_topics_that_are_deleted_do_not_count(cluster: Cluster) -> None:
    cluster.create_topic("d", *[(1, 3)] * 10)
    cluster.stop(3)
    cluster.delete_topic("d")
    tps = imbalanced(cluster, 3, 1)
    cluster.advance(CHECK_MS + 5_000)
    assert elected(cluster) == {str(tps[2])}


@pytest.mark.parametrize("election_type", ElectionType)
def test_a_client_gets_an_error_for_each_leader_that_cannot_be_elected(
    cluster: Cluster, election_type: ElectionType
) -> None:
    (deleted,) = cluster.create_topic("w", (1, 3))
    cluster.stop(3)
    cluster.delete_topic("w")
    unknown = TopicPartition("none", 0)
    answer = cluster.request(
        ElectLeadersRequest(election_type, (unknown, deleted), 1_000), ElectLeadersResponse
    )
    assert answer.partitions == {
        unknown: NO_SUCH_PARTITION,
        deleted: ApiError(Errors.INVALID_TOPIC_EXCEPTION, "The topic is being deleted"),
    }
    skipping = f"Skipping replica leader election ({election_type.value}) for"
    assert cluster.logged("Skipping replica") == [
        f"{skipping} partition none-0 by AdminClientTriggered since it doesn't exist.",
        f"{skipping} partitions Set(w-0) by AdminClientTriggered since the respective topics are "
        "being deleted",
    ]


def test_a_state_that_is_malformed_before_the_election_fails_alone(cluster: Cluster) -> None:
    spoilt, plain = cluster.create_topic("t", (1, 2), (1, 2))
    for tp in (spoilt, plain):
        led_by(cluster, tp, 2, 1, 2)
    fail_over(cluster)
    cluster.write_state(spoilt, b"?")
    answer = cluster.request(
        ElectLeadersRequest(ElectionType.PREFERRED, (spoilt, plain), 1_000), ElectLeadersResponse
    )
    text = "LeaderAndIsr information doesn't exist for partition t-0 in OnlinePartition state"
    assert answer.partitions == {
        spoilt: ApiError(Errors.PREFERRED_LEADER_NOT_AVAILABLE, text),
        plain: ApiError(Errors.NONE),
    }
    assert [(row.partition, row.outcome) for row in cluster.rows(Kind.PARTITION_FAILED)] == [
        (0, text)
    ]
    assert cluster.state(plain).leader == 1
