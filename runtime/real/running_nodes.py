"""Bookkeeping of a real-world cluster's nodes: starting, running, stopping.

Several threads start, drain and stop brokers. Exactly one of them gets to stop a node, and others
can wait for it. runtime/real/cluster.py performs the operations on nodes.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from klamm.cluster.errors import KlammError, UsageError
from klamm.runtime.real.running_node import RunningNode


class RunningNodes(dict[int, RunningNode]):
    """The nodes by broker id, thread-safe: copying a dictionary is atomic.

    Only ``add``, ``give_up`` and ``take`` change it. ``failures``: reasons of failed brokers that
    are not running.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[int, str] = {}
        self._ending: dict[int, threading.Thread] = {}
        self._starting: dict[int, Future[None]] = {}
        self._drained: dict[int, Future[None]] = {}

    def running(self, broker_id: int) -> RunningNode:
        """Return a node. Raises UsageError if it is not running."""
        running = self.get(broker_id)
        if running is None:
            raise UsageError(f"broker {broker_id} is not running")
        return running

    @property
    def newest_zxid(self) -> int:
        """The newest zxid seen by any of their sessions."""
        return max((running.session.last_zxid for running in self.copy().values()), default=0)

    # -- starting

    def add(self, broker_id: int, running: RunningNode) -> Future[None]:
        """Add a starting node; the future completes when it is registered, or fails."""
        self[broker_id] = running
        self.failures.pop(broker_id, None)
        started = self._starting[broker_id] = Future[None]()
        return started

    def is_starting(self, broker_id: int) -> bool:
        """Return True if the broker is not registered yet."""
        return broker_id in self._starting

    @property
    def starting_broker_ids(self) -> list[int]:
        """The brokers not registered yet."""
        return sorted(self._starting)

    def on_started(self, broker_id: int) -> None:
        """Complete the future of a broker that is now registered."""
        started = self._starting.pop(broker_id, None)
        if started is not None:
            started.set_result(None)

    def give_up(
        self, broker_id: int, error: Exception
    ) -> tuple[RunningNode | None, Future[None] | None]:
        """Remove a node that could not register, and its future, which fails once it is released.

        None for what another thread has removed already."""
        hint = error.hint if isinstance(error, KlammError) else None
        self.failures[broker_id] = f"{error} ({hint})" if hint else str(error)
        return self.pop(broker_id, None), self._starting.pop(broker_id, None)

    # -- stopping

    def on_failed(self, broker_id: int, reason: str, ending: threading.Thread) -> None:
        """Record that the broker cannot continue; the thread ``ending`` ends it."""
        self.failures[broker_id] = reason
        self._ending[broker_id] = ending

    def await_end(self, broker_id: int) -> None:
        """Wait until a failed broker has ended and released its resources."""
        ending = self._ending.pop(broker_id, None)
        if ending is not None:
            ending.join()

    def drain_of(self, broker_id: int) -> Future[None]:
        """Return a future that completes once the broker is drained, gave up, or was stopped."""
        return self._drained.setdefault(broker_id, Future())

    def on_drained(self, broker_id: int) -> None:
        """Record that the broker is drained, or gave up."""
        over = self._drained.get(broker_id)
        if over is not None and not over.done():
            over.set_result(None)

    def take(self, broker_id: int) -> RunningNode:
        """Remove a node, so that only the caller stops it. Raises UsageError if not running."""
        running = self.pop(broker_id, None)
        if running is None:
            raise UsageError(f"broker {broker_id} is not running")
        self.on_drained(broker_id)
        self._drained.pop(broker_id, None)
        started = self._starting.pop(broker_id, None)
        if started is not None:
            error = KlammError(f"broker {broker_id} was stopped before it was registered")
            started.set_exception(error)
        return running

    # -- their controllers

    @property
    def is_idle(self) -> bool:
        """True if no controller has anything to do."""
        return all(running.is_idle for running in tuple(self.values()))

    def on_candidacy_changed(self) -> None:
        """Notify the controllers that candidacy was held or released."""
        for running in self.copy().values():
            if running.node.controller is not None:
                running.node.controller.on_candidacy_changed()

    @property
    def active_controller(self) -> int | None:
        """Id of the broker with the active controller; None without one.

        If a deposed controller has not learned of it yet, the one with the higher epoch.
        """
        active = [
            (epoch, broker_id)
            for broker_id, running in sorted(self.copy().items())
            if (epoch := running.active_epoch) is not None
        ]
        return max(active)[1] if active else None
