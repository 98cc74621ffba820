"""What a page is made of, as values: sections of plots and tables, before any HTML.

Knows neither drills nor replay, which both fill these in. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Cell = str | int | float | None


class Tone(StrEnum):
    """What a word on a page wants to be taken for; never told by colour alone."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in columns. ``total``: how many rows there are in all, if not all of them are here.

    A column whose cells are all numbers is set right.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: int | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A value that stays as it is until the next point: (t_ms, value) in the order of time."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class StepPlot:
    """One value over time, from its first point to ``end_ms``."""

    title: str
    steps: Steps
    end_ms: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class StepRows:
    """The same value of many, one below the other on one scale: leaders of each broker.

    ``total``: how many rows there are in all, if not all of them are here.
    """

    title: str
    rows: Sequence[Steps]
    begin_ms: int
    end_ms: int
    note: str = ""
    total: int | None = None


@dataclass(frozen=True, slots=True)
class HeatMap:
    """Counts by row and by interval of time: column n begins at ``begin_ms + n * width_ms``.

    ``counts`` by (row, column), counted from 0; what is left out is 0.
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
    """Something that took from ``begin_ms`` to ``end_ms``; None: it has not ended."""

    name: str
    begin_ms: int
    end_ms: int | None
    outcome: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Gantt:
    """Bars below one another. ``total``: how many there are, if not all of them are here."""

    title: str
    bars: Sequence[Bar]
    end_ms: int
    note: str = ""
    total: int | None = None


Block = Table | StepPlot | StepRows | HeatMap | Gantt


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, a sentence or two, and what they speak of."""

    title: str
    text: str = ""
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A number worth a glance, and what it counts."""

    value: str
    name: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page. ``verdict`` is its first sentence; ``facts`` are names and values."""

    title: str
    verdict: str
    tone: Tone = Tone.PLAIN
    figures: Sequence[Figure] = ()
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
