"""CreateTopics through the controller: validation, one write with the id, and when it answers."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.requests import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from klamm.cluster.types import LeaderAndIsr, TopicPartition
from klamm.zk.memory_store import LostReply
from klamm.zk.store import Create, ReadOp, ReadResult, SetData, Transaction, TxnResult
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)
PLAIN = CreatableTopic("t", 2, 2)


def create(
    cluster: Cluster, *topics: CreatableTopic, timeout_ms: int = 1000, validate_only: bool = False
) -> list[CreatableTopicResult]:
    """Ask and run: the results, in the order of the request."""
    answer = cluster.request(
        CreateTopicsRequest(topics, timeout_ms, validate_only), CreateTopicsResponse
    )
    return list(answer.topics)


def test_a_request_is_answered_once_every_partition_has_a_leader(cluster: Cluster) -> None:
    (result,) = create(cluster, PLAIN)
    assert (result.error, result.error_message) == (Errors.NONE, None)
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert result.topic_id == cluster.active.context.topic_ids["t"]
    assert len(cluster.state(T0).isr) == 2
    # The id is in the first write, so the controller does not write the znode again.
    assert cluster.topic_version("t") == 0
    found = cluster.admin.get_data_and_stat("/config/topics/t")
    assert found is not None
    assert found[0] == b'{"version":1,"config":{}}'
    assert not cluster.active.pending_requests
    cluster.advance(1_000)
    assert not cluster.replies, "the request does not time out as well"
    cluster.assert_nothing_failed()


def test_a_topic_is_created_with_its_assignment_and_configs(cluster: Cluster) -> None:
    topic = CreatableTopic(
        "t", assignments={0: (2, 1), 1: (1, 0)}, configs={"retention.ms": "5000"}
    )
    (result,) = create(cluster, topic)
    assert (result.error, result.num_partitions) == (Errors.NONE, 2)
    assert cluster.state(T0) == LeaderAndIsr(2, 0, (2, 1), 0)
    assert cluster.admin.get_entity_configs("topics", "t") == {"retention.ms": "5000"}


def test_defaults_stand_in_for_minus_one(cluster: Cluster) -> None:
    (result,) = create(cluster, CreatableTopic("t"))
    assert (result.num_partitions, result.replication_factor) == (1, 1)


def test_a_topic_without_a_leader_in_time_is_created_with_a_timeout_error(cluster: Cluster) -> None:
    cluster.ask(0, CreateTopicsRequest((CreatableTopic("t", assignments={0: (7,)}),), 500))
    cluster.run()
    assert not cluster.replies
    cluster.advance(499)
    assert not cluster.replies
    cluster.advance(1)
    answer = cluster.answer()
    assert isinstance(answer, CreateTopicsResponse)
    (result,) = answer.topics
    assert (result.error, result.num_partitions) == (Errors.REQUEST_TIMED_OUT, -1)
    assert result.topic_id == cluster.active.context.topic_ids["t"]
    cluster.start(7)
    assert cluster.state(T0).leader == 7


def test_a_leader_that_dies_before_all_partitions_have_one_is_waited_for(cluster: Cluster) -> None:
    topic = CreatableTopic("t", assignments={0: (1,), 1: (7,)})
    cluster.ask(0, CreateTopicsRequest((topic,), 500))
    cluster.run()
    cluster.stop(1)
    cluster.start(7)
    assert not cluster.replies
    cluster.start(1)
    answer = cluster.answer()
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error is Errors.NONE


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_request_without_a_timeout_is_answered_at_once(cluster: Cluster, timeout_ms: int) -> None:
    cluster.ask(0, CreateTopicsRequest((PLAIN,), timeout_ms))
    assert cluster.active.step()
    (message,) = cluster.replies
    assert isinstance(message.body, CreateTopicsResponse)
    assert message.body.topics[0].error is Errors.REQUEST_TIMED_OUT
    cluster.run()
    assert cluster.state(T0).leader_epoch == 0


def test_validate_only_creates_nothing(cluster: Cluster) -> None:
    good, bad = create(cluster, PLAIN, CreatableTopic("u", 1, 4), validate_only=True)
    assert (good.error, good.num_partitions, good.topic_id) == (Errors.NONE, 2, None)
    assert bad.error is Errors.INVALID_REPLICATION_FACTOR
    assert not cluster.admin.get_all_topics_in_cluster()
    assert not cluster.admin.path_exists("/config/topics/t")


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (
            CreatableTopic("u", 1, 4),
            Errors.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            CreatableTopic("u", 0, 1),
            Errors.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        (
            CreatableTopic("there", 1, 4),
            Errors.TOPIC_ALREADY_EXISTS,
            "Topic 'there' already exists.",
        ),
        (
            CreatableTopic("u", 1, -1, assignments={0: (1,)}),
            Errors.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
        (
            CreatableTopic(
                "u", 1, 1, assignments={0: (1,)}, configs={"a": None, "b": "1", "c": None}
            ),
            Errors.INVALID_REQUEST,
            "Null value not supported for topic configs : a,c",
        ),
        (
            CreatableTopic("u", -1, 1, assignments={0: (1,)}),
            Errors.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        ),
    ],
)
def test_each_topic_has_its_own_error(
    cluster: Cluster, topic: CreatableTopic, error: Errors, text: str
) -> None:
    cluster.create_topic("there", (0,))
    cluster.forget()
    good, bad = create(cluster, PLAIN, topic)
    assert good.error is Errors.NONE
    assert (bad.name, bad.error, bad.error_message) == (topic.name, error, text)
    assert (bad.num_partitions, bad.replication_factor, bad.topic_id) == (-1, -1, None)
    assert cluster.logged("Error processing") == []
    assert cluster.state(T0).leader_epoch == 0


def test_bad_names_assignments_and_configs_are_refused_one_by_one(cluster: Cluster) -> None:
    results = create(
        cluster,
        CreatableTopic("a b", 1, 1),
        CreatableTopic("u", assignments={0: (1, 1)}),
        CreatableTopic("v", 1, 1, configs={"no.such.config": "1"}),
        CreatableTopic("w.x", 1, 1),
        CreatableTopic("w_x", 1, 1),
    )
    assert [result.error for result in results] == [
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.INVALID_REPLICA_ASSIGNMENT,
        Errors.INVALID_CONFIG,
        Errors.NONE,
        Errors.INVALID_TOPIC_EXCEPTION,
    ]
    assert results[1].error_message == (
        "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1))"
    )
    assert cluster.admin.get_all_topics_in_cluster() == ["w.x"]


def test_a_broker_that_is_shutting_down_gets_replicas_too(cluster: Cluster) -> None:
    cluster.active.context.add_shutting_down_broker(2)
    (result,) = create(cluster, CreatableTopic("t", 1, 3))
    assert (result.error, result.replication_factor) == (Errors.NONE, 3)


@pytest.mark.parametrize("validate_only", [False, True])
def test_a_topic_without_partition_0_fails_though_its_checks_pass(
    cluster: Cluster, *, validate_only: bool
) -> None:
    odd = CreatableTopic("u", assignments={-1: (1, 2)})
    results = create(cluster, odd, PLAIN, validate_only=validate_only)
    assert [result.error for result in results] == [Errors.UNKNOWN_SERVER_ERROR, Errors.NONE]
    assert "u" not in cluster.admin.get_all_topics_in_cluster()


THREE_BY_HAND = CreatableTopic("v", assignments={0: (1,), 1: (1,), 2: (1,)})


@pytest.mark.parametrize(
    ("limits", "topics", "refused"),
    [
        (PartitionLimits(per_request=5), (PLAIN, THREE_BY_HAND), []),
        (PartitionLimits(per_request=4), (PLAIN, THREE_BY_HAND), ["t", "v"]),
        (PartitionLimits(per_request=2), (PLAIN, CreatableTopic("d")), ["t", "d"]),
        (PartitionLimits(per_request=1), (PLAIN, CreatableTopic("u", -5, 1)), ["t", "u"]),
        (PartitionLimits(cluster=4), (THREE_BY_HAND,), []),
        (PartitionLimits(cluster=4), (PLAIN, THREE_BY_HAND, CreatableTopic("d")), ["v"]),
    ],
)
def test_more_partitions_than_allowed_are_refused(
    cluster: Cluster,
    limits: PartitionLimits,
    topics: tuple[CreatableTopic, ...],
    refused: list[str],
) -> None:
    cluster.create_topic("there", (0,))
    cluster.forget()
    controller = cluster.active
    controller.config = msgspec.structs.replace(controller.config, partition_limits=limits)
    results = create(cluster, *topics)
    assert [r.name for r in results if r.error is Errors.POLICY_VIOLATION] == refused
    assert [r.name for r in results if r.error is Errors.NONE] == [
        topic.name for topic in topics if topic.name not in refused
    ]


def test_a_topic_named_twice_is_not_made(cluster: Cluster) -> None:
    first, other, second = create(cluster, PLAIN, CreatableTopic("u", 1, 1), PLAIN)
    twice = CreatableTopicResult(
        "t", Errors.INVALID_REQUEST, "Found multiple entries for this topic."
    )
    assert first == second == twice
    assert other.error is Errors.NONE
    assert cluster.admin.get_all_topics_in_cluster() == ["u"]


def test_a_broker_that_is_not_the_controller_refuses(cluster: Cluster) -> None:
    cluster.start(3, candidates=(3,))
    cluster.ask(3, CreateTopicsRequest((PLAIN,), 1000))
    cluster.run()
    answer = cluster.answer()
    assert answer == CreateTopicsResponse((CreatableTopicResult("t", Errors.NOT_CONTROLLER),))
    assert not cluster.admin.get_all_topics_in_cluster()


def test_a_deposed_controller_makes_no_topic(cluster: Cluster) -> None:
    cluster.admin.store.write([[SetData("/controller_epoch", b"2")]])
    (result,) = create(cluster, PLAIN)
    assert result.error is Errors.NOT_CONTROLLER
    assert not cluster.admin.get_all_topics_in_cluster()
    assert not cluster.admin.path_exists("/config/topics/t")


def created(op: ReadOp | Transaction, path: str) -> bool:
    """True if an operation is a transaction that creates ``path``."""
    return isinstance(op, list) and any(isinstance(o, Create) and o.path == path for o in op)


def lose_reply(cluster: Cluster, path: str) -> list[int]:
    """Lose the reply to the first creation of ``path``; return the sessions that lost one."""
    lost: list[int] = []

    def lose_once(session_id: int, op: ReadOp | Transaction, _: ReadResult | TxnResult) -> None:
        if created(op, path) and not lost:
            lost.append(session_id)
            raise LostReply

    cluster.server.after_op = lose_once
    return lost


def test_a_lost_reply_makes_the_topic_once(cluster: Cluster) -> None:
    lost = lose_reply(cluster, "/brokers/topics/t")
    (result,) = create(cluster, PLAIN)
    assert lost
    assert result.error is Errors.NONE
    assert cluster.state(T0).leader_epoch == 0
    assert cluster.topic_version("t") == 0
    cluster.assert_nothing_failed()


def test_the_faster_request_creates_the_topic(cluster: Cluster) -> None:
    def overtake(_: int, op: ReadOp | Transaction) -> None:
        if created(op, "/brokers/topics/t"):
            cluster.server.before_op = None
            cluster.admin.create("/brokers/topics/t", b'{"version":3,"partitions":{"0":[1]}}')

    cluster.server.before_op = overtake
    taken, other = create(cluster, PLAIN, CreatableTopic("u", 1, 1))
    assert (taken.error, taken.topic_id) == (Errors.TOPIC_ALREADY_EXISTS, None)
    assert other.error is Errors.NONE
    assert cluster.state(T0).isr == (1,)
    cluster.assert_nothing_failed()


def test_a_topic_too_big_for_zookeeper_leaves_the_others_alone(cluster: Cluster) -> None:
    big, other = create(cluster, CreatableTopic("t", 120_000, 1), CreatableTopic("u", 1, 1))
    assert big.error is Errors.UNKNOWN_SERVER_ERROR
    assert other.error is Errors.NONE
    assert cluster.admin.get_all_topics_in_cluster() == ["u"]
    cluster.assert_nothing_failed()


def test_a_topic_whose_config_cannot_be_written_is_not_created(cluster: Cluster) -> None:
    replicas = ",".join(f"{partition}:0" for partition in range(200_000))
    configs = {"leader.replication.throttled.replicas": replicas}
    big, other = create(
        cluster, CreatableTopic("t", 1, 1, configs=configs), CreatableTopic("u", 1, 1)
    )
    text = "KeeperErrorCode = MarshallingError (the write is too big) for /config/topics/t"
    assert big == CreatableTopicResult("t", Errors.UNKNOWN_SERVER_ERROR, text)
    assert other.error is Errors.NONE
    assert cluster.admin.get_all_topics_in_cluster() == ["u"]
    cluster.assert_nothing_failed()


def test_a_config_whose_reply_was_lost_is_written_once(cluster: Cluster) -> None:
    lost = lose_reply(cluster, "/config/topics/t")
    (result,) = create(cluster, CreatableTopic("t", 1, 1, configs={"retention.ms": "5000"}))
    assert lost
    assert result.error is Errors.NONE
    assert cluster.admin.get_entity_configs("topics", "t") == {"retention.ms": "5000"}


def test_a_timeout_that_was_due_when_the_session_ended_is_answered(cluster: Cluster) -> None:
    for name in ("t", "u"):
        topic = CreatableTopic(name, assignments={0: (7,)})
        cluster.ask(0, CreateTopicsRequest((topic,), 500))
    cluster.run()
    cluster.clock.advance_to(cluster.clock.monotonic_ms() + 500)
    # Both timers join the queue, one is processed.
    cluster.active.step()
    assert cluster.answer()
    cluster.expire(0)
    cluster.run()
    answer = cluster.answer()
    assert isinstance(answer, CreateTopicsResponse)
    assert [(r.name, r.error) for r in answer.topics] == [("u", Errors.REQUEST_TIMED_OUT)]


def test_a_former_controller_answers_when_the_next_one_has_elected_the_leaders() -> None:
    cluster = Cluster().start(0, 1, 2, candidates=(0, 1))
    topic = CreatableTopic("t", assignments={0: (7,)})
    cluster.ask(0, CreateTopicsRequest((topic,), 30_000))
    cluster.run()
    cluster.paused.add(0)
    cluster.admin.delete("/controller")
    cluster.run()
    cluster.resume()
    assert cluster.active is cluster.controllers[1]
    assert not cluster.replies
    cluster.start(7)
    answer = cluster.answer()
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error is Errors.NONE


def test_a_wait_outlives_the_end_of_the_session(cluster: Cluster) -> None:
    topic = CreatableTopic("t", assignments={0: (7,)})
    cluster.ask(0, CreateTopicsRequest((topic,), 500))
    cluster.run()
    cluster.expire(0)
    cluster.run()
    assert not cluster.replies
    cluster.start(7)
    answer = cluster.answer()
    assert isinstance(answer, CreateTopicsResponse)
    assert answer.topics[0].error is Errors.NONE
