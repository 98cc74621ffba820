"""Contents of a page as values: sections of plots and tables, before any HTML.

Independent of drills and replay, which both use them. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Cell = str | int | float | None


class Tone(StrEnum):
    """Meaning of a text on a page; it is never conveyed by colour alone."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in columns. ``total``: number of all rows, if only some are included.

    A column of numbers is right-aligned.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A value that is constant between points (t_ms, value), in order of time."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class StepPlot:
    """A step line of one value, from its first point to ``end_ms``."""

    title: str
    steps: Steps
    end_ms: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class StepRows:
    """Step lines of several values on one scale, for example the leaders of each broker.

    ``total``: number of all rows, if only some are included.
    """

    title: str
    rows: Sequence[Steps]
    begin_ms: int
    end_ms: int
    note: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Counts by row and time interval: column n begins at ``begin_ms + n * width_ms``.

    ``counts``: by (row, column), both from 0; missing entries are 0.
    """

    title: str
    rows: Sequence[str]
    columns: int
    begin_ms: int
    width_ms: int
    counts: Mapping[tuple[int, int], int]
    unit: str = "changes"
    note: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a Gantt chart, from ``begin_ms`` to ``end_ms``; None: it has not ended."""

    name: str
    begin_ms: int
    end_ms: int | None
    outcome: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Gantt:
    """A Gantt chart. ``total``: number of all bars, if only some are included."""

    title: str
    bars: Sequence[Bar]
    end_ms: int
    note: str = ""
    total: int | None = None


Block = Table | StepPlot | StepRows | HeatMap | Gantt


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page: heading, introduction, plots and tables."""

    title: str
    text: str = ""
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure: its value, and what it counts."""

    value: str
    name: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. ``verdict``: its first sentence. ``facts``: names and values."""

    title: str
    verdict: str
    tone: Tone = Tone.PLAIN
    figures: Sequence[Figure] = ()
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
