"""Types of the values of conditions: how drills write them, their JSON Schema and Python types.

The Form of a type names its reader, which is in lab/language/value_reading.py. A mapping without a
form has partitions as keys. Lists that may be a single item have a form of ONE_OR_MORE instead of a
union, because msgspec 0.22 crashes when it makes the schema of text with a pattern beside a list.
"""

from __future__ import annotations

import itertools
from enum import Enum, auto
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.journal import JournalRow, Kind
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState

Schema = dict[str, Any]


class Form(Enum):
    """How a value is written in a drill."""

    COUNT = auto()
    TRUE = auto()
    TEXTS = auto()
    TOPICS = auto()
    PATHS = auto()
    ZNODES = auto()
    PARTITIONS = auto()
    PARTITION_STATE = auto()
    BROKERS = auto()
    SORTED_BROKERS = auto()
    KNOWN_BROKERS = auto()
    REPLICAS = auto()
    LEADER = auto()
    CONTROLLER = auto()
    HOSTS = auto()
    ROW = auto()


ROW_TYPES: Final = {f.encode_name: f.type for f in msgspec.structs.fields(JournalRow)}
PARTITION_STATES: Final = tuple(state.value for state in PartitionState)
STATES_OF_ROWS: Final = {
    "partition": PARTITION_STATES,
    "replica": tuple(state.value for state in ReplicaState),
    "reassignment": tuple(phase.value for phase in Phase),
}
"""Values of ``from`` and ``to``, by the first word of the kinds of rows that have them."""
ALL_STATES: Final = tuple(itertools.chain(*STATES_OF_ROWS.values()))
ROLES: Final = (
    r"^([0-9]+|controller|dead|paused|each|leader of \S+|any ISR follower of \S+|rack \S+)$"
)


def _row_schema() -> Schema:
    """Return the schema of a journal row: any of its fields."""
    fields: Schema = {}
    for name, kind in ROW_TYPES.items():
        schema = msgspec.json.schema(kind)
        fields[name] = {"anyOf": schema.get("anyOf", [schema])}
    states = {"enum": [*ALL_STATES, None]}
    fields |= {"kind": {"enum": list(map(str, Kind))}, "from": states, "to": states}
    return {"properties": fields, "additionalProperties": False, "minProperties": 1}


Count = Annotated[int, Form.COUNT, Meta(ge=0, le=INT32_MAX)]
Id = Annotated[int, Meta(ge=0, le=INT32_MAX)]
BrokerId = Id | Literal["each"]
Role = Id | Annotated[str, Meta(pattern=ROLES)]
Text = str | int | float | bool
Partition = Annotated[str, Meta(pattern=r"^.+-(0|[1-9][0-9]{0,8})$")]
Path = Annotated[str, Meta(pattern="^/")]

IsTrue = Annotated[bool, Form.TRUE, Meta(extra_json_schema={"const": True})]
Texts = Annotated[list[Text], Form.TEXTS, Meta(min_length=1)]
Topics = Annotated[list[Text], Form.TOPICS, Meta(min_length=1)]
Paths = Annotated[list[Path], Form.PATHS, Meta(min_length=1)]
Znodes = Annotated[dict[Path, Any], Form.ZNODES, Meta(min_length=1)]
Partitions = Annotated[list[Partition], Form.PARTITIONS]
State = Annotated[
    str, Form.PARTITION_STATE, Meta(extra_json_schema={"enum": list(PARTITION_STATES)})
]
Brokers = Annotated[list[BrokerId], Form.BROKERS]
SortedBrokers = Annotated[list[BrokerId], Form.SORTED_BROKERS]
KnownBrokers = Annotated[list[Role], Form.KNOWN_BROKERS, Meta(min_length=1)]
"""Brokers that are known before the drill runs."""
Replicas = Annotated[list[Id], Form.REPLICAS, Meta(min_length=1)]
Leader = Annotated[int | Literal["none", "each"], Form.LEADER]
Controller = Annotated[Id | Literal["each", "moved", "none"], Form.CONTROLLER]
Row = Annotated[dict[str, Any], Form.ROW, Meta(extra_json_schema=_row_schema())]
Counts = Annotated[dict[Partition, Count], Meta(min_length=1)]
Leaders = Annotated[dict[Partition, Leader], Meta(min_length=1)]
Isrs = Annotated[dict[Partition, Brokers], Meta(min_length=1)]
ReplicaLists = Annotated[dict[Partition, Replicas], Meta(min_length=1)]
States = Annotated[dict[Partition, State], Meta(min_length=1)]

ONE_OR_MORE: Final = (
    Form.TEXTS,
    Form.TOPICS,
    Form.PATHS,
    Form.PARTITIONS,
    Form.KNOWN_BROKERS,
)
"""Forms of lists that may have a single item without brackets."""


def form_of(kind: Any) -> Form | None:
    """Return the form of a type, or None."""
    return next(
        (mark for mark in getattr(kind, "__metadata__", ()) if isinstance(mark, Form)), None
    )


def schema_of(kind: Any) -> Schema:
    """Return the JSON Schema of a type."""
    schema = msgspec.json.schema(kind)
    if form_of(kind) in ONE_OR_MORE:
        return {"anyOf": [schema["items"], schema]}
    return schema


_HOSTS_SCHEMA: Final[Schema] = {
    "propertyNames": {"pattern": "^([0-9]+|each)$"},
    "additionalProperties": schema_of(Partitions),
}
Hosts = Annotated[
    dict[int, Partitions], Form.HOSTS, Meta(min_length=1, extra_json_schema=_HOSTS_SCHEMA)
]
