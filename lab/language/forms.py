"""Forms of values: one entry for each Form, with its reader, JSON Schema and type in Python.

value_reading.py reads values of all types with them.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.plain_text import shortened
from klamm.cluster.status import PAUSED
from klamm.cluster.types import TopicPartition
from klamm.lab.actions.action import CONTROLLER, DEAD, BrokerRef, InRack
from klamm.lab.actions.network_actions import OTHERS
from klamm.lab.actions.tools import TOOLS
from klamm.lab.conditions.condition import plain_text
from klamm.lab.conditions.view import MOVED
from klamm.lab.language.reading import EACH, NONE, ROLES_HINT, DrillReader
from klamm.lab.value_types import Form
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState
from klamm.tools.jopt import UncaughtException, UsageExit, VersionExit
from klamm.world.network import CLIENTS, ZOOKEEPER
from klamm.zk.ensemble import FOLLOWER, LEADER

Schema = dict[str, Any]
ALL: Final = "all"
_PLACEHOLDER: Final = re.compile(r"\{[A-Za-z_]+\}")
_PLACEHOLDERS: Final = ("{zk}", "{bootstrap}")
_ROW_TYPES: Final = {f.encode_name: f.type for f in msgspec.structs.fields(JournalRow)}
_KINDS: Final = tuple(map(str, Kind))
_STATES_OF_ROWS: Final = {
    "partition": tuple(state.value for state in PartitionState),
    "replica": tuple(state.value for state in ReplicaState),
    "reassignment": tuple(phase.value for phase in Phase),
}
"""Values of ``from`` and ``to``, by the first word of the kinds of rows that have them."""
_ALL_STATES: Final = tuple(itertools.chain(*_STATES_OF_ROWS.values()))


class FormEntry(NamedTuple):
    """How a form is read, its JSON Schema, and its type in Python.

    ``read`` takes the word of the drill that has the value, for errors. ``noun``: what the items of
    a list of this form are, and the keys of a mapping."""

    read: Callable[[DrillReader, yaml.Node, str], Any]
    schema: Schema
    python: str
    noun: str = "value"


def list_of(items: Schema, least: int = 0) -> Schema:
    """Return the schema of a list of at least so many items."""
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def one_or_more(items: Schema, least: int = 1) -> Schema:
    """Return the schema of one item, or of a list of at least so many items."""
    return {"anyOf": [items, list_of(items, least)]}


def ref(name: str) -> Schema:
    """Return the schema that refers to the definition with this name."""
    return {"$ref": f"#/$defs/{name}"}


# -- values


def _is_true(reader: DrillReader, node: yaml.Node, what: str) -> bool:
    if not reader.boolean(node, what):
        hint = "to expect a fault, use e.g. brokers, isr or leader"
        raise reader.error(node, f"{what} must be true", hint)
    return True


def _command(reader: DrillReader, node: yaml.Node, _: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a tool and its arguments."""
    if isinstance(node, yaml.SequenceNode):
        words = [reader.text(item, "a word of the command") for item in node.value]
    else:
        try:
            words = shlex.split(reader.text(node, "a command"))
        except ValueError as error:
            raise reader.error(node, f"not a command: {error}") from None
    if not words:
        raise reader.error(node, "name a tool")
    name, *args = words
    tool = TOOLS.get(name)
    if tool is None:
        raise reader.unknown(node, "tool", name, TOOLS)
    try:
        with suppress(UsageExit, VersionExit):  # the tool prints its usage or its version
            options = tool.parser.parse(args)
            if not (options.has("bootstrap-server") or options.has("zookeeper")):
                hint = "add --bootstrap-server {bootstrap}"
                raise reader.error(node, f"{name} requires the address of the cluster", hint)
    except UncaughtException as error:
        raise reader.error(node, f"{name}: {error.message}", f"klamm {name} --help") from None
    for placeholder in _PLACEHOLDER.findall(" ".join(args)):
        if placeholder not in _PLACEHOLDERS:
            raise reader.unknown(node, "placeholder", placeholder, _PLACEHOLDERS)
    return name, tuple(args)


def _file_name(reader: DrillReader, node: yaml.Node, _: str) -> str:
    name = reader.text(node, "a file name")
    if "/" in name or name in (".", ".."):
        raise reader.error(node, f"'{name}' is not a file name")
    return name


