"""Which results of admin operations the history takes for impossible, by what ZooKeeper has in the
end. The tests make the changes of the cluster; only the history is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    Request,
    Response,
)
from klamm.cluster.types import ElectionType, ReplicaAssignment, TopicPartition
from klamm.lab.checks.admin_history import AdminHistory, RecordedStore
from klamm.world.clock import VirtualClock
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import Create, Delete, ResultCode, SetData
from klamm.zk.znodes import ConfigEntityZNode, TopicZNode

T0, T1 = (TopicPartition("t", n) for n in range(2))
WHOLE = {T0: ReplicaAssignment((0, 1)), T1: ReplicaAssignment((1, 2))}
MOVING = {**WHOLE, T0: ReplicaAssignment((2, 0, 1), (2,), (0, 1))}
MOVED = {**WHOLE, T0: ReplicaAssignment((2,))}
Assigned = Mapping[TopicPartition, ReplicaAssignment]


class History:
    """The history of topic t, whose znodes are in a separate ZooKeeper.

    ``assigned``: WHOLE or MOVING if the topic has been created, or is being reassigned.
    """

    def __init__(self, assigned: Assigned | None = None) -> None:
        self.store = MemoryStore(MemoryServer(VirtualClock()))
        zk = KafkaZkClient(self.store)
        zk.create_recursive("/brokers/topics")
        zk.create_recursive("/config/topics")
        zk.create_recursive("/admin/delete_topics")
        self.now_ms = 0.0
        self.history = AdminHistory(lambda: self.now_ms)
        if assigned is not None:
            call = self.history.call()
            self.history.answered(call, *create(E.NONE), is_current=True)
        if assigned is MOVING:
            call = self.history.call()
            self.history.answered(call, *alter((2,), E.NONE), is_current=True)
        if assigned is not None:
            self.stores(assigned)

    def stores(self, assigned: Assigned | None) -> None:
        """The topic is like this in the end; None: it does not exist."""
        zk = KafkaZkClient(self.store)
        path = TopicZNode.path("t")
        if assigned is None:
            zk.delete(path)
        elif zk.path_exists(path):
            zk.set_data(path, TopicZNode.encode(None, assigned))
        else:
            zk.create_recursive(path, TopicZNode.encode(None, assigned))

    def asked(
        self, request: Request, response: Response | None, *, is_current: bool = True
    ) -> None:
        """A request is made, and answered 1,500 ms later."""
        called = self.history.call()
        self.now_ms += 1_500.0
        self.history.answered(called, request, response, is_current=is_current)

    def found(self) -> list[str]:
        """What is impossible, without the states in which it is."""
        told = self.history.check(self.store)
        assert all(one.is_certain for one in told)
        return [one.text.partition("; impossible after: ")[0] for one in told]


def create(
    error: Errors | None, *, counted: int = 0, validate_only: bool = False
) -> tuple[Request, Response | None]:
    """A request for topic t: with these replicas, or only with a number of partitions."""
    assignments = {} if counted else {0: (0, 1), 1: (1, 2)}
    topic = CreatableTopic("t", counted or -1, assignments=assignments)
    request = CreateTopicsRequest((topic,), 1_000, validate_only)
    if error is None:
        return request, None
    return request, CreateTopicsResponse((CreatableTopicResult("t", error, num_partitions=2),))


def delete(error: Errors | None) -> tuple[Request, Response | None]:
    request = DeleteTopicsRequest(("t",), 1_000)
    if error is None:
        return request, None
    return request, DeleteTopicsResponse((DeletableTopicResult("t", error),))


def alter(
    target: tuple[int, ...] | None, error: Errors | None, whole: Errors = Errors.NONE
) -> tuple[Request, Response | None]:
    request = AlterPartitionReassignmentsRequest({T0: target})
    if error is None:
        return request, None
    partitions = {} if whole else {T0: ApiError(error)}
    return request, AlterPartitionReassignmentsResponse(ApiError(whole), partitions)


def elect(**errors: Errors) -> tuple[Request, Response]:
    results = {TopicPartition("t", int(n[1:])): ApiError(one) for n, one in errors.items()}
    request = ElectLeadersRequest(ElectionType.PREFERRED, tuple(results), 1_000)
    return request, ElectLeadersResponse(Errors.NONE, results)


def listed(
    asked: tuple[TopicPartition, ...] | None, found: Assigned, error: Errors = Errors.NONE
) -> tuple[Request, Response]:
    return (
        ListPartitionReassignmentsRequest(asked),
        ListPartitionReassignmentsResponse(ApiError(error), found),
    )


E = Errors
TOOK = " (0.000 to 1.500 s)"
ABSENT_IN_THE_END = "topic t: in the end the topic does not exist"
IN_THE_END = f"topic t: in the end the topic has 0: {WHOLE[T0]}; 1: {WHOLE[T1]}"


@pytest.mark.parametrize(
    ("before", "call", "after", "found"),
    [
        (None, create(E.NONE), WHOLE, []),
        (None, create(E.NONE), None, [ABSENT_IN_THE_END]),
        (None, create(E.NONE, counted=2), WHOLE, []),
        (None, create(E.NONE, counted=2), {T0: WHOLE[T0]}, ["topic t: in the end"]),
        (WHOLE, create(E.NONE), WHOLE, [f"topic t: CreateTopics: NONE{TOOK}"]),
        (None, create(None), WHOLE, []),
        (None, create(None), None, []),
        (None, create(E.REQUEST_TIMED_OUT), WHOLE, []),
        (None, create(E.NOT_CONTROLLER), None, []),
        (None, create(E.UNKNOWN_SERVER_ERROR, counted=2), WHOLE, []),
        (None, create(None, counted=3), WHOLE, ["topic t: in the end"]),
        (WHOLE, create(E.TOPIC_ALREADY_EXISTS), WHOLE, []),
        (WHOLE, create(E.INVALID_REPLICATION_FACTOR), WHOLE, []),
        (WHOLE, create(E.INVALID_REPLICATION_FACTOR), None, [ABSENT_IN_THE_END]),
        (WHOLE, create(E.NONE, validate_only=True), WHOLE, []),
        (WHOLE, delete(E.NONE), None, []),
        (WHOLE, delete(E.NONE), WHOLE, [IN_THE_END]),
        (WHOLE, delete(E.REQUEST_TIMED_OUT), WHOLE, []),
        (WHOLE, delete(E.NOT_CONTROLLER), None, []),
        (WHOLE, delete(None), None, []),
        (WHOLE, delete(None), WHOLE, []),
        (WHOLE, delete(E.TOPIC_DELETION_DISABLED), None, [ABSENT_IN_THE_END]),
        (WHOLE, delete(E.UNKNOWN_TOPIC_OR_PARTITION), WHOLE, []),
        (WHOLE, alter((2,), E.NONE), MOVED, []),
        (WHOLE, alter((2,), E.NONE), MOVING, []),
        (WHOLE, alter((2,), E.NONE), WHOLE, [IN_THE_END]),
        (WHOLE, alter((2,), None), WHOLE, []),
        (WHOLE, alter((2,), None), MOVED, []),
        (WHOLE, alter((2,), E.NONE, E.NOT_CONTROLLER), WHOLE, []),
        (WHOLE, alter((2,), E.NONE, E.NOT_CONTROLLER), MOVED, []),
        (WHOLE, alter((2,), E.INVALID_REPLICA_ASSIGNMENT), MOVED, ["topic t: in the end"]),
        (
            WHOLE,
            alter((2,), E.UNKNOWN_TOPIC_OR_PARTITION),
            WHOLE,
            [f"topic t: AlterPartitionReassignments t-0 to [2]: UNKNOWN_TOPIC_OR_PARTITION{TOOK}"],
        ),
        (MOVING, alter(None, E.NONE), WHOLE, []),
        (
            WHOLE,
            alter(None, E.NONE),
            WHOLE,
            [f"topic t: AlterPartitionReassignments t-0 cancel: NONE{TOOK}"],
        ),
        (WHOLE, alter(None, E.NO_REASSIGNMENT_IN_PROGRESS), WHOLE, []),
        (MOVING, alter(None, E.NO_REASSIGNMENT_IN_PROGRESS), MOVED, []),
        (MOVING, alter(None, E.NO_REASSIGNMENT_IN_PROGRESS), MOVING, ["topic t: in the end"]),
        (WHOLE, elect(p0=E.NONE, p1=E.ELECTION_NOT_NEEDED), WHOLE, []),
        (
            WHOLE,
            elect(p0=E.PREFERRED_LEADER_NOT_AVAILABLE, p2=E.ELIGIBLE_LEADERS_NOT_AVAILABLE),
            WHOLE,
            [
                "topic t: ElectLeaders t: 0: PREFERRED_LEADER_NOT_AVAILABLE, "
                f"2: ELIGIBLE_LEADERS_NOT_AVAILABLE{TOOK}"
            ],
        ),
        (
            WHOLE,
            elect(p0=E.UNKNOWN_TOPIC_OR_PARTITION),
            WHOLE,
            [f"topic t: ElectLeaders t: 0: UNKNOWN_TOPIC_OR_PARTITION{TOOK}"],
        ),
        (WHOLE, elect(p2=E.UNKNOWN_TOPIC_OR_PARTITION), WHOLE, []),
        (WHOLE, elect(p2=E.REQUEST_TIMED_OUT), WHOLE, []),
        (MOVING, listed(None, {T0: MOVING[T0]}), MOVING, []),
        (MOVING, listed((T0, T1), {T0: MOVING[T0]}), MOVED, []),
        (MOVING, listed((T1,), {}), MOVING, []),
        (MOVING, listed((T0,), {}), MOVED, []),
        (MOVING, listed((T0,), {}), MOVING, ["topic t: in the end"]),
        (
            WHOLE,
            listed(None, {T0: MOVING[T0]}),
            WHOLE,
            [f"topic t: ListPartitionReassignments: 0: {MOVING[T0]}{TOOK}"],
        ),
        (WHOLE, listed(None, {T0: MOVING[T0]}, E.NOT_CONTROLLER), WHOLE, []),
    ],
)
def test_a_result_that_no_order_explains_is_found(
    before: Assigned | None,
    call: tuple[Request, Response | None],
    after: Assigned | None,
    found: list[str],
) -> None:
    history = History(before)
    history.asked(*call)
    history.stores(after)
    told = history.found()
    assert len(told) == len(found)
    assert all(map(str.startswith, told, found)), told


@pytest.mark.parametrize(
    ("before", "call"),
    [
        (None, create(E.TOPIC_ALREADY_EXISTS)),
        (WHOLE, alter((2,), E.UNKNOWN_TOPIC_OR_PARTITION)),
        (MOVING, alter(None, E.NO_REASSIGNMENT_IN_PROGRESS)),
        (WHOLE, elect(p2=E.NONE)),
        (WHOLE, listed(None, {T0: MOVING[T0]})),
    ],
)
def test_the_answer_of_a_deposed_controller_does_not_count(
    before: Assigned | None, call: tuple[Request, Response]
) -> None:
    for is_current, count in ((True, 1), (False, 0)):
        history = History(before)
        history.asked(*call, is_current=is_current)
        assert len(history.found()) == count


def test_operations_that_overlap_may_take_effect_in_any_order() -> None:
    history = History(WHOLE)
    first = history.history.call()
    history.asked(*create(E.TOPIC_ALREADY_EXISTS))
    history.history.answered(first, *delete(E.NONE), is_current=True)
    history.stores(None)
    assert history.found() == []
    # One after the other, they cannot.
    history = History(WHOLE)
    history.asked(*delete(E.NONE))
    history.asked(*create(E.NONE))
    history.asked(*create(E.NONE))
    assert history.found() == ["topic t: CreateTopics: NONE (3.000 to 4.500 s)"]


def test_partitions_and_configs_that_were_promised_are_there() -> None:
    cases: list[tuple[Callable[[History], None], str]] = [
        (lambda h: h.history.added_partitions(h.history.call(), "t", 2, E.NONE), ""),
        (
            lambda h: h.history.added_partitions(h.history.call(), "t", 3, E.NONE),
            "createPartitions, 3 in total: NONE",
        ),
        (lambda h: h.history.added_partitions(h.history.call(), "t", 1, E.INVALID_PARTITIONS), ""),
        (lambda h: h.history.added_partitions(h.history.call(), "t", 2, E.INVALID_PARTITIONS), ""),
        (
            lambda h: h.history.added_partitions(h.history.call(), "t", 3, E.INVALID_PARTITIONS),
            "createPartitions, 3 in total: INVALID_PARTITIONS",
        ),
        (
            lambda h: h.history.added_partitions(
                h.history.call(), "t", 3, E.UNKNOWN_TOPIC_OR_PARTITION
            ),
            "createPartitions, 3 in total: UNKNOWN_TOPIC_OR_PARTITION",
        ),
        (
            lambda h: h.history.added_partitions(
                h.history.call(), "t", 3, E.REASSIGNMENT_IN_PROGRESS
            ),
            "createPartitions, 3 in total: REASSIGNMENT_IN_PROGRESS",
        ),
        (lambda h: h.history.added_partitions(h.history.call(), "t", 3, E.POLICY_VIOLATION), ""),
        (lambda h: h.history.altered_configs(h.history.call(), "t", {"a": None}), ""),
        (
            lambda h: h.history.altered_configs(h.history.call(), "t", {"a": "1", "b": None}),
            "incrementalAlterConfigs a=1, b=None",
        ),
    ]
    for call, found in cases:
        history = History(WHOLE)
        call(history)
        told = history.found()
        assert [one.partition(" (")[0] for one in told] == ([f"topic t: {found}"] if found else [])


def test_a_write_of_a_tool_is_an_operation() -> None:
    history = History(WHOLE)
    store = RecordedStore(history.store, history.history)
    config = Create("/config/topics/t", ConfigEntityZNode.encode({"a": "1"}))
    store.write([[config]])
    store.write([[SetData(TopicZNode.path("t"), TopicZNode.encode(None, MOVED))]])
    history.history.altered_configs(history.history.call(), "t", {"a": "1"})
    assert history.found() == []
    # What another session writes is none of it.
    configs = {f"c{n}": "2" for n in range(9)}
    KafkaZkClient(history.store).set_data(config.path, ConfigEntityZNode.encode(configs))
    (told,) = history.found()
    listed = "".join(f", {name}=2" for name in configs)
    assert told == f"topic t: in the end the topic has 0: {MOVED[T0]}; 1: {WHOLE[T1]}{listed}"


def test_a_topic_queued_for_deletion_has_no_end() -> None:
    history = History(WHOLE)
    history.asked(*delete(E.NONE))
    RecordedStore(history.store, history.history).write([[Create("/admin/delete_topics/t", b"")]])
    assert history.found() == []


@pytest.mark.parametrize(
    ("op", "code", "is_excluded"),
    [
        (Delete(TopicZNode.path("t")), ResultCode.OK, True),
        (Delete(TopicZNode.path("t")), ResultCode.CONNECTIONLOSS, True),
        (Delete(TopicZNode.path("t")), ResultCode.NONODE, False),
        (Delete("/config/topics/t"), ResultCode.OK, True),
        (Delete("/brokers/topics/t/partitions/0/state"), ResultCode.OK, False),
        (SetData(TopicZNode.path("t"), b"?"), ResultCode.OK, True),
        (SetData(TopicZNode.path("t"), b'{"version":1,"partitions":{}}'), ResultCode.OK, True),
        (SetData(TopicZNode.path("t"), b"?"), ResultCode.BADVERSION, False),
    ],
)
def test_a_topic_with_deleted_or_corrupt_znodes_is_left_out(
    op: Delete | SetData, code: ResultCode, is_excluded: bool
) -> None:
    history = History(WHOLE)
    history.history.wrote(history.history.call(), op, code)
    history.asked(*create(E.NONE))
    assert bool(history.found()) != is_excluded


def test_a_search_that_is_too_long_is_not_certain() -> None:
    history = History(WHOLE)
    history.asked(*alter((2,), E.NONE))
    (told,) = history.history.check(history.store, limit=1)
    assert told == ("topic t: the search gave up after 1 states", False)
