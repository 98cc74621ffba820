"""Generated sections of lab/python/actions.py: the actions and conditions of drills, typed.

Types of conditions come from their rows, and types of arguments from the classes of lab/actions/
where these have them, otherwise from the table in this file; an action without a type takes any
value.
"""

from __future__ import annotations

import keyword
import textwrap
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from msgspec import inspect

from klamm.lab.actions import actions
from klamm.lab.actions.action import Action, Argument, arguments_of
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.conditions.values import ONE_OR_MORE, Form, form_of
from klamm.lab.language.actions import DRILL_ACTIONS, takes_brokers
from klamm.world.simulated.world import SESSION_FAULTS
from klamm.zk.ensemble import SINGLE_SERVER

_COLUMNS: Final = 100
BY_HAND: Final = ("run",)
"""Actions whose methods are written manually in lab/python/cluster.py, for their results."""
_CLASSES: Final[dict[str, type[Action]]] = {
    word: kind.action for word, kind in actions.ACTIONS.items()
}
_REPLICAS: Final = "replicas: Mapping[str, Sequence[int]]"
_PARAMETERS: Final = {
    **{f"{do}_zookeeper": "server: int | str" for do in SINGLE_SERVER},
    "reassign": _REPLICAS,
    "set_topic_partitions": _REPLICAS,
    "cancel_reassignment": "partitions: Words",
    "elect_preferred": "partitions: Words",
    "elect_unclean": "partitions: Words",
    "produce": "records: Mapping[str, int]",
    "produce_constantly": "records_per_s: Mapping[str, float]",
    "create_znode": "znodes: Mapping[str, Value]",
    "set_znode": "znodes: Mapping[str, Value]",
    "delete_znode": "paths: Words",
    "preload": "sizes: Mapping[str, str]",
    **dict.fromkeys(SESSION_FAULTS, "brokers: Brokers"),
    "advance": "steps: int",
    "wait": "duration: str",
}


def conditions() -> str:
    """Return the fields of Conditions, each with its documentation."""
    lines = []
    for word, kind in CONDITIONS.items():
        if not kind.is_of_tool:
            lines.append(f"    {word}: {_type_text(kind.value)}")
            lines += _docstring(kind.about, 4)
    return "\n".join(lines) + "\n    # "


def _type_text(kind: Any) -> str:
    """Return the type of a value in Python: a mapping or a sequence where drills need a list."""
    if kind is Any:
        return "Value"
    if form_of(kind) in ONE_OR_MORE:
        return "Brokers" if form_of(kind) is Form.KNOWN_BROKERS else "Words"
    kind, arguments = get_origin(kind) or kind, get_args(kind)
    if kind is Annotated:
        return _type_text(arguments[0])
    if kind in (Union, UnionType):
        return " | ".join(dict.fromkeys(map(_type_text, arguments)))
    if kind is dict:
        return f"Mapping[{', '.join(map(_type_text, arguments))}]"
    if kind is list:
        return f"Sequence[{_type_text(arguments[0])}]"
    return kind.__name__ if kind in (int, bool) else "str"


def methods() -> str:
    """Return the methods of Actions, each with its documentation."""
    lines: list[str] = []
    for word, kind in DRILL_ACTIONS.items():
        if word in BY_HAND:
            continue
        docs = _docstring(kind.about, 8)
        arguments = _arguments(word)
        if arguments:
            lines += ["    @_by_name", f"    def {word}(", "        self,", "        *,"]
            lines += [f"        {_parameter(name, field)}," for name, field in arguments.items()]
            lines += ["    ) -> None:", *docs, ""]
            continue
        parameter = _parameter_of(word, kind.example)
        name = parameter.partition(":")[0]
        lines += [f"    def {word}(self{parameter and ', '}{parameter}) -> None:", *docs]
        lines += [f'        self.act("{word}"{name and ", "}{name})', ""]
    return "\n".join(lines) + "\n    # "


def _arguments(word: str) -> dict[str, Argument]:
    """Return the named arguments of an action; empty if drills give it a single value or none."""
    if word not in _CLASSES or takes_brokers(_CLASSES[word]) or word == "isolate":
        return {}
    arguments = arguments_of(_CLASSES[word]).items()
    return dict(sorted(arguments, key=lambda argument: not argument[1].required))


def _parameter_of(word: str, example: str) -> str:
    """Return the parameter of an action to which drills give a single value; empty if none."""
    if example == word:
        return ""
    unknown = "brokers: Brokers" if word in _CLASSES else "value: Value"
    return _PARAMETERS.get(word, unknown)


def _parameter(name: str, field: Argument) -> str:
    match field.type:
        case _ if name == "broker":
            text = "int | str"
        case _ if name in ("from", "to"):
            text = "Brokers"
        case _ if name == "between":
            text = "Sequence[Brokers]"
        case inspect.EnumType():
            words = ", ".join(f'"{one.value}"' for one in field.type.cls)
            text = f"Literal[{words}]"
        case inspect.StrType():
            text = "str"
        case inspect.BoolType():
            text = "bool"
        case inspect.FloatType():
            text = "float"
        case _:
            text = "int"
    if keyword.iskeyword(name):
        name += "_"
    return f"{name}: {text}" if field.required else f"{name}: {text} | None = None"


def _docstring(text: str, indent: int) -> list[str]:
    """Return the lines of a docstring, wrapped to the width of the project's lines."""
    before = " " * indent
    lines = textwrap.wrap(
        text, _COLUMNS - 3, initial_indent=f'{before}"""', subsequent_indent=before
    )
    return [*lines[:-1], f'{lines[-1]}"""']


SECTIONS = {"conditions": conditions, "actions": methods}
