"""The hash of a Java string, which decides orders and numbers in Kafka.

Pure. Mirrors java.lang.String.hashCode.
"""

from __future__ import annotations


def string_hash(text: str) -> int:
    """java.lang.String.hashCode, as an unsigned number of 32 bits."""
    units = text.encode("utf-16-be")
    result = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
    return result
