"""Java's way to read and write a number with decimals, which configs and quotas show.

Mirrors java.lang.Double.parseDouble and toString. Hexadecimal numbers are not read.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from klamm.cluster.jvm.java_strings import java_trim

_DOUBLE: Final = re.compile(
    r"[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)", re.ASCII
)


def parse_double(text: str) -> float:
    """Parse a number. Raises ValueError if Java would not read it."""
    word = java_trim(text)
    if not _DOUBLE.fullmatch(word):
        raise ValueError(f"no number: {text}")
    return float(word.rstrip("fFdD"))


def double_text(value: float) -> str:
    """Return the shortest text of a number, in Java's notation: 0.001, 9.0E-4, 1.0E7, Infinity."""
    if not math.isfinite(value):
        return str(value).replace("nan", "NaN").replace("inf", "Infinity")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *others = map(str, digits)
    assert isinstance(exponent, int), "a finite number"
    return f"{'-' * sign}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
