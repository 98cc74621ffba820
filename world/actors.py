"""Actors that run in greenlets, and their scheduler, for the real and the simulated world.

An actor (a broker, a controller or a client) processes one event at a time. Each event runs in a
separate greenlet, so that a store call in the middle of an event can yield to other actors. A
greenlet whose event has ended is used again, because a new one costs a memory mapping. The
scheduler runs in one thread; other threads may only call the ``wake`` function that the scheduler's
owner passes to ``wait``. The scheduler contains no Kafka logic and makes no decisions: the caller
chooses the next actor.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from greenlet import getcurrent, greenlet

from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address, Message

if TYPE_CHECKING:
    from klamm.zk.kazoo_pipeline import Completion

AT_ONCE: Final = float("-inf")
_ENDED: Final = object()
_MAX_IDLE: Final = 64


class Actor:
    """An actor: a queue of events, and the greenlet of the event in progress.

    ``on_given`` is called whenever the actor may have become runnable. ``is_shared``: other actors
    depend on this actor, so an error in one of its events stops BrokerHub.
    """

    is_shared = False

    def __init__(self, address: Address) -> None:
        self.address = address
        self.inbox: deque[object] = deque()
        self.paused = False
        self.stopped = False
        self.task: greenlet | None = None
        self.waiting = False
        self.is_held = False
        self.on_given: Callable[[Actor], None] | None = None

    def ready_ms(self) -> float | None:
        """Return the time at which the actor can resume or begin an event, in monotonic ms.

        This is ``AT_ONCE``, or the time at which a timer is due. Return None if the actor is not
        runnable until an event arrives."""
        if self.paused or self.stopped or self.waiting:
            return None
        if self.task is not None or self.has_events():
            return AT_ONCE
        return self.next_due_ms()

    def is_ready(self, clock: Clock) -> bool:
        """Return True if the actor is runnable now.

        The clock is read after the due time, because that time may be computed from the clock."""
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
        """Report, by calling ``on_given``, that the actor may be runnable now."""
        if self.on_given is not None:
            self.on_given(self)

    def continue_event(self) -> None:
        """Let the actor continue the event that ``Scheduler.suspend`` suspended."""
        self.waiting = False
        self.woken()

    def has_events(self) -> bool:
        """Return True if an event other than a timer is queued."""
        return bool(self.inbox)

    def run_event(self) -> None:
        """Process the next event to completion. If none is queued, run the timers that are due."""
        raise NotImplementedError

    def on_failed(self, error: BaseException) -> None:
        """Handle an error raised by one of the actor's events; the error is already recorded."""

    def next_due_ms(self) -> float | None:
        """Return the due time of the actor's next timer, in monotonic milliseconds."""
        return None


class _IdleGreenlets(threading.local):
    """Greenlets of the current thread whose events have ended."""

    def __init__(self) -> None:
        self.greenlets: list[greenlet] = []


_idle: Final = _IdleGreenlets()


def _run_events(actor: Actor) -> None:
    """Run an event, and then an event of each actor with which the greenlet is resumed."""
    while True:
        actor.run_event()
        del actor
        actor = _parent().switch(_ENDED)


def _parent() -> greenlet:
    parent = getcurrent().parent
    assert parent is not None
    return parent


class Scheduler:
    """Runs actors, one at a time. Errors raised by events are passed to ``on_error``."""

    def __init__(self, on_error: Callable[[Actor, BaseException], None]) -> None:
        self.actors: dict[Address, Actor] = {}
        self._orders: dict[Address, int] = {}
        self._added = 0
        self._on_error = on_error
        self._current: Actor | None = None

    def add(self, actor: Actor) -> None:
        """Add an actor. It replaces any actor with the same address."""
        if actor.address not in self.actors:
            self._added += 1
            self._orders[actor.address] = self._added
        self.actors[actor.address] = actor

    def give(self, address: Address, event: object) -> None:
        """Queue an event for an actor. The event is lost if no actor has this address."""
        actor = self.actors.get(address)
        if actor is not None:
            actor.give(event)

    def order_of(self, actor: Actor) -> int:
        """Return the actor's position in the order in which actors were added."""
        return self._orders[actor.address]

    def remove(self, address: Address) -> None:
        """Remove an actor. If it has an event in progress, that event is never resumed."""
        actor = self.actors.pop(address, None)
        if actor is not None:
            actor.stopped = True

    def runnable(self, clock: Clock) -> list[Actor]:
        """Return the runnable actors in the order in which they were added."""
        return [actor for actor in self.actors.values() if actor.is_ready(clock)]

    @property
    def running(self) -> Actor | None:
        """The actor that is running now, or None."""
        return self._current

    @property
    def current(self) -> Address | None:
        """The address of the actor that is running now, or None."""
        return None if self._current is None else self._current.address

    def resume(self, actor: Actor) -> None:
        """Run an actor until its current event ends or yields."""
        task, idle = actor.task, _idle.greenlets
        if task is None:
            task = actor.task = idle.pop() if idle else greenlet(_run_events)
        # Yielding returns to the caller of this call, not to the caller that began the event.
        task.parent = getcurrent()
        self._current = actor
        try:
            if task.switch(actor) is _ENDED:
                actor.task = None
                if len(idle) < _MAX_IDLE:
                    idle.append(task)
        except Exception as error:
            self._on_error(actor, error)
        finally:
            self._current = None
            if task.dead:
                actor.task = None

    def yield_control(self) -> None:
        """Yield in the middle of an event, so that other actors run before the event continues."""
        if self._current is not None:
            _parent().switch()

    def hold(self) -> None:
        """Yield like ``yield_control``, but also to a caller that runs this actor alone.

        The actor ``is_held`` until its event continues."""
        actor = self._current
        assert actor is not None, "only an actor can be held"
        actor.is_held = True
        _parent().switch()
        actor.is_held = False

    def suspend(self) -> None:
        """Suspend the current event until ``continue_event`` of its actor is called."""
        actor = self._current
        assert actor is not None, "only an actor can be suspended"
        actor.waiting = True
        _parent().switch()

    def wait(self, completion: Completion, wake: Callable[[Actor], None]) -> None:
        """Suspend the current event until ``completion`` is done.

        ``wake`` is called with the actor, on the thread that completes ``completion``. It must make
        the scheduler's thread call ``continue_event``.
        """
        actor = self._current
        assert actor is not None, "the scheduler's thread called a store outside of an event"
        completion.add_done_callback(lambda _: wake(actor))
        self.suspend()
