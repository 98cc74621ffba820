"""History of a scenario's admin operations, and the check that it is linearizable.

Recorded are: requests to the controller with their responses, the calls of KafkaAdmin that read and
write ZooKeeper themselves (createPartitions, incrementalAlterConfigs), and everything else that the
scenario's session writes, e.g. tools with ``--zookeeper``. admin_model.py says which results are
legal, and linearizability.py searches for a legal order, for each topic separately.

Not in the history, because Kafka does not guarantee it:

- Metadata, and UNKNOWN_TOPIC_OR_PARTITION from DeleteTopics: both come from a broker's metadata
  cache.
- What a controller says that was deposed before the response arrived: until it notices, its cache
  is stale. What such a controller has changed does count: its writes are fenced.
- Topics with a znode that the scenario deleted, or wrote something malformed into.
- The configs of brokers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    Request,
    Response,
)
from klamm.cluster.types import TopicPartition
from klamm.lab.checks import admin_model as model
from klamm.lab.checks.admin_model import ABSENT, TopicState, config_text
from klamm.lab.checks.linearizability import (
    MAX_CONFIGURATIONS,
    GaveUp,
    Operation,
    check_linearizable,
)
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import (
    Create,
    Delete,
    ReadOp,
    ReadResult,
    ResultCode,
    SetData,
    Store,
    StoreListener,
    Transaction,
    TxnResult,
    WriteOp,
)
from klamm.zk.znodes import ConfigEntityZNode, MalformedZNode, ReassignPartitionsZNode, TopicZNode
from klamm.zk.znodes.json_values import UnparsableJson

LINEARIZABLE: Final = "admin operations are linearizable"
TOPIC_PATH: Final = re.compile(r"/brokers/topics/([^/]+)")
_CONFIG: Final = re.compile(r"/config/topics/([^/]+)")
DELETION_PATH: Final = re.compile(r"/admin/delete_topics/([^/]+)")
_INDEFINITE: Final = (
    Errors.REQUEST_TIMED_OUT,
    Errors.NOT_CONTROLLER,
    Errors.UNKNOWN_SERVER_ERROR,
)
"""Errors after which an operation may have taken effect, or may still do so."""
_SERVED: Final = (
    Errors.NONE,
    Errors.ELECTION_NOT_NEEDED,
    Errors.PREFERRED_LEADER_NOT_AVAILABLE,
    Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE,
)
"""Results of an election in a partition that the controller knows."""

_Operation = Operation[TopicState]
TopicStep = Callable[[TopicState], Iterable[TopicState]]
_Effect = tuple[str, str, TopicStep, bool]
"""A topic, the text of an operation, its step, and whether its result is definite."""


class Called(NamedTuple):
    """The call of an operation: its position in the history, and the time."""

    position: int
    at_ms: float


class NotLinearizable(NamedTuple):
    """A finding about one topic. ``is_certain`` is False if the search gave up."""

    text: str
    is_certain: bool


class AdminHistory:
    """Admin operations of one scenario, by topic. They may overlap, but only in one thread."""

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._position = 0
        self._operations: dict[str, list[_Operation]] = {}
        self._excluded: set[str] = set()

    def call(self) -> Called:
        """Note that an operation is called now."""
        return Called(self._next(), self._now_ms())

    def answered(
        self, called: Called, request: Request, response: Response | None, *, is_current: bool
    ) -> None:
        """Record a request to the controller; None as the response: none has arrived.

        ``is_current``: no other controller was elected before the response arrived."""
        self._record(called, _effects(request, response, is_current))

    def added_partitions(self, called: Called, topic: str, total: int, error: Errors) -> None:
        """Record the result of createPartitions; its write is recorded by RecordedStore."""
        steps: Mapping[Errors, tuple[TopicStep, ...]] = {
            Errors.NONE: (
                partial(model.counted, least=total, most=total),
                partial(model.known, numbers=range(total)),
            ),
            Errors.INVALID_PARTITIONS: (partial(model.counted, least=total, most=None),),
            Errors.UNKNOWN_TOPIC_OR_PARTITION: (model.absent,),
            Errors.REASSIGNMENT_IN_PROGRESS: (model.reassigning,),
        }
        text = f"createPartitions, {total} in total: {error.name}"
        self._record(called, ((topic, text, step, True) for step in steps.get(error, ())))

    def altered_configs(self, called: Called, topic: str, wanted: Mapping[str, str | None]) -> None:
        """Record an incrementalAlterConfigs that succeeded; RecordedStore records its write."""
        shown = ", ".join(f"{name}={value}" for name, value in wanted.items())
        step = partial(model.has_configs, wanted=wanted)
        self._record(called, ((topic, f"incrementalAlterConfigs {shown}", step, True),))

    def wrote(self, called: Called, op: WriteOp, code: ResultCode) -> None:
        """Record a write of the scenario's own session."""
        if code is ResultCode.OK or not code.is_definite:
            try:
                self._record(called, _effects_of_write(op, code))
            except (MalformedZNode, UnparsableJson):
                self._exclude(op.path)
            if isinstance(op, Delete):
                self._exclude(op.path)

    def check(self, store: Store, limit: int = MAX_CONFIGURATIONS) -> list[NotLinearizable]:
        """Compare the history with the topics in ZooKeeper now, and check that it is linearizable.

        Call it when the cluster is idle."""
        topics = sorted(self._operations.keys() - self._excluded)
        finals = _final_operations(KafkaZkClient(store), topics)
        found: list[NotLinearizable] = []
        for topic in topics:
            operations = list(self._operations[topic])
            if topic in finals:
                text, step = finals[topic]
                operations.append(Operation(text, self._next(), self._next(), step))
            match check_linearizable(operations, ABSENT, limit):
                case GaveUp(configurations):
                    text = f"topic {topic}: the search gave up after {configurations:,} states"
                    found.append(NotLinearizable(text, is_certain=False))
                case None:
                    pass
                case illegal:
                    states = " or ".join(map(str, illegal.states[:3]))
                    text = f"topic {topic}: {illegal.operation.text}; impossible after: {states}"
                    found.append(NotLinearizable(text, is_certain=True))
        return found

    def _record(self, called: Called, effects: Iterable[_Effect]) -> None:
        took = f"{called.at_ms / 1000:.3f} to {self._now_ms() / 1000:.3f} s"
        for topic, text, step, is_definite in effects:
            returned = self._next() if is_definite else None
            operation = Operation(f"{text} ({took})", called.position, returned, step)
            self._operations.setdefault(topic, []).append(operation)

    def _exclude(self, path: str) -> None:
        for pattern in (TOPIC_PATH, _CONFIG):
            if found := pattern.fullmatch(path):
                self._excluded.add(found[1])

    def _next(self) -> int:
        self._position += 1
        return self._position


