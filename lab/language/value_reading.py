"""Reads the values of conditions: one reader for each Form of lab/conditions/values.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import msgspec
import yaml

from klamm.cluster.journal import Kind
from klamm.lab.actions.action import InRack
from klamm.lab.conditions.condition import plain_text
from klamm.lab.conditions.values import (
    ALL_STATES,
    PARTITION_STATES,
    ROW_TYPES,
    STATES_OF_ROWS,
    Form,
    form_of,
)
from klamm.lab.conditions.view import MOVED
from klamm.lab.language.reading import NONE, DrillReader

_KINDS: Final = tuple(map(str, Kind))


def read_value(reader: DrillReader, node: yaml.Node, kind: Any, what: str) -> Any:
    """Return the value of a node. Raises UsageError if it is not of this type.

    ``what``: the word of the drill that has the value."""
    form = form_of(kind)
    if form is not None:
        return _READERS[form](reader, node, what)
    _, value = get_args(get_args(kind)[0])
    found = reader.by_partition(node, lambda item: read_value(reader, item, value, what))
    return {str(tp): one for tp, one in found.items()}


def _is_true(reader: DrillReader, node: yaml.Node, what: str) -> bool:
    if not reader.boolean(node, what):
        hint = "to expect a fault, use e.g. brokers, isr or leader"
        raise reader.error(node, f"{what} must be true", hint)
    return True


def _texts(reader: DrillReader, node: yaml.Node, _: str) -> list[str]:
    return [reader.text(item, "a text") for item in reader.one_or_more(node)]


def _topics(reader: DrillReader, node: yaml.Node, _: str) -> list[str]:
    return reader.at_least_one(node, "topic", lambda item: reader.text(item, "a topic"))


def _znodes(reader: DrillReader, node: yaml.Node, _: str) -> dict[str, Any]:
    return {
        reader.path(entry.key, "a key"): reader.plain(entry.value)
        for entry in reader.entries(node, "znodes with their data").values()
    }


def _partitions(reader: DrillReader, node: yaml.Node, _: str) -> list[str]:
    return sorted(map(str, reader.partitions(node)))


def _partition_state(reader: DrillReader, node: yaml.Node, _: str) -> str:
    name = reader.text(node, "a state")
    if name not in PARTITION_STATES:
        raise reader.unknown(node, "partition state", name, PARTITION_STATES)
    return name


def _known_brokers(reader: DrillReader, node: yaml.Node, _: str) -> list[int]:
    found: set[int] = set()
    for item in reader.one_or_more(node):
        ref = reader.broker_ref(item)
        if isinstance(ref, int):
            found.add(ref)
        elif isinstance(ref, InRack):
            found.update(id_ for id_, rack in reader.cluster.racks.items() if rack == ref.rack)
        else:
            raise reader.error(item, "the brokers must be known in advance", "use ids, or rack a")
    if not found:
        raise reader.error(node, "name at least one broker")
    return sorted(found)


def _controller(reader: DrillReader, node: yaml.Node, _: str) -> int | str:
    text = reader.text(node, "a controller")
    if text in (MOVED, NONE):
        return text
    if not text.isdecimal():
        raise reader.error(node, f"'{text}' is not a controller", "use an id, moved, or none")
    return reader.broker(node)


def _hosts(reader: DrillReader, node: yaml.Node, what: str) -> dict[str, list[str]]:
    return {
        str(reader.broker(entry.key)): _partitions(reader, entry.value, what)
        for entry in reader.entries(node, "brokers with their partitions").values()
    }


def journal_row(reader: DrillReader, node: yaml.Node, _: str = "") -> dict[str, Any]:
    """Return the values of a journal row: any of its fields."""
    fields = reader.fields(node, "a journal row", ROW_TYPES)
    values = {name: _row_value(reader, name, entry.value) for name, entry in fields.items()}
    kind = values.get("kind", "")
    if "kind" in fields and kind not in _KINDS:
        raise reader.unknown(fields["kind"].value, "kind of row", kind, _KINDS)
    states = STATES_OF_ROWS.get(kind.partition("_")[0], ALL_STATES)
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


_READERS: Final[Mapping[Form, Callable[[DrillReader, yaml.Node, str], Any]]] = {
    Form.COUNT: DrillReader.integer,
    Form.TRUE: _is_true,
    Form.TEXTS: _texts,
    Form.TOPICS: _topics,
    Form.PATHS: lambda reader, node, _: reader.paths(node),
    Form.ZNODES: _znodes,
    Form.PARTITIONS: _partitions,
    Form.PARTITION_STATE: _partition_state,
    Form.BROKERS: lambda reader, node, _: reader.brokers(node),
    Form.SORTED_BROKERS: lambda reader, node, _: sorted(reader.brokers(node)),
    Form.KNOWN_BROKERS: _known_brokers,
    Form.REPLICAS: lambda reader, node, _: reader.replicas(node),
    Form.LEADER: lambda reader, node, _: reader.leader(node),
    Form.CONTROLLER: _controller,
    Form.HOSTS: _hosts,
    Form.ROW: journal_row,
}
