"""Writes control requests from plain values, by kio's schemas.

A request of the controller may have 100,000 partition states. kio's writer takes an object of its
own for each and 18 us; this one takes klamm's partition states, and writes the same bytes in an
eighth of the time. It knows the types of fields that control requests have.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import struct
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from kio.static.protocol import Entity

from klamm.wire.schema import Values

Write = Callable[[bytearray, Any], None]
"""Appends an entity, or a part of one, to a buffer."""
_Getter = Callable[..., Callable[[Any], Any]]
"""Returns the function that gets the values with the given names of an entity."""
PARTITION_STATES: Final = ("partition_states", "ungrouped_partition_states", "ungrouped_partitions")
"""Arrays whose elements are partition states. All other entities are mappings."""
_ATTRIBUTES: Final = {
    "topic_name": "topic_partition.topic",
    "partition_index": "topic_partition.partition",
    "partition_epoch": "zk_version",
}
"""Attributes of partition states that do not have the name of their field."""
_FORMATS: Final = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q"}
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_NO_UUID: Final = uuid.UUID(int=0)
_NO_TAGGED_FIELDS: Final = "x"
"""Format of a zero byte: the number of tagged fields that follow."""


def state_getter(*fields: str) -> Callable[[Any], Any]:
    """Return the function that gets the values of fields of a partition state."""
    return operator.attrgetter(*(_ATTRIBUTES.get(field, field) for field in fields))


@functools.cache
def values_writer(schema: type[Entity], getter: _Getter = operator.itemgetter) -> Write:
    """Return the function that appends an entity of a kio schema to a buffer.

    ``getter``: gets the values of fields.
    """
    steps = tuple(_steps(schema, getter))

    def write(buffer: bytearray, values: Values) -> None:
        for step in steps:
            step(buffer, values)

    return write


def _steps(schema: type[Entity], getter: _Getter) -> Iterator[Write]:
    """Yield the writers of the fields; fields of fixed size that follow each other share one."""
    hints = typing.get_type_hints(schema)
    names: list[str] = []
    formats = ""
    for field in dataclasses.fields(schema):
        assert "tag" not in field.metadata, f"{schema.__name__}.{field.name} is tagged"
        code = _FORMATS.get(field.metadata.get("kafka_type", ""))
        hint = hints[field.name]
        if code is not None and typing.get_origin(hint) is not tuple:
            names.append(field.name)
            formats += code
            continue
        if names:
            yield _fixed(names, formats, getter)
            names, formats = [], ""
        yield _variable(field.name, hint, schema.__flexible__, getter)
    if schema.__flexible__:
        formats += _NO_TAGGED_FIELDS
    if formats:
        yield _fixed(names, formats, getter)


def _fixed(names: Sequence[str], formats: str, getter: _Getter) -> Write:
    pack = struct.Struct(f">{formats}").pack
    if not names:
        return lambda buffer, _: buffer.extend(pack())
    get = getter(*names)
    if len(names) == 1:
        return lambda buffer, values: buffer.extend(pack(get(values)))
    return lambda buffer, values: buffer.extend(pack(*get(values)))


def _variable(name: str, hint: object, is_flexible: bool, getter: _Getter) -> Write:
    """Return the writer of an array, a string or a UUID."""
    get = getter(name)
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        if isinstance(element, type) and dataclasses.is_dataclass(element):
            of_element = state_getter if name in PARTITION_STATES else operator.itemgetter
            write_one = values_writer(element, of_element)
            return _entities(get, write_one, is_flexible)
        return lambda buffer, values: buffer.extend(_int32s(tuple(get(values)), is_flexible))
    if hint is uuid.UUID or uuid.UUID in typing.get_args(hint):
        return lambda buffer, values: buffer.extend((get(values) or _NO_UUID).bytes)
    may_be_null = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return lambda buffer, values: buffer.extend(_text(get(values), is_flexible, may_be_null))


def _entities(get: Callable[[Any], Any], write_one: Write, is_flexible: bool) -> Write:
    def write(buffer: bytearray, values: Values) -> None:
        entities: Sequence[object] = get(values)
        buffer += _length(len(entities), is_flexible)
        for one in entities:
            write_one(buffer, one)

    return write


@functools.lru_cache(65_536)
def _int32s(values: tuple[int, ...], is_flexible: bool) -> bytes:
    return _length(len(values), is_flexible) + struct.pack(f">{len(values)}i", *values)


@functools.lru_cache(65_536)
def _text(value: str | None, is_flexible: bool, may_be_null: bool) -> bytes:
    """Encode a string; null as "" where it is not allowed."""
    if value is None and may_be_null:
        return bytes(1) if is_flexible else _SHORT.pack(-1)
    data = (value or "").encode()
    return (_length(len(data), True) if is_flexible else _SHORT.pack(len(data))) + data


def _length(length: int, is_flexible: bool) -> bytes:
    """Return the length before an array: an int32, or in flexible versions a varint (KIP-482)."""
    if not is_flexible:
        return _INT.pack(length)
    rest, encoded = length + 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)
