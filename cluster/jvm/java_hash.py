"""Java's string hash code, which determines some orderings and thread numbers in Kafka.

Mirrors java.lang.String.hashCode and org.apache.kafka.common.utils.Utils.abs.
"""

from __future__ import annotations

from functools import lru_cache


@lru_cache(4096)
def string_hash(text: str) -> int:
    """Return java.lang.String.hashCode of ``text`` as an unsigned 32-bit number."""
    units = text.encode("utf-16-be")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result


def absolute(code: int) -> int:
    """Return the absolute value of a hash code as a Java int, which is 0 for the lowest int."""
    return min(code & 0xFFFFFFFF, -code & 0xFFFFFFFF) & 0x7FFFFFFF