class RecordedStore:
    """A Store that records its writes in a history."""

    def __init__(self, store: Store, history: AdminHistory) -> None:
        self._store = store
        self._history = history

    @property
    def session_id(self) -> int:
        """Id of the current session."""
        return self._store.session_id

    def read(self, ops: Sequence[ReadOp]) -> list[ReadResult]:
        """Execute a batch of reads."""
        return self._store.read(ops)

    def write(self, transactions: Sequence[Transaction]) -> list[TxnResult]:
        """Execute a batch of transactions, and record the operations that may have succeeded."""
        called = self._history.call()
        codes = [ResultCode.CONNECTIONLOSS] * len(transactions)
        try:
            results = self._store.write(transactions)
            codes = [result.code for result in results]
        finally:
            for transaction, code in zip(transactions, codes, strict=True):
                for op in transaction:
                    self._history.wrote(called, op, code)
        return results

    def add_listener(self, listener: StoreListener) -> None:
        """Call ``listener`` for every event."""
        self._store.add_listener(listener)

    def remove_listener(self, listener: StoreListener) -> None:
        """Stop calling ``listener``."""
        self._store.remove_listener(listener)

    def reopen(self) -> None:
        """Open a new session after the old session expired."""
        self._store.reopen()

    def close(self) -> None:
        """End the session."""
        self._store.close()

    def abandon(self) -> None:
        """Drop the connection as if the process had been killed."""
        self._store.abandon()


# Requests to the controller


