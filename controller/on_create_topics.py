"""CreateTopics: topics made through the controller, and the answers that wait for their leaders.

Validation and assignment are admin's and placement's; the writes are fenced, unlike Kafka's, so
that a deposed controller makes no topic. Mirrors handleCreateTopicsRequest of KafkaApis.scala,
createTopics of ZkAdminManager.scala and DelayedCreatePartitions.scala, all of kafka/server/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from admin.topics import new_topic_id, validate_topic_create
from cluster.api_errors import Errors
from cluster.errors import AdminError, ControllerMoved, KlammError
from cluster.requests import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Message,
)
from cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from controller.events import ControllerEvent, CreateTopicsTimeout
from placement.assign import Assignment, assign_replicas_to_brokers
from placement.broker_metadata import BrokerMetadata
from zk.store import Create, ResultCode, SetData, WriteOp
from zk.znode_client import store_error
from zk.znodes import ConfigEntityZNode, TopicZNode

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController

UNSET: Final = -1
DUPLICATE: Final = "Found multiple entries for this topic."


class PendingCreation(msgspec.Struct, frozen=True):
    """A request whose topics are written and whose answer waits for leaders.

    ``waiting`` are the partitions of the topics without an error, by topic.
    """

    message: Message
    results: tuple[CreatableTopicResult, ...]
    waiting: dict[str, list[TopicPartition]]


class PendingCreations:
    """Requests that wait for an answer, by number. Belongs to the event thread."""

    def __init__(self) -> None:
        self.by_number: dict[int, PendingCreation] = {}
        self._last_number = 0

    def add(self, pending: PendingCreation) -> int:
        """Keep a request and give it a number."""
        self._last_number += 1
        self.by_number[self._last_number] = pending
        return self._last_number


def not_controller(request: CreateTopicsRequest) -> CreateTopicsResponse:
    """What a broker answers that is not the controller."""
    return CreateTopicsResponse(
        tuple(CreatableTopicResult(t.name, Errors.NOT_CONTROLLER) for t in request.topics)
    )


def process_create_topics(
    controller: KafkaController, message: Message, request: CreateTopicsRequest
) -> None:
    """Make what can be made of a request.

    Answered at once if nothing was made or the client does not wait (timeout_ms <= 0), else when
    this broker's metadata show a leader for every partition, or at the timeout. Raises
    ControllerMoved, after the answer, if the fence fails.
    """
    if not controller.is_active:
        controller.reply(message, not_controller(request))
        return
    results: list[CreatableTopicResult] = []
    waiting: dict[str, list[TopicPartition]] = {}
    names = [topic.name for topic in request.topics]
    existing = set(controller.zk.get_all_topics_in_cluster())
    try:
        for topic in request.topics:
            if names.count(topic.name) > 1:
                results.append(_error(topic.name, Errors.INVALID_REQUEST, DUPLICATE))
                continue
            result, assignment = _create(controller, topic, existing, request.validate_only)
            results.append(result)
            if assignment and not request.validate_only:
                waiting[topic.name] = [TopicPartition(topic.name, p) for p in assignment]
    except ControllerMoved:
        controller.reply(message, not_controller(request))
        raise
    except Exception:
        unknown = (CreatableTopicResult(name, Errors.UNKNOWN_SERVER_ERROR) for name in names)
        controller.reply(message, CreateTopicsResponse(tuple(unknown)))
        raise
    pending = PendingCreation(message, tuple(results), waiting)
    if request.timeout_ms <= 0 or not waiting:
        _answer(controller, pending, set(waiting))
        return
    number = controller.pending_creations.add(pending)
    controller.events.schedule(CreateTopicsTimeout(number), request.timeout_ms)


def complete_creations(controller: KafkaController) -> None:
    """This broker's metadata changed: answer the requests all of whose partitions have leaders."""
    by_number = controller.pending_creations.by_number
    for number, pending in list(by_number.items()):
        if not any(_is_leaderless(controller, tps) for tps in pending.waiting.values()):
            del by_number[number]
            controller.events.cancel(_is(CreateTopicsTimeout(number)))
            _answer(controller, pending, set())


def _is(timeout: CreateTopicsTimeout) -> Callable[[ControllerEvent], bool]:
    return lambda event: event == timeout


