"""Renders a page from its values as one self-contained HTML file.

Takes values and returns text; reads no clock and no file. Long tables and plots are truncated, with
a note.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from importlib.resources import files
from itertools import count
from typing import Any, Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from klamm.report.plots import (
    MOST_BARS,
    MOST_POINTS,
    MOST_ROWS,
    Frame,
    Plot,
    drawn,
    drawn_marks,
    frame_of,
)
from klamm.report.scales import TIME_STEPS_MS, duration_text, elapsed_text, time_text
from klamm.report.sequence import drawn_sequence
from klamm.report.values import (
    Block,
    Cell,
    Gantt,
    HeatMap,
    Lanes,
    Life,
    LifeLines,
    Marker,
    Page,
    SequenceDiagram,
    StepPlot,
    StepRows,
    Table,
)

MOST_TABLE_ROWS: Final = 200
_MOST_BESIDE: Final = 100
_MOST_CHARACTERS: Final = 500
_MOST_IN_A_LINE: Final = 24
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufffe\uffff]"
)


class _Shared(NamedTuple):
    """Values that all plots of a page share. ``marks``: the distinct sets of marks on the plots."""

    frame: Frame
    marks: Sequence[tuple[Marker, ...]]
    numbers: Iterator[int]


def page_html(page: Page) -> str:
    """Return the page as one HTML document, which loads nothing else and works without JavaScript.

    The only script zooms and searches. The page's Content-Security-Policy allows it by its hash.
    """
    blocks = [block for section in page.sections for block in section.blocks]
    plots = [block for block in blocks if not isinstance(block, Table | SequenceDiagram)]
    lives = [block for block in plots if isinstance(block, LifeLines)]
    of_lives = (of_run for block in lives for of_run in block.runs)
    marks = list(dict.fromkeys([*(plot.marks for plot in plots), *of_lives]))
    frame = frame_of(plots, is_elapsed=page.is_elapsed)
    shared = _Shared(frame, marks, count())
    sections = [
        (section, [_block(block, shared) for block in section.blocks]) for section in page.sections
    ]
    return _TEMPLATE.render(
        page=page,
        sections=sections,
        frame=shared.frame,
        marks=[drawn_marks(at, shared.frame) for at in marks] if plots else [],
        script=Markup(_SCRIPT),  # noqa: S704 - a file of this package
        script_hash=b64encode(sha256(_SCRIPT.encode()).digest()).decode(),
        data=_packed(shared, lives),
    )


def _packed(shared: _Shared, lives: Sequence[LifeLines]) -> str:
    """Return the script's data as compressed JSON, encoded in Base64, which HTML need not escape.

    The changes to a partition are a list of numbers: the total number of changes, the index of a
    set of marks, and, for each change, the time since the previous change, the leader, the ISR size
    and the state.
    """
    states: dict[str | None, int] = {}
    packed: dict[object, list[float | None]] = {}
    for block in lives:
        runs = [shared.marks.index(of_run) for of_run in block.runs]
        for name, life in block.lives.items():
            changes = _packed_changes(life, shared.frame.x.low, states)
            packed[_shown(name)] = [life.total, runs[life.run], *changes]
    values = {
        "begin": shared.frame.x.low,
        "end": shared.frame.x.high,
        "steps": TIME_STEPS_MS,
        "elapsed": shared.frame.is_elapsed,
        "marks": [[(at.t_ms, at.text) for at in marks] for marks in shared.marks],
        "lives": packed,
        "states": list(states),
    }
    text = json.dumps(values, separators=(",", ":"))
    return urlsafe_b64encode(zlib.compress(text.encode())).decode()


def _packed_changes(
    life: Life, begin_ms: float, states: dict[str | None, int]
) -> Iterator[float | None]:
    before = begin_ms
    for t_ms, leader, in_sync, state in life.changes:
        yield from (t_ms - before, leader, in_sync, states.setdefault(state, len(states)))
        before = t_ms


def _shown(value: object) -> object:
    """Replace unprintable and bidirectional control characters; round floats to two decimals."""
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
_TEMPLATE: Final = _ENVIRONMENT.get_template("page.html")
_SCRIPT: Final = files("klamm.report").joinpath("templates/page.js").read_text("utf-8")


def _block(block: Block, shared: _Shared) -> dict[str, Any]:
    """Return the template's values for a table, or for a plot and a table with the same data."""
    if isinstance(block, Table):
        return {"plot": None, "table": _table(block, MOST_TABLE_ROWS)}
    if isinstance(block, SequenceDiagram):
        drawing = drawn_sequence(block)
        rows = [
            (elapsed_text(at.t_ms), ", ".join(at.sources), ", ".join(at.targets), at.text)
            for at in block.arrows
        ]
        table = _table(Table(block.title, ("time", "from", "to", "what"), rows), MOST_TABLE_ROWS)
        values = {"plot": drawing, "number": next(shared.numbers), "caption": block.note}
        return {**values, "table": table}
    return {
        "plot": drawn(block, shared.frame),
        "number": next(shared.numbers),
        "marks": shared.marks.index(block.marks),
        "caption": "".join(_caption(block)),
        "table": _table(_beside(block, shared.frame), _MOST_BESIDE),
    }


