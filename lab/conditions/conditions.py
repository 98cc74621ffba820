"""Conditions that a scenario can wait for or expect, and how they are evaluated.

The value that is observed for a condition has the same structure as the expected value, so that a
failure can show both. An evaluation only reads, and does not wait.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.counting import parse_whole_number
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.lab.checks.observations import (
    State,
    Topic,
    decode_json,
    decode_state,
    decode_topic,
)
from klamm.lab.conditions.condition import Condition, StepCheck
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.tools.command_result import CommandResult
from klamm.zk.store import GetChildren, GetData, ReadResult, ResultCode
from klamm.zk.znodes import (
    BrokerIdsZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    MalformedZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
)

Json = dict[str, Any]
NONE: Final = "none"
MOVED: Final = "moved"
_REQUESTS: Final = (ReassignPartitionsZNode.path, PreferredReplicaElectionZNode.path)
_MAX_LINES: Final = 10


class ClusterView:
    """Read access to a scenario's cluster, and to what has changed since the current step began."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self.driver = driver
        self.tool: CommandResult | None = None
        self.unhealthy: tuple[int, list[str]] | None = None
        self._epoch_before = 0
        self._rows_before = 0

    def begin_step(self, checks: Iterable[StepCheck]) -> None:
        """Remember the current state, with which ``has_moved`` and ``new_rows`` compare.

        ZooKeeper is read only if the step waits for a new controller, because ZooKeeper may be
        unreachable in other steps.
        """
        self.tool = None
        if Condition("controller", MOVED) in [check.condition for check in checks]:
            self._epoch_before = self.controller_epoch()
        self.skip_rows()

    def skip_rows(self) -> None:
        """From now on, ``new_rows`` omits the rows that exist already."""
        self._rows_before = len(self.driver.rows)

    @property
    def new_rows(self) -> Sequence[JournalRow]:
        """The journal rows that were added since the step began."""
        return self.driver.rows[self._rows_before :]

    def read(self, path: str) -> ReadResult:
        """Read a znode. The result code is not OK if the znode cannot be read."""
        return self.driver.store.read([GetData(path)])[0]

    def read_json(self, path: str) -> Json | None:
        """Return the JSON object in a znode, or None if there is no znode or no JSON object."""
        return decode_json(self.read(path).data, dict[str, Any])

    def children(self, path: str) -> list[str]:
        """Return the sorted names of a znode's children."""
        return sorted(self.driver.store.read([GetChildren(path)])[0].children or ())

    def exists(self, path: str) -> bool:
        """Return True if the znode exists."""
        return self.read(path).code is ResultCode.OK

    def controller_id(self) -> int | None:
        """Return the broker id in /controller, or None if the znode is missing or malformed."""
        with suppress(MalformedZNode):
            return ControllerZNode.decode(self.read(ControllerZNode.path).data)
        return None

    def controller_epoch(self) -> int:
        """Return the controller epoch in ZooKeeper, or 0 if the znode is missing or malformed."""
        with suppress(MalformedZNode):
            return ControllerEpochZNode.decode(self.read(ControllerEpochZNode.path).data)
        return 0

    def has_moved(self) -> bool:
        """Return True if /controller exists and a controller was elected since the step began."""
        return self.controller_epoch() > self._epoch_before and self.exists(ControllerZNode.path)

    def state(self, topic_partition: str) -> State | None:
        """Return the state of a partition, or None if its znode is missing or malformed."""
        return decode_state(self.read(state_path(topic_partition)).data, 0)

    def topic(self, topic: str) -> Topic | None:
        """Return the contents of a topic znode, or None if it is missing or malformed."""
        return decode_topic(self.read(TopicZNode.path(topic)).data)

    def replicas(self, topic_partition: str) -> list[int] | None:
        """Return a partition's replicas from the topic znode, or None if they are not listed."""
        tp = partition_of(topic_partition)
        node = self.topic(tp.topic)
        replicas = None if node is None else node.replicas.get(tp.partition)
        return None if replicas is None else list(replicas)

    def reassigned(self, topics: Sequence[str]) -> list[str]:
        """Return which partitions of these topics are being reassigned, as sorted names."""
        found = []
        for name in topics:
            if (node := self.topic(name)) is not None:
                moving = filter(node.is_reassigning, sorted(node.replicas))
                found += [f"{name}-{partition}" for partition in moving]
        return found


def state_path(topic_partition: str) -> str:
    """Return the path of a partition's state znode."""
    return TopicPartitionStateZNode.path(partition_of(topic_partition))


