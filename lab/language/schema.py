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

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.topic_names import MAX_NAME_LENGTH
from klamm.lab.actions.table import ACTIONS
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.triggers import TRIGGERS
from klamm.lab.language.clusters import CLUSTER_WORDS, MAX_BROKERS, TOPIC_WORDS
from klamm.lab.language.forms import ALL, TEXT, Schema, list_of, one_or_more, ref
from klamm.lab.language.language import DRILL_WORDS
from klamm.lab.language.step_language import MAX_STEPS, STEP_WORDS
from klamm.lab.language.values import DEFINITIONS, fields_schema, schema_of
from klamm.lab.value_types import Duration, TimeLimit
from klamm.zk.ensemble import SIZES

IDENTIFIER: Final = "urn:klamm:drill"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_TOPIC: Final = f"^[a-zA-Z0-9._-]{{1,{MAX_NAME_LENGTH}}}$"
_DURATION: Final = schema_of(Duration)
_TIME_LIMIT: Final = schema_of(TimeLimit)


def _described(about: str, value: Any) -> Schema:
    return {"description": about, **schema_of(value)}


_CONDITIONS: Final[Schema] = {
    name: _described(kind.about, kind.value) for name, kind in CONDITIONS.items()
}
_AWAITED: Final[Schema] = {
    name: one for name, one in _CONDITIONS.items() if not CONDITIONS[name].is_of_tool
}
_STEP_VALUES: Final[Mapping[str, Schema]] = {
    "name": TEXT,
    "until": one_or_more(ref("awaited conditions")),
    "within": _TIME_LIMIT,
    "expect": one_or_more(ref("conditions")),
    "files": {"type": "object"},
    "steps": ref("steps"),
    "parallel": list_of({"anyOf": [ref("step"), ref("steps")]}, 2),
    "repeat": {"type": "integer", "minimum": 1, "maximum": MAX_STEPS},
    "for_each": {"anyOf": [{"enum": ["broker", "rack"]}, list_of(_COUNT, 1)]},
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
    "session_timeout": _DURATION,
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
_DRILL_VALUES: Final[Mapping[str, Schema]] = {
    "drill": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    "about": TEXT,
    "cluster": fields_schema({word: _CLUSTER_VALUES[word] for word in CLUSTER_WORDS}),
    "tolerant": _BOOLEAN,
    "always": one_or_more({"enum": [ALL, *INVARIANTS]}),
    "sometimes": one_or_more(ref("awaited conditions")),
    "steps": ref("steps"),
    "eventually": {
        **fields_schema({"within": _TIME_LIMIT, **_AWAITED}),
        "anyOf": [{"required": [word]} for word in _AWAITED],
    },
    "checks": _BOOLEAN,
}


def drill_schema() -> Schema:
    """Return the JSON Schema of drill files."""
    values = {word: _DRILL_VALUES[word] for word in DRILL_WORDS}
    return {
        "$schema": DIALECT,
        "$id": IDENTIFIER,
        "title": "klamm drill",
        **fields_schema(values, ("drill", "about", "steps")),
        "$defs": {
            **DEFINITIONS,
            "topic": {
                "anyOf": [
                    _TOPIC_VALUES["replicas"],
                    fields_schema(
                        {word: _TOPIC_VALUES[word] for word in TOPIC_WORDS}, ["replicas"]
                    ),
                ]
            },
            "conditions": {**fields_schema(_CONDITIONS), "minProperties": 1},
            "awaited conditions": {**fields_schema(_AWAITED), "minProperties": 1},
            "steps": list_of(ref("step"), 1),
            "step": _step_schema(),
        },
    }


def schema_text() -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(drill_schema(), indent=2) + "\n"


def _step_schema() -> Schema:
    """Return the schema of a step: a mapping, or the name of an action without a value."""
    words = {word: _described(kind.about, kind.value) for word, kind in ACTIONS.items()}
    words |= {word: _described(kind.about, kind.value) for word, kind in TRIGGERS.items()}
    words |= {word: _STEP_VALUES[word] for word in STEP_WORDS if word not in TRIGGERS}
    plain = [word for word, kind in ACTIONS.items() if kind.value is None]
    rules = {
        "minProperties": 1,
        "dependentRequired": {"within": ["until"], "files": ["run"]},
        "allOf": [_at_most_one(ACTIONS), _at_most_one(TRIGGERS)],
    }
    return {"anyOf": [{"enum": plain}, {**fields_schema(words), **rules}]}


def _at_most_one(words: Iterable[str]) -> Schema:
    """Return the schema of an object with one of these keys, or with none."""
    each: list[Schema] = [{"required": [word]} for word in words]
    return {"oneOf": [*each, {"not": {"anyOf": each}}]}