def _effects(request: Request, response: Response | None, is_current: bool) -> Iterator[_Effect]:
    match request, response:
        case CreateTopicsRequest(validate_only=True), _:
            pass
        case CreateTopicsRequest(), CreateTopicsResponse() | None:
            results = {} if response is None else {one.name: one for one in response.topics}
            for topic in request.topics:
                yield from _creation(topic, results.get(topic.name), is_current)
        case DeleteTopicsRequest(), DeleteTopicsResponse() | None:
            yield from _deletion(request, response)
        case AlterPartitionReassignmentsRequest(), AlterPartitionReassignmentsResponse() | None:
            whole = ApiError(Errors.REQUEST_TIMED_OUT) if response is None else response.error
            partitions = {} if response is None else response.partitions
            for tp, target in request.reassignments.items():
                error = partitions.get(tp, whole).error
                yield from _reassignment(tp, target, error, is_current)
        case ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse():
            if is_current and response.error.error is Errors.NONE:
                yield from _listing(request.partitions, response)
        case ElectLeadersRequest(), ElectLeadersResponse():
            if is_current:
                yield from _election(response)
        case _:
            pass


def _creation(
    topic: CreatableTopic, result: CreatableTopicResult | None, is_current: bool
) -> Iterator[_Effect]:
    error = Errors.REQUEST_TIMED_OUT if result is None else result.error
    text, configs = f"CreateTopics: {error.name}", frozenset(topic.overrides.items())
    partitions: Mapping[int, tuple[int, ...] | None] = {
        n: tuple(ids) for n, ids in topic.assignments.items()
    }
    if not partitions:
        count = topic.num_partitions if result is None else result.num_partitions
        partitions = dict.fromkeys(range(max(1, count)))
    if error is Errors.NONE:
        yield topic.name, text, partial(model.created, partitions=partitions, configs=configs), True
        yield topic.name, text, partial(model.known, numbers=tuple(partitions)), True
    elif error is Errors.TOPIC_ALREADY_EXISTS:
        if is_current:
            yield topic.name, text, partial(model.exists, configs=configs), True
    elif error in _INDEFINITE:
        step = partial(model.maybe_created, partitions=partitions, configs=configs)
        yield topic.name, text, step, False


def _deletion(
    request: DeleteTopicsRequest, response: DeleteTopicsResponse | None
) -> Iterator[_Effect]:
    errors = {} if response is None else {one.name: one.error for one in response.topics}
    for topic in request.topics:
        error = errors.get(topic, Errors.REQUEST_TIMED_OUT)
        if error is Errors.NONE or error in _INDEFINITE:
            yield topic, f"DeleteTopics: {error.name}", model.deleted, error is Errors.NONE


def _election(response: ElectLeadersResponse) -> Iterator[_Effect]:
    """Yield one effect for each topic: the controller handles the request in one event."""
    steps: dict[str, dict[str, TopicStep]] = {}
    for (topic, number), result in response.partitions.items():
        of_topic = steps.setdefault(topic, {})
        if result.error in _SERVED:
            of_topic[f"{number}: {result.error.name}"] = partial(model.served, number=number)
        elif result.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
            of_topic[f"{number}: {result.error.name}"] = partial(model.unknown, number=number)
    for topic, of_topic in steps.items():
        if of_topic:
            text = f"ElectLeaders {topic}: {', '.join(of_topic)}"
            yield topic, text, partial(_in_turn, tuple(of_topic.values())), True


def _in_turn(steps: Iterable[TopicStep], state: TopicState) -> Iterable[TopicState]:
    states: Iterable[TopicState] = (state,)
    for step in steps:
        states = {after: None for before in states for after in step(before)}
    return states


def _reassignment(
    tp: TopicPartition, target: tuple[int, ...] | None, error: Errors, is_current: bool
) -> Iterator[_Effect]:
    number = tp.partition
    goal = "cancel" if target is None else f"to {list(target)}"
    text = f"AlterPartitionReassignments {tp} {goal}: {error.name}"
    effect: TopicStep = partial(model.cancelled, number=number)
    if target is not None:
        effect = partial(model.reassigned, number=number, target=target)
    if error is Errors.NONE or error in _INDEFINITE:
        yield tp.topic, text, effect, error is Errors.NONE
    elif error is Errors.NO_REASSIGNMENT_IN_PROGRESS and is_current:
        yield tp.topic, text, partial(model.not_reassigning, number=number), True
    elif error is Errors.UNKNOWN_TOPIC_OR_PARTITION and is_current:
        yield tp.topic, text, partial(model.unknown, number=number), True


