"""Types of the values of drills: arguments of actions, values of conditions and of triggers.

A type is what Python code gets. Its form, a mark in msgspec's Meta, is how drills write it:
lab/language/forms.py has an entry for each form. A type without a form is written as YAML has it:
numbers, booleans, words of a list, mappings, and lists, which may be a single item without
brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

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
    FILE_NAME = "file name"
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


class Section(NamedTuple):
    """A YAML node that a compiler of the language converts. ``name``: that of its JSON Schema."""

    name: str


def mark(how: Form | Words | Section) -> Meta:
    """Return the mark of a type that drills write in this way."""
    return Meta(extra={"mark": how})


def words(noun: str, known: Iterable[str]) -> Meta:
    """Return the mark of a text that must be one of these words."""
    return mark(Words(noun, tuple(known)))


def section(name: str) -> Any:
    """Return the type of a section."""
    return Annotated[Any, mark(Section(name))]


class Given(NamedTuple):
    """The type of a value that is given, i.e. not None, with what Meta says about it.

    ``schema``: keys of the JSON Schema, e.g. ``description``."""

    type: inspect.Type
    mark: Form | Words | Section | None = None
    schema: Mapping[str, Any] = MappingProxyType({})

    @property
    def words(self) -> Sequence[str]:
        """The words that the value may be; empty if it is no word of a list."""
        if isinstance(self.mark, Words):
            return self.mark.known
        return (
            [one.value for one in self.type.cls] if isinstance(self.type, inspect.EnumType) else []
        )


def given(kind: inspect.Type) -> Given:
    """Return the type of a value that is not None."""
    if isinstance(kind, inspect.Metadata):
        inner, extra = given(kind.type), kind.extra or {}
        schema = {**inner.schema, **(kind.extra_json_schema or {})}
        return Given(inner.type, extra.get("mark", inner.mark), schema)
    kinds = kind.types if isinstance(kind, inspect.UnionType) else ()
    others = [one for one in kinds if not isinstance(one, inspect.NoneType)]
    return given(others[0]) if len(others) == 1 else Given(kind)


type_of: Final[Callable[[Any], inspect.Type]] = cache(inspect.type_info)
"""Returns the type of an annotation."""

Text = Annotated[str, mark(Form.TEXT)]
Topic = Annotated[str, mark(Form.TOPIC)]
IsTrue = Annotated[bool, mark(Form.TRUE)]
Count = Annotated[int, Meta(ge=0, le=INT32_MAX)]
Duration = Annotated[float, mark(Form.DURATION)]
"""Milliseconds."""
TimeLimit = Annotated[float, mark(Form.TIME_LIMIT)]
"""Milliseconds, more than 0."""
Size = Annotated[int, mark(Form.SIZE)]
"""Bytes."""
Path = Annotated[str, mark(Form.PATH)]
ZnodeData = Annotated[bytes | None, mark(Form.ZNODE_DATA)]
FileName = Annotated[str, mark(Form.FILE_NAME)]
LogDir = Annotated[str, mark(Form.LOG_DIR)]
Partition = Annotated[TopicPartition, mark(Form.PARTITION)]
PartitionName = Annotated[str, mark(Form.PARTITION)]
Leader = Annotated[int, mark(Form.LEADER)]
Controller = Annotated[int | str, mark(Form.CONTROLLER)]
ZooKeeperServer = Annotated[str, mark(Form.ZOOKEEPER_SERVER)]
State = Annotated[str, words("partition state", [state.value for state in PartitionState])]
Row = Annotated[dict[str, Any], mark(Form.ROW)]

Texts = Annotated[list[Text], Meta(min_length=1)]
Topics = Annotated[list[Topic], Meta(min_length=1)]
Paths = Annotated[list[Path], Meta(min_length=1)]
Partitions = Annotated[list[Partition], Meta(min_length=1)]
PartitionNames = list[PartitionName]
ElectedPartitions = Annotated[tuple[TopicPartition, ...] | None, mark(Form.ELECTED_PARTITIONS)]
BrokerIds = Annotated[list[int], mark(Form.BROKER_IDS)]
KnownBrokers = Annotated[list[int], mark(Form.KNOWN_BROKERS)]
"""Brokers that are known before the drill runs."""
ReplicaList = Annotated[list[int], mark(Form.REPLICAS)]
Replicas = Annotated[tuple[int, ...], mark(Form.REPLICAS)]

Znodes = Mapping[Path, ZnodeData]
ZnodeValues = dict[Path, Any]
Counts = dict[PartitionName, Count]
Leaders = dict[PartitionName, Leader]
Isrs = dict[PartitionName, BrokerIds]
ReplicaLists = dict[PartitionName, ReplicaList]
States = dict[PartitionName, State]
Hosts = dict[Annotated[str, mark(Form.BROKER_ID)], PartitionNames]
