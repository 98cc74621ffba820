"""Values over time as inline SVG: one step line with its axes, or a row of steps each.

Each plot has a title and a description for those who do not see it. Draws; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from report.markup import Markup, element, joined
from report.scales import Mark, Scale, number_marks, thinned, time_marks, time_text
from report.values import StepPlot, StepRows

WIDTH: Final = 960.0
MOST_POINTS: Final = 2000
"""Of a step line; of more, each interval's highest and lowest are drawn."""
MOST_ROWS: Final = 40
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
_CHARACTERS: Final = 22


def step_plot(plot: StepPlot, number: int) -> Markup:
    """One value over time. ``number`` makes the ids of a page's plots different."""
    points = thinned(plot.steps.points, MOST_POINTS)
    begin_ms = points[0][0] if points else plot.end_ms
    marks = number_marks(max((value for _, value in points), default=0))
    x = Scale(begin_ms, plot.end_ms, _LEFT, WIDTH - _RIGHT)
    y = Scale(0, marks[-1].value, _HEIGHT - _BOTTOM, _TOP)
    lines = [
        joined(
            element("line", class_="grid", x1=x.begin, x2=x.end, y1=at, y2=at),
            element("text", mark.text, x=x.begin - 8, y=at + 4, text_anchor="end"),
        )
        for mark in marks
        for at in (y.at(mark.value),)
    ]
    peak = max(points, key=lambda point: point[1], default=(plot.end_ms, 0))
    told = (
        f"{plot.steps.name} from {time_text(begin_ms)} to {time_text(plot.end_ms)} UTC, at most "
        f"{peak[1]:,} at {time_text(peak[0])}"
    )
    body = joined(*lines, time_axis(x, _HEIGHT - _BOTTOM), steps(points, plot.end_ms, x, y))
    return picture(plot.title, told, number, _HEIGHT, body)


def step_rows(plot: StepRows, number: int) -> Markup:
    """A row each, all on one scale, with the last value at its end."""
    rows = plot.rows[:MOST_ROWS]
    high = max((value for row in rows for _, value in row.points), default=0)
    x = Scale(plot.begin_ms, plot.end_ms, _NAMES, WIDTH - _VALUE)
    height = len(rows) * (_ROW_HEIGHT + _ROW_GAP) + _BOTTOM
    drawn = []
    for place, row in enumerate(rows):
        foot = (place + 1) * (_ROW_HEIGHT + _ROW_GAP) - _ROW_GAP / 2
        y = Scale(0, max(high, 1), foot, foot - _ROW_HEIGHT)
        last = row.points[-1][1] if row.points else 0
        points = thinned(row.points, _POINTS_OF_A_ROW)
        drawn.append(
            element(
                "g",
                element("title", f"{row.name}: {last:,} at the end"),
                name_of_row(row.name, _NAMES, foot - _ROW_HEIGHT / 2),
                element("line", class_="axis", x1=x.begin, x2=x.end, y1=foot, y2=foot),
                steps(points, plot.end_ms, x, y),
                element("text", f"{last:,}", class_="name", x=x.end + 8, y=foot - 4),
            )
        )
    told = (
        f"{len(rows)} rows from {time_text(plot.begin_ms)} to {time_text(plot.end_ms)} UTC, "
        f"all from 0 to {high:,}"
    )
    body = joined(*drawn, time_axis(x, height - _BOTTOM))
    return picture(plot.title, told, number, height, body)


def steps(points: Sequence[tuple[int, float]], end_ms: int, x: Scale, y: Scale) -> Markup:
    """The line of a value that stays until it changes, and the area below it."""
    if not points:
        return Markup()
    begin = f"M{_number(x.at(points[0][0]))} {_number(y.at(points[0][1]))}"
    moves = "".join(f"H{_number(x.at(t))}V{_number(y.at(value))}" for t, value in points[1:])
    line = f"{begin}{moves}H{_number(x.at(end_ms))}"
    area = f"{line}V{_number(y.begin)}H{_number(x.at(points[0][0]))}Z"
    return joined(element("path", class_="area", d=area), element("path", class_="step", d=line))


def time_axis(x: Scale, foot: float, marks: Iterable[Mark] | None = None) -> Markup:
    """Round times below a plot; the first has its date."""
    parts = [element("line", class_="axis", x1=x.begin, x2=x.end, y1=foot, y2=foot)]
    for mark in marks or time_marks(int(x.low), int(x.high)):
        at = x.at(mark.value)
        parts.append(element("line", class_="axis", x1=at, x2=at, y1=foot, y2=foot + 5))
        parts.append(element("text", mark.text, x=at, y=foot + 19, text_anchor="middle"))
    return joined(*parts)


def picture(title: str, told: str, number: int, height: float, body: Markup) -> Markup:
    """An SVG element with a title and a description that screen readers speak."""
    ids = f"plot-{number}-title plot-{number}-told"
    return element(
        "svg",
        element("title", title, id=ids.split()[0]),
        element("desc", told, id=ids.split()[1]),
        body,
        viewBox=f"0 0 {WIDTH:.0f} {height:.0f}",
        role="img",
        aria_labelledby=ids,
    )


def name_of_row(name: str, end: float, middle: float) -> Markup:
    """A row's name before its plot, cut where it is too long; the title has all of it."""
    short = name if len(name) <= _CHARACTERS else f"{name[: _CHARACTERS - 1]}…"
    return element("text", short, class_="name", x=end - 10, y=middle + 4, text_anchor="end")


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
