"""Makes kio read messages as Kafka's generated classes do, and bounds what a message may hold.

kio 0.5.0 differs from Kafka 2.8.2 in five ways:

- It raises KeyError for an unknown tagged field. Here such a field is skipped (KIP-482).
- A negative length moves it backwards, so that a frame of 16 bytes can hold two thousand million
  strings. Here a length must lie within the message (CVE-2022-34917).
- An array may claim more elements than the message has bytes.
- An array that may not be null can be.
- A compact string may have more than 32,767 bytes.

An element of one or two bytes becomes an object of about 60, so that the size of a message does not
bound the memory and the time that it takes: ``limited_elements`` does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
import threading
import typing
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from kio.serial import _parse, readers

if TYPE_CHECKING:
    from kio.serial.readers import Reader
    from kio.static.primitive import uvarint
    from kio.static.protocol import Entity
    from typing_extensions import Buffer

    _TaggedReader = _parse.TaggedFieldReaderTriplet[object]

E = TypeVar("E", bound="Entity")
T = TypeVar("T")
_HAS_MORE: Final = 0x80
_COMPACT_STRING_MAX_BYTES: Final = 3 + 2**15 - 1
"""Size of the longest string, with the varint of its length."""


class LimitExceeded(Exception):
    """A message has more elements than ``limited_elements`` allows."""


class _Budget(threading.local):
    """Elements that this thread may still read."""

    elements: int = sys.maxsize


_BUDGET: Final = _Budget()


@contextlib.contextmanager
def limited_elements(count: int) -> Iterator[None]:
    """Context manager in which at most ``count`` elements are read on this thread.

    These are the elements of arrays, and tagged fields. Raises LimitExceeded.
    """
    _BUDGET.elements = count
    try:
        yield
    finally:
        _BUDGET.elements = sys.maxsize


def _count(elements: int) -> None:
    _BUDGET.elements -= elements
    if _BUDGET.elements < 0:
        raise LimitExceeded


_UNKNOWN: Final[dataclasses.Field[object]] = dataclasses.field()
_UNKNOWN.name = "unknown tagged field"


class _Readers(dict["uvarint", "_TaggedReader"]):
    """Readers by tag, as kio keeps them: (field, reader, default)."""

    def __getitem__(self, tag: uvarint) -> _TaggedReader:
        _count(1)
        return self.get(tag, (_UNKNOWN, _skip, None))


def _skip(buffer: Buffer, offset: int) -> tuple[None, int]:
    """Return the size of the field at ``offset``, which the varint before it tells.

    The varint begins after the last byte of the varint of the tag, which has no continuation bit.
    """
    data, start = memoryview(buffer), offset - 1
    while start > 0 and data[start - 1] & _HAS_MORE:
        start -= 1
    size, _ = readers.read_unsigned_varint(data, start)
    if offset + size > len(data):
        raise ValueError("a tagged field that ends after its message")
    return None, size


def _not_null(read: Reader[T]) -> Reader[T]:
    def read_array(buffer: Buffer, offset: int) -> tuple[T, int]:
        elements, size = read(buffer, offset)
        if elements is None:
            raise ValueError("an array that may not be null")
        return elements, size

    return read_array


def _limited(read: Reader[T]) -> Reader[T]:
    def read_string(buffer: Buffer, offset: int) -> tuple[T, int]:
        text, size = read(buffer, offset)
        if size > _COMPACT_STRING_MAX_BYTES:
            raise ValueError(f"a string of {size} bytes")
        return text, size

    return read_string


def adapt_kio() -> None:
    """Change all readers of kio that are made from now on."""
    compile_schema, read_exact = _parse._compile_schema, readers._read_exact
    read_items = readers._read_length_items

    def compile_as_kafka(entity_type: type[E], nullable: bool) -> _parse._Schema[E]:
        schema = compile_schema(entity_type, nullable)
        return dataclasses.replace(
            schema,
            field_readers=[
                (field, _not_null(read) if typing.get_origin(field.type) is tuple else read)
                for field, read in schema.field_readers
            ],
            tagged_field_readers=_Readers(schema.tagged_field_readers),
        )

    def read_exact_forwards(buffer: Buffer, offset: int, size: int) -> memoryview:
        if size < 0:
            raise ValueError(f"a length of {size} bytes")
        return read_exact(buffer, offset, size)

    def read_items_within(
        item_reader: Reader[T], length: int, buffer: Buffer, offset: int
    ) -> Generator[T, None, int]:
        left_bytes = memoryview(buffer).nbytes - offset
        if not 0 <= length <= left_bytes:
            raise ValueError(f"an array of {length} elements in {left_bytes} bytes")
        _count(length)
        return read_items(item_reader, length, buffer, offset)

    _parse._compile_schema = compile_as_kafka
    readers.read_compact_string = _limited(readers.read_compact_string)
    readers.read_compact_string_nullable = _limited(readers.read_compact_string_nullable)
    readers._read_exact = read_exact_forwards
    readers._read_length_items = read_items_within
