"""DeleteTopics: topics deleted through the controller, and the answers that wait until they are.

Only the request for the deletion is written here; the deletion follows from it as from any other.
The write is fenced, unlike Kafka's. Mirrors handleDeleteTopicsRequest of KafkaApis.scala,
deleteTopics of ZkAdminManager.scala and DelayedDeleteTopics.scala, all of kafka/server/, and
deleteTopic of kafka/zk/AdminZkClient.scala.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.api_errors import Errors
from cluster.protocols import MetadataView
from cluster.requests import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from controller.events import DeleteTopicsReceived, DeleteTopicsTimeout
from controller.pending_requests import PendingRequest
from zk.store import Create, ResultCode
from zk.znode_client import reason
from zk.znodes import DeleteTopicsTopicZNode, TopicZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

_Results = Mapping[str, Errors]


class PendingDeletion(PendingRequest, frozen=True):
    """Topics that are marked, until the metadata lacks them; an error or NONE for each."""

    results: dict[str, Errors]
    timeout = DeleteTopicsTimeout

    def is_done(self, metadata: MetadataView) -> bool:
        """Return True if the metadata shows none of the topics."""
        return not self._late(metadata)

    def response(self, metadata: MetadataView) -> DeleteTopicsResponse:
        """Return the answer; topics that the metadata still shows have timed out."""
        late = dict.fromkeys(self._late(metadata), Errors.REQUEST_TIMED_OUT)
        return _response({**self.results, **late})

    def _late(self, metadata: MetadataView) -> list[str]:
        return [
            topic
            for topic, error in self.results.items()
            if error is Errors.NONE and metadata.num_partitions(topic)
        ]


def refuse(request: DeleteTopicsRequest, error: Errors) -> DeleteTopicsResponse:
    """Return the answer to a request that failed as a whole."""
    return _response(dict.fromkeys(request.topics, error))


def process_delete_topics(controller: KafkaController, event: DeleteTopicsReceived) -> None:
    """Mark what can be deleted.

    Answered at once if nothing can be, or if the client does not wait (timeout_ms <= 0); else
    when this broker's metadata no longer show any of the topics, or at the timeout. A topic that
    was marked before is waited for like the others. Raises ControllerMoved, after the answer, if
    the fence fails.
    """
    message, request = event.message, event.request
    if not controller.config.delete_topic_enable:
        controller.reply(message, refuse(request, Errors.TOPIC_DELETION_DISABLED))
        return
    with controller.answering_failure(event):
        results = _mark(controller, request)
    if request.timeout_ms <= 0 or Errors.NONE not in results.values():
        timed_out = {
            topic: Errors.REQUEST_TIMED_OUT if error is Errors.NONE else error
            for topic, error in results.items()
        }
        controller.reply(message, _response(timed_out))
        return
    controller.pending_requests.add(PendingDeletion(message, results), request.timeout_ms)
    controller.pending_requests.complete(DeleteTopicsTimeout)


def _response(results: _Results) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        tuple(DeletableTopicResult(topic, error) for topic, error in results.items())
    )


def _mark(controller: KafkaController, request: DeleteTopicsRequest) -> dict[str, Errors]:
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
