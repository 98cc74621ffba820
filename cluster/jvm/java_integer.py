"""Java's way to read an integer. Mirrors java.lang.Integer.parseInt and Long.parseLong."""

from __future__ import annotations

import re
from typing import Final

# Python's int() refuses more than 4300 digits.
_INTEGER: Final = re.compile(r"[+-]?\d{1,4000}")

_QUICK_LENGTH: Final = 10
"""A shorter text of digits is a number of 32 bits; partition ids in topic znodes are such texts."""


def parse_java_int(text: str, bits: int = 32) -> int | None:
    """Return a signed integer of ``bits`` bits, or None if Java throws NumberFormatException.

    The digits may be those of any script in Unicode's basic plane.
    """
    if text.isascii() and text.isdigit() and len(text) < _QUICK_LENGTH:
        return int(text)
    if not _INTEGER.fullmatch(text) or max(text) > "\uffff":
        return None
    number = int(text)
    limit = 1 << (bits - 1)
    return number if -limit <= number < limit else None
