"""Makes kio skip tagged fields that it does not know, as Kafka's generated classes do (KIP-482).

kio 0.5.0 looks up the reader of a tagged field without the field's size, and raises KeyError for an
unknown tag. Here an unknown tag gets a reader that finds the size just before the field.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple

from kio.serial import _parse, readers

_HAS_MORE: Final = 0x80


class _Unknown(NamedTuple):
    name: str = "unknown tagged field"


class _Readers(dict[Any, Any]):
    """Readers by tag, as kio keeps them: (field, reader, default)."""

    def __missing__(self, tag: object) -> Any:
        return _Unknown(), _skip, None


def _skip(buffer: Any, offset: int) -> tuple[None, int]:
    """Return the size of the field at ``offset``, which the varint before it tells.

    The varint begins after the last byte of the varint of the tag, which has no continuation bit.
    """
    start = offset - 1
    while start > 0 and buffer[start - 1] & _HAS_MORE:
        start -= 1
    size, _ = readers.read_unsigned_varint(buffer, start)
    if offset + size > len(buffer):
        raise ValueError("a tagged field that ends after its request")
    return None, size


def skip_unknown_tagged_fields() -> None:
    """Make all readers of kio that are made from now on skip unknown tagged fields."""
    compile_schema = _parse._compile_schema

    def compile_tolerantly(*args: Any, **kwargs: Any) -> Any:
        schema = compile_schema(*args, **kwargs)
        return dataclasses.replace(
            schema, tagged_field_readers=_Readers(schema.tagged_field_readers)
        )

    _parse._compile_schema = compile_tolerantly
