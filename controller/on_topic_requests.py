"""Handlers for CreateTopics and DeleteTopics.

The response is sent when this broker's metadata shows the created topics, or no longer shows the
deleted topics.

Topics are validated in admin/, and replicas are assigned in placement/. For a deletion, this file
only creates the znode in /admin/delete_topics; the watch on /admin/delete_topics starts the
deletion. Unlike in Kafka, the writes are fenced, so that a deposed controller cannot create or
delete topics. Mirrors handleCreateTopicsRequest and handleDeleteTopicsRequest of KafkaApis.scala,
createTopics and deleteTopics of ZkAdminManager.scala, DelayedCreatePartitions.scala and
DelayedDeleteTopics.scala, all in kafka/server/, and deleteTopic of kafka/zk/AdminZkClient.scala.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from klamm.admin.topics import check_topic_absent, validate_topic_create
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import AdminError
from klamm.cluster.protocols import MetadataView
from klamm.cluster.refusals import refusal
from klamm.cluster.requests import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from klamm.cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from klamm.controller.events import (
    CreateTopicsReceived,
    CreateTopicsTimeout,
    DeleteTopicsReceived,
    DeleteTopicsTimeout,
)
from klamm.controller.loader import draw_topic_id
from klamm.controller.pending_requests import PendingRequest
from klamm.placement.assign import Assignment
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.pool_rules import assign_in_pool, check_in_pool
from klamm.zk.store import Create, ResultCode, SetData, WriteOp
from klamm.zk.znode_client import keeper_text
from klamm.zk.znodes import ConfigEntityZNode, DeleteTopicsTopicZNode, TopicZNode

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

UNSET: Final = -1
UNKNOWN: Final = Errors.UNKNOWN_SERVER_ERROR
DUPLICATE: Final = "Found multiple entries for this topic."


class PendingCreation(PendingRequest, frozen=True):
    """CreateTopics request that waits until this broker's metadata shows all partitions' leaders.

    ``waiting``: the created partitions, keyed by topic.
    """

    results: tuple[CreatableTopicResult, ...]
    waiting: dict[str, list[TopicPartition]]
    timeout = CreateTopicsTimeout

    def late(self, metadata: MetadataView) -> set[str]:
        """Return the topics with a partition that has no leader in ``metadata`` yet."""
        return {
            topic
            for topic, tps in self.waiting.items()
            if any(metadata.leader_of(tp) in (None, NO_LEADER) for tp in tps)
        }

    def response(self, late: Container[str]) -> CreateTopicsResponse:
        """Return the response, with REQUEST_TIMED_OUT for each topic in ``late``."""
        return CreateTopicsResponse(
            tuple(
                CreatableTopicResult(r.name, Errors.REQUEST_TIMED_OUT, None, r.topic_id)
                if r.name in late
                else r
                for r in self.results
            )
        )


def process_create_topics(controller: KafkaController, event: CreateTopicsReceived) -> None:
    """Create the valid topics of a request.

    If no topic was created, or the client does not wait (timeout_ms <= 0), the response is sent
    immediately. Otherwise it is sent when this broker's metadata shows a leader for every created
    partition, or when the request times out. Raises ControllerMoved, after the response was sent,
    if another controller was elected.
    """
    request = event.request
    with controller.answering_failure(event):
        results, assignments = _validate(controller, request)
        if not request.validate_only:
            _write(controller, request, results, assignments)
    waiting = {
        name: [TopicPartition(name, partition) for partition in assignment]
        for name, assignment in assignments.items()
        if not request.validate_only
    }
    pending = PendingCreation(event.message, tuple(results), waiting)
    if request.timeout_ms <= 0 or not waiting:
        controller.reply(event.message, pending.response(waiting))
    else:
        controller.pending_requests.add(pending, request.timeout_ms)


def _validate(
    controller: KafkaController, request: CreateTopicsRequest
) -> tuple[list[CreatableTopicResult], dict[str, Assignment]]:
    """Return (result for every topic of the request, replica assignments of the valid topics)."""
    entries = Counter(topic.name for topic in request.topics)
    existing = set(controller.zk.get_all_topics_in_cluster())
    results: list[CreatableTopicResult] = []
    assignments: dict[str, Assignment] = {}
    drawn: set[str] = set()
    limits = controller.config.partition_limits
    requested = sum(_partition_count(controller, topic) for topic in request.topics)
    partition_count = len(controller.context.assignments)
    for topic in request.topics:
        name = topic.name
        if entries[name] > 1:
            results.append(CreatableTopicResult(name, Errors.INVALID_REQUEST, DUPLICATE))
            continue
        try:
            check_topic_absent(name, existing)
            limits.check_request(requested)
            limits.check_cluster(partition_count, _partition_count(controller, topic))
            assignment = _assign(controller, topic)
            validate_topic_create(name, assignment, topic.overrides, existing, is_request=True)
            check_in_pool(controller.config.pools, name, assignment)
        except AdminError as error:
            results.append(CreatableTopicResult(name, error.code, error.message))
            continue
        if 0 not in assignment:
            # 2.8.2 takes the replication factor from partition 0 and fails, after its checks have
            # accepted ids such as {-1}.
            results.append(CreatableTopicResult(name, UNKNOWN))
            continue
        existing.add(name)
        assignments[name] = assignment
        partition_count += len(assignment)
        gets_id = controller.config.uses_topic_ids and not request.validate_only
        topic_id = draw_topic_id(controller, drawn) if gets_id else None
        replication_factor = len(assignment[0])
        results.append(
            CreatableTopicResult(
                name, Errors.NONE, None, topic_id, len(assignment), replication_factor
            )
        )
    return results, assignments


def _partition_count(controller: KafkaController, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    count = topic.num_partitions
    return controller.config.num_partitions if count == UNSET else max(0, count)


class RequestRefused(AdminError):
    """Fields of a CreateTopics request are null or contradict each other."""

    code = Errors.INVALID_REQUEST
    kafka_class = "org.apache.kafka.common.errors.InvalidRequestException"


def _assign(controller: KafkaController, topic: CreatableTopic) -> Assignment:
    """Return the requested or computed replicas of every partition of a topic to create.

    Raises AdminError if the request is invalid.
    """
    if nulls := [name for name, value in topic.configs.items() if value is None]:
        raise RequestRefused(f"Null value not supported for topic configs : {','.join(nulls)}")
    is_counted = topic.num_partitions != UNSET or topic.replication_factor != UNSET
    if topic.assignments:
        if is_counted:
            raise RequestRefused(
                "Both numPartitions or replicationFactor and replicasAssignments were set. "
                "Both cannot be used at the same time."
            )
        return dict(topic.assignments)
    config = controller.config
    counts = (
        config.num_partitions if topic.num_partitions == UNSET else topic.num_partitions,
        config.default_replication_factor
        if topic.replication_factor == UNSET
        else topic.replication_factor,
    )
    brokers = [
        BrokerMetadata(broker.id, broker.rack)
        for broker in controller.context.live_or_shutting_down_brokers
    ]
    return assign_in_pool(config.pools, topic.name, brokers, *counts, controller.random)


def _write(
    controller: KafkaController,
    request: CreateTopicsRequest,
    results: list[CreatableTopicResult],
    assignments: dict[str, Assignment],
) -> None:
    """Write the config znodes and then the topic znodes of the valid topics, in pipelined batches.

    A topic that could not be created, or that another client has just created, gets an error in
    ``results`` and is removed from ``assignments``.
    """
    configs = {
        topic.name: SetData(
            ConfigEntityZNode.path("topics", topic.name), ConfigEntityZNode.encode(topic.overrides)
        )
        for topic in request.topics
        if topic.name in assignments
    }
    codes = dict(zip(configs, _codes(controller, list(configs.values())), strict=True))
    absent = {
        name: Create(op.path, op.data)
        for name, op in configs.items()
        if codes[name] is ResultCode.NONODE
    }
    codes |= _create(controller, absent)
    failed = {
        name: CreatableTopicResult(name, UNKNOWN, keeper_text(code, configs[name].path))
        for name, code in codes.items()
        if code is not ResultCode.OK
    }
    creates = {
        r.name: Create(
            TopicZNode.path(r.name), _topic_data(r.name, r.topic_id, assignments[r.name])
        )
        for r in results
        if r.name in assignments and r.name not in failed
    }
    for name, code in _create(controller, creates).items():
        if code is ResultCode.NODEEXISTS:
            text = f"Topic '{name}' already exists."
            failed[name] = CreatableTopicResult(name, Errors.TOPIC_ALREADY_EXISTS, text)
        elif code is not ResultCode.OK:
            failed[name] = CreatableTopicResult(
                name, UNKNOWN, keeper_text(code, creates[name].path)
            )
    results[:] = [failed.get(r.name, r) for r in results]
    for name in failed:
        del assignments[name]


def _topic_data(name: str, topic_id: str | None, assignment: Assignment) -> bytes:
    return TopicZNode.encode(
        topic_id,
        {
            TopicPartition(name, partition): ReplicaAssignment(tuple(replicas))
            for partition, replicas in assignment.items()
        },
    )


def _create(controller: KafkaController, creates: Mapping[str, Create]) -> dict[str, ResultCode]:
    """Create znodes in one pipelined batch, and return the result code of each.

    The code is OK if this controller created the znode, although ZooKeeper's reply was lost.
    """
    codes = _codes(controller, list(creates.values()))
    return {
        name: ResultCode.OK
        if code is ResultCode.NODEEXISTS and _is_ours(controller, create)
        else code
        for (name, create), code in zip(creates.items(), codes, strict=True)
    }


def _is_ours(controller: KafkaController, create: Create) -> bool:
    """Return True if the znode has exactly the data that was sent; a topic's has a random id."""
    found = controller.zk.get_data_and_stat(create.path)
    return found is not None and found[0] == create.data


