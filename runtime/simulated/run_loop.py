"""What happens next in a simulated world: an actor goes on, messages arrive, or time passes.

Time stands still while somebody can run. Which of several actors goes on is chosen, and written
down. What an actor's event does to its node is runtime/simulated/world.py's business.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from runtime.actors import Actor
from runtime.clock import VirtualClock
from runtime.simulated.agenda import Agenda
from runtime.transport import SimulatedTransport
from zk.memory_store import MemoryServer

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
