"""A node that was started in a real-world cluster: its parts, and what is done to all of them.

When a node is started or ended is runtime/real/cluster.py's business.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.node import Node
from runtime.real.event_thread import EventThread
from runtime.real.lifeline import MortalJournal, MortalTransport
from zk.kazoo_session import KazooSession
from zk.store import Listener


@dataclass(kw_only=True)
class RunningNode:
    """A broker and its controller, their session (``is_pooled``: shared with other nodes), and
    whether they are paused. ``event_thread`` is the controller's, None without one; ``listener`` is
    the broker's."""

    node: Node
    session: KazooSession
    is_pooled: bool
    transport: MortalTransport
    journal: MortalJournal
    event_thread: EventThread | None = None
    listener: Listener | None = None
    is_paused: bool = False

    @property
    def is_idle(self) -> bool:
        """True if its controller, where there is one and it is not paused, has nothing to do."""
        c = self.node.controller
        return (
            c is None
            or self.is_paused
            or (not c.events.has_work() and c.events.current is None and c.channels.is_idle())
        )

    @property
    def active_epoch(self) -> int | None:
        """The epoch of its controller if that is active, and not paused."""
        controller = self.node.controller
        if controller is None or not controller.is_active or self.is_paused:
            return None
        return controller.context.epoch

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` for events of the session, until ``silence``."""
        self.listener = listener
        self.session.add_listener(listener)

    def silence(self) -> None:
        """Drop everything that the node sends, journals or receives from now on."""
        self.transport.is_dead = self.journal.is_dead = True
        if self.listener is not None:
            self.session.remove_listener(self.listener)

    def pause(self) -> None:
        """Send no heartbeat and let the controller process nothing."""
        self.is_paused = True
        self.session.suspend()
        if self.event_thread is not None:
            self.event_thread.pause()

    def resume(self) -> None:
        """Let the session and the controller go on."""
        self.is_paused = False
        self.session.resume()
        if self.event_thread is not None:
            self.event_thread.resume()

    def end_controller(self) -> None:
        """Let the controller begin no further event; it does not resign."""
        if self.event_thread is not None:
            self.event_thread.end()

    def kill_controller(self) -> None:
        """End the controller after its event, whose ZooKeeper operations fail by now."""
        if self.event_thread is not None:
            self.event_thread.kill()
