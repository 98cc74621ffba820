"""Conditions that a drill can wait for or expect: one row for each, and how it is evaluated.

The value that is observed for a condition has the same structure as the expected value, so that a
failure can show both. An evaluation only reads, and does not wait.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from klamm.cluster.counting import parse_whole_number
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import NO_LEADER
from klamm.lab import value_types as values
from klamm.lab.conditions.condition import Condition
from klamm.lab.conditions.view import MOVED, ClusterView, Json, as_listed, partition_of
from klamm.zk.store import ResultCode
from klamm.zk.znodes import (
    BrokerIdsZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicsZNode,
    TopicZNode,
)

NONE: Final = "none"
_REQUESTS: Final = (ReassignPartitionsZNode.path, PreferredReplicaElectionZNode.path)
_MAX_LINES: Final = 10


Look = Callable[[ClusterView, Any], Any]


class ConditionKind(NamedTuple):
    """A kind of condition: its expected value, how it is evaluated, and its documentation.

    ``value``: the type of the expected value. ``look`` returns the actual value; ``accepts``
    compares it with the expected value. ``is_of_tool``: the condition is about the output of the
    step's tool. That output cannot change once the tool has ended, so the condition is checked at
    once and cannot be waited for.
    """

    value: Any
    look: Look
    example: str
    about: str
    accepts: Callable[[Any, Any], Any] = operator.eq
    is_of_tool: bool = False


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

    Unlike ``unhealthy`` of cluster/status.py, this believes only ZooKeeper, because a drill tests
    the controller and the leaders. So no controller has to be elected, and paused and isolated
    brokers and failed log directories count only by what they do to partitions. Requests to
    reassign partitions or to elect leaders, and registered brokers of other clusters, count, too.

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


CONDITIONS: Final[Mapping[str, ConditionKind]] = {
    "brokers": ConditionKind(
        values.BrokerIds,
        _brokers,
        "brokers: [0, 2]",
        "Exactly these brokers are registered in /brokers/ids.",
        accepts=lambda seen, wanted: seen == sorted(map(int, wanted)),
    ),
    "unregistered": ConditionKind(
        values.KnownBrokers,
        _unregistered,
        "unregistered: [1, 2]",
        "These brokers are not registered in /brokers/ids: ids, `rack a` or `each`.",
    ),
    "leader": ConditionKind(
        values.Leaders,
        _in_states("leader"),
        "leader: {t-0: 2, t-1: none}",
        "The leaders in the partition state znodes.",
    ),
    "isr": ConditionKind(
        values.Isrs,
        _for_each(_isr),
        "isr: {t-0: [0, 2]}",
        "The ISRs in the partition state znodes, in any order.",
        accepts=_same_isrs,
    ),
    "leader_epoch": ConditionKind(
        values.Counts,
        _in_states("leader_epoch"),
        "leader_epoch: {t-0: 3}",
        "The leader epochs in the partition state znodes.",
    ),
    "replicas": ConditionKind(
        values.ReplicaLists,
        _for_each(ClusterView.replicas),
        "replicas: {t-0: [2, 3]}",
        "The replicas in the topic znode, in this order.",
    ),
    "partition_state": ConditionKind(
        values.States,
        _for_each(_partition_state),
        "partition_state: {t-0: OnlinePartition}",
        "The states of partitions, as known to the active controller.",
    ),
    "hosts": ConditionKind(
        values.Hosts,
        _for_each(_hosts),
        "hosts: {1: [t-0], 2: []}",
        "For each of these brokers: exactly these partitions have a replica in its log "
        "directories.",
        accepts=lambda seen, wanted: (
            seen == {id_: tps and sorted(tps) for id_, tps in wanted.items()}
        ),
    ),
    "offline_partitions": ConditionKind(
        values.Count,
        _offline_partitions,
        "offline_partitions: 0",
        "Number of partitions without a leader, as counted by the active controller.",
    ),
    "controller": ConditionKind(
        values.Controller,
        _controller,
        "controller: moved",
        "The broker in /controller, or `none`. `moved`: a controller was elected since the step "
        "began.",
    ),
    "controller_epoch": ConditionKind(
        values.Count,
        lambda view, _: view.controller_epoch(),
        "controller_epoch: 2",
        "The number in /controller_epoch.",
    ),
    "acknowledged": ConditionKind(
        values.Counts,
        _for_each(_acknowledged),
        "acknowledged: {t-0: 500}",
        "The whole ISR has acknowledged exactly this number of records of the drill's producer.",
    ),
    "acknowledged_at_least": ConditionKind(
        values.Counts,
        _for_each(_acknowledged),
        "acknowledged_at_least: {t-0: 500}",
        "The whole ISR has acknowledged at least this number of records. Use it for constant-rate "
        "producers, which never stop.",
        accepts=_are_at_least,
    ),
    "consumed": ConditionKind(
        values.Counts,
        _for_each(lambda view, tp: view.driver.clients.consumed(partition_of(tp))),
        "consumed: {t-0: 500}",
        "The drill's consumer has read exactly this number of records.",
    ),
    "exists": ConditionKind(
        values.Paths,
        _exists,
        "exists: /controller",
        "These znodes exist.",
        accepts=_all_there,
    ),
    "absent": ConditionKind(
        values.Paths,
        _exists,
        "absent: [/admin/reassign_partitions]",
        "These znodes do not exist.",
        accepts=_nothing,
    ),
    "znode": ConditionKind(
        values.ZnodeValues,
        _for_each(_znode),
        "znode: {/controller_epoch: 2}",
        "Znodes have this data, compared as JSON or as text.",
    ),
    "deleted": ConditionKind(
        values.Topics,
        _deleted,
        "deleted: t",
        "These topics and the requests to delete them no longer exist.",
        accepts=_all_there,
    ),
    "reassigning": ConditionKind(
        values.PartitionNames,
        _reassigning,
        "reassigning: [t-0]",
        "Exactly these partitions are being reassigned. `[]` means that no partition is.",
        accepts=lambda seen, wanted: sorted(seen) == sorted(wanted),
    ),
    "not_reassigning": ConditionKind(
        values.Topics,
        _not_reassigning,
        "not_reassigning: t",
        "No partition of these topics is being reassigned.",
        accepts=_nothing,
    ),
    "journal": ConditionKind(
        values.Row,
        _journal,
        "journal: {kind: partition_transition, topic: t, to: OfflinePartition}",
        "A row of the journal with these values was written since the step began.",
        accepts=_some,
    ),
    "healthy": ConditionKind(
        values.IsTrue,
        _unhealthy,
        "healthy: true",
        "Every broker of the cluster is running and registered, every partition has a leader and "
        "all its replicas in sync, and no reassignment, deletion or election request is pending.",
        accepts=_nothing,
    ),
    "agrees": ConditionKind(
        values.IsTrue,
        lambda view, _: view.driver.disagreements_with_zookeeper(),
        "agrees: true",
        "Controller and running brokers agree with ZooKeeper, as is checked at the end of a drill.",
        accepts=_nothing,
    ),
    "exit_code": ConditionKind(
        values.Count,
        _exit_code,
        "exit_code: 1",
        "The exit code of the step's tool (1 if the controller refused a request). If it is not "
        "given, 0 is expected.",
        is_of_tool=True,
    ),
    "output": ConditionKind(
        values.Texts,
        _output,
        "output: 'Error: topic'",
        "The output of the tool that the step ran, or the error that the controller returned, "
        "contains all these strings.",
        accepts=_contains,
        is_of_tool=True,
    ),
}
"""All conditions, keyed by their names in drills."""
