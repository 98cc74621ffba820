"""Geometry of plots; templates/plots.html draws them as SVG.

A step line with axes, rows of step lines, a heat map of counts, and a Gantt chart. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from klamm.report.scales import Scale, duration_text, number_marks, thinned, time_text
from klamm.report.values import Gantt, HeatMap, StepPlot, StepRows

Plot = StepPlot | StepRows | HeatMap | Gantt
WIDTH: Final = 960
MOST_POINTS: Final = 2000
"""Maximum points of a step line; of more, each interval's highest and lowest are drawn."""
MOST_ROWS: Final = 40
MOST_BARS: Final = 60
MOST_COLUMNS: Final = 240
_HEIGHT: Final = 240.0
_LEFT: Final = 56.0
_RIGHT: Final = 24.0
_TOP: Final = 12.0
_BOTTOM: Final = 28.0
_NAMES: Final = 150.0
_ROW_HEIGHT: Final = 34.0
_ROW_GAP: Final = 6.0
_VALUE: Final = 56.0
_POINTS_OF_A_ROW: Final = 400
_CELL_HEIGHT: Final = 20.0
_CELL_GAP: Final = 2.0
_LEGEND: Final = 30.0
_BAR_ROW: Final = 24.0
_LABEL_CHARACTER: Final = 6.6
_LABEL_GAP: Final = 8.0
_WIDEST_LABEL: Final = 400.0
_FAINTEST: Final = 0.12


def drawn(plot: Plot) -> dict[str, Any]:
    """Return the values for the template macro that is named after the plot's class."""
    match plot:
        case StepPlot():
            values = _step_plot(plot)
        case StepRows():
            values = _step_rows(plot)
        case HeatMap():
            values = _heat_map(plot)
        case Gantt():
            values = _gantt(plot)
    return {"kind": type(plot).__name__, "title": plot.title, "width": WIDTH, **values}


def _step_plot(plot: StepPlot) -> dict[str, Any]:
    """Return the geometry of one value over time."""
    points = thinned(plot.steps.points, MOST_POINTS)
    begin_ms = points[0][0] if points else plot.end_ms
    marks = number_marks(max((value for _, value in points), default=0))
    foot = _HEIGHT - _BOTTOM
    x = Scale(begin_ms, plot.end_ms, _LEFT, WIDTH - _RIGHT)
    y = Scale(0, marks[-1].value, foot, _TOP)
    peak = max(points, key=lambda point: point[1], default=(plot.end_ms, 0))
    summary = (
        f"{plot.steps.name} from {time_text(begin_ms)} to {time_text(plot.end_ms)} UTC, at most "
        f"{peak[1]:,} at {time_text(peak[0])}"
    )
    placed = {"height": _HEIGHT, "foot": foot, "x": x, "y": y, "marks": marks}
    return {"summary": summary, "path": _path(points, plot.end_ms, x, y), **placed}


def _step_rows(plot: StepRows) -> dict[str, Any]:
    """Return one step line per row, all on one scale, with the last value at the end."""
    rows = plot.rows[:MOST_ROWS]
    high = max((value for row in rows for _, value in row.points), default=0)
    x = Scale(plot.begin_ms, plot.end_ms, _NAMES, WIDTH - _VALUE)
    placed = []
    for place, row in enumerate(rows, 1):
        foot = place * (_ROW_HEIGHT + _ROW_GAP) - _ROW_GAP / 2
        y = Scale(0, max(high, 1), foot, foot - _ROW_HEIGHT)
        last = row.points[-1][1] if row.points else 0
        path = _path(thinned(row.points, _POINTS_OF_A_ROW), plot.end_ms, x, y)
        middle = foot - _ROW_HEIGHT / 2
        shown = {"name": row.name, "last": f"{last:,}", "path": path}
        placed.append({**shown, "foot": foot, "middle": middle})
    summary = (
        f"{len(rows)} rows from {time_text(plot.begin_ms)} to {time_text(plot.end_ms)} UTC, "
        f"all from 0 to {high:,}"
    )
    foot = len(rows) * (_ROW_HEIGHT + _ROW_GAP)
    return {"summary": summary, "height": foot + _BOTTOM, "foot": foot, "x": x, "rows": placed}


