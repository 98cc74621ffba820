"""Checks of arguments that Python code gives to clusters and that drills do not have."""

from __future__ import annotations

from pathlib import Path

from klamm.cluster.errors import UsageError

__tracebackhide__ = True
"""Tells pytest to omit the functions of this file from tracebacks."""


def check_function(condition: object) -> None:
    """Raise UsageError unless a condition can be called."""
    if not callable(condition):
        hint = 'give a function, or conditions by name, e.g. leader={"t-0": 2}'
        raise UsageError(f"{condition!r} is not a function", hint=hint)


def check_topic(topic: object) -> None:
    """Raise UsageError unless a topic is given by its name."""
    if not isinstance(topic, str):
        raise UsageError(f"the topic must be a name (str), not {topic!r}")


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
    """Return a whole number. Raises UsageError if it is something else or less than ``least``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number from {least} on, not {value!r}")
    return value


def quirk_words(value: object) -> list[str]:
    """Return the names of quirks. Raises UsageError unless they are a list or tuple of names."""
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        hint = 'as in quirks=["KAFKA-13972"]'
        raise UsageError(f"quirks must be a list of names, not {value!r}", hint=hint)
    return list(value)