def _caption(block: Plot) -> Iterator[str]:
    if block.note:
        yield f"{block.note} "
    if isinstance(block, StepPlot | LifeLines):
        if isinstance(block, StepPlot) and len(block.steps.points) > MOST_POINTS:
            yield f"Reduced from {len(block.steps.points):,} changes; every peak is kept."
        return
    if isinstance(block, Gantt):
        here, most = len(block.bars), MOST_BARS
    else:
        here, most = len(block.lanes if isinstance(block, Lanes) else block.rows), MOST_ROWS
    total = (block.total if isinstance(block, StepRows) else None) or here
    if total > min(here, most):
        yield f"Only the first {min(here, most):,} of {total:,} are drawn."


def _beside(block: Plot, frame: Frame) -> Table:
    """Return the data of a plot as a table."""
    match block:
        case StepPlot():
            points = [(time_text(t_ms), value) for t_ms, value in block.steps.points]
            return Table(block.title, ("from (UTC)", block.steps.name), points)
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
            return Table(block.title, ("", "changes"), list(zip(block.rows, sums, strict=True)))
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
            heads = ("", "begin (UTC)", "end (UTC)", "took", "outcome")
            return Table(block.title, heads, bars)
        case Lanes():
            return _beside_lanes(block, elapsed_text if frame.is_elapsed else time_text)
        case LifeLines():
            return Table(
                block.title, ("from (UTC)", "leader (broker)", "ISR (replicas)", "state"), ()
            )


def _least_most_last(values: list[float]) -> tuple[Cell, Cell, Cell]:
    return (min(values), max(values), values[-1]) if values else (None, None, None)


def _beside_lanes(block: Lanes, text_of: Callable[[int], str]) -> Table:
    """Return the spans and the marks of a timeline as one table, in time order."""
    found = [
        (span.begin_ms, (lane.name, text_of(span.begin_ms), text_of(span.end_ms), span.text))
        for lane in block.lanes
        for span in lane.spans
    ]
    found += [(mark.t_ms, (mark.kind, text_of(mark.t_ms), "", mark.text)) for mark in block.marks]
    rows = [cells for _, cells in sorted(found, key=lambda row: row[0])]
    return Table(block.title, ("", "from", "to", "what"), rows)


def _table(table: Table, most: int) -> dict[str, Any]:
    """Return the template's values for a table: headings, cells with their styles, and notes."""
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
        "rows": [
            (n in table.highlighted, list(map(_cell, row, numeric))) for n, row in enumerate(rows)
        ],
        "notes": [note for note in notes if note],
    }


def _cell(cell: Cell, is_number: bool) -> tuple[str, str]:
    """Return the text and style of a cell: short text is not wrapped, long text wraps anywhere."""
    if cell is None:
        text = ""
    elif isinstance(cell, str):
        text = cell if len(cell) <= _MOST_CHARACTERS else f"{cell[:_MOST_CHARACTERS]}…"
    else:
        text = f"{cell:,}"
    return text, "number" if is_number else "short" if len(text) <= _MOST_IN_A_LINE else "long"
