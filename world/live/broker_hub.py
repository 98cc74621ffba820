"""The thread that runs all simulated brokers of a real-world cluster.

The thread runs one greenlet scheduler. A broker's store call is submitted to kazoo, and other
brokers run until kazoo's callback puts the broker on a queue that this thread reads. Kafka has no
counterpart, because each of its brokers is a process.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from klamm.cluster.protocols import Clock
from klamm.cluster.requests import Address
from klamm.cluster.timers import earliest
from klamm.world.actors import Actor, Scheduler
from klamm.zk.kazoo_pipeline import Completion

logger = logging.getLogger(__name__)
T = TypeVar("T")

_IDLE_WAIT_S = 60.0
_SOON_MS = 2_000.0
_ERRORS_KEPT = 100


class BrokerHub:
    """Runs actors on one thread until ``close``. ``call`` and ``post`` are thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._scheduler = Scheduler(self._failed)
        self._closing = False
        self._lock = threading.Lock()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="broker-hub", daemon=True)
        self.errors: deque[tuple[Address, BaseException]] = deque(maxlen=_ERRORS_KEPT)

    def start(self) -> None:
        """Start the hub's thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after the event in progress; idempotent."""
        self._closing = True
        self.soon(lambda: None)
        if self._thread.is_alive():
            self._thread.join()

    def post(self, address: Address, event: object) -> None:
        """Queue an event for an actor. The event is lost if no actor has this address."""
        self.soon(lambda: self.give(address, event))

    def give(self, address: Address, event: object) -> None:
        """Queue an event for an actor. Call this only on the hub's thread."""
        self._scheduler.give(address, event)

    def soon(self, function: Callable[[], None]) -> None:
        """Run ``function`` on the hub's thread between two events. Does not wait for it.

        If the hub's thread has stopped because of an error or ``close``, ``function`` runs on the
        caller's thread.
        """
        with self._lock:
            if not self._is_over:
                self._queue.put(function)
                return
        function()

    def call(self, function: Callable[[], T]) -> Future[T]:
        """Run ``function`` on the hub's thread between two events. Returns a future of its result.

        Cancelling the future prevents a call that has not begun."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.soon(run)
        return future

    def add(self, actor: Actor) -> None:
        """Add an actor to the scheduler."""
        self.call(lambda: self._scheduler.add(actor)).result()

    def remove(self, address: Address) -> None:
        """Remove an actor at once; an event in progress is never resumed."""
        self.call(lambda: self._scheduler.remove(address)).result()

    def set_paused(self, address: Address, paused: bool) -> None:
        """Pause or resume an actor."""

        def set_paused() -> None:
            actor = self._scheduler.actors.get(address)
            if actor is not None:
                actor.paused = paused

        self.call(set_paused).result()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Context manager that pauses all actors while its body runs."""
        is_held, may_go_on = threading.Event(), threading.Event()

        def hold() -> None:
            is_held.set()
            may_go_on.wait()

        with self._lock:
            holds = not self._is_over
            if holds:
                self._queue.put(hold)
        if holds:
            is_held.wait()
        try:
            yield
        finally:
            may_go_on.set()

    def wait(self, completion: Completion) -> None:
        """Suspend the current event until ``completion`` is done.

        The brokers' stores wait for results with this method."""
        self._scheduler.wait(completion, lambda actor: self.soon(actor.continue_event))

    @property
    def is_idle(self) -> bool:
        """True if no event is queued or in progress, and no timer is due soon.

        Paused actors are ignored."""
        soon_ms = self._clock.monotonic_ms() + _SOON_MS
        return self._queue.empty() and all(
            actor.paused or _is_idle_until(actor, soon_ms)
            for actor in tuple(self._scheduler.actors.values())
        )

    def _run(self) -> None:
        try:
            while not self._closing:
                self._drain(self._wait_s())
                for actor in self._scheduler.runnable(self._clock):
                    self._scheduler.resume(actor)
        finally:
            # Without this, a caller that waits (for example, to stop a broker) would wait forever.
            with self._lock:
                self._is_over = True
            self._run_rest()

    def _drain(self, wait_s: float) -> None:
        try:
            self._queue.get(timeout=wait_s)()
            while True:
                self._queue.get_nowait()()
        except queue.Empty:
            return

    def _run_rest(self) -> None:
        while not self._queue.empty():
            try:
                self._queue.get_nowait()()
            except Exception:
                logger.exception("a queued call failed after the broker thread had stopped")

    def _wait_s(self) -> float:
        ready_ms = earliest(actor.ready_ms() for actor in self._scheduler.actors.values())
        if ready_ms is None:
            return _IDLE_WAIT_S
        return min(max(0.0, (ready_ms - self._clock.monotonic_ms()) / 1000), _IDLE_WAIT_S)

    def _failed(self, actor: Actor, error: BaseException) -> None:
        if actor.is_shared:
            raise error
        logger.error("%s failed in an event", actor.address, exc_info=error)
        self.errors.append((actor.address, error))
        actor.on_failed(error)


def _is_idle_until(actor: Actor, soon_ms: float) -> bool:
    due_ms = actor.next_due_ms()
    return not actor.inbox and actor.task is None and (due_ms is None or due_ms > soon_ms)
