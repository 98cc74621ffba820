"""In which order Java's HashMap gives back names, where Kafka's tools print in that order.

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
    """Different ``names``, put into a HashMap in this order, in the order of its iteration.

    ``capacity`` is what the map was made for; ``entries`` counts all it holds, if ``names`` are a
    part of them.
    """
    size = 1 << max(capacity - 1, 0).bit_length()
    while (len(names) if entries is None else entries) > size * _LOAD_FACTOR:
        size *= 2

    def bucket(name: str) -> int:
        spread = string_hash(name)
        return (spread ^ spread >> 16) & (size - 1)

    return sorted(names, key=bucket)
