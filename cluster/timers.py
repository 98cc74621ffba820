"""Due times of timers, in monotonic milliseconds. None stands for a timer that is not set."""

from __future__ import annotations

from collections.abc import Iterable


def earliest(due: Iterable[float | None]) -> float | None:
    """Return the earliest of these times, or None if no timer is set."""
    first = None
    for due_ms in due:
        if due_ms is not None and (first is None or due_ms < first):
            first = due_ms
    return first
