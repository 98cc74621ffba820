"""Renders a page from its values as one self-contained HTML file.

Values -> text; reads no clock and no file. Long tables and plots are truncated, with a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from klamm.report.plots import MOST_BARS, MOST_POINTS, MOST_ROWS, Plot, drawn
from klamm.report.scales import duration_text, time_marks, time_text
from klamm.report.values import Block, Cell, Gantt, HeatMap, Page, StepPlot, StepRows, Table

MOST_TABLE_ROWS: Final = 200
_MOST_BESIDE: Final = 100
_MOST_CHARACTERS: Final = 500
_MOST_IN_A_LINE: Final = 24
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufffe\uffff]"
)


def page_html(page: Page) -> str:
    """Return the page as one HTML document, without scripts, and with inline styles only."""
    numbers = count()
    sections = [
        (section, [_block(block, numbers) for block in section.blocks]) for section in page.sections
    ]
    return _TEMPLATE.render(page=page, sections=sections)


def _shown(value: object) -> object:
    """Replace unprintable and bidirectional control characters; round numbers to two places."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and not isinstance(value, Markup):
        return _UNPRINTABLE.sub("\ufffd", value)
    return value


_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("klamm.report"),
    autoescape=True,
    finalize=_shown,
    keep_trailing_newline=True,
    lstrip_blocks=True,
    trim_blocks=True,
    undefined=StrictUndefined,
)
_ENVIRONMENT.globals["time_marks"] = time_marks
_TEMPLATE: Final = _ENVIRONMENT.get_template("page.html")


def _block(block: Block, numbers: Iterator[int]) -> dict[str, Any]:
    """Return the template values of a table, or of a plot with its data as a table."""
    if isinstance(block, Table):
        return {"plot": None, "table": _table(block, MOST_TABLE_ROWS)}
    return {
        "plot": drawn(block),
        "number": next(numbers),
        "caption": "".join(_caption(block)),
        "table": _table(_beside(block), _MOST_BESIDE),
    }


def _caption(block: Plot) -> Iterator[str]:
    if block.note:
        yield f"{block.note} "
    if isinstance(block, StepPlot):
        if len(block.steps.points) > MOST_POINTS:
            yield f"Thinned from {len(block.steps.points):,} changes; every peak is kept."
        return
    here, most = (
        (len(block.bars), MOST_BARS) if isinstance(block, Gantt) else (len(block.rows), MOST_ROWS)
    )
    total = here if block.total is None else block.total
    if total > min(here, most):
        yield f"Only the first {min(here, most):,} of {total:,} are drawn."


def _beside(block: Plot) -> Table:
    """Return the data of a plot as a table."""
    match block:
        case StepPlot():
            points = [(time_text(t_ms), value) for t_ms, value in block.steps.points]
            return Table(block.title, ("from", block.steps.name), points)
        case StepRows():
            steps = [
                (row.name, *_least_most_last([value for _, value in row.points]))
                for row in block.rows
            ]
            return Table(block.title, ("", "lowest", "highest", "last"), steps, block.total)
        case HeatMap():
            sums = [0] * len(block.rows)
            for (row, _), count in block.counts.items():
                sums[row] += count
            total = list(zip(block.rows, sums, strict=True))
            return Table(block.title, ("", block.unit), total, block.total)
        case Gantt():
            bars = [
                (
                    bar.name,
                    time_text(bar.begin_ms),
                    "" if bar.end_ms is None else time_text(bar.end_ms),
                    duration_text((bar.end_ms or block.end_ms) - bar.begin_ms),
                    bar.outcome,
                )
                for bar in block.bars
            ]
            return Table(block.title, ("", "begin", "end", "took", "outcome"), bars, block.total)


def _least_most_last(values: list[float]) -> tuple[Cell, Cell, Cell]:
    return (min(values), max(values), values[-1]) if values else (None, None, None)


def _table(table: Table, most: int) -> dict[str, Any]:
    """Return a table as the template takes it: heads, cells with their styles, notes."""
    rows = table.rows[:most]
    more = (len(table.rows) if table.total is None else table.total) - len(rows)
    numeric = [
        bool(rows) and all(isinstance(row[n], int | float | None) for row in rows)
        for n in range(len(table.columns))
    ]
    notes = (table.note, f"and {more:,} more" if more > 0 else "", "" if rows else "none")
    return {
        "title": table.title,
        "heads": list(zip(table.columns, numeric, strict=True)),
        "rows": [list(map(_cell, row, numeric)) for row in rows],
        "notes": [note for note in notes if note],
    }


def _cell(cell: Cell, is_number: bool) -> tuple[str, str]:
    """Return text and style of a cell: short text is not wrapped, long text wraps anywhere."""
    if cell is None:
        text = ""
    elif isinstance(cell, str):
        text = cell if len(cell) <= _MOST_CHARACTERS else f"{cell[:_MOST_CHARACTERS]}…"
    else:
        text = f"{cell:,}"
    return text, "number" if is_number else "short" if len(text) <= _MOST_IN_A_LINE else "long"
