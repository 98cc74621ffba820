"""Keeps track of which nodes of a real-world cluster are starting, running or stopping.

Several threads start, drain and stop brokers. Only one of them may stop a given node; the others
can wait until it has stopped. The operations on nodes are in world/real/cluster.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from klamm.cluster.errors import KlammError, WrongState
from klamm.world.real.running_node import RunningNode


class RunningNodes(dict[int, RunningNode]):
    """The starting and running nodes by broker id. Thread-safe, because dict operations are atomic.

    Only ``add``, ``give_up`` and ``take`` add or remove nodes. ``failures``: for each broker that
    failed and is not running, the reason. ``on_change`` is called with a broker's id, and True when
    the broker has been registered or False when it is about to be stopped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[int, str] = {}
        self.on_change: Callable[[int, bool], None] | None = None
        self._ending: dict[int, threading.Thread] = {}
        self._starting: dict[int, Future[None]] = {}
        self._drained: dict[int, Future[None]] = {}

    @property
    def newest_zxid(self) -> int:
        """The newest zxid that the sessions of these nodes have seen."""
        return max((running.session.last_zxid for running in self.copy().values()), default=0)

    # -- starting

    def add(self, broker_id: int, running: RunningNode) -> Future[None]:
        """Add a starting node. The future completes when its broker is registered."""
        self[broker_id] = running
        self.failures.pop(broker_id, None)
        started = self._starting[broker_id] = Future[None]()
        return started

    def is_starting(self, broker_id: int) -> bool:
        """Return True if the broker was started but is not registered yet."""
        return broker_id in self._starting

    @property
    def starting_broker_ids(self) -> list[int]:
        """The ids of the brokers that were started but are not registered yet."""
        return sorted(self._starting)

    def on_started(self, broker_id: int) -> None:
        """Complete the future of a broker that has just been registered."""
        started = self._starting.pop(broker_id, None)
        if self.on_change is not None:
            self.on_change(broker_id, True)
        if started is not None:
            started.set_result(None)

    def give_up(
        self, broker_id: int, error: Exception
    ) -> tuple[RunningNode | None, Future[None] | None]:
        """Remove a node that could not register. Return the node and the future from ``add``.

        The caller must release the node and then fail the future. The node or the future is None if
        another thread has already removed it."""
        hint = error.hint if isinstance(error, KlammError) else None
        self.failures[broker_id] = f"{error} ({hint})" if hint else str(error)
        return self.pop(broker_id, None), self._starting.pop(broker_id, None)

    # -- stopping

    def on_failed(self, broker_id: int, reason: str, ending: threading.Thread) -> None:
        """Record why a broker failed. The thread ``ending`` is releasing the broker's resources."""
        self.failures[broker_id] = reason
        self._ending[broker_id] = ending

    def await_end(self, broker_id: int) -> None:
        """Wait until a failed broker has stopped and released its resources."""
        ending = self._ending.pop(broker_id, None)
        if ending is not None:
            ending.join()

    def drain_of(self, broker_id: int) -> Future[None]:
        """Return a future that completes when a broker's controlled shutdown is over.

        This is the case when the controller has moved leadership away from the broker, when the
        last retry has failed, or when the broker has been stopped."""
        return self._drained.setdefault(broker_id, Future())

    def on_drained(self, broker_id: int) -> None:
        """Record that a broker's controlled shutdown succeeded, or failed after the last retry."""
        over = self._drained.get(broker_id)
        if over is not None and not over.done():
            over.set_result(None)

    def take(self, broker_id: int) -> RunningNode:
        """Remove and return a node that the caller will stop.

        Raises WrongState if the broker is not running."""
        running = self.pop(broker_id, None)
        if running is None:
            raise WrongState(f"broker {broker_id} is not running")
        if self.on_change is not None:
            self.on_change(broker_id, False)
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
        """True if all controllers are idle."""
        return all(running.is_idle for running in tuple(self.values()))
