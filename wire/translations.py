"""Translations between the messages of Kafka's protocol and klamm's values, in both directions.

A message is described once: which field of a struct is which field of the message. Listeners read
requests and write responses with it, and klamm's own clients write requests and read responses. A
field that the version of a message lacks is not written, and keeps the struct's default when read.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import ApiError
from klamm.cluster.types import Broker, EndPoint, TopicPartition
from klamm.wire.schema import (
    Values,
    by_topic,
    error_of,
    in_topics,
    milliseconds,
    topic_id_of,
    uuid_of,
)

T = TypeVar("T")


def _unused(_: object) -> NoReturn:
    raise NotImplementedError


class Translation(NamedTuple):
    """How a field of kio's schema, or a whole message, is read, and how it is written.

    ``write`` returns what ``schema.fill`` takes. ``kind`` is the type of a whole message. There is
    no ``read`` for what klamm never receives, and no ``write`` for what it never sends.
    """

    read: Callable[[Any], Any] = _unused
    write: Callable[[Any], Any] = _unused
    kind: Callable[..., object] | None = None


class Field(NamedTuple):
    """The field of a message that a struct's field is in.

    ``name`` is None if the struct's field is spread over fields of the same message. ``default``:
    what a message without the field means, if that is not the struct's default.
    """

    name: str | None
    translation: Translation
    default: object = ...


def _same(value: T) -> T:
    return value


SAME: Final = Translation(_same, _same)
ERROR: Final = Translation(error_of, _same)
BYTES: Final = Translation(lambda data: bytes(data or b""), _same)
MILLISECONDS: Final = Translation(milliseconds, lambda ms: timedelta(milliseconds=ms))
_FIELDS: Final = {
    "error": Field("error_code", ERROR),
    "topic_id": Field("topic_id", Translation(topic_id_of, uuid_of)),
    "timeout_ms": Field("timeout", MILLISECONDS),
}
"""Fields of structs that every message has under the same name."""


def struct(
    kind: Callable[..., object], constants: Values | None = None, /, **fields: str | Field | None
) -> Translation:
    """Return the translation of a struct, some of whose ``fields`` are in other fields.

    A name stands for a field with the same value, and None for no field. ``constants``: fields of
    the message that klamm always writes, and does not read.
    """
    names = inspect.signature(kind).parameters
    assert fields.keys() <= names.keys(), f"{kind} has no field {fields.keys() - names.keys()}"
    same, others = {}, []
    for name in names:
        match fields.get(name, _FIELDS.get(name, name)):
            case str(in_message):
                same[name] = in_message
            case Field() as field:
                others.append((name, *field))

    values_of = _getter(same)

    def read(message: object) -> object:
        found = {name: getattr(message, one) for name, one in same.items() if hasattr(message, one)}
        for name, in_message, translation, default in others:
            value = message if in_message is None else getattr(message, in_message, ...)
            if value is not ...:
                found[name] = translation.read(value)
            elif default is not ...:
                found[name] = default
        return kind(**found)

    def write(value: object) -> Values:
        values = dict(zip(same.values(), values_of(value), strict=True))
        values.update(constants or ())
        for name, in_message, translation, _ in others:
            field = translation.write(getattr(value, name))
            if in_message is None:
                values.update(field)
            else:
                values[in_message] = field
        return values

    return Translation(read, write, kind)


def _getter(names: Collection[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function of a struct that returns the values of these fields."""
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def only(name: str, translation: Translation = SAME) -> Translation:
    """Return the translation of a message of which klamm has one field."""
    return Translation(
        lambda message: translation.read(getattr(message, name)),
        lambda value: {name: translation.write(value)},
    )


def each(name: str, one: Translation, sorted_by: str | None = None) -> Field:
    """Return an array, which may be null, maybe sorted by a field of the structs in it."""

    def in_order(values: Iterable[T]) -> Iterable[T]:
        if sorted_by is None:
            return values
        return sorted(values, key=operator.attrgetter(sorted_by))

    def read(elements: Iterable[object] | None) -> tuple[object, ...] | None:
        return None if elements is None else tuple(in_order(map(one.read, elements)))

    def write(values: Iterable[object] | None) -> list[object] | None:
        return None if values is None else [one.write(value) for value in in_order(values)]

    return Field(name, Translation(read, write))


def keyed(name: str, key: str, value: Translation) -> Field:
    """Return an array of messages, each with a key: klamm has a dictionary."""

    def read(elements: Iterable[object]) -> dict[object, object]:
        return {getattr(one, key): value.read(one) for one in elements}

    def write(values: Mapping[object, object]) -> list[Values]:
        return [{key: found, **value.write(one)} for found, one in values.items()]

    return Field(name, Translation(read, write))


def per_partition(
    name: str,
    one: Translation,
    *,
    topic: str = "name",
    partitions: str = "partitions",
    partition: str = "partition_index",
) -> Field:
    """Return an array of topics, each with its partitions: klamm has a dictionary.

    The other arguments are the fields of topics and partitions in this message.
    """

    def read(topics: Iterable[object]) -> dict[TopicPartition, object]:
        found = in_topics(topics, topic=topic, partitions=partitions, partition=partition)
        return {tp: one.read(message) for tp, message in found}

    def write(values: Mapping[TopicPartition, object]) -> list[Values]:
        def message(number: int, value: object) -> Values:
            return {partition: number, **one.write(value)}

        return by_topic(values, message, topic=topic, partitions=partitions)

    return Field(name, Translation(read, write))


def listed_partitions(name: str, *, topic: str = "name", partitions: str = "partitions") -> Field:
    """Return an array of topics that list numbers of partitions, or null for all partitions."""

    def read(topics: Iterable[object] | None) -> tuple[TopicPartition, ...] | None:
        if topics is None:
            return None
        return tuple(
            TopicPartition(getattr(one, topic), number)
            for one in topics
            for number in getattr(one, partitions)
        )

    def write(tps: Iterable[TopicPartition] | None) -> list[Values] | None:
        if tps is None:
            return None
        numbers = dict.fromkeys(tps)
        return by_topic(numbers, lambda number, _: number, topic=topic, partitions=partitions)

    return Field(name, Translation(read, write))


def other_errors(translation: Translation, others: Mapping[Errors, Errors]) -> Translation:
    """Return the translation of a response to versions that have other errors for some."""

    def replaced(value: object) -> object:
        match value:
            case Errors():
                return others.get(value, value)
            case dict():
                return {name: replaced(one) for name, one in value.items()}
            case list() | tuple():
                return [replaced(one) for one in value]
        return value

    return translation._replace(write=lambda response: replaced(translation.write(response)))


def _read_api_error(message: object) -> ApiError:
    error: ApiError = _API_ERROR.read(message)
    return ApiError() if error.error is Errors.NONE else error


_API_ERROR: Final = struct(ApiError, message="error_message")
API_ERROR: Final = _API_ERROR._replace(read=_read_api_error)
error_fields: Final = API_ERROR.write
"""Returns the fields of an error in a response."""


def error_or_empty(error: ApiError) -> Values:
    """Return the fields of an error; if there is none, the message is empty, not null.

    Kafka leaves the message unset in such responses.
    """
    is_none = error.error is Errors.NONE
    return error_fields(ApiError(message="") if is_none else error)


def broker(id_field: str, host: str = "host") -> Translation:
    """Return the translation of a broker with one end point. ``host``: the field of its host."""
    address = Translation(
        lambda message: (EndPoint(getattr(message, host), message.port),),
        lambda end_points: {host: end_points[0].host, "port": end_points[0].port},
    )
    return struct(Broker, id=id_field, end_points=Field(None, address))
