"""Who of many actors may go on now, and when the others are due, without asking each at every step.

An actor's answers change when it runs, when it is given something, and with time: only then is it
asked again. Whoever changes an actor in another way calls ``look_at_all``. It resumes nobody and
does not let time pass.
"""

from __future__ import annotations

import heapq

from cluster.protocols import Clock
from runtime.actors import Actor, Scheduler


class Agenda:
    """The actors of a scheduler: those to be asked, and a heap of when the others are due."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._to_ask: dict[Actor, None] = {}
        self._due: list[tuple[float, int, Actor]] = []
        self._due_ms: dict[Actor, float] = {}
        self._added = 0

    def look_at(self, actor: Actor) -> None:
        """Ask an actor again: it ran, or was given something."""
        self._to_ask[actor] = None

    def look_at_all(self) -> None:
        """Ask everybody again."""
        self._due.clear()
        self._due_ms.clear()
        self._to_ask = dict.fromkeys(self._scheduler.actors.values())

    def runnable(self) -> list[Actor]:
        """The actors that can go on, in the order they were added to the scheduler."""
        now_ms = self._clock.monotonic_ms()
        self._take_due(now_ms)
        if not self._to_ask:
            return []
        found = []
        for actor in list(self._to_ask):
            ready_ms = actor.ready_ms()
            if ready_ms is not None and ready_ms <= now_ms:
                found.append(actor)
            else:
                del self._to_ask[actor]
                self._expect(actor, ready_ms)
        found.sort(key=self._scheduler.order_of)
        return found

    def next_due_ms(self) -> float | None:
        """When the first of those that cannot go on now is due, in monotonic milliseconds."""
        self.runnable()
        due = self._due
        while due and not self._is_expected(due[0]):
            heapq.heappop(due)
        return due[0][0] if due else None

    def _take_due(self, now_ms: float) -> None:
        due = self._due
        while due and due[0][0] <= now_ms:
            entry = heapq.heappop(due)
            if self._is_expected(entry):
                del self._due_ms[entry[2]]
                self._to_ask[entry[2]] = None

    def _expect(self, actor: Actor, due_ms: float | None) -> None:
        if due_ms is None:
            self._due_ms.pop(actor, None)
        elif self._due_ms.get(actor) != due_ms:
            self._due_ms[actor] = due_ms
            self._added += 1
            heapq.heappush(self._due, (due_ms, self._added, actor))

    def _is_expected(self, entry: tuple[float, int, Actor]) -> bool:
        due_ms, _, actor = entry
        return not actor.stopped and self._due_ms.get(actor) == due_ms
