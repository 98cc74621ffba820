"""Numbers and lists of things as text, and back."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final

# Python's int() refuses more than 4300 digits.
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,4000}")


def parse_whole_number(text: str) -> int | None:
    """Return the number, from 0 on, that a text of digits stands for; None for any other text."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def plural(count: int) -> str:
    """Return the plural ending of a noun: "s", or empty for a count of 1."""
    return "" if count == 1 else "s"


def counted(number: int, noun: str) -> str:
    """Return a number and the noun that it counts, e.g. "1 seed" or "2,000 seeds"."""
    return f"{number:,} {noun}{plural(number)}"


def are(items: Collection[object]) -> str:
    """Return the verb for a list of things: "is", or "are" unless there is one."""
    return "is" if len(items) == 1 else "are"


def joined(items: Iterable[object], separator: str = ",") -> str:
    """Return items separated by commas, like Scala's mkString(",")."""
    return separator.join(map(str, items))


def brokers_text(ids: Collection[int], separator: str = ",") -> str:
    """Return the noun and the ids of brokers: "broker 1", "brokers 1,2"."""
    return f"broker{'s' if len(ids) > 1 else ''} {joined(ids, separator)}"


def listed(items: Sequence[str], most: int, total: int | None = None) -> str:
    """Return the first items, and how many are left out, e.g. "a, b and 3 more".

    ``total``: number of items, if ``items`` has only the first ones.
    """
    more = (len(items) if total is None else total) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
