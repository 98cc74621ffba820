"""Values of drills by their types: how each is read, its JSON Schema and its type in Python.

A type is walked along the YAML nodes: the fields of a struct along a mapping, the items of a list,
and so on down to words, numbers and the forms of forms.py. So each error has FILE:LINE:COLUMN.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from typing import Any, Final, TypeVar

import yaml
from msgspec import inspect

from klamm.cluster.integers import INT32_MAX
from klamm.lab.language.forms import FORMS, TEXT, Schema, list_of, one_or_more, ref
from klamm.lab.language.reading import DrillReader, is_null
from klamm.lab.value_types import Form, Given, given

T = TypeVar("T")
_type_of: Final[Callable[[Any], inspect.Type]] = cache(inspect.type_info)


def read_value(reader: DrillReader, node: yaml.Node, kind: Any, what: str) -> Any:
    """Return the value of a node. Raises UsageError if it is not of this type.

    ``kind``: the type as an annotation. ``what``: the word of the drill that has the value."""
    return _read(reader, node, _type_of(kind), what)


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
    if one.form is not None:
        return _as_declared(FORMS[one.form].read(reader, node, what), one.type)
    if one.words is not None:
        return _word(reader, node, what, one)
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
            return cls(_word(reader, node, what, kind))
    return reader.text(node, what)


def _as_declared(value: Any, kind: inspect.Type) -> Any:
    """Return a value that was read as a list, or as a partition, in its declared type."""
    match kind:
        case inspect.VarTupleType() if value is not None:
            return tuple(value)
        case inspect.StrType():
            return str(value)
    return value


def _word(reader: DrillReader, node: yaml.Node, what: str, kind: Given) -> str:
    word, known = reader.text(node, what), _known(kind)
    if word not in known:
        raise reader.unknown(node, kind.words.noun if kind.words else what, word, known)
    return word


def _known(kind: Given) -> list[str]:
    """Return the words that a value may be, or an empty list."""
    if kind.words is not None:
        return list(kind.words.known)
    return [one.value for one in kind.type.cls] if isinstance(kind.type, inspect.EnumType) else []


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
        found[one] = _read(reader, entry.value, value, f"{what} of {name}")
    return found


def _struct(reader: DrillReader, node: yaml.Node, kind: inspect.StructType, what: str) -> Any:
    fields = {field.encode_name: field for field in kind.fields}
    found = reader.fields(node, what, fields)
    for name, field in fields.items():
        if field.required and name not in found:
            known = _known(given(field.type))
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
    form = given(kind).form
    return "value" if form is None else FORMS[form].noun


# -- JSON Schema


def schema_of(kind: Any) -> Schema:
    """Return the JSON Schema of the values of a type."""
    return _schema(_type_of(kind))


def _schema(kind: inspect.Type) -> Schema:
    one = given(kind)
    return {**_plain_schema(one), **one.schema}


def _plain_schema(kind: Given) -> Schema:
    if kind.form is not None:
        return ref(kind.form.value)
    if known := _known(kind):
        return {"enum": known}
    match kind.type:
        case inspect.NoneType():
            return {"type": "null"}
        case inspect.IntType(ge=least, le=most):
            most = INT32_MAX if most is None else most
            return {"type": "integer", "minimum": least or 0, "maximum": most}
        case inspect.FloatType(ge=least, le=most):
            return {"type": "number", "minimum": least or 0, "maximum": most}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            least, items = kind.type.min_length or 0, _schema(item)
            return list_of(items, least) if least > 1 else one_or_more(items, least)
        case inspect.DictType(key_type=key, value_type=value):
            return {
                "type": "object",
                "propertyNames": _schema(key),
                "additionalProperties": _schema(value),
                "minProperties": 1,
            }
        case inspect.StructType(fields=fields):
            return fields_schema(
                {field.encode_name: _schema(field.type) for field in fields},
                [field.encode_name for field in fields if field.required],
            )
        case inspect.UnionType(types=kinds):
            return {"anyOf": list(map(_schema, kinds))}
        case inspect.AnyType():
            return {}
    return TEXT


def fields_schema(fields: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """Return the schema of a mapping with named fields."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
    }


DEFINITIONS: Final[Mapping[str, Schema]] = {form.value: FORMS[form].schema for form in Form}
"""The definitions to which the schemas of types refer."""


# -- Python


def python_type(kind: Any) -> str:
    """Return the type of a value in Python, with the names of lab/python/actions.py."""
    return _python(_type_of(kind))


def _python(kind: inspect.Type) -> str:
    one = given(kind)
    if one.form is not None:
        return FORMS[one.form].python
    match one.type:
        case inspect.EnumType():
            words = [f'"{word}"' for word in _known(one)]
            return f"Literal[{', '.join(words)}]"
        case inspect.IntType():
            return "int"
        case inspect.FloatType():
            return "float"
        case inspect.BoolType():
            return "bool"
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            text = _python(item)
            return "Words" if text == "str" else f"Sequence[{text}]"
        case inspect.DictType(key_type=key, value_type=value):
            # A dict of int is not a Mapping of int | str: the type of keys is invariant.
            name = _python(key).partition(" | ")[0]
            return f"Mapping[{name}, {_python(value)}]"
        case inspect.AnyType():
            return "Value"
    return "str"
