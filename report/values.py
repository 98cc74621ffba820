"""Contents of a page as plain values: sections of plots and tables. page.py renders them as HTML.

Independent of replay, which makes these values. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

Cell = str | int | float | None


class Tone(StrEnum):
    """Meaning of a text on a page, shown as a colour. The text itself also states the meaning."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


class Marker(NamedTuple):
    """A mark on the time axis, e.g. for an election.

    If its tone is not PLAIN, a line through the plots is drawn, too.
    """

    t_ms: int
    kind: str
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading for each column.

    If only some rows are included, ``total`` is the total number of rows. Numeric columns are
    right-aligned. ``highlighted``: indexes of rows that stand out.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    total: int | None = None
    note: str = ""
    highlighted: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """A named value over time that is constant between its points (t_ms, value), in time order."""

    name: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class StepPlot:
    """A plot of one value as a step line, from its first point to ``end_ms``."""

    title: str
    steps: Steps
    end_ms: int
    note: str = ""
    marks: tuple[Marker, ...] = ()


@dataclass(frozen=True, slots=True)
class StepRows:
    """A plot of several values as step lines on one scale, e.g. how many partitions each broker
    leads.

    If only some rows are included, ``total`` is the total number of rows.
    """

    title: str
    rows: Sequence[Steps]
    begin_ms: int
    end_ms: int
    note: str = ""
    total: int | None = None
    marks: tuple[Marker, ...] = ()


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A plot of numbers of changes for each row and time interval.

    Column n covers the interval of ``width_ms`` that begins at ``begin_ms + n * width_ms``.
    ``counts`` is keyed by (row, column), both from 0; a missing entry means 0. If ``end_ms`` is
    None, the plot ends with the last column.
    """

    title: str
    rows: Sequence[str]
    columns: int
    begin_ms: int
    width_ms: int
    counts: Mapping[tuple[int, int], int]
    note: str = ""
    marks: tuple[Marker, ...] = ()
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a Gantt chart, from ``begin_ms`` to ``end_ms``.

    ``end_ms`` is None for something that has not ended.
    """

    name: str
    begin_ms: int
    end_ms: int | None
    outcome: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Gantt:
    """A Gantt chart, with one bar for each entry.

    If ``begin_ms`` is None, the chart begins with the first bar.
    """

    title: str
    bars: Sequence[Bar]
    end_ms: int
    note: str = ""
    marks: tuple[Marker, ...] = ()
    begin_ms: int | None = None


class Life(NamedTuple):
    """The last changes to a partition, each as (t_ms, leader, size of the ISR, state).

    None means unknown; a leader below -1 means that the partition does not exist. ``total``: number
    of all changes to the partition. ``run``: the index of the partition's run in
    ``LifeLines.runs``.
    """

    changes: Sequence[tuple[int, int | None, int | None, str | None]]
    total: int
    run: int = 0


@dataclass(frozen=True, slots=True)
class LifeLines:
    """A search field for partitions, and a plot of a partition's leader, ISR size and state.

    Only a browser that runs JavaScript shows the field and the plot. ``runs``: the marks of each
    run.
    """

    title: str
    lives: Mapping[str, Life]
    begin_ms: int
    end_ms: int
    runs: Sequence[tuple[Marker, ...]]
    note: str = ""

    @property
    def marks(self) -> tuple[Marker, ...]:
        """The marks shown at first: those of the first run."""
        return self.runs[0]


class Span(NamedTuple):
    """A part of a lane, from ``begin_ms`` to ``end_ms``, e.g. while a broker is dead."""

    begin_ms: int
    end_ms: int
    text: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a timeline: its name, and spans that do not overlap, in time order.

    If ``is_labelled``, every span is shown with its text, a moment as a tick. The spans may
    overlap: the lane has as many rows as they and their texts need.
    """

    name: str
    spans: Sequence[Span]
    is_labelled: bool = False


@dataclass(frozen=True, slots=True)
class Lanes:
    """A timeline with one lane for each actor."""

    title: str
    lanes: Sequence[Lane]
    begin_ms: int
    end_ms: int
    note: str = ""
    marks: tuple[Marker, ...] = ()


class Arrow(NamedTuple):
    """A row of a sequence diagram, at time ``t_ms``.

    ``sources`` and ``targets`` are names of lifelines; an arrow leads from each source to each
    target. Without targets, the text is a note at the source; without sources, too, it is a line
    across the diagram. ``is_dashed``: for responses.
    """

    t_ms: int
    text: str
    sources: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    tone: Tone = Tone.PLAIN
    is_dashed: bool = False


@dataclass(frozen=True, slots=True)
class SequenceDiagram:
    """A sequence diagram: lifelines, and arrows between them in the order in which they happened.

    ``lives``: the states of lifelines over time, in time order; the tone of a span is that of the
    line, and where a lifeline has no span, there is none.
    """

    title: str
    lives: Mapping[str, Sequence[Span]]
    arrows: Sequence[Arrow]
    note: str = ""


Block = Table | StepPlot | StepRows | HeatMap | Gantt | LifeLines | Lanes | SequenceDiagram


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page: its heading, an introduction, plots and tables."""

    title: str
    text: str = ""
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Figure:
    """A key figure at the top of a page: its value, and what it counts."""

    value: str
    name: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page.

    ``verdict`` is the page's first sentence; ``facts`` are names and values shown below it. If
    ``is_elapsed``, all times are milliseconds since the start of a run, and are shown so.
    """

    title: str
    verdict: str
    tone: Tone = Tone.PLAIN
    figures: Sequence[Figure] = ()
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default_factory=tuple)
    is_elapsed: bool = False