def _zookeeper_server(reader: DrillReader, node: yaml.Node, _: str) -> str:
    server = reader.text(node, "a ZooKeeper server")
    count = reader.cluster.zookeeper_servers or 1
    if server not in (LEADER, FOLLOWER) and not server.isdecimal():
        raise reader.error(node, f"'{server}' is not a server", "use an id, leader or follower")
    ids = [str(number) for number in range(1, count + 1)]
    if server in (LEADER, *ids) or (server == FOLLOWER and count > 1):
        return server
    raise reader.error(
        node,
        f"the drill has no ZooKeeper server {server}",
        f"servers: {', '.join(ids)}; cluster: {{zookeeper_servers: 3}} starts three",
    )


# -- brokers and partitions


def _elected(reader: DrillReader, node: yaml.Node, what: str) -> list[TopicPartition] | None:
    if isinstance(node, yaml.ScalarNode) and node.value == ALL:
        return None
    hint = "use partitions, or all"
    return reader.at_least_one(node, "partition", lambda item: reader.partition(item, what), hint)


def _brokers(reader: DrillReader, node: yaml.Node, _: str) -> list[BrokerRef]:
    refs = reader.at_least_one(node, "broker", reader.broker_ref, ROLES_HINT)
    for one in refs:
        if isinstance(one, int) and refs.count(one) > 1:
            raise reader.error(node, f"broker {one} is listed twice")
    return refs


def _isolated(reader: DrillReader, node: yaml.Node, _: str) -> list[BrokerRef]:
    hint = "heal_network ends an isolation"
    refs = reader.at_least_one(node, "broker", reader.broker_ref, hint)
    if set(refs).issuperset(reader.cluster.broker_ids):
        raise reader.error(
            node, "cannot isolate all brokers of the cluster", "leave at least one broker out"
        )
    return refs


def _known_brokers(reader: DrillReader, node: yaml.Node, _: str) -> list[int]:
    found: set[int] = set()
    for item in reader.one_or_more(node):
        one = reader.broker_ref(item)
        if isinstance(one, int):
            found.add(one)
        elif isinstance(one, InRack):
            found.update(id_ for id_, rack in reader.cluster.racks.items() if rack == one.rack)
        else:
            raise reader.error(item, "the brokers must be known in advance", "use ids, or rack a")
    if not found:
        raise reader.error(node, "name at least one broker", "use ids, or rack a")
    return sorted(found)


def _controller(reader: DrillReader, node: yaml.Node, _: str) -> int | str:
    text = reader.text(node, "a controller")
    if text in (MOVED, NONE):
        return text
    if not text.isdecimal():
        raise reader.error(node, f"'{text}' is not a controller", "use an id, moved, or none")
    return reader.broker(node)


# -- rows of the journal


def _journal_row(reader: DrillReader, node: yaml.Node, _: str) -> dict[str, Any]:
    """Return the values of a journal row: any of its fields."""
    fields = reader.fields(node, "a journal row", _ROW_TYPES)
    values = {name: _row_value(reader, name, entry.value) for name, entry in fields.items()}
    kind = values.get("kind", "")
    if "kind" in fields and kind not in _KINDS:
        raise reader.unknown(fields["kind"].value, "kind of row", kind, _KINDS)
    states = _STATES_OF_ROWS.get(kind.partition("_")[0], _ALL_STATES)
    for name in ("from", "to"):
        if values.get(name) is not None and values[name] not in states:
            raise reader.unknown(fields[name].value, "state", values[name], states)
    return values


def _row_value(reader: DrillReader, name: str, node: yaml.Node) -> Any:
    """Return the value of a field in a journal row. Raises UsageError if it has another type."""
    value, kind = reader.plain(node), _ROW_TYPES[name]
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        expected = "a whole number" if kind is int or kind == int | None else "text"
        if name in ("isr", "prev_isr"):
            expected = "a list of broker ids"
        shown = shortened(plain_text(value))
        problem = f"'{name}' of a journal row must be {expected}, not '{shown}'"
        raise reader.error(node, problem) from None


def _row_schema() -> Schema:
    """Return the schema of a journal row: any of its fields."""
    fields: Schema = {}
    for name, kind in _ROW_TYPES.items():
        schema = msgspec.json.schema(kind)
        fields[name] = {"anyOf": schema.get("anyOf", [schema])}
    states = {"enum": [*_ALL_STATES, None]}
    fields |= {"kind": {"enum": list(_KINDS)}, "from": states, "to": states}
    return {
        "type": "object",
        "properties": fields,
        "additionalProperties": False,
        "minProperties": 1,
    }


# -- the table

TEXT: Final[Schema] = {"type": ["string", "number", "boolean"]}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_DURATION: Final = r"[0-9]{1,9}(\.[0-9]{1,3})? ?(ms|s|min)$"
_ROLES: Final = (
    r"^([0-9]+|controller|dead|paused|each|leader of \S+|any ISR follower of \S+|rack \S+)$"
)


