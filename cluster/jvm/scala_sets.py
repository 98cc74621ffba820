"""Iteration order of Scala's sets and maps, on which tool output and group protocols depend.

The functions are pure. Mirrors scala.collection.immutable.{Set,HashSet} and
scala.collection.mutable.HashSet of Scala 2.13. A map iterates over its keys in the order of the
corresponding set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.types import TopicPartition

T = TypeVar("T", bound=Hashable)
Hash = Callable[[T], int]

_WORD: Final = 0xFFFFFFFF
SMALL_SET: Final = 4
"""Size up to which an immutable set or map keeps the order of insertion."""
_BITS_A_LEVEL: Final = 5
_HASH_BITS: Final = 32


def int_hash(number: int) -> int:
    """Return java.lang.Integer.hashCode as an unsigned 32-bit number."""
    return number & _WORD


def topic_partition_hash(partition: TopicPartition) -> int:
    """Return org.apache.kafka.common.TopicPartition.hashCode as an unsigned 32-bit number."""
    return (31 * (31 + partition.partition) + string_hash(partition.topic)) & _WORD


def immutable_order(items: Iterable[T], hash_of: Hash[T]) -> list[T]:
    """Return the distinct ``items`` in the iteration order of an immutable Set.

    A set of up to four items iterates over them in insertion order.
    """
    distinct = list(dict.fromkeys(items))
    return distinct if len(distinct) <= SMALL_SET else hash_set_order(distinct, hash_of)


def hash_set_order(items: Iterable[T], hash_of: Hash[T]) -> list[T]:
    """Return the distinct ``items`` in the iteration order of an immutable.HashSet."""
    return _trie_order([(_improve(hash_of(item)), item) for item in dict.fromkeys(items)], 0)


def mutable_order(items: Iterable[T], hash_of: Hash[T]) -> list[T]:
    """Return the distinct ``items`` in the iteration order of a mutable.HashSet or HashMap.

    The set or map is assumed to have grown from its default size, item by item.
    """
    distinct = list(dict.fromkeys(items))
    size = 16
    while len(distinct) + 1 > size * 3 // 4:
        size *= 2

    def place(item: T) -> tuple[int, int]:
        spread = hash_of(item) ^ hash_of(item) >> 16
        signed = spread - (1 << _HASH_BITS) if spread >> (_HASH_BITS - 1) else spread
        return spread & (size - 1), signed

    return sorted(distinct, key=place)


def scala_set(items: Iterable[object]) -> str:
    """Format an immutable set as Scala does: ``Set(..)`` up to 4 items, else ``HashSet(..)``."""
    listed = list(items)
    name = "Set" if len(listed) <= SMALL_SET else "HashSet"
    return f"{name}({', '.join(map(str, listed))})"


def scala_hash_set(items: Iterable[object]) -> str:
    """Format a mutable set as Scala does: always ``HashSet(..)``."""
    return f"HashSet({', '.join(map(str, items))})"


def duplicates(items: Sequence[T], hash_of: Hash[T]) -> list[T]:
    """Return the items that occur more than once. Mirrors kafka.utils.CoreUtils.duplicates."""
    counts = Counter(items)
    return hash_set_order((item for item in counts if counts[item] > 1), hash_of)


def _improve(code: int) -> int:
    code = (code + ~(code << 9)) & _WORD
    code ^= code >> 14
    code = (code + (code << 4)) & _WORD
    return code ^ code >> 10


def _trie_order(entries: list[tuple[int, T]], shift: int) -> list[T]:
    """Return the items in a trie node, followed by the items in each of its child nodes.

    Items and child nodes are ordered by the next five bits of the hash.
    """
    if shift >= _HASH_BITS:
        return [item for _, item in entries]
    slots: dict[int, list[tuple[int, T]]] = {}
    for entry in entries:
        slots.setdefault(entry[0] >> shift & 31, []).append(entry)
    ordered = [slots[slot] for slot in sorted(slots)]
    alone = [slot[0][1] for slot in ordered if len(slot) == 1]
    below = [slot for slot in ordered if len(slot) > 1]
    return alone + [item for slot in below for item in _trie_order(slot, shift + _BITS_A_LEVEL)]
