"""What happens next in a simulated world: an actor goes on, messages arrive, or time passes.

The clock does not advance while an actor can run. Which of several actors runs next is chosen and
recorded. The due time of an actor changes only when it runs, receives something, or the clock
advances, so it is read again only then. Code that changes an actor in another way calls
``look_at_all``. What an event does to a node is in runtime/simulated/world.py.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from klamm.cluster.protocols import Clock
from klamm.runtime.actors import Actor, Scheduler
from klamm.runtime.clock import VirtualClock
from klamm.runtime.transport import SimulatedTransport
from klamm.zk.memory_store import MemoryServer


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


Chooser = Callable[[int], int]
"""Picks one of so many runnable actors."""


class RunLoop:
    """Moves a world one thing at a time. ``choices``: which of the runnable actors went on, so far.

    ``resume`` lets an actor go on. ``choose`` None: picks are drawn from ``rng``.
    """

    def __init__(
        self,
        agenda: Agenda,
        transport: SimulatedTransport,
        server: MemoryServer,
        clock: VirtualClock,
        resume: Callable[[Actor], None],
        rng: random.Random,
        choose: Chooser | None,
    ) -> None:
        self.choices: list[int] = []
        self.choose = choose
        self._agenda = agenda
        self._transport = transport
        self._server = server
        self._clock = clock
        self._resume = resume
        self._rng = rng

    def step(self) -> bool:
        """Do one thing; False if nothing can ever happen again without help from outside."""
        self._agenda.look_at_all()
        return self.do_next(self._agenda.runnable())

    def do_next(self, runnable: list[Actor]) -> bool:
        """Let one of these go on; without any, messages arrive or time passes. False: neither."""
        if runnable:
            index = self._pick(len(runnable))
            self.choices.append(index)
            self._resume(runnable[index])
            return True
        if self._transport.deliver_due():
            return True
        due_ms = self._next_due_ms()
        if due_ms is None:
            return False
        self._clock.advance_to(due_ms)
        self._server.expire_due()
        return True

    def next_due_ms(self) -> float | None:
        """When the next timer, message or session expiry is due, in monotonic milliseconds."""
        self._agenda.look_at_all()
        return self._next_due_ms()

    def run_until(self, condition: Callable[[], bool], timeout_ms: float) -> bool:
        """Step until ``condition`` holds; False if it does not within ``timeout_ms``."""
        self._agenda.look_at_all()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while not condition():
            if not self._step_by(deadline_ms):
                return condition()
        return True

    def run_for(self, duration_ms: float) -> None:
        """Step until this much time has passed and everything due by then is done."""
        self._agenda.look_at_all()
        deadline_ms = self._clock.monotonic_ms() + duration_ms
        while self._step_by(deadline_ms):
            pass

    def _next_due_ms(self) -> float | None:
        due = (
            self._transport.next_due_ms(),
            self._server.next_expiry_ms(),
            self._agenda.next_due_ms(),
        )
        return min((d for d in due if d is not None), default=None)

    def _step_by(self, deadline_ms: float) -> bool:
        """Do one thing that is due by then; False, and it is then, if there is nothing."""
        runnable = self._agenda.runnable()
        if not runnable and not self._transport.in_flight_before(deadline_ms):
            due_ms = self._next_due_ms()
            if due_ms is None or due_ms > deadline_ms:
                self._clock.advance_to(deadline_ms)
                return False
        self.do_next(runnable)
        return True

    def _pick(self, count: int) -> int:
        return self._rng.randrange(count) if self.choose is None else self.choose(count)
