"""Generated sections of lab/python/actions.py: the actions and conditions of drills, typed.

Types of arguments come from the classes of lab/actions/ where these have them, and from the tables
in this file otherwise; an action or condition without a type takes any value.
"""

from __future__ import annotations

import keyword
import textwrap
from typing import Final

from msgspec import inspect

from klamm.lab.actions import actions
from klamm.lab.actions.action import Action, Argument, arguments_of
from klamm.lab.language.actions import DRILL_ACTIONS, takes_brokers
from klamm.lab.language.conditions import DRILL_CONDITIONS
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
_NUMBERS: Final = "Mapping[str, int]"
_CONDITION_TYPES: Final = {
    "brokers": "Sequence[int]",
    "unregistered": "Brokers",
    "leader": "Mapping[str, int | str]",
    "isr": "Mapping[str, Sequence[int]]",
    "leader_epoch": _NUMBERS,
    "replicas": "Mapping[str, Sequence[int]]",
    "partition_state": "Mapping[str, str]",
    "hosts": "Mapping[int, Sequence[str]]",
    "offline_partitions": "int",
    "controller": "int | str",
    "controller_epoch": "int",
    "acknowledged": _NUMBERS,
    "acknowledged_at_least": _NUMBERS,
    "consumed": _NUMBERS,
    "exists": "Words",
    "absent": "Words",
    "znode": "Mapping[str, Value]",
    "deleted": "Words",
    "reassigning": "Sequence[str]",
    "not_reassigning": "Words",
    "journal": "Mapping[str, Value]",
    "healthy": "bool",
}


def conditions() -> str:
    """Return the fields of Conditions, each with its documentation."""
    lines = []
    for word, kind in DRILL_CONDITIONS.items():
        if not kind.is_of_tool:
            lines.append(f"    {word}: {_CONDITION_TYPES.get(word, 'Value')}")
            lines += _docstring(kind.about, 4)
    return "\n".join(lines) + "\n    # "


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