def _listing(
    asked: Sequence[TopicPartition] | None, response: ListPartitionReassignmentsResponse
) -> Iterator[_Effect]:
    named = tuple(response.partitions) if asked is None else asked
    for topic in dict.fromkeys(tp.topic for tp in named):
        found = {tp.partition: one for tp, one in response.partitions.items() if tp.topic == topic}
        numbers = None
        if asked is not None:
            numbers = tuple(tp.partition for tp in asked if tp.topic == topic)
        shown = ", ".join(f"{n}: {one}" for n, one in sorted(found.items())) or "none"
        step = partial(model.listed, asked=numbers, found=found)
        yield topic, f"ListPartitionReassignments: {shown}", step, True


# Writes of the scenario


def _effects_of_write(op: WriteOp, code: ResultCode) -> Iterator[_Effect]:
    """Yield the effects of a write that succeeded, or that may have succeeded."""
    is_definite, path = code is ResultCode.OK, op.path
    text = f"{type(op).__name__} {path}"
    if isinstance(op, Create | SetData):
        if found := TOPIC_PATH.fullmatch(path):
            yield found[1], text, _topic_written(found[1], op), is_definite
        elif found := _CONFIG.fullmatch(path):
            configs = frozenset(ConfigEntityZNode.decode(op.data).items())
            yield found[1], text, partial(model.configured, configs=configs), is_definite
        elif found := DELETION_PATH.fullmatch(path):
            # The controller deletes the topic later, or refuses to.
            yield found[1], text, model.deleted, False
        elif path == ReassignPartitionsZNode.path:
            with suppress(MalformedZNode, UnparsableJson):
                for tp, target in ReassignPartitionsZNode.decode(op.data).items():
                    if target:
                        step = partial(model.reassigned, number=tp.partition, target=target)
                        yield tp.topic, f"{text}: {tp} to {list(target)}", step, False


def _topic_written(topic: str, op: Create | SetData) -> TopicStep:
    assignment = TopicZNode.decode(topic, op.data).assignment
    if not assignment:
        raise MalformedZNode(f"no partitions in {op.path}", "")
    if isinstance(op, SetData):
        assignments = {tp.partition: found for tp, found in assignment.items()}
        return partial(model.written, assignments=assignments)
    return partial(_created_by_tool, {tp.partition: one.replicas for tp, one in assignment.items()})


def _created_by_tool(
    partitions: Mapping[int, tuple[int, ...] | None], state: TopicState
) -> Iterator[TopicState]:
    """A tool creates the topic znode. It has written the config znode before.

    The end of a deletion may have removed that config znode."""
    yield from model.created(state, partitions, state.configs)
    if state.phase is model.TopicPhase.DELETING:
        yield from model.created(state, partitions, frozenset())


# The end of the run


def _final_operations(
    client: KafkaZkClient, topics: Sequence[str]
) -> dict[str, tuple[str, TopicStep]]:
    """Return what ZooKeeper shows of each topic, except those that are queued for deletion."""
    found = client.get_topic_assignments(topics)
    configs = client.get_topic_configs(topics)
    deleting = client.get_topic_deletions()
    steps: dict[str, tuple[str, TopicStep]] = dict.fromkeys(
        found.missing, ("in the end the topic does not exist", model.absent)
    )
    for topic, stored in found.values.items():
        assignments = {tp.partition: one for tp, one in stored.assignment.items()}
        values = frozenset(configs.values.get(topic, {}).items())
        shown = "; ".join(f"{n}: {one}" for n, one in sorted(assignments.items()))
        text = f"in the end the topic has {shown}{config_text(values)}"
        step = partial(model.observed, assignments=assignments, configs=values)
        steps[topic] = (text, step)
    return {topic: step for topic, step in steps.items() if topic not in deleting}