def _codes(controller: KafkaController, ops: Sequence[WriteOp]) -> list[ResultCode]:
    fence = controller.context.epoch_zk_version
    return [result.code for result in controller.controller_zk.write_each(ops, fence)]


class PendingDeletion(PendingRequest, frozen=True):
    """DeleteTopics request that waits until this broker's metadata no longer shows the topics.

    ``request`` names topics, some by their ids: ``names`` has the names of these ids, or None if an
    id is unknown. ``results``: an error or NONE for each topic that has a name.
    """

    request: DeleteTopicsRequest
    names: dict[str, str | None]
    results: dict[str, Errors]
    timeout = DeleteTopicsTimeout

    def late(self, metadata: MetadataView) -> list[str]:
        """Return the topics that are still in ``metadata``."""
        return [topic for topic in self.marked if metadata.num_partitions(topic)]

    def response(self, late: Iterable[str]) -> DeleteTopicsResponse:
        """Return the response, with REQUEST_TIMED_OUT for each topic in ``late``."""
        results = {**self.results, **dict.fromkeys(late, Errors.REQUEST_TIMED_OUT)}
        by_id = (
            DeletableTopicResult(
                name, Errors.UNKNOWN_TOPIC_ID if name is None else results[name], topic_id
            )
            for topic_id, name in self.names.items()
        )
        by_name = (
            DeletableTopicResult(topic, results[topic])
            for topic in dict.fromkeys(self.request.topics)
        )
        return DeleteTopicsResponse((*by_name, *by_id))

    @property
    def marked(self) -> list[str]:
        """The topics of the request that are marked for deletion, i.e. those without an error."""
        return [topic for topic, error in self.results.items() if error is Errors.NONE]


