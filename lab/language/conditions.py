"""Conditions that a drill waits for or expects: one entry for each, with its text for the docs.

Each entry parses the YAML value of a condition; lab/conditions/conditions.py evaluates the
condition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from klamm.cluster.journal import JournalRow, Kind
from klamm.lab.actions.action import InRack
from klamm.lab.conditions.condition import plain_text
from klamm.lab.conditions.conditions import MOVED
from klamm.lab.language.reading import NONE, DrillReader
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.cluster_spec import rack_map

Read = Callable[[DrillReader, yaml.Node], Any]
ROW_TYPES: Final = {f.encode_name: f.type for f in msgspec.structs.fields(JournalRow)}
_STATES: Final = tuple(state.value for state in PartitionState)
_STATES_OF_ROWS: Final = {
    "partition": _STATES,
    "replica": tuple(state.value for state in ReplicaState),
    "reassignment": tuple(phase.value for phase in Phase),
}
"""Values of ``from`` and ``to``, by the first word of the kinds of rows that have them."""
ALL_STATES: Final = tuple(itertools.chain(*_STATES_OF_ROWS.values()))
_KINDS: Final = tuple(map(str, Kind))


class ConditionKind(NamedTuple):
    """Parser and documentation of one kind of condition.

    ``is_of_tool``: the condition is about the output of the step's tool. That output cannot change
    once the tool has ended, so the condition is checked at once and cannot be waited for.
    """

    read: Read
    example: str
    about: str
    is_of_tool: bool = False


def _brokers(reader: DrillReader, node: yaml.Node) -> list[int]:
    return sorted(reader.brokers(node))


def _unregistered(reader: DrillReader, node: yaml.Node) -> list[int]:
    racks = rack_map(reader.cluster.broker_ids, reader.cluster.racks)
    found: set[int] = set()
    for item in reader.one_or_more(node):
        ref = reader.broker_ref(item)
        if isinstance(ref, int):
            found.add(ref)
        elif isinstance(ref, InRack):
            found.update(id_ for id_, rack in racks.items() if rack == ref.rack)
        else:
            raise reader.error(item, "the brokers must be known in advance", "use ids, or rack a")
    if not found:
        raise reader.error(node, "name at least one broker")
    return sorted(found)


def _by_partition(read: Read) -> Read:
    """Return the parser of values by partition name."""
    return lambda reader, node: {
        str(tp): value for tp, value in reader.by_partition(node, partial(read, reader)).items()
    }


def _state(reader: DrillReader, node: yaml.Node) -> str:
    name = reader.text(node, "a state")
    if name not in _STATES:
        raise reader.unknown(node, "partition state", name, _STATES)
    return name


def _hosts(reader: DrillReader, node: yaml.Node) -> dict[str, list[str]]:
    return {
        str(reader.broker(entry.key)): _partitions(reader, entry.value)
        for entry in reader.entries(node, "brokers with their partitions").values()
    }


_records = _by_partition(lambda reader, node: reader.integer(node, "a number of records"))
"""The parser of numbers of records by partition name."""


def _controller(reader: DrillReader, node: yaml.Node) -> int | str:
    text = reader.text(node, "a controller")
    if text in (MOVED, NONE):
        return text
    if not text.isdecimal():
        raise reader.error(node, f"'{text}' is not a controller", "use an id, moved, or none")
    return reader.broker(node)


def _znodes(reader: DrillReader, node: yaml.Node) -> dict[str, Any]:
    return {
        reader.path(entry.key, "a key"): reader.plain(entry.value)
        for entry in reader.entries(node, "znodes with their data").values()
    }


def _topics(reader: DrillReader, node: yaml.Node) -> list[str]:
    return reader.at_least_one(node, "topic", lambda item: reader.text(item, "a topic"))


def _partitions(reader: DrillReader, node: yaml.Node) -> list[str]:
    return sorted(map(str, reader.partitions(node)))


def _texts(reader: DrillReader, node: yaml.Node) -> list[str]:
    return [reader.text(item, "a text") for item in reader.one_or_more(node)]


def _true(word: str) -> Callable[[DrillReader, yaml.Node], bool]:
    def read(reader: DrillReader, node: yaml.Node) -> bool:
        if not reader.boolean(node, word):
            raise reader.error(
                node, f"{word} must be true", "to expect a fault, use e.g. brokers, isr or leader"
            )
        return True

    return read


def journal_row(reader: DrillReader, node: yaml.Node) -> dict[str, Any]:
    """Return the values of a journal row: any of its fields."""
    fields = reader.fields(node, "a journal row", ROW_TYPES)
    values = {name: _row_value(reader, name, entry.value) for name, entry in fields.items()}
    kind = values.get("kind", "")
    if "kind" in fields and kind not in _KINDS:
        raise reader.unknown(fields["kind"].value, "kind of row", kind, _KINDS)
    states = _STATES_OF_ROWS.get(kind.partition("_")[0], ALL_STATES)
    for name in ("from", "to"):
        if values.get(name) is not None and values[name] not in states:
            raise reader.unknown(fields[name].value, "state", values[name], states)
    return values


def _row_value(reader: DrillReader, name: str, node: yaml.Node) -> Any:
    """Return the value of a field in a journal row. Raises UsageError if it has another type."""
    value, kind = reader.plain(node), ROW_TYPES[name]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        expected = "a whole number" if kind is int or kind == int | None else "text"
        if name in ("isr", "prev_isr"):
            expected = "a list of broker ids"
        problem = f"'{name}' of a journal row must be {expected}, not '{plain_text(value)}'"
        raise reader.error(node, problem) from None


DRILL_CONDITIONS: Final[Mapping[str, ConditionKind]] = {
    "brokers": ConditionKind(
        _brokers, "brokers: [0, 2]", "Exactly these brokers are registered in /brokers/ids."
    ),
    "unregistered": ConditionKind(
        _unregistered,
        "unregistered: [1, 2]",
        "These brokers are not registered in /brokers/ids: ids, `rack a` or `each`.",
    ),
    "leader": ConditionKind(
        _by_partition(DrillReader.leader),
        "leader: {t-0: 2, t-1: none}",
        "The leaders in the partition state znodes.",
    ),
    "isr": ConditionKind(
        _by_partition(DrillReader.brokers),
        "isr: {t-0: [0, 2]}",
        "The ISRs in the partition state znodes, in any order.",
    ),
    "leader_epoch": ConditionKind(
        _by_partition(lambda reader, node: reader.integer(node, "a leader epoch")),
        "leader_epoch: {t-0: 3}",
        "The leader epochs in the partition state znodes.",
    ),
    "replicas": ConditionKind(
        _by_partition(DrillReader.replicas),
        "replicas: {t-0: [2, 3]}",
        "The replicas in the topic znode, in this order.",
    ),
    "partition_state": ConditionKind(
        _by_partition(_state),
        "partition_state: {t-0: OnlinePartition}",
        "The states of partitions, as known to the active controller.",
    ),
    "hosts": ConditionKind(
        _hosts,
        "hosts: {1: [t-0], 2: []}",
        "For each of these brokers: exactly these partitions have a replica in its log "
        "directories.",
    ),
    "offline_partitions": ConditionKind(
        lambda reader, node: reader.integer(node, "a count"),
        "offline_partitions: 0",
        "Number of partitions without a leader, as counted by the active controller.",
    ),
    "controller": ConditionKind(
        _controller,
        "controller: moved",
        "The broker in /controller, or `none`. `moved`: a controller was elected since the step "
        "began.",
    ),
    "controller_epoch": ConditionKind(
        lambda reader, node: reader.integer(node, "an epoch"),
        "controller_epoch: 2",
        "The number in /controller_epoch.",
    ),
    "acknowledged": ConditionKind(
        _records,
        "acknowledged: {t-0: 500}",
        "The whole ISR has acknowledged exactly this number of records of the drill's producer.",
    ),
    "acknowledged_at_least": ConditionKind(
        _records,
        "acknowledged_at_least: {t-0: 500}",
        "The whole ISR has acknowledged at least this number of records. Use it for constant-rate "
        "producers, which never stop.",
    ),
    "consumed": ConditionKind(
        _records,
        "consumed: {t-0: 500}",
        "The drill's consumer has read exactly this number of records.",
    ),
    "exists": ConditionKind(DrillReader.paths, "exists: /controller", "These znodes exist."),
    "absent": ConditionKind(
        DrillReader.paths, "absent: [/admin/reassign_partitions]", "These znodes do not exist."
    ),
    "znode": ConditionKind(
        _znodes,
        "znode: {/controller_epoch: 2}",
        "Znodes have this data, compared as JSON or as text.",
    ),
    "deleted": ConditionKind(
        _topics,
        "deleted: t",
        "These topics and the requests to delete them no longer exist.",
    ),
    "reassigning": ConditionKind(
        _partitions,
        "reassigning: [t-0]",
        "Exactly these partitions are being reassigned. `[]` means that no partition is.",
    ),
    "not_reassigning": ConditionKind(
        _topics, "not_reassigning: t", "No partition of these topics is being reassigned."
    ),
    "journal": ConditionKind(
        journal_row,
        "journal: {kind: partition_transition, topic: t, to: OfflinePartition}",
        "A row of the journal with these values was written since the step began.",
    ),
    "healthy": ConditionKind(
        _true("healthy"),
        "healthy: true",
        "Every broker of the cluster is running and registered, every partition has a leader and "
        "all its replicas in sync, and no reassignment, deletion or election request is pending.",
    ),
    "agrees": ConditionKind(
        _true("agrees"),
        "agrees: true",
        "Controller and running brokers agree with ZooKeeper, as is checked at the end of a drill.",
    ),
    "exit_code": ConditionKind(
        lambda reader, node: reader.integer(node, "an exit code"),
        "exit_code: 1",
        "The exit code of the step's tool (1 if the controller refused a request). If it is not "
        "given, 0 is expected.",
        is_of_tool=True,
    ),
    "output": ConditionKind(
        _texts,
        "output: 'Error: topic'",
        "The output of the tool that the step ran, or the error that the controller returned, "
        "contains all these strings.",
        is_of_tool=True,
    ),
}
"""All conditions, keyed by their names in drills."""
