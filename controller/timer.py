"""Timer metric: count and sum of durations, in place of Kafka's timers and histograms."""

from __future__ import annotations


class Timer:
    """Timer metric: number of durations, and their sum in milliseconds."""

    __slots__ = ("count", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0

    def update(self, elapsed_ms: float) -> None:
        """Add one duration in milliseconds."""
        self.count += 1
        self.sum_ms += elapsed_ms