def partition_of(name: str) -> TopicPartition:
    """Parse the name of a partition, such as t-0."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def as_listed(value: Any) -> list[Any]:
    """Return a list of the items of a list or tuple; wrap any other value in a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


Look = Callable[[ClusterView, Any], Any]


class ConditionEvaluator(NamedTuple):
    """How a kind of condition is evaluated.

    ``look`` returns the actual value; ``accepts`` compares it with the expected value."""

    look: Look
    accepts: Callable[[Any, Any], Any] = operator.eq


def evaluate_condition(condition: Condition, view: ClusterView) -> tuple[bool, Any]:
    """Return whether a condition holds now, and the actual value."""
    kind = CONDITIONS[condition.kind]
    seen = kind.look(view, condition.wanted)
    return bool(kind.accepts(seen, condition.wanted)), seen


def _brokers(view: ClusterView, _: Any) -> list[int]:
    # klamm's own broker in a cluster of Kafka's brokers is only a controller.
    others = view.driver.cluster.spec.pools.without_replicas
    registered = set(map(parse_whole_number, view.children(BrokerIdsZNode.path)))
    return sorted(id_ for id_ in registered.difference(others) if id_ is not None)


def _unregistered(view: ClusterView, wanted: Sequence[int]) -> list[int]:
    return sorted({*wanted}.difference(_brokers(view, None)))


def _for_each(look: Callable[[ClusterView, str], Any]) -> Look:
    return lambda view, wanted: {tp: look(view, tp) for tp in wanted}


def _in_states(field: str) -> Look:
    return _for_each(lambda view, tp: getattr(view.state(tp), field, None))


def _isr(view: ClusterView, topic_partition: str) -> list[int] | None:
    state = view.state(topic_partition)
    return None if state is None else sorted(state.isr)


def _same_isrs(seen: Mapping[str, list[int]], wanted: Mapping[str, Sequence[int]]) -> bool:
    return all(seen[tp] == sorted(isr) for tp, isr in wanted.items())


def _acknowledged(view: ClusterView, topic_partition: str) -> int:
    return view.driver.acknowledged(partition_of(topic_partition))


def _are_at_least(seen: Mapping[str, int], wanted: Mapping[str, int]) -> bool:
    return all(seen[tp] >= least for tp, least in wanted.items())


def _partition_state(view: ClusterView, topic_partition: str) -> str | None:
    context = view.driver.controller_context()
    if context is None:
        return None
    state = context.partition_states.get(partition_of(topic_partition))
    return None if state is None else str(state.value)


def _offline_partitions(view: ClusterView, _: Any) -> int | None:
    context = view.driver.controller_context()
    return None if context is None else context.offline_partition_count


def _hosts(view: ClusterView, broker_id: str) -> list[str] | None:
    return view.driver.hosted_partitions(int(broker_id))


def _controller(view: ClusterView, wanted: Any) -> int | str:
    if wanted == MOVED:
        return MOVED if view.has_moved() else "not moved"
    controller_id = view.controller_id()
    return NONE if controller_id is None else controller_id


def _exists(view: ClusterView, wanted: Any) -> list[str]:
    return [path for path in as_listed(wanted) if view.exists(path)]


def _all_there(seen: list[str], wanted: Any) -> bool:
    return seen == as_listed(wanted)


