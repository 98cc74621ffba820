"""Iteration order of java.util.HashMap, in which Kafka's tools print some names.

Pure. Mirrors the buckets of java.util.HashMap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from klamm.cluster.java_hash import string_hash

DEFAULT_CAPACITY: Final = 16
_LOAD_FACTOR: Final = 0.75


def hash_map_order(
    names: Sequence[str], *, capacity: int = DEFAULT_CAPACITY, entries: int | None = None
) -> list[str]:
    """Return different ``names``, inserted into a HashMap in this order, in its iteration order.

    ``capacity``: the map's initial capacity. ``entries``: the number of all entries of the map, if
    ``names`` are only some of them.
    """
    size = 1 << max(capacity - 1, 0).bit_length()
    while (len(names) if entries is None else entries) > size * _LOAD_FACTOR:
        size *= 2

    def bucket(name: str) -> int:
        spread = string_hash(name)
        return (spread ^ spread >> 16) & (size - 1)

    return sorted(names, key=bucket)
