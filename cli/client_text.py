"""Text of the progress and results of producers and consumers.

Turns plain values into lines. The progress line goes to standard error, and only to a terminal.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import typer

_INTERVAL_S: Final = 1.0
_QUIET_S: Final = 3.0
_SHOWN_LINES: Final = 20


class Progress:
    """Prints the progress of a producer or consumer to standard error.

    On a terminal, a progress line once a second. Everywhere, the reasons for waiting after more
    than three seconds.
    """

    def __init__(self) -> None:
        self._shown_s = time.monotonic()
        self._waiting: list[str] = []
        self._since_s = time.monotonic()
        self._has_line = False

    def show(self, status: Mapping[str, Any]) -> None:
        """Print the progress that a producer's status, or a consumer's poll, shows."""
        now_s = time.monotonic()
        waiting = status["waiting_for"]
        if not waiting:
            self._since_s, self._waiting = now_s, []
        elif waiting != self._waiting and now_s - self._since_s > _QUIET_S:
            self._waiting = waiting
            self.end()
            for line in waiting[:_SHOWN_LINES]:
                typer.echo(f"waiting: {line}", err=True)
        if "sent" in status and sys.stderr.isatty() and now_s - self._shown_s > _INTERVAL_S:
            self._shown_s = now_s
            line = f"{status['sent']} sent, {status['acknowledged']} acknowledged"
            typer.echo(f"\r\x1b[K{line}", err=True, nl=False)
            self._has_line = True

    def end(self) -> None:
        """Clear the progress line, if there is one."""
        if self._has_line:
            typer.echo("\r\x1b[K", err=True, nl=False)
            self._has_line = False


def rate_text(per_s: float) -> str:
    """Format a rate: with two significant digits below 10, as an integer from 10 on."""
    return f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.2g}"


def offsets_lines(offsets: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe where records were appended: one line per offset range of one leader epoch."""
    lines = [
        f"  partition {one['partition']}: offsets {one['start']} to {one['end'] - 1}, "
        f"leader epoch {one['leader_epoch']}"
        for one in offsets
    ]
    return _shortened(lines)


def not_acknowledged_lines(status: Mapping[str, Any]) -> list[str]:
    """Describe why records are not acknowledged, grouped by reason, and the pending waits."""
    counts: Counter[str] = Counter()
    for one in status["not_acknowledged"]:
        why = one["error"] if one["error"] != "NONE" else one["text"]
        what = "in doubt" if one["is_in_doubt"] else "failed"
        counts[f"  partition {one['partition']}: {what}: {why}"] += one["record_count"]
    lines = [f"{line} ({count} records)" for line, count in counts.items()]
    return _shortened([*lines, *(f"  {line}" for line in status["waiting_for"])])


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN_LINES
    return lines if more <= 0 else [*lines[:_SHOWN_LINES], f"  and {more} more"]
