"""Reads the values of drills by their types.

A type is walked along the YAML nodes: the fields of a struct along a mapping, the items of a list,
and so on down to words, numbers and the forms of forms.py. So each error has FILE:LINE:COLUMN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import yaml
from msgspec import inspect

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.plain_text import shortened
from klamm.cluster.yaml_reader import YamlEntry
from klamm.lab.language.forms import FORMS
from klamm.lab.language.reading import DrillReader, is_null
from klamm.lab.value_types import Form, Given, Section, Words, given, type_of

T = TypeVar("T")


def read_value(reader: DrillReader, node: yaml.Node, kind: Any, what: str) -> Any:
    """Return the value of a node. Raises UsageError if it is not of this type.

    ``kind``: the type as an annotation. ``what``: the word of the drill that has the value."""
    return _read(reader, node, type_of(kind), what)


def value_in(
    reader: DrillReader,
    fields: Mapping[str, YamlEntry],
    types: Mapping[str, Any],
    word: str,
    otherwise: Any = None,
) -> Any:
    """Return the value of a word, or ``otherwise`` if the fields do not have it."""
    return (
        read_value(reader, fields[word].value, types[word], word) if word in fields else otherwise
    )


def read_and_make(
    reader: DrillReader, node: yaml.Node, kind: Any, make: Callable[[Any], T], what: str
) -> T:
    """Return what ``make`` makes of a node's value. Its ValueError becomes an error of the node."""
    return _made(reader, node, what, partial(make, read_value(reader, node, kind, what)))


def _made(reader: DrillReader, node: yaml.Node, what: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except ValueError as error:
        raise reader.error(node, f"{what}: {error}") from None


def _read(reader: DrillReader, node: yaml.Node, kind: inspect.Type, what: str) -> Any:
    one = given(kind)
    match one.mark:
        case Form():
            return _as_declared(FORMS[one.mark].read(reader, node, what), one.type)
        case Words(noun=noun):
            return _word(reader, node, noun, one.words)
        case Section():
            return node
    match one.type:
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return _as_declared(_items(reader, node, item, one.type.min_length, what), one.type)
        case inspect.DictType(key_type=key, value_type=value):
            return _mapping(reader, node, key, value, what)
        case inspect.StructType():
            return _struct(reader, node, one.type, what)
        case inspect.UnionType(types=kinds):
            return _read(reader, node, _branch(kinds, node), what)
        case inspect.AnyType():
            return reader.plain(node)
    return _scalar(reader, node, one, what)


def _scalar(reader: DrillReader, node: yaml.Node, kind: Given, what: str) -> Any:
    match kind.type:
        case inspect.NoneType():
            if not is_null(node):
                raise reader.error(node, f"{what} takes no value")
            return None
        case inspect.IntType(ge=least, le=most):
            return reader.integer(node, what, least or 0, INT32_MAX if most is None else most)
        case inspect.FloatType(le=float(most)):
            return reader.number(node, what, most)
        case inspect.BoolType():
            return reader.boolean(node, what)
        case inspect.EnumType(cls=cls):
            return cls(_word(reader, node, what, kind.words))
    return reader.text(node, what)


def _as_declared(value: Any, kind: inspect.Type) -> Any:
    """Return a value that was read as a list, or as a partition, in its declared type."""
    match kind:
        case inspect.VarTupleType() if value is not None:
            return tuple(value)
        case inspect.StrType():
            return str(value)
    return value


def _word(reader: DrillReader, node: yaml.Node, noun: str, known: Sequence[str]) -> str:
    word = reader.text(node, noun)
    if word not in known:
        raise reader.unknown(node, noun, word, known)
    return word


def _items(
    reader: DrillReader, node: yaml.Node, item: inspect.Type, least: int | None, what: str
) -> list[Any]:
    def read(one: yaml.Node) -> Any:
        return _read(reader, one, item, what)

    if least:
        return reader.at_least_one(node, _noun(item), read)
    return list(map(read, reader.one_or_more(node)))


def _mapping(
    reader: DrillReader, node: yaml.Node, key: inspect.Type, value: inspect.Type, what: str
) -> dict[Any, Any]:
    found = {}
    for name, entry in reader.entries(node, f"{_noun(key)}s with their values").items():
        one = _read(reader, entry.key, key, "a key")
        found[one] = _read(reader, entry.value, value, f"{what} of {shortened(name)}")
    return found


def _struct(reader: DrillReader, node: yaml.Node, kind: inspect.StructType, what: str) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    found = reader.fields(node, what, fields)
    for name, field in fields.items():
        if field.required and name not in found:
            known = given(field.type).words
            hint = f"one of {', '.join(known)}" if known else None
            raise reader.error(node, f"{what} requires '{name}'", hint)
    values = {
        fields[name].name: _read(reader, entry.value, fields[name].type, name)
        for name, entry in found.items()
    }
    return _made(reader, node, what, partial(kind.cls, **values))


def _branch(kinds: Iterable[inspect.Type], node: yaml.Node) -> inspect.Type:
    """Return the type that a node has, of a struct and of a type that is no mapping."""
    is_mapping = isinstance(node, yaml.MappingNode)
    return next(
        kind for kind in kinds if isinstance(given(kind).type, inspect.StructType) == is_mapping
    )


def _noun(kind: inspect.Type) -> str:
    """Return what a value of a type is, for messages."""
    match given(kind).mark:
        case Form() as form:
            return FORMS[form].noun
        case Words(noun=noun):
            return noun
    return "value"
