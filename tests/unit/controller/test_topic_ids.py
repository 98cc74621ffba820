"""Topic ids are unique: drawn again when taken, quarantined when ZooKeeper holds one twice."""

from __future__ import annotations

import pytest

from klamm.admin.topics import new_topic_id
from klamm.cluster.journal import Kind
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.placement.draws import JavaRandom
from klamm.zk.znodes import TopicZNode
from tests.unit.controller.cluster import Cluster

SEED = 7
B0 = TopicPartition("b", 0)


def begin_stream_again(cluster: Cluster) -> None:
    """What a restart with the same seed did: the next draw is the first one once more."""
    cluster.active.random = JavaRandom(SEED)


def ids(cluster: Cluster, *topics: str) -> list[str]:
    """The ids in ZooKeeper."""
    found = cluster.admin.get_topic_ids_for_topics(topics)
    return [found[topic] for topic in topics]


def put_topic(cluster: Cluster, topic: str, topic_id: str) -> None:
    """Write a topic's znode with this id."""
    assignment = {TopicPartition(topic, 0): ReplicaAssignment((1, 2))}
    assert cluster.admin.create_topic_assignment(topic, topic_id, assignment)
    cluster.run()


def test_a_taken_id_is_drawn_again_for_the_topic_of_a_tool(cluster: Cluster) -> None:
    begin_stream_again(cluster)
    cluster.create_topic("a", (0, 1))
    begin_stream_again(cluster)
    cluster.create_topic("b", (0, 1))
    first, second = ids(cluster, "a", "b")
    assert first != second
    assert cluster.state(B0).leader == 0
    cluster.assert_nothing_failed()


def test_a_taken_id_is_drawn_again_for_the_topic_of_a_request(cluster: Cluster) -> None:
    answers = []
    for name in ("a", "b"):
        begin_stream_again(cluster)
        topic = CreatableTopic(name, assignments={0: (0, 1)})
        answer = cluster.request(CreateTopicsRequest((topic,), 1000), CreateTopicsResponse)
        answers.append(answer.topics[0].topic_id)
    assert answers == ids(cluster, "a", "b")
    assert answers[0] != answers[1]
    cluster.assert_nothing_failed()


class _EveryDrawTwice:
    """Draws each number of a stream, and then all of them once more."""

    def __init__(self) -> None:
        self._streams = [JavaRandom(SEED), JavaRandom(SEED)]
        self._drawn = 0

    def next_int(self, bound: int) -> int:
        self._drawn += 1
        return self._streams[(self._drawn - 1) // 16 % 2].next_int(bound)


def test_topics_of_one_request_get_different_ids(cluster: Cluster) -> None:
    cluster.active.random = _EveryDrawTwice()
    topics = tuple(CreatableTopic(name, assignments={0: (0, 1)}) for name in "ab")
    cluster.ask(0, CreateTopicsRequest(topics, 1000))
    cluster.run()
    first, second = ids(cluster, "a", "b")
    assert first != second


@pytest.mark.parametrize("taken", [None, new_topic_id(JavaRandom(SEED))], ids=["drawn", "stored"])
def test_topics_that_are_read_together_get_different_ids(
    cluster: Cluster, taken: str | None
) -> None:
    cluster.active.random = _EveryDrawTwice()
    cluster.paused.add(0)
    for topic, topic_id in (("a", None), ("b", None), ("c", taken)):
        assignment = {TopicPartition(topic, 0): ReplicaAssignment((1, 2))}
        assert cluster.admin.create_topic_assignment(topic, topic_id, assignment)
    cluster.resume()
    assert len(set(ids(cluster, "a", "b", "c"))) == 3
    cluster.assert_nothing_failed()


def test_a_topic_that_is_served_keeps_its_id_from_an_older_one(cluster: Cluster) -> None:
    cluster.admin.create(TopicZNode.path("a"), b"?")
    cluster.create_topic("b", (1, 2))
    (taken,) = ids(cluster, "b")
    assignment = {TopicPartition("a", 0): ReplicaAssignment((1, 2))}
    cluster.admin.set_topic_assignment("a", taken, assignment)
    cluster.run()
    assert cluster.active.context.all_topics == {"b"}
    assert list(cluster.active.status().malformed) == [TopicZNode.path("a")]
    cluster.assert_nothing_failed()


def test_of_two_topics_with_one_id_the_older_is_served(cluster: Cluster) -> None:
    cluster.create_topic("b", (1, 2))
    (taken,) = ids(cluster, "b")
    put_topic(cluster, "a", taken)
    for _ in range(2):
        assert cluster.active.context.all_topics == {"b"}
        reason = f"topic id {taken} already belongs to topic b: remove topic_id from the znode"
        assert cluster.active.status().malformed == {TopicZNode.path("a"): reason}
        assert cluster.state(B0).leader == 1
        cluster.assert_nothing_failed()
        cluster.fail_over()


def test_a_topic_that_loses_its_duplicate_id_is_served(cluster: Cluster) -> None:
    cluster.create_topic("b", (1, 2))
    (taken,) = ids(cluster, "b")
    put_topic(cluster, "a", taken)
    assignment = {TopicPartition("a", 0): ReplicaAssignment((1, 2))}
    cluster.admin.set_topic_assignment("a", None, assignment)
    cluster.run()
    assert not cluster.active.malformed
    assert cluster.state(TopicPartition("a", 0)).leader == 1
    assert ids(cluster, "a") != [taken]


def test_with_quirk_c2_a_duplicate_id_fails_the_failover_as_in_kafka() -> None:
    cluster = Cluster(quirks=Quirks(malformed_znode_fails_the_event=True)).start(1, 2)
    for topic in ("a", "b"):
        put_topic(cluster, topic, "s3nWlBdbSrOVXGRSwPAkdA")
    cluster.start_broker(0, is_candidate=True)
    for _ in range(50):
        cluster.controllers[0].step()
    failed = cluster.rows(Kind.EVENT_FAILED)
    assert failed
    assert failed[0].outcome is not None and "already belongs to another topic" in failed[0].outcome


def test_no_id_begins_with_a_dash() -> None:
    """A command line would take it for an option."""
    dash = [0xF8, *[0] * 15]
    drawn = iter([*dash, *[1] * 16])

    class Drawn:
        def next_int(self, bound: int) -> int:
            assert bound == 256
            return next(drawn)

    assert new_topic_id(Drawn()) == "AQEBAQEBQQGBAQEBAQEBAQ"
