"""Implementations of Clock: the machine's own, and one that stands still until it is advanced."""

from __future__ import annotations

import time
from typing import Final

SIMULATION_START_MS: Final = 1_600_000_000_000


class WallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds that never go back."""
        return time.monotonic_ns() / 1e6


class VirtualClock:
    """A clock of a simulated world: time passes only when ``advance_to`` says so."""

    def __init__(self, start_ms: int = SIMULATION_START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Simulated milliseconds since the epoch."""
        return self._start_ms + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Simulated milliseconds since the world began."""
        return self._elapsed_ms

    def advance_to(self, monotonic_ms: float) -> None:
        """Let time pass until ``monotonic_ms``; time never goes back."""
        self._elapsed_ms = max(self._elapsed_ms, monotonic_ms)
