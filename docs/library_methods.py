"""Generated sections of lab/python/actions.py: the actions and conditions of drills, typed.

Types and texts come from the tables of actions and conditions.
"""

from __future__ import annotations

import keyword
import textwrap
from typing import Final

import msgspec
from msgspec import inspect

from klamm.lab.actions.action import Action
from klamm.lab.actions.table import ACTIONS
from klamm.lab.conditions.conditions import CONDITIONS
from klamm.lab.language.forms import FORMS
from klamm.lab.value_types import Form, given, type_of

_COLUMNS: Final = 100
BY_HAND: Final = ("run",)
"""Actions whose methods are written manually in lab/python/cluster.py, for their results."""


def conditions() -> str:
    """Return the fields of Conditions, each with its documentation."""
    lines = []
    for word, kind in CONDITIONS.items():
        if not kind.is_of_tool:
            lines.append(f"    {word}: {_python(type_of(kind.value))}")
            lines += _docstring(kind.about, 4)
    return "\n".join(lines) + "\n    # "


def methods() -> str:
    """Return the methods of Actions, each with its documentation."""
    lines: list[str] = []
    for word, kind in ACTIONS.items():
        if word in BY_HAND:
            continue
        docs = _docstring(kind.about, 8)
        if kind.value is kind.action:
            lines += ["    @_by_name", f"    def {word}(", "        self,", "        *,"]
            lines += [f"        {one}," for one in _parameters(kind.action)]
            lines += ["    ) -> None:", *docs, ""]
            continue
        text = _python(type_of(kind.value))
        name = "brokers" if text == "Brokers" else kind.parameter
        typed = f", {name}: {text}" if name else ""
        lines += [f"    def {word}(self{typed}) -> None:", *docs]
        lines += [f'        self.act("{word}"{name and ", "}{name})', ""]
    return "\n".join(lines) + "\n    # "


def _parameters(action: type[Action]) -> list[str]:
    """Return the named arguments of an action, those that are required first."""
    found = []
    for field in sorted(msgspec.structs.fields(action), key=lambda field: not field.required):
        name = field.encode_name + "_" * keyword.iskeyword(field.encode_name)
        text = _python(type_of(field.type))
        found.append(f"{name}: {text}" if field.required else f"{name}: {text} | None = None")
    return found


def _python(kind: inspect.Type) -> str:
    """Return the type of a value in Python, with the names of lab/python/actions.py."""
    one = given(kind)
    if isinstance(one.mark, Form):
        return FORMS[one.mark].python
    match one.type:
        case inspect.EnumType():
            words = [f'"{word}"' for word in one.words]
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


def _docstring(text: str, indent: int) -> list[str]:
    """Return the lines of a docstring, wrapped to the width of the project's lines."""
    before = " " * indent
    lines = textwrap.wrap(
        text, _COLUMNS - 3, initial_indent=f'{before}"""', subsequent_indent=before
    )
    return [*lines[:-1], f'{lines[-1]}"""']


SECTIONS = {"conditions": conditions, "actions": methods}