def _path(
    points: Sequence[tuple[int, float]], end_ms: int, x: Scale, y: Scale
) -> dict[str, str] | None:
    """Return the path of a step line, and of the area below it."""
    if not points:
        return None
    begin = f"M{_number(x.at(points[0][0]))} {_number(y.at(points[0][1]))}"
    moves = "".join(f"H{_number(x.at(t))}V{_number(y.at(value))}" for t, value in points[1:])
    line = f"{begin}{moves}H{_number(x.at(end_ms))}"
    return {"line": line, "area": f"{line}V{_number(y.begin)}H{_number(x.at(points[0][0]))}Z"}


def _heat_map(plot: HeatMap) -> dict[str, Any]:
    """Return one row of cells per name, darker for higher counts, and a legend of the scale."""
    rows = plot.rows[:MOST_ROWS]
    columns = min(plot.columns, MOST_COLUMNS)
    shown = {at: n for at, n in plot.counts.items() if at[0] < len(rows) and at[1] < columns and n}
    high = max(shown.values(), default=0)
    x = Scale(plot.begin_ms, plot.begin_ms + columns * plot.width_ms, _NAMES, WIDTH - _RIGHT)
    width = (x.end - x.begin) / max(columns, 1)
    foot = len(rows) * _CELL_HEIGHT
    cells = [
        {
            "x": x.begin + column * width,
            "y": row * _CELL_HEIGHT + _CELL_GAP / 2,
            "opacity": _opacity(count, high),
            "summary": f"{rows[row]}, from {time_text(plot.begin_ms + column * plot.width_ms)}: "
            f"{count:,} {plot.unit}",
        }
        for (row, column), count in sorted(shown.items())
    ]
    summary = (
        f"{plot.unit} of {len(rows)} rows, {duration_text(plot.width_ms)} per cell, at most "
        f"{high:,} in a cell"
    )
    counts = sorted({max(1, round(high * share)) for share in (0.1, 0.5, 1)}) if high else []
    return {
        "summary": summary,
        "height": foot + _BOTTOM + _LEGEND,
        "foot": foot,
        "x": x,
        "rows": rows,
        "cells": cells,
        "cell_width": max(width - min(_CELL_GAP, width / 4), 0.5),
        "cell_height": _CELL_HEIGHT,
        "legend": [(f"{count:,} {plot.unit}", _opacity(count, high)) for count in counts],
    }


def _gantt(plot: Gantt) -> dict[str, Any]:
    """Return one bar per entry from begin to end; dashed and open if it has not ended."""
    bars = plot.bars[:MOST_BARS]
    begin_ms = min((bar.begin_ms for bar in bars), default=plot.end_ms)
    end_ms = max([plot.end_ms, *(bar.end_ms for bar in bars if bar.end_ms is not None)])
    ends = [end_ms if bar.end_ms is None else bar.end_ms for bar in bars]
    took = [duration_text(end - bar.begin_ms) for bar, end in zip(bars, ends, strict=True)]
    labels = [f"{took}, {bar.outcome}" for took, bar in zip(took, bars, strict=True)]
    # Leave room for the label of a bar that ends at the right edge.
    label = _LABEL_GAP + _LABEL_CHARACTER * max(map(len, labels), default=0)
    x = Scale(begin_ms, end_ms, _NAMES, WIDTH - min(label, _WIDEST_LABEL))
    placed = [
        {
            "name": bar.name,
            "summary": f"{bar.name}: {bar.outcome}, {took[n]} from {time_text(bar.begin_ms)}",
            "kind": f"{bar.tone}{' open' if bar.end_ms is None else ''}",
            "label": labels[n],
            "middle": (n + 0.5) * _BAR_ROW,
            "begin": x.at(bar.begin_ms),
            "end": x.at(ends[n]),
        }
        for n, bar in enumerate(bars)
    ]
    summary = f"{len(bars)} bars from {time_text(begin_ms)} to {time_text(end_ms)} UTC"
    foot = len(bars) * _BAR_ROW
    return {"summary": summary, "height": foot + _BOTTOM, "foot": foot, "x": x, "bars": placed}


def _opacity(count: int, high: int) -> float:
    return _FAINTEST + (1 - _FAINTEST) * count / max(high, 1)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
