"""A count with a duration: what Kafka's timers and histograms come down to in Prometheus text."""

from __future__ import annotations


class Timer:
    """How often something took place and how long it took in all, in milliseconds."""

    __slots__ = ("count", "max_ms", "sum_ms")

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0

    def update(self, elapsed_ms: float) -> None:
        """Count one occurrence."""
        self.count += 1
        self.sum_ms += elapsed_ms
        self.max_ms = max(self.max_ms, elapsed_ms)
