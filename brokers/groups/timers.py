"""Timers of the group coordinator, which replace Kafka's purgatories of delayed operations."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable


class Timers:
    """Callbacks by key, each called once at its time, in monotonic milliseconds."""

    def __init__(self) -> None:
        self._set: dict[Hashable, tuple[int, Callable[[], None]]] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._count = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._set

    def set(self, key: Hashable, due_ms: float, callback: Callable[[], None]) -> None:
        """Set a timer; it replaces the timer with the same key."""
        self._count += 1
        self._set[key] = (self._count, callback)
        heapq.heappush(self._heap, (due_ms, self._count, key))

    def cancel(self, key: Hashable) -> None:
        """Cancel a timer, if it is set."""
        self._set.pop(key, None)

    def next_due_ms(self) -> float | None:
        """Return the time of the next timer, or None."""
        heap = self._heap
        while heap and self._set.get(heap[0][2], (0, None))[0] != heap[0][1]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def run(self, now_ms: float) -> None:
        """Call what is due by ``now_ms``, in order of time."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            self._set.pop(key)[1]()
