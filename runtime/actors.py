"""Actors on greenlets, and their scheduler, for both the real and the simulated world.

An actor processes one event at a time: a broker, a controller, a client. Each event runs in a
separate greenlet, so that a store call in the middle of it can yield to other actors. The scheduler
runs in one thread; other threads may only call ``wake``. It knows nothing of Kafka and makes no
decisions: the caller chooses the next actor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from greenlet import getcurrent, greenlet

from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address, Message

if TYPE_CHECKING:
    from klamm.zk.kazoo_pipeline import Completion

AT_ONCE: Final = float("-inf")


class Actor:
    """One actor: its queued events, and the greenlet of the event in progress.

    ``on_given`` is called after every ``give``. ``is_shared``: other actors depend on it.
    """

    is_shared = False

    def __init__(self, address: Address) -> None:
        self.address = address
        self.inbox: deque[object] = deque()
        self.paused = False
        self.stopped = False
        self.task: greenlet | None = None
        self.waiting = False
        self.on_given: Callable[[Actor], None] | None = None

    def ready_ms(self) -> float | None:
        """Return when it can resume or begin an event, in monotonic milliseconds.

        ``AT_ONCE``, or when a timer is due. None: not runnable until an event arrives."""
        if self.paused or self.stopped or self.waiting:
            return None
        if self.task is not None or self.has_events():
            return AT_ONCE
        return self.next_due_ms()

    def is_ready(self, clock: Clock) -> bool:
        """Return True if it is runnable now.

        The clock is read last, as a timer may be due at exactly the time it was requested."""
        ready_ms = self.ready_ms()
        return ready_ms is not None and ready_ms <= clock.monotonic_ms()

    def receive(self, message: Message) -> None:
        """Queue a message."""
        self.give(message)

    def give(self, event: object) -> None:
        """Queue an event."""
        self.inbox.append(event)
        self.woken()

    def woken(self) -> None:
        """Announce that the actor may be runnable."""
        if self.on_given is not None:
            self.on_given(self)

    def has_events(self) -> bool:
        """Return True if an event other than a timer is queued."""
        return bool(self.inbox)

    def run_event(self) -> None:
        """Process the next event to completion, or the timers that are due."""
        raise NotImplementedError

    def on_failed(self, error: BaseException) -> None:
        """Handle that one of its events raised ``error``, which is already recorded."""

    def next_due_ms(self) -> float | None:
        """Return when the actor's next timer is due, in monotonic milliseconds."""
        return None


class Scheduler:
    """Resumes one actor at a time. ``on_error`` receives the errors that events raise."""

    def __init__(self, on_error: Callable[[Actor, BaseException], None]) -> None:
        self.actors: dict[Address, Actor] = {}
        self._orders: dict[Address, int] = {}
        self._added = 0
        self._on_error = on_error
        self._current: Actor | None = None

    def add(self, actor: Actor) -> None:
        """Add an actor; it replaces one with the same address."""
        if actor.address not in self.actors:
            self._added += 1
            self._orders[actor.address] = self._added
        self.actors[actor.address] = actor

    def give(self, address: Address, event: object) -> None:
        """Give an event to an actor; without an actor it is lost, like a packet."""
        actor = self.actors.get(address)
        if actor is not None:
            actor.give(event)

    def order_of(self, actor: Actor) -> int:
        """Return a number that is greater for actors added later."""
        return self._orders[actor.address]

    def remove(self, address: Address) -> None:
        """Remove an actor; an event in progress is never resumed."""
        actor = self.actors.pop(address, None)
        if actor is not None:
            actor.stopped = True

    def runnable(self, clock: Clock) -> list[Actor]:
        """Return the runnable actors in the order they were added."""
        return [actor for actor in self.actors.values() if actor.is_ready(clock)]

    @property
    def inside_an_event(self) -> list[Address]:
        """The actors with an event in progress."""
        return [a.address for a in self.actors.values() if a.task is not None and not a.stopped]

    @property
    def current(self) -> Address | None:
        """The actor that is running now."""
        return None if self._current is None else self._current.address

    def resume(self, actor: Actor) -> None:
        """Run one actor until its event ends or yields."""
        task = actor.task
        if task is None:
            task = actor.task = greenlet(actor.run_event)
        self._current = actor
        try:
            task.switch()
        except Exception as error:
            self._on_error(actor, error)
        finally:
            self._current = None
            if task.dead:
                actor.task = None

    def yield_control(self) -> None:
        """Yield inside an event, so that other actors run before it continues."""
        if self._current is not None:
            parent = getcurrent().parent
            assert parent is not None
            parent.switch()

    def wait(self, completion: Completion, wake: Callable[[Actor], None]) -> None:
        """Suspend the current event until ``completion`` is done.

        ``wake`` is called with the actor by the completing thread. The scheduler's thread must then
        call ``woken``.
        """
        actor = self._current
        assert actor is not None, "a store call on the scheduler's thread outside of an event"
        actor.waiting = True
        completion.add_done_callback(lambda _: wake(actor))
        parent = getcurrent().parent
        assert parent is not None
        parent.switch()

    def woken(self, actor: Actor) -> None:
        """Mark an actor as no longer waiting."""
        actor.waiting = False