def _znode(view: ClusterView, path: str) -> Any:
    result = view.read(path)
    if result.code is not ResultCode.OK:
        return "no znode"
    text = (result.data or b"").decode(errors="replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _deleted(view: ClusterView, wanted: Any) -> list[str]:
    return [topic for topic in as_listed(wanted) if not _is_left(view, topic)]


def _is_left(view: ClusterView, topic: str) -> bool:
    return view.exists(TopicZNode.path(topic)) or view.exists(DeleteTopicsTopicZNode.path(topic))


def _reassigning(view: ClusterView, _: Any) -> list[str]:
    return view.reassigned(view.children(TopicsZNode.path))


def _not_reassigning(view: ClusterView, wanted: Any) -> list[str]:
    return view.reassigned(as_listed(wanted))


def _nothing(seen: Any, _: Any) -> bool:
    return not seen


def _unhealthy(view: ClusterView, _: Any) -> list[str]:
    """Return the first few reasons why the cluster is not healthy, one line each.

    What ZooKeeper tells is cached until ZooKeeper changes, because reading all topics is slow."""
    changes = view.driver.zookeeper_changes
    if view.unhealthy is None or view.unhealthy[0] != changes:
        view.unhealthy = changes, _find_unhealthy(view)
    cluster = view.driver.cluster
    ended = sorted(set(cluster.spec.broker_ids).difference(cluster.nodes))
    return view.unhealthy[1] or [f"brokers {ended} are not running"] * bool(ended)


def _find_unhealthy(view: ClusterView) -> list[str]:
    wanted = sorted(view.driver.cluster.spec.broker_ids)
    brokers = _brokers(view, None)
    found = [] if brokers == wanted else [f"brokers {brokers} are registered"]
    pending = view.children(DeleteTopicsZNode.path)
    found += [f"topic {topic} is queued for deletion" for topic in pending]
    found += [f"{path} exists" for path in _REQUESTS if view.exists(path)]
    topics = view.children(TopicsZNode.path)
    found += [f"{tp} is being reassigned" for tp in view.reassigned(topics)]
    for topic in topics:
        node = view.topic(topic)
        for number, replicas in () if node is None else node.replicas.items():
            state = view.state(f"{topic}-{number}")
            leader, isr = (NO_LEADER, ()) if state is None else (state.leader, state.isr)
            if leader not in replicas or sorted(isr) != sorted(replicas):
                found.append(
                    f"{topic}-{number}: leader {leader}, ISR {list(isr)}, replicas {list(replicas)}"
                )
    return found[:_MAX_LINES]


def _exit_code(view: ClusterView, _: Any) -> int | None:
    return None if view.tool is None else view.tool.exit_code


def _output(view: ClusterView, _: Any) -> str:
    return "" if view.tool is None else view.tool.stdout + view.tool.stderr


def _contains(seen: str, wanted: Any) -> bool:
    return all(str(text) in seen for text in as_listed(wanted))


def _journal(view: ClusterView, wanted: Json) -> str:
    rows = view.new_rows
    found = sum(matches_row(row, wanted) for row in rows)
    return f"{found} of {len(rows)} new rows match"


def matches_row(row: JournalRow, wanted: Mapping[str, Any]) -> bool:
    """Return True if a journal row has these values."""
    if row.kind != wanted.get("kind", row.kind):
        return False
    values: Json = msgspec.to_builtins(row)
    return all(values.get(name) == value for name, value in wanted.items())


def _some(seen: str, _: Any) -> bool:
    return not seen.startswith("0 ")


CONDITIONS: Final[Mapping[str, ConditionEvaluator]] = {
    "brokers": ConditionEvaluator(_brokers, lambda seen, wanted: seen == sorted(map(int, wanted))),
    "unregistered": ConditionEvaluator(_unregistered),
    "leader": ConditionEvaluator(_in_states("leader")),
    "isr": ConditionEvaluator(_for_each(_isr), _same_isrs),
    "leader_epoch": ConditionEvaluator(_in_states("leader_epoch")),
    "acknowledged": ConditionEvaluator(_for_each(_acknowledged)),
    "acknowledged_at_least": ConditionEvaluator(_for_each(_acknowledged), _are_at_least),
    "consumed": ConditionEvaluator(
        _for_each(lambda view, tp: view.driver.clients.consumed(partition_of(tp)))
    ),
    "replicas": ConditionEvaluator(_for_each(ClusterView.replicas)),
    "partition_state": ConditionEvaluator(_for_each(_partition_state)),
    "hosts": ConditionEvaluator(_for_each(_hosts)),
    "offline_partitions": ConditionEvaluator(_offline_partitions),
    "controller": ConditionEvaluator(_controller),
    "controller_epoch": ConditionEvaluator(lambda view, _: view.controller_epoch()),
    "exists": ConditionEvaluator(_exists, _all_there),
    "absent": ConditionEvaluator(_exists, _nothing),
    "znode": ConditionEvaluator(_for_each(_znode)),
    "deleted": ConditionEvaluator(_deleted, _all_there),
    "reassigning": ConditionEvaluator(
        _reassigning, lambda seen, wanted: sorted(seen) == sorted(wanted)
    ),
    "not_reassigning": ConditionEvaluator(_not_reassigning, _nothing),
    "healthy": ConditionEvaluator(_unhealthy, _nothing),
    "agrees": ConditionEvaluator(
        lambda view, _: view.driver.disagreements_with_zookeeper(), _nothing
    ),
    "exit_code": ConditionEvaluator(_exit_code),
    "output": ConditionEvaluator(_output, _contains),
    "journal": ConditionEvaluator(_journal, _some),
}
"""The kinds of conditions, keyed by their names in scenarios."""