def process_delete_topics(controller: KafkaController, event: DeleteTopicsReceived) -> None:
    """Mark the existing topics of a request for deletion.

    If no topic exists, or the client does not wait (timeout_ms <= 0), the response is sent
    immediately. Otherwise it is sent when none of the topics is left in this broker's metadata,
    including topics that were already marked, or when the request times out. Raises
    ControllerMoved, after the response was sent, if another controller was elected.
    """
    message, request = event.message, event.request
    if not controller.config.delete_topic_enable:
        controller.reply(message, refusal(request, Errors.TOPIC_DELETION_DISABLED))
        return
    with controller.answering_failure(event):
        known = controller.context.topic_names
        names = {topic_id: known.get(topic_id) for topic_id in request.topic_ids}
        topics = [*request.topics, *(name for name in names.values() if name is not None)]
        pending = PendingDeletion(message, request, names, _mark(controller, topics))
    if request.timeout_ms <= 0 or not pending.marked:
        controller.reply(message, pending.response(pending.marked))
        return
    controller.pending_requests.add(pending, request.timeout_ms)


def _mark(controller: KafkaController, topics: Sequence[str]) -> dict[str, Errors]:
    """Mark topics for deletion in one pipelined batch, and return {topic: error or NONE}."""
    results = {
        topic: Errors.NONE
        if controller.metadata.num_partitions(topic)
        else Errors.UNKNOWN_TOPIC_OR_PARTITION
        for topic in topics
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
            text = keeper_text(result.code, op.path)
            controller.log.error(f"Error processing delete topic request for topic {topic}: {text}")
            results[topic] = UNKNOWN
    return results
