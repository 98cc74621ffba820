"""The JSON Schema of drill files, with which editors complete and check them.

It is generated from the tables of the language: the words, actions, conditions and triggers with
the types of their values and their descriptions. It describes the shape of a file. `klamm drill
check` also finds what a schema cannot express, for example that a broker does not exist or a step
fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import inspect

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.topic_names import MAX_NAME_LENGTH
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.language.clusters import CLUSTER_WORDS, MAX_BROKERS, TOPIC_WORDS
from klamm.lab.language.forms import FORMS, TEXT, Schema, list_of, one_or_more, ref
from klamm.lab.language.language import DRILL_WORDS
from klamm.lab.language.step_language import STEP_WORDS
from klamm.lab.value_types import Count, Duration, Form, Given, Section, TimeLimit, given, type_of
from klamm.zk.ensemble import SIZES

IDENTIFIER: Final = "urn:klamm:drill"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_TOPIC: Final = f"^[a-zA-Z0-9._-]{{1,{MAX_NAME_LENGTH}}}$"


def schema_of(kind: Any) -> Schema:
    """Return the JSON Schema of the values of a type."""
    return _schema(type_of(kind))


def _schema(kind: inspect.Type) -> Schema:
    one = given(kind)
    return {**_plain_schema(one), **one.schema}


def _plain_schema(kind: Given) -> Schema:
    match kind.mark:
        case Form(value=name) | Section(name=name):
            return ref(name)
    if kind.words:
        return {"enum": list(kind.words)}
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
            return _fields(
                {field.encode_name: _schema(field.type) for field in fields},
                [field.encode_name for field in fields if field.required],
            )
        case inspect.UnionType(types=kinds):
            return {"anyOf": list(map(_schema, kinds))}
        case inspect.AnyType():
            return {}
    return TEXT


def _fields(fields: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """Return the schema of a mapping with named fields."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
    }


_COUNT: Final = schema_of(Count)


def _described(about: str, value: Any) -> Schema:
    return {"description": about, **schema_of(value)}


_CONDITIONS: Final[Schema] = {
    name: _described(kind.about, kind.value) for name, kind in CONDITIONS.items()
}
_AWAITED: Final[Schema] = {
    name: one for name, one in _CONDITIONS.items() if not CONDITIONS[name].is_of_tool
}
_CLUSTER_VALUES: Final[Mapping[str, Schema]] = {
    "brokers": {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_BROKERS},
            {**list_of(_COUNT, 1), "maxItems": MAX_BROKERS},
        ]
    },
    "controllers": list_of(_COUNT, 1),
    "racks": list_of(TEXT),
    "session_timeout": schema_of(Duration),
    "config": {"type": "object", "additionalProperties": TEXT},
    "segments": _BOOLEAN,
    "topics": {
        "type": "object",
        "patternProperties": {_TOPIC: ref("topic")},
        "additionalProperties": False,
        "minProperties": 1,
    },
    "zookeeper_servers": {"enum": list(SIZES)},
}
_TOPIC_VALUES: Final[Mapping[str, Schema]] = {
    "replicas": list_of(list_of(_COUNT, 1), 1),
    "config": {"type": "object", "additionalProperties": TEXT},
}
_FORMS: Final[Schema] = {form.value: entry.schema for form, entry in FORMS.items()}
_SECTIONS: Final[Schema] = {
    "cluster": _fields({word: _CLUSTER_VALUES[word] for word in CLUSTER_WORDS}),
    "topic": {
        "anyOf": [
            _TOPIC_VALUES["replicas"],
            _fields({word: _TOPIC_VALUES[word] for word in TOPIC_WORDS}, ["replicas"]),
        ]
    },
    "conditions": {**_fields(_CONDITIONS), "minProperties": 1},
    "awaited conditions": {**_fields(_AWAITED), "minProperties": 1},
    "until": one_or_more(ref("awaited conditions")),
    "expect": one_or_more(ref("conditions")),
    "eventually": {
        **_fields({"within": schema_of(TimeLimit), **_AWAITED}),
        "anyOf": [{"required": [word]} for word in _AWAITED],
    },
    "steps": list_of(ref("step"), 1),
    "branches": list_of({"anyOf": [ref("step"), ref("steps")]}, 2),
    "brokers or racks": {"anyOf": [{"enum": ["broker", "rack"]}, list_of(_COUNT, 1)]},
}
"""The values of words that the compilers of the language convert."""


def drill_schema() -> Schema:
    """Return the JSON Schema of drill files."""
    values = {word: schema_of(kind) for word, kind in DRILL_WORDS.items()}
    return {
        "$schema": DIALECT,
        "$id": IDENTIFIER,
        "title": "klamm drill",
        **_fields(values, ("drill", "about", "steps")),
        "$defs": {**_FORMS, **_SECTIONS, "step": _step_schema()},
    }


def schema_text() -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(drill_schema(), indent=2) + "\n"


def _step_schema() -> Schema:
    """Return the schema of a step: a mapping, or the name of an action without a value."""
    words = {word: _described(kind.about, kind.value) for word, kind in ACTIONS.items()}
    words |= {word: schema_of(kind) for word, kind in STEP_WORDS.items()}
    words |= {word: _described(kind.about, kind.value) for word, kind in TRIGGERS.items()}
    plain = [word for word, kind in ACTIONS.items() if kind.value is None]
    rules = {
        "minProperties": 1,
        "dependentRequired": {"within": ["until"], "files": ["run"]},
        "allOf": [_at_most_one(ACTIONS), _at_most_one(TRIGGERS)],
    }
    return {"anyOf": [{"enum": plain}, {**_fields(words), **rules}]}


def _at_most_one(words: Iterable[str]) -> Schema:
    """Return the schema of an object with one of these keys, or with none."""
    each: list[Schema] = [{"required": [word]} for word in words]
    return {"oneOf": [*each, {"not": {"anyOf": each}}]}
