"""Event queue and timers of the controller, and the step that processes one event.

Events are passed to the processor, which alone may touch the controller context. Any thread may
enqueue events; only the event thread calls ``step`` and ``schedule``. Mirrors
kafka/controller/ControllerEventManager.scala, with KafkaScheduler's timers as events that have a
due time.
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
    """A queued event: its id, the id of the event that caused it (0: none), and its enqueue time.

    ``enqueue_time_ms`` is in milliseconds of the monotonic clock.
    """

    event: ControllerEvent
    event_id: int
    cause_id: int
    enqueue_time_ms: float


class EventProcessor(Protocol):
    """Processor of events, which also answers events that are dropped."""

    def process(self, queued: QueuedEvent) -> None:
        """Process one event completely; the processor handles its errors itself."""
        ...

    def preempt(self, event: ControllerEvent) -> None:
        """Send the error response for an event that will never be processed."""
        ...


class EventManager:
    """Queue and timers of one controller, with their metrics.

    ``on_put`` is called after every put, to wake the event thread. ``current`` is the event being
    processed: the only source of the cause of journal rows, requests, timers and further events.
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
        """Enqueue an event from outside the controller, which has no causing event."""
        return self._put(event, 0)

    def put_caused(self, event: ControllerEvent) -> QueuedEvent:
        """Enqueue an event caused by the event being processed; for the event thread only."""
        assert self.current is not None, f"{event} has no causing event"
        return self._put(event, self.current.event_id)

    def _put(self, event: ControllerEvent, cause_id: int) -> QueuedEvent:
        with self._lock:
            queued = self._enqueue(event, cause_id)
        self._wake()
        return queued

    @contextmanager
    def processing(self, following: QueuedEvent) -> Iterator[None]:
        """Make an event returned by ``take_following`` the current event inside the block."""
        own, self.current = self.current, following
        try:
            yield
        finally:
            self.current = own

    def attribute_to(self, event_id: int) -> None:
        """Set the cause of the event being processed, which was enqueued without one.

        A broker's response is caused by the event that sent the request.
        """
        assert self.current is not None and event_id < self.current.event_id
        self.current = msgspec.structs.replace(self.current, cause_id=event_id)

    def take_following(self, kind: type[E]) -> list[tuple[QueuedEvent, E]]:
        """Dequeue the run of events of one type directly behind the event being processed.

        They are processed together with it. For the event thread only.
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
        """Drop all queued events, sending error responses for them, and enqueue ``event``."""
        with self._lock:
            preempted = list(self._queue)
            self._queue.clear()
            queued = self._enqueue(event, 0)
        for dropped in preempted:
            self._processor.preempt(dropped.event)
        self._wake()
        return queued

    def schedule(self, event: ControllerEvent, delay_ms: float) -> None:
        """Enqueue ``event`` after ``delay_ms``."""
        self._last_timer_id += 1
        due_ms = self._clock.monotonic_ms() + delay_ms
        cause_id = self.current.event_id if self.current else 0
        heapq.heappush(self._timers, (due_ms, self._last_timer_id, event, cause_id))

    def cancel(self, is_cancelled: Callable[[ControllerEvent], bool]) -> None:
        """Cancel the timers of all events for which ``is_cancelled`` returns True."""
        self._timers = [timer for timer in self._timers if not is_cancelled(timer[2])]
        heapq.heapify(self._timers)

    def next_due_ms(self) -> float | None:
        """Return when the next timer is due, in monotonic milliseconds; None without timers."""
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
        """Process the next event; return False if the queue is empty.

        Events of timers that are due are first added to the end of the queue.
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
