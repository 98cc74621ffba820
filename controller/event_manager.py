"""Event queue and timers of the controller, and the step that processes one event.

Events are passed to the processor, which is the only code that may access the controller context.
Any thread may enqueue events; only the event thread calls ``step`` and ``schedule``. Mirrors
kafka/controller/ControllerEventManager.scala. The tasks that
Kafka runs on its KafkaScheduler are implemented as events that a timer enqueues.
"""

from __future__ import annotations

import heapq
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec

from klamm.cluster.protocols import Clock
from klamm.controller.events import ControllerEvent, ControllerState
from klamm.controller.timer import Timer

E = TypeVar("E", bound=ControllerEvent)


class QueuedEvent(msgspec.Struct, frozen=True):
    """A controller event in the queue.

    ``cause_id`` is the id of the event that caused this event, or 0 if no event caused it.
    ``enqueue_time_ms`` is a monotonic time in milliseconds.
    """

    event: ControllerEvent
    event_id: int
    cause_id: int
    enqueue_time_ms: float


class EventProcessor(Protocol):
    """Interface of the component that processes the events taken from the queue."""

    def process(self, queued: QueuedEvent) -> None:
        """Process one event completely. Errors are handled by the processor, not the caller."""
        ...

    def preempt(self, event: ControllerEvent) -> None:
        """Handle an event that was dropped from the queue unprocessed, e.g. reject a request."""
        ...


class EventManager:
    """Event queue and timers of one controller, with their metrics.

    ``on_put`` is called after an event is enqueued, to wake the event thread. ``current`` is the
    event being processed; journal rows, requests, timers and new events record it as their cause.
    """

    def __init__(self, clock: Clock, processor: EventProcessor) -> None:
        self._clock = clock
        self._processor = processor
        self._queue: deque[QueuedEvent] = deque()
        self._lock = threading.RLock()
        self._timers: list[tuple[float, int, ControllerEvent, int]] = []
        self._last_event_id = 0
        self._last_timer_id = 0
        self.on_put: Callable[[], None] | None = None
        self.state = ControllerState.IDLE
        self.current: QueuedEvent | None = None
        self.event_queue_time_ms = Timer()
        self.rate_and_time = {s.timer: Timer() for s in ControllerState if s.timer is not None}

    def __getstate__(self) -> dict[str, object]:
        # A lock cannot be copied; copies are made between events, when the lock is free.
        state = self.__dict__.copy()
        del state["_lock"]
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def put(self, event: ControllerEvent) -> QueuedEvent:
        """Enqueue an event without a causing event, e.g. a request or a fired watch."""
        return self._put(event, 0)

    def put_caused(self, event: ControllerEvent) -> QueuedEvent:
        """Enqueue an event caused by the event being processed. For the event thread only."""
        assert self.current is not None, f"{event} was enqueued while no event was being processed"
        return self._put(event, self.current.event_id)

    def _put(self, event: ControllerEvent, cause_id: int) -> QueuedEvent:
        with self._lock:
            queued = self._enqueue(event, cause_id)
        self._wake()
        return queued

    @contextmanager
    def processing(self, following: QueuedEvent) -> Iterator[None]:
        """Context manager that makes ``following`` the current event while the body runs.

        ``following`` is one of the events that ``take_following`` returned.
        """
        own, self.current = self.current, following
        try:
            yield
        finally:
            self.current = own

    def attribute_to(self, event_id: int) -> None:
        """Record the event ``event_id`` as the cause of the event being processed.

        A broker's response is enqueued without a cause, because its request is looked up only
        when the response is processed. The cause is the event whose handler sent that request.
        """
        assert self.current is not None and event_id < self.current.event_id
        self.current = msgspec.structs.replace(self.current, cause_id=event_id)

    def take_following(self, kind: type[E]) -> list[tuple[QueuedEvent, E]]:
        """Dequeue the events of type ``kind`` that directly follow the event being processed.

        The caller processes them together with the current event. For the event thread only.
        """
        taken: list[tuple[QueuedEvent, E]] = []
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            while self._queue and isinstance(event := self._queue[0].event, kind):
                taken.append((self._queue.popleft(), event))
        for queued, _ in taken:
            self.event_queue_time_ms.update(now_ms - queued.enqueue_time_ms)
        return taken

    def clear_and_put(self, event: ControllerEvent) -> QueuedEvent:
        """Drop the queued events, reject the dropped requests, and enqueue ``event``.

        Events that survive clearing stay in the queue, before ``event``.
        """
        with self._lock:
            dropped = [q.event for q in self._queue if not q.event.survives_clearing]
            self._queue = deque(q for q in self._queue if q.event.survives_clearing)
            queued = self._enqueue(event, 0)
        for preempted in dropped:
            self._processor.preempt(preempted)
        self._wake()
        return queued

    def schedule(self, event: ControllerEvent, delay_ms: float) -> None:
        """Start a timer that enqueues ``event`` after ``delay_ms`` milliseconds."""
        self._last_timer_id += 1
        due_ms = self._clock.monotonic_ms() + delay_ms
        cause_id = self.current.event_id if self.current else 0
        heapq.heappush(self._timers, (due_ms, self._last_timer_id, event, cause_id))

    def cancel(self, is_cancelled: Callable[[ControllerEvent], bool]) -> None:
        """Cancel the timers of all events for which ``is_cancelled`` returns True."""
        left = [timer for timer in self._timers if not is_cancelled(timer[2])]
        heapq.heapify(left)
        self._timers = left  # other threads read the first timer

    def next_due_ms(self) -> float | None:
        """Return the time at which the next timer is due, or None if no timer is set.

        The time is in monotonic milliseconds.
        """
        try:
            return self._timers[0][0]
        except IndexError:  # also if the event thread has just removed the last timer
            return None

    @property
    def event_queue_size(self) -> int:
        """Number of queued events."""
        return len(self._queue)

    def has_work(self) -> bool:
        """Return True if ``step`` would process an event now."""
        return bool(self._queue) or self._is_timer_due()

    def step(self) -> bool:
        """Process the next event in the queue. Return False if there is none.

        The events of timers that are due are first added to the end of the queue.
        """
        while self._is_timer_due():
            _, _, event, cause_id = heapq.heappop(self._timers)
            with self._lock:
                self._enqueue(event, cause_id)
        with self._lock:
            if not self._queue:
                return False
            queued = self._queue.popleft()
        self._process(queued)
        return True

    def _process(self, queued: QueuedEvent) -> None:
        begun_ms = self._clock.monotonic_ms()
        self.event_queue_time_ms.update(begun_ms - queued.enqueue_time_ms)
        state = queued.event.state
        self.state, self.current = state, queued
        try:
            self._processor.process(queued)
        finally:
            self.state, self.current = ControllerState.IDLE, None
        if state.timer is not None:
            self.rate_and_time[state.timer].update(self._clock.monotonic_ms() - begun_ms)

    def _enqueue(self, event: ControllerEvent, cause_id: int) -> QueuedEvent:
        self._last_event_id += 1
        queued = QueuedEvent(event, self._last_event_id, cause_id, self._clock.monotonic_ms())
        self._queue.append(queued)
        return queued

    def _is_timer_due(self) -> bool:
        due_ms = self.next_due_ms()
        return due_ms is not None and due_ms <= self._clock.monotonic_ms()

    def _wake(self) -> None:
        if self.on_put is not None:
            self.on_put()
