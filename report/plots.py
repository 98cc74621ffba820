"""Geometry of the plots that templates/plots.html draws as SVG.

The plots are step lines with axes, rows of step lines, heat maps of counts, Gantt charts, and an
empty plot in which a script draws the changes to a partition. All share one time axis; above each
plot is one lane for each kind of mark, e.g. elections. This module only computes positions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from klamm.cluster.counting import counted
from klamm.report.scales import (
    Scale,
    duration_text,
    elapsed_text,
    number_marks,
    thinned,
    time_marks,
    time_text,
)
from klamm.report.values import (
    Gantt,
    HeatMap,
    Lane,
    Lanes,
    LifeLines,
    Marker,
    Span,
    StepPlot,
    StepRows,
    Tone,
)

Plot = StepPlot | StepRows | HeatMap | Gantt | LifeLines | Lanes
WIDTH: Final = 960
MOST_POINTS: Final = 2000
"""Maximum number of points of a step line.

A line with more points is reduced; the highest and lowest points of each interval are kept.
"""
MOST_ROWS: Final = 40
MOST_BARS: Final = 60
MOST_COLUMNS: Final = 240
_HEIGHT: Final = 240.0
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
_BAR_ROW: Final = 32.0
_LABEL_CHARACTER: Final = 6.6
_FAINTEST: Final = 0.12
_LANE: Final = 14.0
_LANE_GAP: Final = 8.0
_TICK: Final = 10.0
_LIFE_ROW: Final = 44.0
_LANE_ROW: Final = 26.0
_LABEL_ROW: Final = 15.0
_MOST_OF_A_LABEL: Final = 44
_BOX_MARGIN: Final = 3.0
_LIFE_ROWS: Final = ("leader (broker)", "ISR (replicas)", "state")


class Frame(NamedTuple):
    """The time axis that all plots of a page share, and the kinds of marks above the plots."""

    x: Scale
    kinds: Sequence[str]
    is_elapsed: bool = False


def frame_of(plots: Sequence[Plot], *, is_elapsed: bool = False) -> Frame:
    """Return the frame whose time axis covers all plots."""
    spans = [_span(plot) for plot in plots] or [(0, 0)]
    begin_ms, end_ms = min(begin for begin, _ in spans), max(end for _, end in spans)
    kinds = dict.fromkeys(mark.kind for plot in plots for mark in plot.marks)
    return Frame(Scale(begin_ms, end_ms, _NAMES, WIDTH - _VALUE), list(kinds), is_elapsed)


def _span(plot: Plot) -> tuple[int, int]:
    match plot:
        case StepPlot():
            return (plot.steps.points[0][0] if plot.steps.points else plot.end_ms), plot.end_ms
        case HeatMap():
            last_ms = plot.begin_ms + plot.columns * plot.width_ms
            return plot.begin_ms, last_ms if plot.end_ms is None else plot.end_ms
        case Gantt():
            begins = [bar.begin_ms for bar in plot.bars] or [plot.end_ms]
            ends = [bar.end_ms for bar in plot.bars if bar.end_ms is not None]
            begin_ms = min(begins) if plot.begin_ms is None else plot.begin_ms
            return begin_ms, max([plot.end_ms, *ends])
        case _:
            return plot.begin_ms, plot.end_ms


def drawn(plot: Plot, frame: Frame) -> dict[str, Any]:
    """Return a plot's values for the template macro, which is named after the plot's class."""
    match plot:
        case StepPlot():
            values = _step_plot(plot, frame.x)
        case StepRows():
            values = _step_rows(plot, frame.x)
        case HeatMap():
            values = _heat_map(plot, frame.x)
        case Gantt():
            values = _gantt(plot, frame.x)
        case Lanes():
            values = _lanes(plot, frame)
        case LifeLines():
            foot = len(_LIFE_ROWS) * _LIFE_ROW
            summary = "leader, ISR size and state of the partition in the search field"
            values = {"foot": foot, "height": foot + _BOTTOM, "summary": summary}
            values |= {"rows": _LIFE_ROWS, "row_height": _LIFE_ROW}
    marked = Counter(mark.kind for mark in plot.marks)
    values["summary"] += "".join(f"; marks: {kind} {marked[kind]}" for kind in frame.kinds)
    lanes = [(kind, number * _LANE) for number, kind in enumerate(frame.kinds)]
    strip = len(lanes) * _LANE + (_LANE_GAP if lanes else 0)
    ticks = time_marks(int(frame.x.low), int(frame.x.high), is_elapsed=frame.is_elapsed)
    shared = {"title": plot.title, "width": WIDTH, "x": frame.x, "lanes": lanes, "strip": strip}
    shared |= {"ticks": ticks}
    return {"kind": type(plot).__name__, **shared, **values}


def drawn_marks(marks: Sequence[Marker], frame: Frame) -> list[dict[str, Any]]:
    """Return two SVG paths for each kind of mark: its ticks, and its lines through the plots."""
    shown = []
    for lane, kind in enumerate(frame.kinds):
        of_kind = [mark for mark in marks if mark.kind == kind]
        xs = [_number(frame.x.at(mark.t_ms), 2) for mark in of_kind]
        top = lane * _LANE + (_LANE - _TICK) / 2
        ticks = "".join(f"M{x} {_number(top)}v{_number(_TICK)}" for x in xs)
        through = "" if all(mark.tone is Tone.PLAIN for mark in of_kind) else _through(xs, top)
        tone = of_kind[0].tone if of_kind else Tone.PLAIN
        shown.append({"kind": kind, "tone": tone, "ticks": ticks, "through": through})
    return shown


def _through(xs: Sequence[str], top: float) -> str:
    """Return an SVG path of vertical lines, longer than any plot; each plot clips them."""
    return "".join(f"M{x} {_number(top)}V4000" for x in xs)


def _step_plot(plot: StepPlot, x: Scale) -> dict[str, Any]:
    """Return the template values of one step line over time, with its axes."""
    points = thinned(plot.steps.points, MOST_POINTS)
    begin_ms = points[0][0] if points else plot.end_ms
    marks = number_marks(max((value for _, value in points), default=0))
    foot = _HEIGHT - _BOTTOM
    y = Scale(0, marks[-1].value, foot, _TOP)
    peak = max(points, key=lambda point: point[1], default=(plot.end_ms, 0))
    summary = (
        f"{plot.steps.name} from {time_text(begin_ms)} to {time_text(plot.end_ms)} UTC, at most "
        f"{peak[1]:,} at {time_text(peak[0])}"
    )
    placed = {"height": _HEIGHT, "foot": foot, "y": y, "marks": marks}
    return {"summary": summary, "path": _path(points, plot.end_ms, x, y), **placed}


def _step_rows(plot: StepRows, x: Scale) -> dict[str, Any]:
    """Return one step line per row, all on the same scale, each followed by its last value."""
    rows = plot.rows[:MOST_ROWS]
    high = max((value for row in rows for _, value in row.points), default=0)
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
        f"each on a scale from 0 to {high:,}"
    )
    foot = len(rows) * (_ROW_HEIGHT + _ROW_GAP)
    return {"summary": summary, "height": foot + _BOTTOM, "foot": foot, "rows": placed}


def _path(
    points: Sequence[tuple[int, float]], end_ms: int, x: Scale, y: Scale
) -> dict[str, str] | None:
    """Return the SVG paths of a step line and of the area below it, or None without points."""
    if not points:
        return None
    first = _number(x.at(points[0][0]), 2)
    moves = "".join(f"H{_number(x.at(t), 2)}V{_number(y.at(value))}" for t, value in points[1:])
    line = f"M{first} {_number(y.at(points[0][1]))}{moves}H{_number(x.at(end_ms), 2)}"
    return {"line": line, "area": f"{line}V{_number(y.begin)}H{first}Z"}


def _heat_map(plot: HeatMap, x: Scale) -> dict[str, Any]:
    """Return one row of cells per name, darker for higher counts, and a legend."""
    rows = plot.rows[:MOST_ROWS]
    columns = min(plot.columns, MOST_COLUMNS)
    shown = {at: n for at, n in plot.counts.items() if at[0] < len(rows) and at[1] < columns and n}
    high = max(shown.values(), default=0)
    width = (x.end - x.begin) * plot.width_ms / max(x.high - x.low, 1)
    foot = len(rows) * _CELL_HEIGHT
    cells = [
        {
            "x": x.at(plot.begin_ms + column * plot.width_ms),
            "y": row * _CELL_HEIGHT + _CELL_GAP / 2,
            "opacity": _opacity(count, high),
            "summary": f"{rows[row]}, from {time_text(plot.begin_ms + column * plot.width_ms)}: "
            f"{counted(count, 'change')}",
        }
        for (row, column), count in sorted(shown.items())
    ]
    summary = (
        f"changes in {len(rows)} rows of cells; each cell covers "
        f"{duration_text(plot.width_ms)} and has at most {counted(high, 'change')}"
    )
    counts = sorted({max(1, round(high * share)) for share in (0.1, 0.5, 1)}) if high else []
    return {
        "summary": summary,
        "height": foot + _BOTTOM + _LEGEND,
        "foot": foot,
        "rows": rows,
        "cells": cells,
        "cell_width": max(width - min(_CELL_GAP, width / 4), 0.5),
        "cell_height": _CELL_HEIGHT,
        "legend": [(counted(count, "change"), _opacity(count, high)) for count in counts],
    }


def _gantt(plot: Gantt, x: Scale) -> dict[str, Any]:
    """Return one bar for each entry, from its start to its end.

    The bar of an entry that has not ended is dashed and open.
    """
    bars = plot.bars[:MOST_BARS]
    begin_ms, end_ms = _span(plot)
    placed = []
    for n, bar in enumerate(bars):
        bar_end_ms = end_ms if bar.end_ms is None else bar.end_ms
        took = duration_text(bar_end_ms - bar.begin_ms)
        label = f"{took}, {bar.outcome}"
        most = x.end - _LABEL_CHARACTER * len(label)
        begin = x.at(bar.begin_ms)
        placed.append(
            {
                "name": bar.name,
                "summary": f"{bar.name}: {bar.outcome}, {took} from {time_text(bar.begin_ms)}",
                "kind": f"{bar.tone}{' open' if bar.end_ms is None else ''}",
                "label": label,
                "middle": (n + 0.5) * _BAR_ROW,
                "begin": begin,
                "end": x.at(bar_end_ms),
                # The label stands above the bar, moved to the left if it would leave the plot.
                "most": most,
                "label_x": max(min(begin, most), x.begin),
            }
        )
    summary = f"{len(bars)} bars from {time_text(begin_ms)} to {time_text(end_ms)} UTC"
    foot = len(bars) * _BAR_ROW
    return {"summary": summary, "height": foot + _BOTTOM, "foot": foot, "bars": placed}


def _lanes(plot: Lanes, frame: Frame) -> dict[str, Any]:
    """Return the boxes of each lane, with a label in each box that has room for it.

    Boxes that would be too narrow to see are widened to two units. In a labelled lane each label
    begins with its box, or, if the plot has no room for it there, before it; a long one is cut.
    """
    text_of = elapsed_text if frame.is_elapsed else time_text
    top = 0.0
    rows = []
    for lane in plot.lanes[:MOST_ROWS]:
        spans = [_span_of_lane(span, lane, frame.x, text_of) for span in lane.spans]
        height = _LANE_ROW
        if lane.is_labelled:
            height += (_place_labels(spans, frame.x) - 1) * _LABEL_ROW
        for span in spans:
            # A tick is as high as the lane, so that it leads to its label.
            span["top"], span["height"] = top + _BOX_MARGIN, height - 2 * _BOX_MARGIN
            if lane.is_labelled and span["end"] > span["begin"]:
                span["top"] = top + span["row_top"] + 2 * _BOX_MARGIN
                span["height"] = _LABEL_ROW - 1
        rows.append({"name": lane.name, "top": top, "height": height, "spans": spans})
        top += height
    summary = f"{len(rows)} lanes from {text_of(plot.begin_ms)} to {text_of(plot.end_ms)}"
    return {"summary": summary, "height": top + _BOTTOM, "foot": top, "rows": rows}


def _span_of_lane(
    span: Span, lane: Lane, x: Scale, text_of: Callable[[int], str]
) -> dict[str, Any]:
    begin, end = x.at(span.begin_ms), x.at(span.end_ms)
    period = text_of(span.begin_ms)
    if span.end_ms > span.begin_ms:
        period += f" to {text_of(span.end_ms)}"
    label = span.text
    if lane.is_labelled and len(label) > _MOST_OF_A_LABEL:
        label = f"{label[: _MOST_OF_A_LABEL - 1]}…"
    return {
        "begin": begin,
        "end": end,
        "width": max(end - begin, 2.0),
        "tone": span.tone,
        "label": label,
        "row_top": 0.0,
        "length": None,
        "is_before": False,
        "fits": end - begin > _LABEL_CHARACTER * (len(span.text) + 1),
        "summary": f"{lane.name}: {span.text}, {period}",
    }


def _place_labels(spans: Sequence[dict[str, Any]], x: Scale) -> int:
    """Place each span with its label in the first row in which both cover no others.

    Returns the number of rows."""
    ends: list[float] = []
    for span in spans:
        begin, length = span["begin"], _LABEL_CHARACTER * (len(span["label"]) + 2)
        span["length"], span["is_before"] = length, begin + length > x.end
        left = begin - length if span["is_before"] else begin
        row = next((n for n, end in enumerate(ends) if end <= left), len(ends))
        ends[row:] = [max(left + length, span["end"]), *ends[row + 1 :]]
        span["row_top"], span["fits"] = row * _LABEL_ROW, True
    return max(len(ends), 1)


def _opacity(count: int, high: int) -> float:
    return _FAINTEST + (1 - _FAINTEST) * count / max(high, 1)


def _number(value: float, places: int = 1) -> str:
    return f"{value:.{places}f}".rstrip("0").rstrip(".")
