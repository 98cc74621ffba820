"""Converts local times in log files to milliseconds since 1970, for a given time zone.

Kafka's logs do not contain the time zone. When clocks are set back in autumn, an hour occurs twice.
Its second occurrence begins at the line whose time is earlier than that of the line before. If
there is no such line, the times in this hour are ambiguous.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from klamm.replay.event_schema import DamagedLine

AMBIGUOUS: Final = "ambiguous local time"
NO_SUCH_TIME: Final = "no such local time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_FORMAT: Final = "%Y-%m-%d %H:%M"
_BACK_MS: Final = 60_000
"""Smaller steps back are ignored: lines of several threads may be slightly out of order."""
_APART_MS: Final = 12 * 3_600_000


class LocalClock:
    """Converts the times in one file, line by line. If ``zone`` is None, times are UTC.

    ``doubts`` lists the lines with uncertain times; it is complete after ``close``.
    """

    def __init__(self, zone: str | None) -> None:
        self.doubts: list[DamagedLine] = []
        self._zone = UTC if zone is None else ZoneInfo(zone)
        self._minutes: dict[str, int] = {}
        self._twice: dict[str, tuple[int, int]] = {}
        self._first: DamagedLine | None = None
        self._is_second = False
        self._last_ms = 0

    def ms(self, line: int, minute: str, second: str, ms: str) -> int | None:
        """Return the time of a line in milliseconds since 1970, or None for an invalid date.

        ``minute``: date, hour and minute, for example 2021-09-01 10:15.
        """
        begin = self._minutes.get(minute)
        if begin is None:
            begin = self._look_up(line, minute, int(second) * 1000)
            if begin is None:
                return None
        return begin + int(second) * 1000 + int(ms)

    def close(self) -> None:
        """End the file. If it ends before an ambiguous hour is resolved, add that to ``doubts``."""
        if self._first is not None and not self._is_second:
            self.doubts.append(self._first)
        self._first = None

    def _look_up(self, line: int, minute: str, second_ms: int) -> int | None:
        if minute not in self._twice:
            both = _both_ms(self._zone, minute)
            if both is None:
                self.doubts.append(DamagedLine(line, NO_SUCH_TIME, minute))
                return None
            first, second = both
            if first > second:
                # Clocks skipped this minute: the line must come from another time zone.
                self.doubts.append(DamagedLine(line, NO_SUCH_TIME, minute))
            if first >= second:
                self._minutes[minute] = first
                return first
            self._twice[minute] = both
        first, second = self._twice[minute]
        return second if self._is_of_second(line, minute, first + second_ms) else first

    def _is_of_second(self, line: int, minute: str, first_ms: int) -> bool:
        if self._first is None or abs(first_ms - self._last_ms) > _APART_MS:
            self.close()
            self._first, self._is_second = DamagedLine(line, AMBIGUOUS, minute), False
            self._last_ms = first_ms
        elif first_ms < self._last_ms - _BACK_MS:
            self._is_second = True
        self._last_ms = max(first_ms, self._last_ms) if not self._is_second else first_ms
        return self._is_second


def is_ambiguous(zone: str | None, minute: str) -> bool:
    """Return whether a local time (to the minute) occurs twice because clocks are set back."""
    both = None if zone is None else _both_ms(ZoneInfo(zone), minute)
    return both is not None and both[0] < both[1]


def _both_ms(zone: tzinfo, minute: str) -> tuple[int, int] | None:
    """Return the times in ms that a local time stands for before and after a change of the clocks.

    They are equal for most times. Returns None for an invalid date.
    """
    try:
        local = datetime.strptime(minute, _FORMAT).replace(tzinfo=zone)
    except ValueError:
        return None
    first, second = ((local.replace(fold=n) - _EPOCH) // _MINUTE * 60_000 for n in (0, 1))
    return first, second
