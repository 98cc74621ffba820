"""Actors on greenlets: the one scheduler that both worlds use.

An actor is anything that takes one event at a time: a broker, a controller, a client. Each event
runs in its own greenlet, so a store call in the middle of it can give way to other actors. The
scheduler runs in one thread; from other threads only ``wake`` may be called. It knows nothing of
Kafka, and it decides nothing: who is next is the caller's choice.
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
    """One actor: its events in order, and the greenlet of the event that it is in the middle of.

    ``on_given`` is called whenever something was put into its inbox by ``give``. ``is_shared``: no
    other actor can do without it.
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
        """From when on it can go on with its event or begin the next one, in the clock's monotonic
        milliseconds: ``AT_ONCE``, or when a timer is due. None: time alone does not bring it."""
        if self.paused or self.stopped or self.waiting:
            return None
        if self.task is not None or self.has_events():
            return AT_ONCE
        return self.next_due_ms()

    def is_ready(self, clock: Clock) -> bool:
        """True if it can go on now: the clock is read last, as a timer may be due at the time at
        which it is asked for."""
        ready_ms = self.ready_ms()
        return ready_ms is not None and ready_ms <= clock.monotonic_ms()

    def receive(self, message: Message) -> None:
        """Take a message; it is handled later."""
        self.give(message)

    def give(self, event: object) -> None:
        """Take an event; it is handled later."""
        self.inbox.append(event)
        self.woken()

    def woken(self) -> None:
        """There may be something to do."""
        if self.on_given is not None:
            self.on_given(self)

    def has_events(self) -> bool:
        """True if an event other than a timer is waiting to begin."""
        return bool(self.inbox)

    def run_event(self) -> None:
        """Process the next event to its end, or what is due."""
        raise NotImplementedError

    def on_failed(self, error: BaseException) -> None:
        """Handle that one of its events raised ``error``, which is already recorded."""

    def next_due_ms(self) -> float | None:
        """When the actor's next timer is due, in the clock's monotonic milliseconds."""
        return None


class Scheduler:
    """Resumes one actor at a time. ``on_error`` is told of an event that raised."""

    def __init__(self, on_error: Callable[[Actor, BaseException], None]) -> None:
        self.actors: dict[Address, Actor] = {}
        self._orders: dict[Address, int] = {}
        self._added = 0
        self._on_error = on_error
        self._current: Actor | None = None

    def add(self, actor: Actor) -> None:
        """Take an actor in; it replaces one with the same address."""
        if actor.address not in self.actors:
            self._added += 1
            self._orders[actor.address] = self._added
        self.actors[actor.address] = actor

    def give(self, address: Address, event: object) -> None:
        """Give an event to an actor; lost if there is no such actor, as a packet would be."""
        actor = self.actors.get(address)
        if actor is not None:
            actor.give(event)

    def order_of(self, actor: Actor) -> int:
        """A number that is greater for actors that were added later."""
        return self._orders[actor.address]

    def remove(self, address: Address) -> None:
        """Let an actor go: what it was doing is never resumed."""
        actor = self.actors.pop(address, None)
        if actor is not None:
            actor.stopped = True

    def runnable(self, clock: Clock) -> list[Actor]:
        """The actors that can go on, in the order they were added."""
        return [actor for actor in self.actors.values() if actor.is_ready(clock)]

    @property
    def inside_an_event(self) -> list[Address]:
        """The actors that are in the middle of an event."""
        return [a.address for a in self.actors.values() if a.task is not None and not a.stopped]

    @property
    def current(self) -> Address | None:
        """The actor that runs right now."""
        return None if self._current is None else self._current.address

    def resume(self, actor: Actor) -> None:
        """Let one actor run until its event ends or it gives way."""
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

    def give_way(self) -> None:
        """Called inside an event: let others run before the event goes on."""
        if self._current is not None:
            parent = getcurrent().parent
            assert parent is not None
            parent.switch()

    def wait(self, completion: Completion, wake: Callable[[Actor], None]) -> None:
        """Called inside an event: go on when ``completion`` is there.

        ``wake`` is called with the actor, from whichever thread completes; the scheduler's own
        thread must then call ``woken``.
        """
        actor = self._current
        assert actor is not None, "a store call on the scheduler's thread outside of an event"
        actor.waiting = True
        completion.add_done_callback(lambda _: wake(actor))
        parent = getcurrent().parent
        assert parent is not None
        parent.switch()

    def woken(self, actor: Actor) -> None:
        """What ``actor`` waited for is there."""
        actor.waiting = False
