"""Rows against time as inline SVG: a heat map of counts, and bars of what took a while.

Draws; decides nothing.
"""

from __future__ import annotations

from typing import Final

from report.markup import Markup, element, joined
from report.plots import MOST_ROWS, WIDTH, name_of_row, picture, time_axis
from report.scales import Scale, duration_text, time_text
from report.values import Gantt, HeatMap

MOST_BARS: Final = 60
MOST_COLUMNS: Final = 240
_NAMES: Final = 150.0
_RIGHT: Final = 24.0
_BOTTOM: Final = 28.0
_CELL_HEIGHT: Final = 20.0
_CELL_GAP: Final = 2.0
_LEGEND: Final = 30.0
_BAR_ROW: Final = 24.0
_BAR_HEIGHT: Final = 14.0
_LABEL_CHARACTER: Final = 6.6
_LABEL_GAP: Final = 8.0
_WIDEST_LABEL: Final = 400.0
_FAINTEST: Final = 0.12
_NARROWEST: Final = 2.0


def heat_map(plot: HeatMap, number: int) -> Markup:
    """A row each, a cell an interval, the darker the more; a legend tells the scale."""
    rows = plot.rows[:MOST_ROWS]
    columns = min(plot.columns, MOST_COLUMNS)
    shown = {at: n for at, n in plot.counts.items() if at[0] < len(rows) and at[1] < columns and n}
    high = max(shown.values(), default=0)
    end_ms = plot.begin_ms + columns * plot.width_ms
    x = Scale(plot.begin_ms, end_ms, _NAMES, WIDTH - _RIGHT)
    width = (x.end - x.begin) / max(columns, 1)
    foot = len(rows) * _CELL_HEIGHT
    cells = []
    for (row, column), count in sorted(shown.items()):
        from_ms = plot.begin_ms + column * plot.width_ms
        told = f"{rows[row]}, from {time_text(from_ms)}: {count:,} {plot.unit}"
        cells.append(
            element(
                "rect",
                element("title", told),
                class_="cell",
                x=x.begin + column * width,
                y=row * _CELL_HEIGHT + _CELL_GAP / 2,
                width=max(width - min(_CELL_GAP, width / 4), 0.5),
                height=_CELL_HEIGHT - _CELL_GAP,
                fill_opacity=_opacity(count, high),
            )
        )
    names = [
        name_of_row(name, _NAMES, (place + 0.5) * _CELL_HEIGHT) for place, name in enumerate(rows)
    ]
    told = (
        f"{plot.unit} of {len(rows)} rows, {duration_text(plot.width_ms)} a cell, at most "
        f"{high:,} in one"
    )
    body = joined(*names, *cells, time_axis(x, foot), _legend(high, plot.unit, foot + _BOTTOM))
    return picture(plot.title, told, number, foot + _BOTTOM + _LEGEND, body)


def gantt(plot: Gantt, number: int) -> Markup:
    """A bar each from begin to end; dashed and open where it has not ended."""
    bars = plot.bars[:MOST_BARS]
    begin_ms = min((bar.begin_ms for bar in bars), default=plot.end_ms)
    end_ms = max([plot.end_ms, *(bar.end_ms for bar in bars if bar.end_ms is not None)])
    took_of = [
        duration_text((end_ms if bar.end_ms is None else bar.end_ms) - bar.begin_ms) for bar in bars
    ]
    labels = [f"{took}, {bar.outcome}" for took, bar in zip(took_of, bars, strict=True)]
    # Of a bar that ends at the plot's end, too, the label stays inside the picture.
    label = _LABEL_GAP + _LABEL_CHARACTER * max(map(len, labels), default=0)
    x = Scale(begin_ms, end_ms, _NAMES, WIDTH - min(label, _WIDEST_LABEL))
    foot = len(bars) * _BAR_ROW
    drawn = []
    for place, (bar, took) in enumerate(zip(bars, took_of, strict=True)):
        until_ms = end_ms if bar.end_ms is None else bar.end_ms
        told = f"{bar.name}: {bar.outcome}, {took} from {time_text(bar.begin_ms)}"
        begin = x.at(bar.begin_ms)
        middle = (place + 0.5) * _BAR_ROW
        drawn.append(
            element(
                "g",
                element("title", told),
                name_of_row(bar.name, _NAMES, middle),
                element(
                    "rect",
                    class_=f"bar {bar.tone}{' open' if bar.end_ms is None else ''}",
                    x=begin,
                    y=middle - _BAR_HEIGHT / 2,
                    width=max(x.at(until_ms) - begin, _NARROWEST),
                    height=_BAR_HEIGHT,
                    rx=2,
                ),
                element("text", labels[place], x=x.at(until_ms) + _LABEL_GAP, y=middle + 4),
            )
        )
    told = f"{len(bars)} bars from {time_text(begin_ms)} to {time_text(end_ms)} UTC"
    body = joined(*drawn, time_axis(x, foot))
    return picture(plot.title, told, number, foot + _BOTTOM, body)


def _legend(high: int, unit: str, top: float) -> Markup:
    counts = sorted({max(1, round(high * share)) for share in (0.1, 0.5, 1)}) if high else []
    parts = []
    for place, count in enumerate(counts):
        at = _NAMES + place * 110
        parts.append(
            element(
                "rect", class_="cell", x=at, y=top + 6, width=14, height=14,
                fill_opacity=_opacity(count, high),
            )
        )  # fmt: skip
        parts.append(element("text", f"{count:,} {unit}", x=at + 20, y=top + 17))
    return joined(*parts)


def _opacity(count: int, high: int) -> float:
    return _FAINTEST + (1 - _FAINTEST) * count / max(high, 1)
