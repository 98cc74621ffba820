"""Implementations of Clock: the machine's clock, and a virtual clock for simulations."""

from __future__ import annotations

import time
from typing import Final

SIMULATION_START_MS: Final = 1_600_000_000_000


class WallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Return milliseconds that never decrease."""
        return time.monotonic_ns() / 1e6


class VirtualClock:
    """The clock of a simulated world; time passes only in ``advance_to``."""

    def __init__(self, start_ms: int = SIMULATION_START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Return simulated milliseconds since the epoch."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Return simulated milliseconds since the start of the world."""
        return self._elapsed_ms

    def advance_to(self, monotonic_ms: float) -> None:
        """Advance the time to ``monotonic_ms``; it never decreases."""
        self._elapsed_ms = max(self._elapsed_ms, monotonic_ms)
