"""Converts mappings and NamedTuples to JSON and back.

In JSON, a partition, a replica or any other NamedTuple cannot be a key. A mapping with such keys
becomes a list of objects, called entries: the fields of the key, then the fields of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, get_args

import msgspec

from klamm.cluster.errors import UsageError
from klamm.cluster.requests import ApiError
from klamm.server.bodies import RequestBody


class Entry(RequestBody, frozen=True):
    """Base class of entries: JSON objects that hold a key, or a key and its value.

    ``KEY`` builds the key from the first fields, ``VALUE`` the value from the remaining fields. If
    ``VALUE`` is None, the value is the one field that follows the key, if there is one.
    """

    KEY: ClassVar[Callable[..., Any]]
    VALUE: ClassVar[Callable[..., Any] | None] = None


@cache
def _entry_kind(kind: Any) -> type[Entry] | None:
    """Return the entry type of a list type, or None if ``kind`` is not a list of entries."""
    if isinstance(kind, type) and issubclass(kind, Entry):
        return kind
    return next(filter(None, map(_entry_kind, get_args(kind))), None)


@cache
def field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of a struct's fields, keyed by field name and in field order."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def key_size(kind: type[Entry]) -> int:
    """Return the number of fields that an entry's key has."""
    return len(getattr(kind.KEY, "_fields", "1"))


def as_entries(value: Any, kind: Any, *, is_sorted: bool = True) -> Any:
    """Convert a mapping, or a collection of keys, to a list of entries.

    ``kind`` is the type of the result. If it is no list of entries, return the value unchanged.
    """
    entry = _entry_kind(kind)
    if entry is None or value is None:
        return value
    if not isinstance(value, Mapping):
        return tuple(written_entry(entry, key) for key in value)
    pairs: Iterable[Any] = sorted(value.items()) if is_sorted else value.items()
    return tuple(written_entry(entry, *pair) for pair in pairs)


def written_entry(kind: type[Entry], key: Any, *value: Any) -> Entry:
    """Return the entry that holds a key, or a key and its value."""
    if kind.VALUE is not None:
        (one,) = value
        if isinstance(one, ApiError):
            value = (one.error.name, one.message)
        else:
            value = one if isinstance(one, tuple) else msgspec.structs.astuple(one)
    types = tuple(field_types(kind).values())[key_size(kind) :]
    return kind(*(key if isinstance(key, tuple) else (key,)), *map(as_entries, value, types))


def read(value: Any, kind: Any) -> Any:
    """Convert entries back to the value from which ``as_entries`` made them.

    Raises UsageError if two entries of a mapping have the same key, because one would be lost.
    """
    entry = _entry_kind(kind)
    if entry is None or value is None:
        return value
    if key_size(entry) == len(field_types(entry)):
        return [read_entry(one)[0] for one in value]
    found = {}
    for one in value:
        key, content = read_entry(one)
        if key in found:
            fields = list(field_types(entry))[: key_size(entry)]
            named = ", ".join(f"{field} {getattr(one, field)}" for field in fields)
            raise UsageError(f"{named} is listed twice")
        found[key] = content
    return found


def read_entry(entry: Entry) -> Any:
    """Return a tuple: the key of an entry, and its value if it has one."""
    kind = type(entry)
    fields = tuple(map(read, msgspec.structs.astuple(entry), field_types(kind).values()))
    size = key_size(kind)
    key, rest = kind.KEY(*fields[:size]), fields[size:]
    return (key, *rest) if kind.VALUE is None else (key, kind.VALUE(*rest))


def read_fields(body: msgspec.Struct | None) -> dict[str, Any]:
    """Return the decoded fields of a body, keyed by field name; return {} if it is None."""
    if body is None:
        return {}
    return {name: read(getattr(body, name), kind) for name, kind in field_types(type(body)).items()}
