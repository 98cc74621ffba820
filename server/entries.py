"""JSON codec for mappings and NamedTuples, driven by types.

A mapping with a partition, a replica or another NamedTuple as key becomes a list of objects that
begin with the fields of the key. Independent of the admin calls.
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
    """Base of JSON objects for a key, or for a key and its value.

    ``KEY`` builds the key from the first fields, ``VALUE`` the value from the others. ``VALUE``
    None: at most one field follows the key, and it is the value. ``IS_UNIQUE``: duplicate keys
    are an error.
    """

    KEY: ClassVar[Callable[..., Any]]
    VALUE: ClassVar[Callable[..., Any] | None] = None
    IS_UNIQUE: ClassVar[bool] = False


@cache
def _entry_kind(kind: Any) -> type[Entry] | None:
    """Return the type of the entries of a list; None if ``kind`` is not a list of entries."""
    if isinstance(kind, type) and issubclass(kind, Entry):
        return kind
    return next(filter(None, map(_entry_kind, get_args(kind))), None)


@cache
def field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the types of the fields, in order."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def key_size(kind: type[Entry]) -> int:
    """Return the number of fields of the key."""
    return len(getattr(kind.KEY, "_fields", "1"))


def written(value: Any, kind: Any, *, is_sorted: bool = True) -> Any:
    """Encode keys or a mapping as entries if ``kind`` is a list of entries; else return it."""
    entry = _entry_kind(kind)
    if entry is None or value is None:
        return value
    if not isinstance(value, Mapping):
        return tuple(written_entry(entry, key) for key in value)
    pairs: Iterable[Any] = sorted(value.items()) if is_sorted else value.items()
    return tuple(written_entry(entry, *pair) for pair in pairs)


def written_entry(kind: type[Entry], key: Any, *value: Any) -> Entry:
    """Return the entry of a key, or of a key and its value."""
    if kind.VALUE is not None:
        (one,) = value
        if isinstance(one, ApiError):
            value = (one.error.name, one.message)
        else:
            value = one if isinstance(one, tuple) else msgspec.structs.astuple(one)
    types = tuple(field_types(kind).values())[key_size(kind) :]
    return kind(*(key if isinstance(key, tuple) else (key,)), *map(written, value, types))


def read(value: Any, kind: Any) -> Any:
    """Decode a value encoded by ``written``. Raises UsageError for a forbidden duplicate key."""
    entry = _entry_kind(kind)
    if entry is None or value is None:
        return value
    if key_size(entry) == len(field_types(entry)):
        return [read_entry(one)[0] for one in value]
    found = dict(map(read_entry, value))
    if entry.IS_UNIQUE and len(found) < len(value):
        raise UsageError("a partition is listed twice")
    return found


def read_entry(entry: Entry) -> Any:
    """Return the key, and the value if there is one."""
    kind = type(entry)
    fields = tuple(map(read, msgspec.structs.astuple(entry), field_types(kind).values()))
    size = key_size(kind)
    key, rest = kind.KEY(*fields[:size]), fields[size:]
    return (key, *rest) if kind.VALUE is None else (key, kind.VALUE(*rest))


def read_fields(body: msgspec.Struct | None) -> dict[str, Any]:
    """Return the decoded fields of a struct by name; empty for None."""
    if body is None:
        return {}
    return {name: read(getattr(body, name), kind) for name, kind in field_types(type(body)).items()}
