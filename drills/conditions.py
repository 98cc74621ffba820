"""Conditions that a drill waits for or expects: one entry per condition, with text for the docs.

An entry parses the condition's value; runtime/scenarios/conditions.py evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from klamm.cluster.journal import JournalRow, Kind
from klamm.drills.reading import NONE, DrillReader
from klamm.runtime.scenarios.conditions import MOVED
from klamm.statemachines.partition_state import PartitionState

Read = Callable[[DrillReader, yaml.Node], Any]
_ROW_FIELDS: Final = tuple(field.encode_name for field in msgspec.structs.fields(JournalRow))
_STATES: Final = tuple(state.value for state in PartitionState)


class ConditionKind(NamedTuple):
    """Parser and documentation of a condition.

    ``is_of_tool``: its value is final when the step's tool has ended, so it is never waited for.
    """

    read: Read
    example: str
    about: str
    is_of_tool: bool = False


def _brokers(reader: DrillReader, node: yaml.Node) -> list[int]:
    return sorted(reader.brokers(node))


def _leaders(reader: DrillReader, node: yaml.Node) -> Any:
    return reader.by_partition_text(node, reader.leader)


def _isrs(reader: DrillReader, node: yaml.Node) -> Any:
    return reader.by_partition_text(node, reader.brokers)


def _replicas(reader: DrillReader, node: yaml.Node) -> Any:
    return reader.by_partition_text(node, reader.replicas)


def _epochs(reader: DrillReader, node: yaml.Node) -> Any:
    return reader.by_partition_text(node, lambda item: reader.integer(item, "a leader epoch"))


def _states(reader: DrillReader, node: yaml.Node) -> Any:
    def state(item: yaml.Node) -> str:
        name = reader.text(item, "a state")
        if name not in _STATES:
            raise reader.unknown(item, "partition state", name, _STATES)
        return name

    return reader.by_partition_text(node, state)


def _hosts(reader: DrillReader, node: yaml.Node) -> dict[str, list[str]]:
    return {
        str(reader.broker(entry.key)): _partitions(reader, entry.value)
        for entry in reader.entries(node, "brokers with their partitions").values()
    }


def _records(reader: DrillReader, node: yaml.Node) -> Any:
    return reader.by_partition_text(node, lambda item: reader.integer(item, "a count of records"))


def _count(what: str) -> Read:
    return lambda reader, node: reader.integer(node, what)


def _controller(reader: DrillReader, node: yaml.Node) -> int | str:
    text = reader.text(node, "a controller")
    if text in (MOVED, NONE):
        return text
    if not text.isdecimal():
        raise reader.error(node, f"'{text}' is not a controller", "use an id, moved, or none")
    return reader.broker(node)


def _paths(reader: DrillReader, node: yaml.Node) -> list[str]:
    paths = [reader.path(item, "a znode") for item in reader.one_or_more(node)]
    if not paths:
        raise reader.error(node, "no znode is given")
    return paths


def _znodes(reader: DrillReader, node: yaml.Node) -> dict[str, Any]:
    return {
        reader.path(entry.key, "a key"): reader.plain(entry.value)
        for entry in reader.entries(node, "znodes with their data").values()
    }


def _topics(reader: DrillReader, node: yaml.Node) -> list[str]:
    topics = [reader.text(item, "a topic") for item in reader.one_or_more(node)]
    if not topics:
        raise reader.error(node, "no topic is given")
    return topics


def _partitions(reader: DrillReader, node: yaml.Node) -> list[str]:
    return sorted(map(str, reader.partitions(node)))


def _texts(reader: DrillReader, node: yaml.Node) -> list[str]:
    return [reader.text(item, "a text") for item in reader.one_or_more(node)]


def _journal(reader: DrillReader, node: yaml.Node) -> dict[str, Any]:
    fields = reader.fields(node, "a journal row", _ROW_FIELDS)
    values = {name: reader.plain(entry.value) for name, entry in fields.items()}
    kinds = [str(kind) for kind in Kind]
    if "kind" in fields and values["kind"] not in kinds:
        raise reader.unknown(fields["kind"].value, "kind of row", str(values["kind"]), kinds)
    return values


CONDITIONS: Final[Mapping[str, ConditionKind]] = {
    "brokers": ConditionKind(
        _brokers, "brokers: [0, 2]", "Exactly these brokers are registered in /brokers/ids."
    ),
    "leader": ConditionKind(
        _leaders, "leader: {t-0: 2, t-1: none}", "The leaders in the state znodes."
    ),
    "isr": ConditionKind(_isrs, "isr: {t-0: [0, 2]}", "The ISRs, in any order."),
    "leader_epoch": ConditionKind(_epochs, "leader_epoch: {t-0: 3}", "The leader epochs."),
    "replicas": ConditionKind(
        _replicas, "replicas: {t-0: [2, 3]}", "The replicas of the topic znode, in this order."
    ),
    "partition_state": ConditionKind(
        _states,
        "partition_state: {t-0: OnlinePartition}",
        "The states of partitions in the active controller.",
    ),
    "hosts": ConditionKind(
        _hosts,
        "hosts: {1: [t-0], 2: []}",
        "Exactly these partitions have a replica in the brokers' log directories.",
    ),
    "offline_partitions": ConditionKind(
        _count("a count"),
        "offline_partitions: 0",
        "Number of partitions without a leader, as counted by the active controller.",
    ),
    "controller": ConditionKind(
        _controller,
        "controller: moved",
        "The broker in /controller, `none`, or `moved`: a controller elected since the step began.",
    ),
    "controller_epoch": ConditionKind(
        _count("an epoch"), "controller_epoch: 2", "The number in /controller_epoch."
    ),
    "acknowledged": ConditionKind(
        _records,
        "acknowledged: {t-0: 500}",
        "The whole ISR has acknowledged exactly this number of records of the drill's producer.",
    ),
    "acknowledged_at_least": ConditionKind(
        _records,
        "acknowledged_at_least: {t-0: 500}",
        "At least this number of records is acknowledged; for constant-rate producers, which do "
        "not stop.",
    ),
    "consumed": ConditionKind(
        _records,
        "consumed: {t-0: 500}",
        "The drill's consumer has read exactly this number of records.",
    ),
    "exists": ConditionKind(_paths, "exists: /controller", "These znodes exist."),
    "absent": ConditionKind(
        _paths, "absent: [/admin/reassign_partitions]", "These znodes do not exist."
    ),
    "znode": ConditionKind(
        _znodes,
        "znode: {/controller_epoch: 2}",
        "The data of znodes, compared as JSON or as text.",
    ),
    "deleted": ConditionKind(
        _topics, "deleted: t", "These topics are deleted, and so are the requests to delete them."
    ),
    "reassigning": ConditionKind(
        _partitions,
        "reassigning: [t-0]",
        "Exactly these partitions are being reassigned; `[]`: no partition.",
    ),
    "not_reassigning": ConditionKind(
        _topics, "not_reassigning: t", "No partition of these topics is being reassigned."
    ),
    "journal": ConditionKind(
        _journal,
        "journal: {kind: partition_transition, topic: t, to: OfflinePartition}",
        "A row of the journal with these values was written since the step began.",
    ),
    "exit_code": ConditionKind(
        _count("an exit code"),
        "exit_code: 1",
        "Exit code of the step's tool; 1 if the controller refused a request. 0 by default.",
        is_of_tool=True,
    ),
    "output": ConditionKind(
        _texts,
        "output: 'Error: topic'",
        "Texts in the output of the step's tool, or in the controller's error.",
        is_of_tool=True,
    ),
}
"""Every condition by its name in drills."""
