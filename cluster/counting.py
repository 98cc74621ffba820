"""Numbers of things, as text."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return a number and the noun that it counts, e.g. "1 seed" or "2,000 seeds"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(items: Sequence[str], most: int, total: int | None = None) -> str:
    """Return the first items, and how many are left out, e.g. "a, b and 3 more".

    ``total``: number of items, if ``items`` has only the first ones.
    """
    more = (len(items) if total is None else total) - most
    return ", ".join(items[:most]) + (f" and {more} more" if more > 0 else "")
