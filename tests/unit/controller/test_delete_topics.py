"""DeleteTopics through the controller: who is refused, what is marked, and when it answers."""

from __future__ import annotations

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from tests.unit.controller.cluster import Cluster


@pytest.fixture
def cluster(cluster: Cluster) -> Cluster:
    cluster.create_topic("t", (1, 2), (2, 1))
    cluster.create_topic("u", (1,))
    cluster.forget()
    return cluster


def ask(cluster: Cluster, *topics: str, timeout_ms: int = 1000, controller_id: int = 0) -> None:
    cluster.ask(controller_id, DeleteTopicsRequest(topics, timeout_ms))
    cluster.run()


def answered(cluster: Cluster) -> dict[str, Errors]:
    """The one answer, by topic."""
    answer = cluster.answer()
    assert isinstance(answer, DeleteTopicsResponse)
    return {result.name: result.error for result in answer.topics}


def test_a_request_is_answered_once_no_broker_shows_the_topic(cluster: Cluster) -> None:
    ask(cluster, "t", "nowhere", "u")
    assert answered(cluster) == {
        "t": Errors.NONE,
        "nowhere": Errors.UNKNOWN_TOPIC_OR_PARTITION,
        "u": Errors.NONE,
    }
    assert cluster.admin.get_all_topics_in_cluster() == []
    assert not cluster.active.pending_requests
    assert cluster.admin.get_topic_deletions() == []
    cluster.assert_nothing_failed()


def test_topics_are_deleted_by_their_ids(cluster: Cluster) -> None:
    known, unknown = cluster.active.context.topic_ids["u"], "A" * 22
    answer = cluster.request(
        DeleteTopicsRequest(("t", "t"), 1000, (unknown, known)), DeleteTopicsResponse
    )
    assert answer == DeleteTopicsResponse(
        (
            DeletableTopicResult("t"),
            DeletableTopicResult(None, Errors.UNKNOWN_TOPIC_ID, unknown),
            DeletableTopicResult("u", Errors.NONE, known),
        )
    )
    assert cluster.admin.get_all_topics_in_cluster() == []


def test_a_topic_that_is_deleted_by_its_id_may_take_too_long(cluster: Cluster) -> None:
    cluster.brokers[0].is_silent = True
    topic_id = cluster.active.context.topic_ids["t"]
    cluster.ask(0, DeleteTopicsRequest((), 500, (topic_id,)))
    cluster.run()
    cluster.advance(500)
    late = DeletableTopicResult("t", Errors.REQUEST_TIMED_OUT, topic_id)
    assert cluster.answer() == DeleteTopicsResponse((late,))


def test_a_topic_that_is_halted_is_gone_for_clients_all_the_same(cluster: Cluster) -> None:
    cluster.stop(1)
    ask(cluster, "t")
    assert answered(cluster) == {"t": Errors.NONE}
    assert cluster.admin.get_topic_deletions() == ["t"]


def test_a_broker_that_does_not_get_the_metadata_delays_the_response(cluster: Cluster) -> None:
    cluster.brokers[0].is_silent = True
    ask(cluster, "t", "nowhere", timeout_ms=500)
    assert not cluster.replies
    cluster.advance(499)
    assert not cluster.replies
    cluster.advance(1)
    assert answered(cluster) == {
        "t": Errors.REQUEST_TIMED_OUT,
        "nowhere": Errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert cluster.admin.get_all_topics_in_cluster() == ["u"]
    assert not cluster.active.pending_requests


def test_a_producer_that_does_not_wait_gets_a_timeout(cluster: Cluster) -> None:
    ask(cluster, "t", timeout_ms=0)
    assert answered(cluster) == {"t": Errors.REQUEST_TIMED_OUT}
    assert cluster.admin.get_all_topics_in_cluster() == ["u"]


def test_a_topic_that_is_marked_already_is_waited_for(cluster: Cluster) -> None:
    for broker_id in (0, 1):
        cluster.brokers[broker_id].is_silent = True
    cluster.delete_topic("t")
    ask(cluster, "t")
    cluster.advance(1000)
    assert answered(cluster) == {"t": Errors.REQUEST_TIMED_OUT}


def test_a_topic_whose_znode_is_gone_is_unknown(cluster: Cluster) -> None:
    cluster.paused.add(0)
    cluster.admin.delete_recursive("/brokers/topics/t")
    cluster.ask(0, DeleteTopicsRequest(("t",), 1000))
    cluster.resume()
    assert answered(cluster) == {"t": Errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert cluster.admin.get_topic_deletions() == []


def test_a_topic_that_cannot_be_marked_has_an_error_that_is_logged(cluster: Cluster) -> None:
    cluster.admin.delete("/admin/delete_topics")
    ask(cluster, "t")
    assert answered(cluster) == {"t": Errors.UNKNOWN_SERVER_ERROR}
    (line,) = cluster.logged("Error processing delete topic request for topic t: ")
    assert "/admin/delete_topics/t" in line


def test_a_session_that_expired_unnoticed_is_an_error(cluster: Cluster) -> None:
    cluster.expire(0, notify=False)
    cluster.ask(0, DeleteTopicsRequest(("t",), 1000))
    assert cluster.active.step()
    assert answered(cluster) == {"t": Errors.UNKNOWN_SERVER_ERROR}


def test_a_broker_that_is_not_the_controller_refuses(cluster: Cluster) -> None:
    cluster.start_broker(3, is_candidate=True)
    cluster.run()
    ask(cluster, "t", controller_id=3)
    assert answered(cluster) == {"t": Errors.NOT_CONTROLLER}


def test_a_deposed_controller_marks_nothing(cluster: Cluster) -> None:
    cluster.start_broker(3, is_candidate=True)
    cluster.run()
    cluster.paused.add(0)
    cluster.admin.delete("/controller")
    cluster.run()
    assert cluster.active_among(3)
    cluster.replies.clear()
    # What it has in its queue of the election is not what is asked for here.
    cluster.controllers[0].events._queue.clear()
    cluster.ask(0, DeleteTopicsRequest(("t",), 1000))
    cluster.controllers[0].step()
    assert answered(cluster) == {"t": Errors.NOT_CONTROLLER}
    assert cluster.admin.get_topic_deletions() == []


def test_a_request_that_a_dying_session_throws_away_is_answered(cluster: Cluster) -> None:
    cluster.paused.add(0)
    cluster.ask(0, DeleteTopicsRequest(("t",), 1000))
    cluster.expire(0)
    assert answered(cluster) == {"t": Errors.NOT_CONTROLLER}


def test_deletion_that_is_disabled_has_its_own_error() -> None:
    cluster = Cluster(delete_topic_enable=False).start(0, 1)
    cluster.create_topic("t", (1,))
    cluster.forget()
    ask(cluster, "t", "nowhere")
    disabled = Errors.TOPIC_DELETION_DISABLED
    assert answered(cluster) == {"t": disabled, "nowhere": disabled}
    assert cluster.admin.get_topic_deletions() == []
