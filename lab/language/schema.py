"""The JSON Schema of drill files, with which editors complete and check them.

It is generated from the tables of the language: the words, actions, conditions and triggers with
their descriptions. It describes the shape of a file. `klamm drill check` also finds what a schema
cannot express, for example that a broker does not exist or a step fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import inspect

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.topic_names import MAX_NAME_LENGTH
from klamm.lab.actions import actions
from klamm.lab.actions.action import arguments_of
from klamm.lab.actions.network_actions import OTHERS
from klamm.lab.checks.invariants import INVARIANTS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.values import ROLES, Row, Schema, schema_of
from klamm.lab.language.actions import DRILL_ACTIONS, takes_brokers
from klamm.lab.language.clusters import CLUSTER_WORDS, MAX_BROKERS, TOPIC_WORDS
from klamm.lab.language.language import ALL, DRILL_WORDS
from klamm.lab.language.step_language import MAX_STEPS, STEP_WORDS
from klamm.lab.language.trigger_language import TRIGGERS
from klamm.world.network import CLIENTS, ZOOKEEPER
from klamm.world.simulated.breakpoints import EVENTS, WRITING_PHASES
from klamm.world.simulated.world import SESSION_FAULTS
from klamm.zk.ensemble import SINGLE_SERVER, SIZES, WHOLE_ENSEMBLE

IDENTIFIER: Final = "urn:klamm:drill"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TEXT: Final[Schema] = {"type": ["string", "number", "boolean"]}
_ANY: Final[Schema] = {}
_NOTHING: Final[Schema] = {"type": "null"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": INT32_MAX}
_FROM_1: Final[Schema] = {**_COUNT, "minimum": 1}
_BOOLEAN: Final[Schema] = {"type": "boolean"}
_DURATION: Final = r"[0-9]{1,9}(\.[0-9]{1,3})? ?(ms|s|min)$"
_TOPIC: Final = f"^[a-zA-Z0-9._-]{{1,{MAX_NAME_LENGTH}}}$"
_SIZE: Final[Schema] = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(B|kB|MB|GB|TB)$"}
_PARTITION: Final = r"^.+-(0|[1-9][0-9]{0,8})$"
_PATH: Final = "^/"
_DEFINITIONS: Final[Schema] = {
    "broker": {
        "description": "A broker id, or a role.",
        "anyOf": [
            _COUNT,
            {"type": "string", "pattern": ROLES},
            {"enum": ["controller", "dead", "paused", "each"]},
        ],
    },
    "broker id": {"anyOf": [_COUNT, {"enum": ["each"]}]},
    "partition": {"type": "string", "pattern": _PARTITION},
    "path": {"type": "string", "pattern": _PATH},
    "duration": {"type": "string", "pattern": f"^{_DURATION}"},
    "time limit": {"type": "string", "pattern": rf"^(?![0.]+ ?[a-z]){_DURATION}"},
}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _list(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


def _some(items: Schema, least: int = 1) -> Schema:
    """Return the schema of one item, or of a list of at least so many items."""
    return {"anyOf": [items, _list(items, least)]}


def _by(key_pattern: str, values: Schema) -> Schema:
    return {
        "type": "object",
        "patternProperties": {key_pattern: values},
        "additionalProperties": False,
        "minProperties": 1,
    }


def _fields(fields: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(required),
        "additionalProperties": False,
    }


_BROKERS: Final = _some(_ref("broker"))
_REPLICAS: Final = _by(_PARTITION, _list(_COUNT, 1))
_COUNTS: Final = _by(_PARTITION, _COUNT)
_PARTITIONS: Final = _some(_ref("partition"))
_ZNODES: Final = _by(_PATH, _ANY)
_PATHS: Final = _some(_ref("path"))
_SERVER: Final[Schema] = {"anyOf": [_COUNT, {"enum": ["leader", "follower"]}]}
_ACTION_VALUES: Final[Mapping[str, Schema]] = {
    **{f"{do}_zookeeper": _SERVER for do in SINGLE_SERVER},
    "isolate": _BROKERS,
    "run": _some(_TEXT),
    "reassign": _REPLICAS,
    "cancel_reassignment": _PARTITIONS,
    "elect_preferred": {"anyOf": [{"const": ALL}, _PARTITIONS]},
    "elect_unclean": {"anyOf": [{"const": ALL}, _PARTITIONS]},
    "produce": _by(_PARTITION, {"type": "integer", "minimum": 1, "maximum": 1_000_000}),
    "produce_constantly": _by(_PARTITION, {"type": "number", "minimum": 0, "maximum": 1_000_000}),
    "create_znode": _ZNODES,
    "set_znode": _ZNODES,
    "delete_znode": _PATHS,
    "set_topic_partitions": _REPLICAS,
    "preload": _by(_PARTITION, _SIZE),
    **dict.fromkeys(SESSION_FAULTS, _BROKERS),
    "advance": {"type": "integer", "minimum": 1, "maximum": 1_000_000},
    "wait": _ref("duration"),
    **dict.fromkeys(
        ("kill_all", "up_again", *WHOLE_ENSEMBLE, "heal_all"),
        _NOTHING,
    ),
}
"""Values of the actions that have no class in lab/actions/actions.py, or have several values."""
_DESCRIBED: Final[Schema] = {
    name: {"description": kind.about, **schema_of(kind.value)} for name, kind in CONDITIONS.items()
}
_AWAITED: Final[Schema] = {
    name: one for name, one in _DESCRIBED.items() if not CONDITIONS[name].is_of_tool
}
_MOMENT: Final[Schema] = {
    "anyOf": [
        {"enum": [phase.value for phase in WRITING_PHASES]},
        _fields(
            {"event": {"enum": list(EVENTS)}, "operation": {"type": "integer", "minimum": 1}},
            ["event"],
        ),
    ]
}
_AT_STEP: Final = {
    **_fields({"step": _FROM_1, "advance": _FROM_1, "wait": _ref("duration")}, ["step"]),
    "not": {"required": ["advance", "wait"]},
}
_TRIGGER_VALUES: Final[Mapping[str, Schema]] = {
    "at": {"anyOf": [_ref("duration"), _AT_STEP]},
    "every": _ref("duration"),
    "on": schema_of(Row),
    "before": _MOMENT,
    "after": _MOMENT,
}
_STEP_VALUES: Final[Mapping[str, Schema]] = {
    "name": _TEXT,
    "until": _some(_ref("awaited conditions")),
    "within": _ref("time limit"),
    "expect": _some(_ref("conditions")),
    "files": {"type": "object"},
    "steps": _ref("steps"),
    "parallel": _list({"anyOf": [_ref("step"), _ref("steps")]}, 2),
    "repeat": {"type": "integer", "minimum": 1, "maximum": MAX_STEPS},
    "for_each": {"anyOf": [{"enum": ["broker", "rack"]}, _list(_COUNT, 1)]},
}
_CLUSTER_VALUES: Final[Mapping[str, Schema]] = {
    "brokers": {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": MAX_BROKERS},
            {**_list(_COUNT, 1), "maxItems": MAX_BROKERS},
        ]
    },
    "controllers": _list(_COUNT, 1),
    "racks": _list(_TEXT),
    "session_timeout": _ref("duration"),
    "config": {"type": "object", "additionalProperties": _TEXT},
    "segments": _BOOLEAN,
    "topics": _by(_TOPIC, _ref("topic")),
    "zookeeper_servers": {"enum": list(SIZES)},
}
_TOPIC_VALUES: Final[Mapping[str, Schema]] = {
    "replicas": _list(_list(_COUNT, 1), 1),
    "config": {"type": "object", "additionalProperties": _TEXT},
}
_DRILL_VALUES: Final[Mapping[str, Schema]] = {
    "drill": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
    "about": _TEXT,
    "cluster": _fields({word: _CLUSTER_VALUES[word] for word in CLUSTER_WORDS}),
    "tolerant": _BOOLEAN,
    "always": _some({"enum": [ALL, *INVARIANTS]}),
    "sometimes": _some(_ref("awaited conditions")),
    "steps": _ref("steps"),
    "eventually": {
        **_fields({"within": _ref("time limit"), **_AWAITED}),
        "anyOf": [{"required": [word]} for word in _AWAITED],
    },
    "checks": _BOOLEAN,
}


def drill_schema() -> Schema:
    """Return the JSON Schema of drill files."""
    root = _fields({word: _DRILL_VALUES[word] for word in DRILL_WORDS}, ("drill", "about", "steps"))
    return {
        "$schema": DIALECT,
        "$id": IDENTIFIER,
        "title": "klamm drill",
        **root,
        "$defs": {
            **_DEFINITIONS,
            "topic": {
                "anyOf": [
                    _TOPIC_VALUES["replicas"],
                    _fields({word: _TOPIC_VALUES[word] for word in TOPIC_WORDS}, ["replicas"]),
                ]
            },
            "conditions": {**_fields(_DESCRIBED), "minProperties": 1},
            "awaited conditions": {**_fields(_AWAITED), "minProperties": 1},
            "steps": _list(_ref("step"), 1),
            "step": _step_schema(),
        },
    }


def schema_text() -> str:
    """Return the JSON Schema as the text of a file."""
    return json.dumps(drill_schema(), indent=2) + "\n"


def _step_schema() -> Schema:
    """Return the schema of a step: a mapping, or the name of an action without a value."""
    action_values = {word: _action_value(word) for word in DRILL_ACTIONS}
    words = {
        word: {"description": DRILL_ACTIONS[word].about, **value}
        for word, value in action_values.items()
    }
    words |= {
        word: {"description": kind.about, **_TRIGGER_VALUES[word]}
        for word, kind in TRIGGERS.items()
    }
    words |= {word: _STEP_VALUES[word] for word in STEP_WORDS if word not in TRIGGERS}
    plain = [word for word, value in action_values.items() if value == _NOTHING]
    rules = {
        "minProperties": 1,
        "dependentRequired": {"within": ["until"], "files": ["run"]},
        "allOf": [_at_most_one(DRILL_ACTIONS), _at_most_one(TRIGGERS)],
    }
    return {"anyOf": [{"enum": plain}, {**_fields(words), **rules}]}


def _at_most_one(words: Iterable[str]) -> Schema:
    """Return the schema of an object with one of these keys, or with none."""
    each: list[Schema] = [{"required": [word]} for word in words]
    return {"oneOf": [*each, {"not": {"anyOf": each}}]}


def _action_value(word: str) -> Schema:
    """Return the schema of an action's value, from its class where that determines the value."""
    if word in _ACTION_VALUES:
        return _ACTION_VALUES[word]
    action = actions.ACTIONS[word].action
    arguments = arguments_of(action)
    if not arguments:
        return _NOTHING
    if takes_brokers(action):
        return _BROKERS
    values = {
        name: _PARTY_VALUES.get(name) or _argument(name, field.type)
        for name, field in arguments.items()
    }
    return _fields(values, [name for name, field in arguments.items() if field.required])


_PARTY: Final[Schema] = {"anyOf": [_ref("broker"), {"enum": [OTHERS, CLIENTS, ZOOKEEPER]}]}
_PARTY_VALUES: Final = {
    "from": _some(_PARTY),
    "to": _some(_PARTY),
    "between": _list(_some(_PARTY), 2),
}


def _argument(name: str, kind: inspect.Type) -> Schema:
    if name == "broker":
        return _ref("broker")
    match kind:
        case inspect.IntType():
            most = INT32_MAX if kind.le is None else kind.le
            return {"type": "integer", "minimum": kind.ge or 0, "maximum": most}
        case inspect.FloatType():
            return {"type": "number", "minimum": kind.ge, "maximum": kind.le}
        case inspect.BoolType():
            return _BOOLEAN
        case inspect.EnumType():
            return {"enum": [one.value for one in kind.cls]}
    return _TEXT