def _of_node(
    read: Callable[[DrillReader, yaml.Node], Any],
) -> Callable[[DrillReader, yaml.Node, str], Any]:
    """Return a reader whose errors do not depend on the word that has the value."""
    return lambda reader, node, _: read(reader, node)


def _text_like(pattern: str) -> Schema:
    return {"type": "string", "pattern": pattern}


_BROKER: Final[Schema] = {
    "description": "A broker id, or a role.",
    "anyOf": [_COUNT, _text_like(_ROLES), {"enum": [CONTROLLER, DEAD, PAUSED, EACH]}],
}
_BROKER_ID: Final[Schema] = {"anyOf": [_COUNT, _text_like(f"^([0-9]+|{EACH})$")]}
_SOME_BROKERS: Final = one_or_more(ref(Form.BROKER.value))
_PARTY: Final[Schema] = {"anyOf": [ref(Form.BROKER.value), {"enum": [OTHERS, CLIENTS, ZOOKEEPER]}]}
_OF_BROKER: Final = "int | str"

FORMS: Final[Mapping[Form, FormEntry]] = {
    Form.TEXT: FormEntry(DrillReader.text, TEXT, "str", "text"),
    Form.TOPIC: FormEntry(DrillReader.topic, TEXT, "str", "topic"),
    Form.TRUE: FormEntry(_is_true, {"const": True}, "bool"),
    Form.DURATION: FormEntry(DrillReader.duration_ms, _text_like(f"^{_DURATION}"), "str"),
    Form.TIME_LIMIT: FormEntry(
        _of_node(DrillReader.time_limit_ms),
        _text_like(rf"^(?![0.]+ ?[a-z]){_DURATION}"),
        "str",
    ),
    Form.SIZE: FormEntry(
        DrillReader.size_bytes, _text_like(r"^[0-9]+(\.[0-9]+)?(B|kB|MB|GB|TB)$"), "str"
    ),
    Form.PATH: FormEntry(DrillReader.path, _text_like("^/"), "str", "znode"),
    Form.ZNODE_DATA: FormEntry(_of_node(DrillReader.znode_data), {}, "Value"),
    Form.LOG_DIR: FormEntry(_of_node(DrillReader.log_dir), TEXT, "str"),
    Form.COMMAND: FormEntry(_command, one_or_more(TEXT), "Words"),
    Form.FILE_NAME: FormEntry(_file_name, TEXT, "str", "file"),
    Form.PARTITION: FormEntry(
        DrillReader.partition, _text_like("^.+-(0|[1-9][0-9]{0,8})$"), "str", "partition"
    ),
    Form.ELECTED_PARTITIONS: FormEntry(
        _elected, {"anyOf": [{"const": ALL}, one_or_more(ref(Form.PARTITION.value))]}, "Words"
    ),
    Form.BROKER: FormEntry(_of_node(DrillReader.broker_ref), _BROKER, _OF_BROKER, "broker"),
    Form.BROKERS: FormEntry(_brokers, _SOME_BROKERS, "Brokers"),
    Form.ISOLATED_BROKERS: FormEntry(_isolated, _SOME_BROKERS, "Brokers"),
    Form.KNOWN_BROKERS: FormEntry(_known_brokers, _SOME_BROKERS, "Brokers"),
    Form.PARTIES: FormEntry(_of_node(DrillReader.parties), one_or_more(_PARTY), "Brokers"),
    Form.BROKER_ID: FormEntry(_of_node(DrillReader.broker), _BROKER_ID, _OF_BROKER, "broker"),
    Form.BROKER_IDS: FormEntry(
        _of_node(DrillReader.brokers),
        list_of(ref(Form.BROKER_ID.value)),
        f"Sequence[{_OF_BROKER}]",
    ),
    Form.REPLICAS: FormEntry(_of_node(DrillReader.replicas), list_of(_COUNT, 1), "Sequence[int]"),
    Form.LEADER: FormEntry(
        _of_node(DrillReader.leader),
        {"anyOf": [{"type": "integer"}, {"enum": [NONE, EACH]}]},
        _OF_BROKER,
    ),
    Form.CONTROLLER: FormEntry(
        _controller, {"anyOf": [_COUNT, {"enum": [EACH, MOVED, NONE]}]}, _OF_BROKER
    ),
    Form.ZOOKEEPER_SERVER: FormEntry(
        _zookeeper_server, {"anyOf": [_COUNT, {"enum": [LEADER, FOLLOWER]}]}, _OF_BROKER
    ),
    Form.ROW: FormEntry(_journal_row, _row_schema(), "Mapping[str, Value]"),
}
