"""Decides which warnings about closed connections are logged, so that no client fills the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INTERVAL_S: Final = 1.0
LONGEST_INTERVAL_S: Final = 60.0
_TEXTS_MAX: Final = 100


@dataclass(slots=True)
class _Repeated:
    interval_s: float
    next_s: float = 0.0
    not_logged: int = 0


class ConnectionWarnings:
    """The warnings of a cluster's listeners.

    At most one is logged in each INTERVAL_S. If one is repeated, its intervals double up to
    LONGEST_INTERVAL_S, until it has not been repeated for that long.
    """

    def __init__(self) -> None:
        self._next_s = 0.0
        self._by_text: dict[str, _Repeated] = {}

    def to_log(self, text: str, now_s: float) -> str | None:
        """Return the text to log, with the number of times that it was not; None for nothing."""
        one = self._by_text.get(text)
        if one is None:
            if len(self._by_text) >= _TEXTS_MAX:
                self._by_text.clear()
            one = self._by_text[text] = _Repeated(INTERVAL_S)
        elif now_s >= one.next_s + LONGEST_INTERVAL_S:
            one.interval_s = INTERVAL_S
        if now_s < max(one.next_s, self._next_s):
            one.not_logged += 1
            return None
        more = f" (and {one.not_logged} more)" if one.not_logged else ""
        one.not_logged = 0
        one.next_s = now_s + one.interval_s
        one.interval_s = min(2 * one.interval_s, LONGEST_INTERVAL_S)
        self._next_s = now_s + INTERVAL_S
        return f"{text}{more}"
