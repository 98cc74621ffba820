"""Text that describes the progress and results of producers and consumers.

Progress is printed to standard error. The progress line with the counts appears only on a terminal.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import typer

from klamm.cli.terminal import STATUS_LINE
from klamm.server.client_bodies import Offsets, ProducerStatus

_INTERVAL_S: Final = 1.0
_QUIET_S: Final = 2.0
_SHOWN_LINES: Final = 20


class ClientProgress:
    """Prints the progress of a producer or consumer to standard error.

    - On a terminal, the number of records sent and acknowledged is shown once a second.
    - If a producer or consumer waits for more than two seconds, the reasons are printed, on a
      terminal or not.
    """

    def __init__(self) -> None:
        self._shown_s = time.monotonic()
        self._waiting: list[str] = []
        self._since_s = time.monotonic()

    def show(self, waiting: list[str], counts: str = "") -> None:
        """Print what a producer or consumer is ``waiting`` for, and the ``counts`` if any."""
        now_s = time.monotonic()
        if not waiting:
            self._since_s, self._waiting = now_s, []
        elif waiting != self._waiting and now_s - self._since_s > _QUIET_S:
            self._waiting = waiting
            for line in waiting[:_SHOWN_LINES]:
                typer.echo(f"waiting: {line}", err=True)
        if counts and sys.stderr.isatty() and now_s - self._shown_s > _INTERVAL_S:
            self._shown_s = now_s
            STATUS_LINE.show(counts)


def rate_text(per_s: float) -> str:
    """Format a rate with two significant digits if it is below 10, else as an integer."""
    return f"{per_s:.0f}" if per_s >= 10 else f"{per_s:.2g}"


def offsets_lines(offsets: Sequence[Offsets]) -> list[str]:
    """Return one line for each range of offsets to which records were appended."""
    lines = [
        f"  partition {one.partition}: offsets {one.start} to {one.end - 1}, "
        f"leader epoch {one.leader_epoch}"
        for one in offsets
    ]
    return _shortened(lines)


def not_acknowledged_lines(status: ProducerStatus) -> list[str]:
    """Return the number of unacknowledged records for each partition and reason, one per line.

    The last lines describe what the producer is still waiting for.
    """
    counts: Counter[str] = Counter()
    for one in status.not_acknowledged:
        why = one.error if one.error != "NONE" else one.text
        what = "in doubt" if one.is_in_doubt else "failed"
        counts[f"  partition {one.partition}: {what}: {why}"] += one.record_count
    lines = [f"{line} ({count} records)" for line, count in counts.items()]
    return _shortened([*lines, *(f"  {line}" for line in status.waiting_for)])


def _shortened(lines: list[str]) -> list[str]:
    more = len(lines) - _SHOWN_LINES
    return lines if more <= 0 else [*lines[:_SHOWN_LINES], f"  and {more} more"]
