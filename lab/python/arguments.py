"""Arguments of Python code: checks of those that drills do not have, and their texts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from klamm.cluster.errors import UsageError

__tracebackhide__ = True
"""Tells pytest to omit the functions of this file from tracebacks."""
_MAX_DIGITS: Final = 100
_ESCAPED: Final = re.compile("[\x7f-\uffff]")


def check_function(condition: object) -> None:
    """Raise UsageError unless a condition can be called."""
    if not callable(condition):
        hint = 'give a function, or conditions by name, e.g. leader={"t-0": 2}'
        raise UsageError(f"{condition!r} is not a function", hint=hint)


def check_is_text(name: str, value: object) -> None:
    """Raise UsageError unless a value is text."""
    if not isinstance(value, str):
        raise UsageError(f"the {name} must be text (str), not {type(value).__name__}")


def check_broker_count(value: object) -> None:
    """Raise UsageError if the number of brokers is text, which would be a number in a drill."""
    if isinstance(value, str):
        whole_number("brokers", value, 1)


def check_configs(value: object) -> None:
    """Raise UsageError if the configs of a topic are neither a mapping nor None."""
    if value is not None and not isinstance(value, Mapping):
        hint = 'as in config={"retention.ms": 1000}'
        raise UsageError("config must be a dict", hint=hint)


def check_bytes(name: str, value: object) -> None:
    """Raise UsageError if a part of a record is neither bytes nor None."""
    if value is not None and not isinstance(value, bytes):
        hint = f'as in {name}=b"text", or None'
        raise UsageError(f"the {name} must be bytes, not {type(value).__name__}", hint=hint)


def path(name: str, value: object) -> Path | None:
    """Return a path, or None if it is None. Raises UsageError if it is something else."""
    if value is not None and not isinstance(value, str | Path):
        raise UsageError(f"{name} must be a str or a Path, not {type(value).__name__}")
    return None if value is None else Path(value)


def whole_number(name: str, value: object, least: int) -> int:
    """Return a whole number.

    Raises UsageError if it is something else, less than ``least`` or too long to be printed."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number from {least} on, not {_shown(value)}")
    if value >= 10**_MAX_DIGITS:
        raise UsageError(f"{name} has more than {_MAX_DIGITS} digits")
    return value


def quirk_words(value: object) -> list[str]:
    """Return the names of quirks. Raises UsageError unless they are a list or tuple of names."""
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        hint = 'as in quirks=["KAFKA-13972"]'
        raise UsageError(f"quirks must be a list of names, not {value!r}", hint=hint)
    return list(value)


def drill_text(value: object) -> str:
    """Return a value as it would be written in a drill. Raises UsageError if it cannot be."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_list)
    except RecursionError:
        raise UsageError("nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise UsageError(f"a value that drills cannot contain: {error}") from error
    # YAML allows few of these characters, and escapes only of those that are not surrogates.
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _list(value: object) -> list[object]:
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise TypeError(f"its type is {type(value).__name__}")
    return list(value)


def call_text(function: str, arguments: Mapping[str, object], *names: str) -> str:
    """Return the call of a function of klamm, such as the constructor of a cluster.

    ``arguments``: its named arguments, ``names``: the variables that come before them."""
    words = [f"{name}={_shown(value)}" for name, value in arguments.items()]
    return f"klamm.{function}({', '.join((*names, *words))})"


def _shown(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return f"<{type(value).__name__}>"