def process_timeout(controller: KafkaController, number: int) -> None:
    """The client's time is over: topics without all their leaders are answered so."""
    pending = controller.pending_creations.by_number.pop(number, None)
    if pending is not None:
        late = {t for t, tps in pending.waiting.items() if _is_leaderless(controller, tps)}
        _answer(controller, pending, late)


def _is_leaderless(controller: KafkaController, partitions: list[TopicPartition]) -> bool:
    leader_of = controller.metadata.leader_of
    return any(leader_of(tp) in (None, NO_LEADER) for tp in partitions)


def _answer(controller: KafkaController, pending: PendingCreation, late: set[str]) -> None:
    results = tuple(
        CreatableTopicResult(r.name, Errors.REQUEST_TIMED_OUT, None, r.topic_id)
        if r.name in late
        else r
        for r in pending.results
    )
    controller.reply(pending.message, CreateTopicsResponse(results))


def _error(name: str, error: Errors, text: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name, error, text)


def _create(
    controller: KafkaController, topic: CreatableTopic, existing: set[str], validate_only: bool
) -> tuple[CreatableTopicResult, Assignment]:
    """Validate and write one topic: its result, and its assignment unless it was refused."""
    try:
        assignment = _assign(controller, topic)
        validate_topic_create(topic.name, assignment, topic.configs, existing)
    except AdminError as error:
        controller.log.info(f"Error processing create topic request {topic.name}: {error}")
        return _error(topic.name, error.code, error.message), {}
    topic_id: str | None = None
    if not validate_only:
        topic_id = new_topic_id(controller.random)
        try:
            _write(controller, topic, assignment, topic_id)
        except ControllerMoved:
            raise
        except TopicIsThere:
            text = f"Topic '{topic.name}' already exists."
            return _error(topic.name, Errors.TOPIC_ALREADY_EXISTS, text), {}
        existing.add(topic.name)
    replication_factor = len(assignment[min(assignment)])
    created = CreatableTopicResult(
        topic.name, Errors.NONE, None, topic_id, len(assignment), replication_factor
    )
    return created, assignment


class TopicIsThere(KlammError):
    """The topic's znode appeared between the validation and the write."""


class RequestRefused(AdminError):
    """The request contradicts itself."""

    code = Errors.INVALID_REQUEST
    kafka_class = "org.apache.kafka.common.errors.InvalidRequestException"


def _assign(controller: KafkaController, topic: CreatableTopic) -> Assignment:
    """The replicas of every partition, as asked or as placed. Raises AdminError."""
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
    return assign_replicas_to_brokers(brokers, *counts, source=controller.random)


def _write(
    controller: KafkaController,
    topic: CreatableTopic,
    assignment: Mapping[int, tuple[int, ...]],
    topic_id: str,
) -> None:
    """The config, then the topic with its id, both fenced. Raises TopicIsThere."""
    config_path = ConfigEntityZNode.path("topics", topic.name)
    config = ConfigEntityZNode.encode(topic.configs)
    if _fenced(controller, SetData(config_path, config)) is ResultCode.NONODE:
        code = _fenced(controller, Create(config_path, config))
        if code is not ResultCode.OK and code is not ResultCode.NODEEXISTS:
            raise store_error(code, config_path)
    path = TopicZNode.path(topic.name)
    data = TopicZNode.encode(
        topic_id,
        {
            TopicPartition(topic.name, partition): ReplicaAssignment(tuple(replicas))
            for partition, replicas in assignment.items()
        },
    )
    code = _fenced(controller, Create(path, data))
    if code is ResultCode.NODEEXISTS:
        # The id in it is drawn at random: a znode with the same data is this very one.
        found = controller.zk.get_data_and_stat(path)
        if found is None or found[0] != data:
            raise TopicIsThere(path)
    elif code is not ResultCode.OK:
        raise store_error(code, path)


def _fenced(controller: KafkaController, op: WriteOp) -> ResultCode:
    """Write one operation, again if its reply was lost."""
    while True:
        fence = controller.context.epoch_zk_version
        code = controller.controller_zk.fenced_write([op], fence)[0].code
        if code is not ResultCode.CONNECTIONLOSS:
            return code
