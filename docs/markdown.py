"""Markdown, as the generated parts of the docs need it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table; its cells are made text by ``str``."""
    lines = [_line(heading), f"|{'---|' * len(heading)}", *map(_line, rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
