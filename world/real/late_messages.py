"""Actor of the real world that delivers the messages that faults of the network delay."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address, Message
from klamm.world.actors import Actor

ADDRESS = Address("network", 0)


class LateMessage(NamedTuple):
    """A message, and when it is due in monotonic milliseconds.

    ``in_order``: not before the earlier messages of the same link."""

    due_ms: float
    message: Message
    in_order: bool


class LateMessages(Actor):
    """Passes each LateMessage to ``deliver`` when it is due."""

    is_shared = True

    def __init__(self, deliver: Callable[[Message], None], clock: Clock) -> None:
        super().__init__(ADDRESS)
        self._deliver = deliver
        self._clock = clock
        self._due: list[tuple[float, int, Message]] = []
        self._last_due_ms: dict[tuple[Address, Address], float] = {}
        self._count = 0

    def next_due_ms(self) -> float | None:
        return self._due[0][0] if self._due else None

    def run_event(self) -> None:
        """Queue the new messages, and deliver those that are due."""
        while self.inbox:
            event = self.inbox.popleft()
            assert isinstance(event, LateMessage)
            due_ms, message, in_order = event
            if in_order:
                link = (message.source, message.destination)
                due_ms = max(due_ms, self._last_due_ms.get(link, 0.0))
                self._last_due_ms[link] = due_ms
            self._count += 1
            heapq.heappush(self._due, (due_ms, self._count, message))
        while self._due and self._due[0][0] <= self._clock.monotonic_ms():
            self._deliver(heapq.heappop(self._due)[2])
