"""A whole page from its values: one HTML file that needs nothing but itself.

Values -> text; reads no clock and no file. Long tables and plots are cut, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from report.grids import MOST_BARS, gantt, heat_map
from report.markup import Markup, element, joined
from report.plots import MOST_POINTS, MOST_ROWS, step_plot, step_rows
from report.scales import duration_text, time_text
from report.style import STYLE_SHEET
from report.values import (
    Block,
    Cell,
    Gantt,
    HeatMap,
    Page,
    Section,
    StepPlot,
    StepRows,
    Table,
)

MOST_TABLE_ROWS: Final = 200
_MOST_BESIDE: Final = 100
_MOST_CHARACTERS: Final = 500
_MOST_IN_A_LINE: Final = 24
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"


def page_html(page: Page) -> str:
    """The page as one HTML document. Its only script is none, its only style its own."""
    numbered = list(enumerate(page.sections))
    links = [element("a", section.title, href=f"#section-{n}") for n, section in numbered]
    plot_number = iter(range(1_000_000))
    main = element(
        "main",
        element("h1", page.title),
        element("p", page.verdict, class_=f"verdict {page.tone}"),
        _figures(page),
        _facts(page),
        element("nav", *links, aria_label="Sections"),
        *(_section(section, n, plot_number) for n, section in numbered),
        element("footer", "Made by klamm. Times are UTC. This page loads nothing."),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", page.title),
        element("style", Markup(STYLE_SHEET)),
    )
    return f"<!DOCTYPE html>\n{element('html', head, element('body', main), lang='en')}\n"


def _figures(page: Page) -> Markup:
    if not page.figures:
        return Markup()
    boxes = [
        element("div", element("dt", at.name), element("dd", at.value), class_=str(at.tone))
        for at in page.figures
    ]
    return element("dl", *boxes, class_="figures")


def _facts(page: Page) -> Markup:
    if not page.facts:
        return Markup()
    pairs = [joined(element("dt", name), element("dd", value)) for name, value in page.facts]
    return element("dl", *pairs, class_="facts")


def _section(section: Section, number: int, plot_number: Iterator[int]) -> Markup:
    parts = [element("h2", section.title, id=f"section-{number}")]
    if section.text:
        parts.append(element("p", section.text))
    parts += [_block(block, plot_number) for block in section.blocks]
    return element("section", *parts, aria_labelledby=f"section-{number}")


def _block(block: Block, plot_number: Iterator[int]) -> Markup:
    match block:
        case Table():
            return _table(block, MOST_TABLE_ROWS)
        case StepPlot():
            drawn = step_plot(block, next(plot_number))
        case StepRows():
            drawn = step_rows(block, next(plot_number))
        case HeatMap():
            drawn = heat_map(block, next(plot_number))
        case Gantt():
            drawn = gantt(block, next(plot_number))
    beside = _beside(block)
    caption = element("figcaption", element("h3", block.title), *_caption(block))
    values = element("details", element("summary", "As a table"), _table(beside, _MOST_BESIDE))
    return element("figure", caption, drawn, values)


def _caption(block: StepPlot | StepRows | HeatMap | Gantt) -> Iterator[str]:
    if block.note:
        yield f"{block.note} "
    if isinstance(block, StepPlot):
        if len(block.steps.points) > MOST_POINTS:
            yield f"Thinned from {len(block.steps.points):,} changes; no peak is left out."
        return
    here, most = (
        (len(block.bars), MOST_BARS) if isinstance(block, Gantt) else (len(block.rows), MOST_ROWS)
    )
    total = here if block.total is None else block.total
    if total > min(here, most):
        yield f"The first {min(here, most)} are drawn, and {total - min(here, most):,} more."


def _beside(block: StepPlot | StepRows | HeatMap | Gantt) -> Table:
    """What a plot shows, as a table."""
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


def _table(table: Table, most: int) -> Markup:
    rows = table.rows[:most]
    more = (len(table.rows) if table.total is None else table.total) - len(rows)
    numeric = [
        bool(rows) and all(isinstance(row[n], int | float | None) for row in rows)
        for n in range(len(table.columns))
    ]
    heads = [
        element("th", name, scope="col", **_class(is_number))
        for name, is_number in zip(table.columns, numeric, strict=True)
    ]
    body = [
        element(
            "tr",
            *(
                element("td", _text(cell), class_=_kind_of(cell, is_number))
                for cell, is_number in zip(row, numeric, strict=True)
            ),
        )
        for row in rows
    ]
    notes = [element("p", table.note, class_="note")] if table.note else []
    if more > 0:
        notes.append(element("p", f"and {more:,} more", class_="note"))
    if not rows:
        notes.append(element("p", "none", class_="note"))
    whole = element(
        "table",
        element("caption", table.title),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
    )
    return joined(element("div", whole, class_="scroll"), *notes)


def _class(is_number: bool) -> dict[str, str]:
    return {"class_": "number"} if is_number else {}


def _kind_of(cell: Cell, is_number: bool) -> str:
    """A time or a name is read in one piece, what is longer is broken anywhere."""
    if is_number:
        return "number"
    return "short" if len(_text(cell)) <= _MOST_IN_A_LINE else "long"


def _text(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        return cell if len(cell) <= _MOST_CHARACTERS else f"{cell[:_MOST_CHARACTERS]}…"
    return f"{cell:,}"
