"""Conversion of local times in log files to milliseconds since 1970, in a given time zone.

Kafka's logs do not name a time zone. When clocks are set back, an hour occurs twice: the second
occurrence starts where times in the file go back. If they do not, the lines are ambiguous.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

AMBIGUOUS: Final = "ambiguous local time"
NO_SUCH_TIME: Final = "no such local time"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE: Final = timedelta(minutes=1)
_FORMAT: Final = "%Y-%m-%d %H:%M"
_BACK_MS: Final = 60_000
"""Times that go back by less do not count: lines of several threads may be out of order."""
_APART_MS: Final = 12 * 3_600_000


class Doubt(NamedTuple):
    """The first of consecutive lines with an uncertain time."""

    line: int
    problem: str
    text: str


class LocalClock:
    """Converts the times of one file, in the order of its lines. ``zone`` None: UTC.

    ``doubts``: lines with uncertain times so far; ``close`` adds the last of them.
    """

    def __init__(self, zone: str | None) -> None:
        self.doubts: list[Doubt] = []
        self._zone = UTC if zone is None else ZoneInfo(zone)
        self._minutes: dict[str, int] = {}
        self._twice: dict[str, tuple[int, int]] = {}
        self._first: Doubt | None = None
        self._is_second = False
        self._last_ms = 0

    def ms(self, line: int, minute: str, second: str, ms: str) -> int | None:
        """Return milliseconds since 1970, or None for an invalid date.

        ``minute``: the time up to the minute, such as 2021-09-01 10:15.
        """
        begin = self._minutes.get(minute)
        if begin is None:
            begin = self._look_up(line, minute, int(second) * 1000)
            if begin is None:
                return None
        return begin + int(second) * 1000 + int(ms)

    def close(self) -> None:
        """End the file: add the pending doubt, if no later line resolved it."""
        if self._first is not None and not self._is_second:
            self.doubts.append(self._first)
        self._first = None

    def _look_up(self, line: int, minute: str, second_ms: int) -> int | None:
        if minute not in self._twice:
            try:
                naive = datetime.strptime(minute, _FORMAT)
            except ValueError:
                self.doubts.append(Doubt(line, NO_SUCH_TIME, minute))
                return None
            first, second = self._since_1970(naive, 0), self._since_1970(naive, 1)
            if first > second:
                # Clocks skipped this minute: the line must come from another time zone.
                self.doubts.append(Doubt(line, NO_SUCH_TIME, minute))
            if first >= second:
                self._minutes[minute] = first
                return first
            self._twice[minute] = first, second
        first, second = self._twice[minute]
        return second if self._is_of_second(line, minute, first + second_ms) else first

    def _since_1970(self, naive: datetime, fold: int) -> int:
        at = naive.replace(tzinfo=self._zone, fold=fold)
        return (at - _EPOCH) // _MINUTE * 60_000

    def _is_of_second(self, line: int, minute: str, first_ms: int) -> bool:
        if self._first is None or abs(first_ms - self._last_ms) > _APART_MS:
            self.close()
            self._first, self._is_second = Doubt(line, AMBIGUOUS, minute), False
        elif first_ms < self._last_ms - _BACK_MS:
            self._is_second = True
        self._last_ms = max(first_ms, self._last_ms) if not self._is_second else first_ms
        return self._is_second


def is_ambiguous(zone: str | None, minute: str) -> bool:
    """Return whether a local minute occurs twice, because clocks are set back."""
    if zone is None:
        return False
    try:
        at = datetime.strptime(minute, _FORMAT).replace(tzinfo=ZoneInfo(zone))
    except ValueError:
        return False
    first, second = at.utcoffset(), at.replace(fold=1).utcoffset()
    return first is not None and second is not None and first > second
