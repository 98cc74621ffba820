"""Scales and axis marks: map times and counts to positions on a plot, and format them as text.

Draws nothing. Times are shown in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Final

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
TIME_STEPS_MS: Final = (
    *(n * 10**power for power in range(3) for n in (1, 2, 5)),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 30, 60, 120, 365)),
)
_NUMBER_STEPS: Final = 4
_PRECISION: Final = ((_MINUTE, "minutes"), (_SECOND, "seconds"), (0, "milliseconds"))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear mapping of the values ``low`` to ``high`` to the positions ``begin`` to ``end``."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        """Return the position of a value; values outside the scale are clamped to its ends."""
        if self.high <= self.low:
            return self.begin
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark on an axis: its value and its label."""

    value: float
    text: str


def time_marks(
    begin_ms: int, end_ms: int, most: int = 8, *, is_elapsed: bool = False
) -> list[Mark]:
    """Return axis marks at round times between two times, at most ``most`` + 1.

    The first mark of each day includes the date. If ``is_elapsed``, the times are seconds since the
    start of a run.
    """
    span = max(end_ms - begin_ms, 1)
    years = math.ceil(span / most / TIME_STEPS_MS[-1])
    step = next((s for s in TIME_STEPS_MS if span / s <= most), years * TIME_STEPS_MS[-1])
    times = range(-(-begin_ms // step) * step, end_ms + 1, step)
    if is_elapsed:
        return [Mark(t_ms, f"{t_ms / _SECOND:g} s") for t_ms in times]
    dated = {next(same) for _, same in groupby(times, lambda t_ms: t_ms // _DAY)}
    return [Mark(t_ms, _clock(t_ms, step, with_date=t_ms in dated)) for t_ms in times]


def number_marks(high: float) -> list[Mark]:
    """Return axis marks at round integers from 0 to at least ``high``."""
    rough = max(high, 1) / _NUMBER_STEPS
    power = 10 ** math.floor(math.log10(rough)) if rough > 1 else 1
    step = next(power * n for n in (1, 2, 5, 10) if power * n >= rough)
    return [Mark(n * step, f"{n * step:,}") for n in range(math.ceil(max(high, 1) / step) + 1)]


def thinned(points: Sequence[tuple[int, float]], most: int) -> list[tuple[int, float]]:
    """Reduce a step line to about ``most`` points without losing a peak.

    The first, highest, lowest and last point of each interval are kept. A line with at most
    ``most`` points is returned unchanged.
    """
    if len(points) <= most:
        return list(points)
    begin, span = points[0][0], max(points[-1][0] - points[0][0], 1)
    intervals = max(most // 4, 1)
    kept: list[tuple[int, float]] = []
    for _, several in groupby(points, lambda point: (point[0] - begin) * intervals // (span + 1)):
        of_interval = list(several)
        high = max(range(len(of_interval)), key=lambda n: of_interval[n][1])
        low = min(range(len(of_interval)), key=lambda n: of_interval[n][1])
        kept += [of_interval[n] for n in sorted({0, high, low, len(of_interval) - 1})]
    return kept


def time_text(t_ms: int) -> str:
    """Format a time in milliseconds since 1970, e.g. as 2021-09-01 10:15:02.120."""
    moment = _moment(t_ms)
    return f"{t_ms} ms" if moment is None else moment.isoformat(" ", "milliseconds")[:23]


def elapsed_text(t_ms: float) -> str:
    """Format a time since the start of a run as `klamm drill run` does, e.g. as 6.456 s."""
    return f"{t_ms / _SECOND:.3f} s"


def duration_text(ms: float) -> str:
    """Format a duration in milliseconds in its two largest units, e.g. as 2 min 05 s."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < _SECOND:
        return f"{ms:.0f} ms"
    if ms < _MINUTE:
        return f"{math.floor(ms / 10) / 100:.2f} s"
    if ms < _HOUR:
        return f"{ms // _MINUTE:.0f} min {ms % _MINUTE // _SECOND:02.0f} s"
    if ms < _DAY:
        return f"{ms // _HOUR:.0f} h {ms % _HOUR // _MINUTE:02.0f} min"
    return f"{ms // _DAY:,.0f} d {ms % _DAY // _HOUR:02.0f} h"


def _clock(t_ms: int, step_ms: int, *, with_date: bool) -> str:
    moment = _moment(t_ms)
    if moment is None:
        return str(t_ms)
    date = moment.date().isoformat()
    if step_ms >= _DAY:
        return date
    unit = next(unit for length, unit in _PRECISION if step_ms >= length)
    clock = moment.time().isoformat(unit)
    return f"{date} {clock}" if with_date else clock


def _moment(t_ms: int) -> datetime | None:
    """Return a time as a datetime, or None if it is outside Python's range."""
    try:
        return _EPOCH + timedelta(milliseconds=t_ms)
    except OverflowError:
        return None
