"""Types of the values of drills: arguments of actions, values of conditions and of triggers.

A type is what Python code gets. Its form, a mark in msgspec's Meta, is how drills write it:
lab/language/forms.py has an entry for each form. A type without a form is written as YAML has it:
numbers, booleans, words of a list, mappings, and lists, which may be a single item without
brackets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, inspect

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.types import TopicPartition
from klamm.statemachines.partition_state import PartitionState


class Form(Enum):
    """How a value is written in a drill. The value is the form's name in the JSON Schema."""

    TEXT = "text"
    TOPIC = "topic name"
    TRUE = "true"
    DURATION = "duration"
    TIME_LIMIT = "time limit"
    SIZE = "size"
    PATH = "path"
    ZNODE_DATA = "znode data"
    LOG_DIR = "log directory"
    COMMAND = "command"
    PARTITION = "partition"
    ELECTED_PARTITIONS = "elected partitions"
    BROKER = "broker"
    BROKERS = "brokers"
    ISOLATED_BROKERS = "isolated brokers"
    KNOWN_BROKERS = "known brokers"
    PARTIES = "parties"
    BROKER_ID = "broker id"
    BROKER_IDS = "broker ids"
    REPLICAS = "replicas"
    LEADER = "leader"
    CONTROLLER = "controller"
    ZOOKEEPER_SERVER = "ZooKeeper server"
    ROW = "journal row"


class Words(NamedTuple):
    """The words that a text may be, and what they name."""

    noun: str
    known: tuple[str, ...]


def form(mark: Form) -> Meta:
    """Return the mark of a type with this form."""
    return Meta(extra={"form": mark})


def words(noun: str, known: Iterable[str]) -> Meta:
    """Return the mark of a text that must be one of these words."""
    return Meta(extra={"words": Words(noun, tuple(known))})


class Given(NamedTuple):
    """The type of a value that is given, i.e. not None, with what Meta says about it."""

    type: inspect.Type
    form: Form | None = None
    words: Words | None = None
    schema: Mapping[str, Any] = MappingProxyType({})
    """Keys of the JSON Schema, e.g. ``description``."""


def given(kind: inspect.Type) -> Given:
    """Return the type of a value that is not None."""
    if isinstance(kind, inspect.Metadata):
        inner, extra = given(kind.type), kind.extra or {}
        return Given(
            inner.type,
            extra.get("form", inner.form),
            extra.get("words", inner.words),
            {**inner.schema, **(kind.extra_json_schema or {})},
        )
    kinds = kind.types if isinstance(kind, inspect.UnionType) else ()
    others = [one for one in kinds if not isinstance(one, inspect.NoneType)]
    return given(others[0]) if len(others) == 1 else Given(kind)


Text = Annotated[str, form(Form.TEXT)]
Topic = Annotated[str, form(Form.TOPIC)]
IsTrue = Annotated[bool, form(Form.TRUE)]
Count = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Duration = Annotated[float, form(Form.DURATION)]
"""Milliseconds."""
TimeLimit = Annotated[float, form(Form.TIME_LIMIT)]
"""Milliseconds, more than 0."""
Size = Annotated[int, form(Form.SIZE)]
"""Bytes."""
Path = Annotated[str, form(Form.PATH)]
ZnodeData = Annotated[bytes | None, form(Form.ZNODE_DATA)]
LogDir = Annotated[str, form(Form.LOG_DIR)]
Partition = Annotated[TopicPartition, form(Form.PARTITION)]
PartitionName = Annotated[str, form(Form.PARTITION)]
Leader = Annotated[int, form(Form.LEADER)]
Controller = Annotated[int | str, form(Form.CONTROLLER)]
ZooKeeperServer = Annotated[str, form(Form.ZOOKEEPER_SERVER)]
State = Annotated[str, words("partition state", [state.value for state in PartitionState])]
Row = Annotated[dict[str, Any], form(Form.ROW)]

Texts = Annotated[list[Text], Meta(min_length=1)]
Topics = Annotated[list[Topic], Meta(min_length=1)]
Paths = Annotated[list[Path], Meta(min_length=1)]
Partitions = Annotated[list[Partition], Meta(min_length=1)]
PartitionNames = list[PartitionName]
ElectedPartitions = Annotated[tuple[TopicPartition, ...] | None, form(Form.ELECTED_PARTITIONS)]
BrokerIds = Annotated[list[int], form(Form.BROKER_IDS)]
KnownBrokers = Annotated[list[int], form(Form.KNOWN_BROKERS)]
"""Brokers that are known before the drill runs."""
ReplicaList = Annotated[list[int], form(Form.REPLICAS)]
Replicas = Annotated[tuple[int, ...], form(Form.REPLICAS)]

Znodes = Mapping[Path, ZnodeData]
ZnodeValues = dict[Path, Any]
Counts = dict[PartitionName, Count]
Leaders = dict[PartitionName, Leader]
Isrs = dict[PartitionName, BrokerIds]
ReplicaLists = dict[PartitionName, ReplicaList]
States = dict[PartitionName, State]
Hosts = dict[Annotated[str, form(Form.BROKER_ID)], PartitionNames]
