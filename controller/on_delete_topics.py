"""DeleteTopics: topics deleted through the controller, and the answers that wait until they are.

Only the request for the deletion is written here; the deletion follows from it as from any other.
The write is fenced, unlike Kafka's. Mirrors handleDeleteTopicsRequest of KafkaApis.scala,
deleteTopics of ZkAdminManager.scala and DelayedDeleteTopics.scala, all of kafka/server/, and
deleteTopic of kafka/zk/AdminZkClient.scala.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.api_errors import Errors
from cluster.errors import ControllerMoved
from cluster.requests import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    Message,
)
from controller.parts import Controller
from controller.pending_requests import PendingDeletion
from zk.store import Create, ResultCode
from zk.znode_client import reason
from zk.znodes import DeleteTopicsTopicZNode, TopicZNode

_Results = Mapping[str, Errors]


def not_controller(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """What a broker answers that is not the controller."""
    return _response(dict.fromkeys(request.topics, Errors.NOT_CONTROLLER))


def process_delete_topics(
    controller: Controller, message: Message, request: DeleteTopicsRequest
) -> None:
    """Mark what can be deleted.

    Answered at once if nothing can be, or if the client does not wait (timeout_ms <= 0); else
    when this broker's metadata no longer show any of the topics, or at the timeout. A topic that
    was marked before is waited for like the others. Raises ControllerMoved, after the answer, if
    the fence fails.
    """
    if not controller.is_active:
        controller.reply(message, not_controller(request))
        return
    if not controller.config.delete_topic_enable:
        disabled = dict.fromkeys(request.topics, Errors.TOPIC_DELETION_DISABLED)
        controller.reply(message, _response(disabled))
        return
    try:
        results = _mark(controller, request)
    except ControllerMoved:
        controller.reply(message, not_controller(request))
        raise
    except Exception:
        unknown = dict.fromkeys(request.topics, Errors.UNKNOWN_SERVER_ERROR)
        controller.reply(message, _response(unknown))
        raise
    if request.timeout_ms <= 0 or Errors.NONE not in results.values():
        timed_out = {
            topic: Errors.REQUEST_TIMED_OUT if error is Errors.NONE else error
            for topic, error in results.items()
        }
        controller.reply(message, _response(timed_out))
        return
    controller.pending_deletions.add(PendingDeletion(message, results), request.timeout_ms)
    complete_deletions(controller)


def complete_deletions(controller: Controller) -> None:
    """This broker's metadata changed: answer the requests none of whose topics it still shows."""
    for pending in controller.pending_deletions.take_done(
        lambda pending: not _remaining(controller, pending)
    ):
        controller.reply(pending.message, _response(pending.results))


def process_timeout(controller: Controller, number: int) -> None:
    """The client's time is over: topics that the metadata still shows are answered so."""
    pending = controller.pending_deletions.take(number)
    if pending is not None:
        late = dict.fromkeys(_remaining(controller, pending), Errors.REQUEST_TIMED_OUT)
        controller.reply(pending.message, _response({**pending.results, **late}))


def _remaining(controller: Controller, pending: PendingDeletion) -> list[str]:
    return [
        topic
        for topic, error in pending.results.items()
        if error is Errors.NONE and controller.metadata.num_partitions(topic)
    ]


def _response(results: _Results) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        tuple(DeletableTopicResult(topic, error) for topic, error in results.items())
    )


def _mark(controller: Controller, request: DeleteTopicsRequest) -> dict[str, Errors]:
    """Write the requests for the deletion in one wave; an error or NONE for each topic."""
    results = {
        topic: Errors.NONE
        if controller.metadata.num_partitions(topic)
        else Errors.UNKNOWN_TOPIC_OR_PARTITION
        for topic in request.topics
    }
    known = [topic for topic, error in results.items() if error is Errors.NONE]
    exist = controller.zk.paths_exist([TopicZNode.path(topic) for topic in known])
    ops = []
    for topic, exists in zip(known, exist, strict=True):
        if exists:
            ops.append((topic, Create(DeleteTopicsTopicZNode.path(topic), None)))
        else:
            results[topic] = Errors.UNKNOWN_TOPIC_OR_PARTITION
    written = controller.controller_zk.write_until_known(
        [op for _, op in ops], controller.context.epoch_zk_version
    )
    for (topic, op), result in zip(ops, written, strict=True):
        if result.code not in (ResultCode.OK, ResultCode.NODEEXISTS):
            text = reason(result.code, op.path)
            controller.log.error(f"Error processing delete topic request for topic {topic}: {text}")
            results[topic] = Errors.UNKNOWN_SERVER_ERROR
    return results
