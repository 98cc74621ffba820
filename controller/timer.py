"""Timer metric: count, sum and maximum of durations, in place of Kafka's timers and histograms."""

from __future__ import annotations


class Timer:
    """Timer metric: number of durations, with their sum and maximum in milliseconds."""

    __slots__ = ("count", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def update(self, elapsed_ms: float) -> None:
        """Add one duration in milliseconds."""
        self.count += 1
        self.sum_ms += elapsed_ms
        self.max_ms = max(self.max_ms, elapsed_ms)
