"""Implementations of Clock: the machine's clock, and a virtual clock for simulations."""

from __future__ import annotations

import time
from typing import Final

from klamm.cluster.protocols import Clock

SIMULATION_START_MS: Final = 1_600_000_000_000


class WallClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return the time in milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Return the monotonic time in milliseconds."""
        return time.monotonic_ns() / 1e6


class MachineClock:
    """The clock of a broker's machine: its time of day differs from ``clock`` by ``skew_ms``.

    Monotonic time is the same on all machines."""

    def __init__(self, clock: Clock) -> None:
        self.skew_ms = 0
        self.monotonic_ms = clock.monotonic_ms
        self._clock = clock

    def now_ms(self) -> int:
        """Return the time that the machine shows, in milliseconds since the Unix epoch."""
        return self._clock.now_ms() + self.skew_ms


class MachineClocks:
    """The clocks of the brokers' machines. They keep running when a broker stops."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clocks: dict[int, MachineClock] = {}

    def __getitem__(self, broker_id: int) -> MachineClock:
        if broker_id not in self._clocks:
            self._clocks[broker_id] = MachineClock(self._clock)
        return self._clocks[broker_id]

    def heal(self) -> None:
        """Let all machines show the right time."""
        for clock in self._clocks.values():
            clock.skew_ms = 0


class VirtualClock:
    """The clock of a simulated world. Time advances only in ``advance_to``."""

    def __init__(self) -> None:
        self._elapsed_ms = 0.0

    def now_ms(self) -> int:
        """Return the simulated time in milliseconds since the Unix epoch."""
        return SIMULATION_START_MS + int(self._elapsed_ms)

    def monotonic_ms(self) -> float:
        """Return simulated milliseconds since the start of the world."""
        return self._elapsed_ms

    def advance_to(self, monotonic_ms: float) -> None:
        """Advance the time to ``monotonic_ms``. A time in the past has no effect."""
        self._elapsed_ms = max(self._elapsed_ms, monotonic_ms)
