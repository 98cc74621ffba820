"""Iteration order of java.util.HashMap: of the output of some tools, and of config znodes.

The functions are pure. Mirrors the buckets of java.util.HashMap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.jvm.java_hash import string_hash

DEFAULT_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75
_CHILDREN_CAPACITY: Final = 8


def hash_map_order(
    names: Sequence[str], *, capacity: int = DEFAULT_CAPACITY, entries: int | None = None
) -> list[str]:
    """Return distinct ``names`` in the iteration order of a HashMap with these keys.

    The order assumes that the names were inserted in the given order, into a map with the initial
    capacity ``capacity``. If the map has other keys too, ``entries`` is the total number of keys.
    """
    size = 1 << max(capacity - 1, 0).bit_length()
    while (len(names) if entries is None else entries) > size * _LOAD_FACTOR:
        size *= 2

    def bucket(name: str) -> int:
        spread = string_hash(name)
        return (spread ^ spread >> 16) & (size - 1)

    return sorted(names, key=bucket)


def copied_order(names: Sequence[str]) -> list[str]:
    """Return the iteration order of a copy of a HashMap, made by its constructor.

    ``names`` are the keys in the iteration order of the copied map.
    """
    return hash_map_order(names, capacity=int(len(names) / _LOAD_FACTOR + 1))


def children_order(names: Sequence[str]) -> list[str]:
    """Return the names of child znodes in the order in which a ZooKeeper server lists them.

    The server keeps them in a HashSet. Of names in the same bucket, it lists the oldest first.
    """
    return hash_map_order(names, capacity=_CHILDREN_CAPACITY)
