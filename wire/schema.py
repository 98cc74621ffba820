"""Builds responses of any protocol version from values of the newest one.

Kafka's schemas add fields from version to version. A response is written once, as nested dicts with
the fields of all versions; ``fill`` keeps those that the version of the request has. The schemas
are those of the library kio, which generates them from Kafka's JSON files
(clients/src/main/resources/common/message).
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from kio.schema.errors import ErrorCode

from klamm.cluster.api_errors import Errors
from klamm.cluster.types import TopicPartition

Values = Mapping[str, Any]
T = TypeVar("T")
OPERATIONS_OMITTED: Final = -(2**31)
"""Stands for authorized operations that were not asked for."""


def operations(*codes: int) -> int:
    """Return the bits of authorized operations, by their codes in AclOperation.

    Without an authorizer, a user may do all that AclEntry.supportedOperations has for a resource.
    """
    return sum(1 << code for code in codes)


_NEVER_THROTTLED: Final = timedelta(0)
_BUILDERS: Final[dict[type[object], Callable[[Values], object]]] = {}


class RefusedRequest(Exception):
    """A well-formed request that the network layer answers itself, with ``values``."""

    def __init__(self, values: Values) -> None:
        super().__init__(values)
        self.values = values


def fill(schema: type[T], values: Values) -> T:
    """Return an instance of a kio schema with those of ``values`` that the schema has.

    A field that ``values`` lacks gets its default. Errors may be given as klamm's Errors.
    """
    return typing.cast("T", _builder(schema)(values))


def _builder(schema: type[Any]) -> Callable[[Values], object]:
    if schema not in _BUILDERS:
        _BUILDERS[schema] = _new_builder(schema)
    return _BUILDERS[schema]


def _new_builder(schema: type[Any]) -> Callable[[Values], object]:
    hints = typing.get_type_hints(schema)
    converters = {
        field.name: _converter(field, hints[field.name]) for field in dataclasses.fields(schema)
    }
    defaults = {"throttle_time": _NEVER_THROTTLED} if "throttle_time" in converters else {}

    def build(values: Values) -> object:
        given = {
            name: values[name] if convert is None else convert(values[name])
            for name, convert in converters.items()
            if name in values
        }
        return schema(**{**defaults, **given})

    return build


def _converter(field: dataclasses.Field[object], hint: object) -> Callable[[Any], object] | None:
    """Return the function that converts a value for a field, or None to use the value itself."""
    if field.metadata.get("kafka_type") == "error_code":
        return ErrorCode
    if hint is str:
        return _text
    for member in _members(hint):
        if typing.get_origin(member) is tuple:
            element = typing.get_args(member)[0]
            if isinstance(element, type) and dataclasses.is_dataclass(element):
                return _each(_builder(element))
            return _each(None)
        if isinstance(member, type) and dataclasses.is_dataclass(member):
            return _builder(member)
    return None


def _text(value: str | None) -> str:
    """Return "" for None, where an older version does not allow null."""
    return value or ""


def _each(convert: Callable[[Any], object] | None) -> Callable[[Iterable[object] | None], object]:
    """Return a function that makes a tuple of converted values, or None of null."""

    def convert_all(values: Iterable[object] | None) -> tuple[object, ...] | None:
        if values is None:
            return None
        return tuple(values) if convert is None else tuple(map(convert, values))

    return convert_all


def _members(hint: object) -> tuple[object, ...]:
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return typing.get_args(hint) if is_union else (hint,)


def milliseconds(duration: timedelta) -> int:
    """Return a duration of a request in milliseconds."""
    return round(duration.total_seconds() * 1000)


def by_topic(
    results: Mapping[TopicPartition, T],
    partition_values: Callable[[int, T], object],
    *,
    topic: str = "name",
    partitions: str = "partitions",
) -> list[Values]:
    """Return the topics, in the order in which they appear, each with values of its partitions.

    ``topic`` and ``partitions`` are the fields of a topic in this message.
    """
    topics: dict[str, list[object]] = {}
    for (name, partition), result in results.items():
        topics.setdefault(name, []).append(partition_values(partition, result))
    return [{topic: name, partitions: found} for name, found in topics.items()]


def in_topics(
    topics: Iterable[object],
    *,
    topic: str = "name",
    partitions: str = "partitions",
    partition: str = "partition_index",
) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield each partition of a message that groups partitions by topic, with its schema.

    The other arguments are the fields of topics and partitions in this message.
    """
    for one in topics:
        name = getattr(one, topic)
        for found in getattr(one, partitions):
            yield TopicPartition(name, getattr(found, partition)), found


def error_of(code: int) -> Errors:
    """Return a broker's error; errors that klamm does not know count as an unknown error."""
    try:
        return Errors(code)
    except ValueError:
        return Errors.UNKNOWN_SERVER_ERROR


def uuid_of(topic_id: str | None) -> uuid.UUID | None:
    """Return a topic id, which klamm keeps in unpadded URL-safe base64."""
    return None if topic_id is None else uuid.UUID(bytes=base64.urlsafe_b64decode(f"{topic_id}=="))


def topic_id_of(topic_id: uuid.UUID | None) -> str | None:
    """Return a topic id in unpadded URL-safe base64."""
    return None if topic_id is None else base64.urlsafe_b64encode(topic_id.bytes).decode()[:-2]
