"""Numbers of things, as text."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number and the noun that it counts, e.g. "1 seed" or "2,000 seeds"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
