"""A running node of a real-world cluster: broker, controller, event thread and session.

world/real/cluster.py decides when to start and stop a node. When a node is killed, its event
thread may be in the middle of an event; whatever this event then sends or journals is dropped.
EventThread mirrors kafka.controller.ControllerEventManager.ControllerEventThread.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from klamm.cluster.journal import JournalRow
from klamm.cluster.protocols import Clock, Journal, Transport
from klamm.cluster.requests import Message
from klamm.controller.kafka_controller import KafkaController
from klamm.world.node import Node
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.store import StoreListener


class EventThread:
    """Thread that processes the events of a controller until ``stop`` or ``kill``.

    ``stop`` and ``kill`` may be called before ``start``, if a cluster is closed while one of its
    brokers is starting."""

    def __init__(self, controller: KafkaController, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._awake = threading.Event()
        self._may_run = threading.Event()
        self._may_run.set()
        self._ended = False
        name = f"controller-{controller.config.broker_id}-event-thread"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        controller.events.on_put = self._wake

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def pause(self) -> None:
        """Stop processing before the next event, as in a long garbage collection pause."""
        self._may_run.clear()

    def resume(self) -> None:
        """Continue processing with the next event."""
        self._may_run.set()

    def stop(self) -> None:
        """Make the controller resign, then stop the thread."""
        self._controller.shutdown()
        self.resume()
        self._join()

    def end(self) -> None:
        """Stop the thread after the event in progress, without resigning. Does not wait."""
        self._ended = True
        self.resume()
        self._awake.set()

    def kill(self) -> None:
        """Stop the thread after the event in progress, without resigning. Waits for the thread.

        The caller has closed the session, so ZooKeeper operations of that event fail."""
        self.end()
        if self._thread is not threading.current_thread():
            self._join()

    def _join(self) -> None:
        # A thread that has not been started yet ends at once when it is started.
        if self._thread.is_alive():
            self._thread.join()

    def _wake(self) -> None:
        # A set event was set for an earlier one in the queue: the thread has yet to clear it, and
        # looks at the queue after that.
        if not self._awake.is_set():
            self._awake.set()

    def _run(self) -> None:
        controller = self._controller
        while not (self._ended or controller.is_shut_down):
            self._may_run.wait()
            if self._awake.is_set():
                self._awake.clear()
            if self._ended or controller.step():
                continue
            due_ms = controller.next_due_ms()
            left_ms = math.inf if due_ms is None else due_ms - self._clock.monotonic_ms()
            self._awake.wait(min(max(0.0, left_ms / 1000), threading.TIMEOUT_MAX))


class MortalTransport:
    """Transport of one node. Messages are dropped once ``is_dead`` is set."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.is_dead = False

    def send(self, message: Message) -> None:
        """Send a message unless the node is dead."""
        if not self.is_dead:
            self._transport.send(message)


class MortalJournal:
    """Journal of one node. Rows are dropped once ``is_dead`` is set."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.is_dead = False

    def append(self, rows: Iterable[JournalRow]) -> None:
        """Append rows unless the node is dead."""
        if not self.is_dead:
            self._journal.append(rows)

    def flush(self) -> None:
        """Write the rows to the operating system."""
        self._journal.flush()


@dataclass(kw_only=True)
class RunningNode:
    """A broker and its controller with their ZooKeeper session.

    ``is_pooled``: the session is shared with other nodes. ``event_thread``: the controller's
    thread, or None. ``listener``: receives the session's events for the broker."""

    node: Node
    session: KazooSession
    is_pooled: bool
    transport: MortalTransport
    journal: MortalJournal
    event_thread: EventThread | None = None
    listener: StoreListener | None = None
    is_paused: bool = False

    @property
    def is_idle(self) -> bool:
        """True if the node's controller has nothing to do, is paused, or does not exist."""
        c = self.node.controller
        return (
            c is None
            or self.is_paused
            or (not c.events.has_work() and c.events.current is None and c.channels.is_idle())
        )

    def listen(self, listener: StoreListener) -> None:
        """Pass the session's events to ``listener`` until ``silence`` is called."""
        self.listener = listener
        self.session.add_listener(listener)

    def silence(self) -> None:
        """Drop everything that the node sends, journals or receives from now on."""
        self.transport.is_dead = self.journal.is_dead = True
        if self.listener is not None:
            self.session.remove_listener(self.listener)

    def pause(self) -> None:
        """Stop the heartbeats and the processing of controller events."""
        self.is_paused = True
        self.session.suspend()
        if self.event_thread is not None:
            self.event_thread.pause()

    def resume(self) -> None:
        """Resume the heartbeats and the processing of controller events."""
        self.is_paused = False
        self.session.resume()
        if self.event_thread is not None:
            self.event_thread.resume()

    def end_controller(self) -> None:
        """Stop the controller after its current event. The controller does not resign."""
        if self.event_thread is not None:
            self.event_thread.end()

    def kill_controller(self) -> None:
        """Stop the controller after its current event, and wait until it has stopped."""
        if self.event_thread is not None:
            self.event_thread.kill()
