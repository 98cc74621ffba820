"""The event loop of a simulated world: run an actor, deliver messages, or advance the time.

The clock does not advance while an actor is runnable. If several actors are runnable, the seed
determines which of them runs. The time at which an actor becomes runnable is cached until the
actor runs or receives an event, or until the clock advances. Code that changes an actor in any
other way must call ``recheck_all``. world/simulated/world.py defines what events do to a node.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable

from klamm.cluster.protocols import Clock
from klamm.cluster.timers import earliest
from klamm.world.actors import Actor, Scheduler
from klamm.world.clock import VirtualClock
from klamm.world.transport import SimulatedTransport
from klamm.zk.memory_store import MemoryServer


class Agenda:
    """Finds the runnable actors of a scheduler without checking all actors in every step.

    Only actors that ran, received an event or are due are checked. The others are in a heap,
    ordered by due time.
    """

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._to_recheck: dict[Actor, None] = {}
        self._due: list[tuple[float, int, Actor]] = []
        self._due_ms: dict[Actor, float] = {}
        self._added = 0

    def recheck(self, actor: Actor) -> None:
        """Check an actor again before the next step, because it ran or received an event."""
        self._to_recheck[actor] = None

    def recheck_all(self) -> None:
        """Check all actors again before the next step."""
        self._due.clear()
        self._due_ms.clear()
        self._to_recheck = dict.fromkeys(self._scheduler.actors.values())

    def runnable(self) -> list[Actor]:
        """Return the runnable actors, in the order in which they were added to the scheduler."""
        now_ms = self._clock.monotonic_ms()
        self._take_due(now_ms)
        if not self._to_recheck:
            return []
        found = []
        for actor in list(self._to_recheck):
            ready_ms = actor.ready_ms()
            if ready_ms is not None and ready_ms <= now_ms:
                found.append(actor)
            else:
                del self._to_recheck[actor]
                self._expect(actor, ready_ms)
        if len(found) > 1:
            found.sort(key=self._scheduler.order_of)
        return found

    def next_due_ms(self) -> float | None:
        """Return the time at which another actor becomes runnable, in monotonic milliseconds."""
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
                self._to_recheck[entry[2]] = None

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


class RunLoop:
    """A simulated ZooKeeper, network and clock, and actors that run step by step.

    A step resumes one actor, which is drawn from the runnable ones, or delivers messages, or
    advances the time to the next due event. ``steps_run``: number of steps so far. ``errors``:
    those of actors, one line each.
    """

    def __init__(self, seed: int) -> None:
        self.clock = VirtualClock()
        self.server = MemoryServer(self.clock)
        self.transport = SimulatedTransport(self.clock, random.Random(seed + 1))
        self.scheduler = Scheduler(self._failed)
        self.errors: list[str] = []
        self.steps_run = 0
        self._agenda = Agenda(self.scheduler, self.clock)
        self._rng = random.Random(seed)

    def _failed(self, actor: Actor, error: BaseException) -> None:
        self.errors.append(f"{actor.address}: {type(error).__name__}: {error}")

    def _resume(self, actor: Actor) -> None:
        raise NotImplementedError

    def step(self) -> bool:
        """Run one step. Return False if nothing can happen without external input."""
        self._agenda.recheck_all()
        return self.do_next(self._agenda.runnable())

    def do_next(self, runnable: list[Actor], deadline_ms: float = math.inf) -> bool:
        """Run one of the runnable actors. If there are none, deliver messages or advance the time.

        Return False if nothing is left to do by the deadline, a monotonic time."""
        if runnable:
            self._resume(runnable[self._rng.randrange(len(runnable))])
        elif not self.transport.deliver_due():
            due_ms = self._next_due_ms()
            if due_ms is None or due_ms > deadline_ms:
                return False
            self.clock.advance_to(due_ms)
            self.server.expire_due()
        self.steps_run += 1
        return True

    def next_due_ms(self) -> float | None:
        """Return the due time of the next timer, message or session expiry, in monotonic ms."""
        self._agenda.recheck_all()
        return self._next_due_ms()

    def run_until(self, condition: Callable[[], bool], *, timeout_ms: float = 60_000) -> bool:
        """Run until ``condition`` holds. Return False if this takes longer than ``timeout_ms``."""
        return self.run_before(condition, self.clock.monotonic_ms() + timeout_ms)

    def run_before(self, condition: Callable[[], bool], deadline_ms: float) -> bool:
        """Run until ``condition`` holds. Return False at ``deadline_ms``, a monotonic time."""
        self._agenda.recheck_all()
        while not condition():
            if not self._step_by(deadline_ms):
                return condition()
        return True

    def run_for(self, duration_ms: float) -> None:
        """Run for this many simulated milliseconds, including what is due exactly at the end."""
        self._agenda.recheck_all()
        deadline_ms = self.clock.monotonic_ms() + duration_ms
        while self._step_by(deadline_ms):
            pass

    def _next_due_ms(self) -> float | None:
        due = (
            self.transport.next_due_ms(),
            self.server.next_expiry_ms(),
            self._agenda.next_due_ms(),
        )
        return earliest(due)

    def _step_by(self, deadline_ms: float) -> bool:
        """Run one step if it is due by the deadline.

        Otherwise advance the time to the deadline and return False."""
        if self.do_next(self._agenda.runnable(), deadline_ms):
            return True
        self.clock.advance_to(deadline_ms)
        return False
