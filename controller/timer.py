"""Count, sum and maximum of durations: Kafka's timers and histograms as Prometheus shows them."""

from __future__ import annotations


class Timer:
    """Number of measured durations, with their sum and maximum in milliseconds."""

    __slots__ = ("count", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def update(self, elapsed_ms: float) -> None:
        """Add one duration."""
        self.count += 1
        self.sum_ms += elapsed_ms
        self.max_ms = max(self.max_ms, elapsed_ms)
