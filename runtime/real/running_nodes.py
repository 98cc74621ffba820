"""Which nodes of a real-world cluster run, which are not registered yet, and who ends one.

Brokers are started, relieved and ended from several threads: here it is decided who waits for whom,
and who may end a node. What is done to a node is runtime/real/cluster.py's business.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future

from klamm.cluster.errors import KlammError, UsageError
from klamm.runtime.real.running_node import RunningNode


class RunningNodes(dict[int, RunningNode]):
    """The nodes by broker id, for any thread: a copy of a dictionary is made at one stroke.

    Only ``add``, ``give_up`` and ``take`` change it. ``failures``: reasons of failed brokers that
    do not run.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[int, str] = {}
        self._ending: dict[int, threading.Thread] = {}
        self._starting: dict[int, Future[None]] = {}
        self._relieved: dict[int, Future[None]] = {}

    def running(self, broker_id: int) -> RunningNode:
        """A node. Raises UsageError if it does not run."""
        running = self.get(broker_id)
        if running is None:
            raise UsageError(f"broker {broker_id} does not run")
        return running

    @property
    def newest_zxid(self) -> int:
        """The newest zxid that any of their sessions has seen."""
        return max((running.session.last_zxid for running in self.copy().values()), default=0)

    # -- a start

    def add(self, broker_id: int, running: RunningNode) -> Future[None]:
        """A node that is started; the future ends when it is registered, or fails."""
        self[broker_id] = running
        self.failures.pop(broker_id, None)
        started = self._starting[broker_id] = Future[None]()
        return started

    def is_starting(self, broker_id: int) -> bool:
        """True if the broker is not registered yet."""
        return broker_id in self._starting

    @property
    def starting_broker_ids(self) -> list[int]:
        """The brokers that are not registered yet."""
        return sorted(self._starting)

    def on_started(self, broker_id: int) -> None:
        """The broker is registered."""
        started = self._starting.pop(broker_id, None)
        if started is not None:
            started.set_result(None)

    def give_up(
        self, broker_id: int, error: Exception
    ) -> tuple[RunningNode | None, Future[None] | None]:
        """Take a node that could not register, and the future that is to fail once it is freed;
        None for what somebody else has taken."""
        hint = error.hint if isinstance(error, KlammError) else None
        self.failures[broker_id] = f"{error} ({hint})" if hint else str(error)
        return self.pop(broker_id, None), self._starting.pop(broker_id, None)

    # -- an end

    def on_failed(self, broker_id: int, reason: str, ending: threading.Thread) -> None:
        """Record that the broker cannot continue; the thread ``ending`` ends it."""
        self.failures[broker_id] = reason
        self._ending[broker_id] = ending

    def await_end(self, broker_id: int) -> None:
        """Wait until a failed broker has ended and released its resources."""
        ending = self._ending.pop(broker_id, None)
        if ending is not None:
            ending.join()

    def relief_of(self, broker_id: int) -> Future[None]:
        """Ends once the broker has been relieved, has asked often enough, or was ended."""
        return self._relieved.setdefault(broker_id, Future())

    def on_relieved(self, broker_id: int) -> None:
        """The broker has been relieved, or has asked often enough."""
        over = self._relieved.get(broker_id)
        if over is not None and not over.done():
            over.set_result(None)

    def take(self, broker_id: int) -> RunningNode:
        """Who takes a node is the one who ends it. Raises UsageError if it does not run."""
        running = self.pop(broker_id, None)
        if running is None:
            raise UsageError(f"broker {broker_id} does not run")
        self.on_relieved(broker_id)
        self._relieved.pop(broker_id, None)
        started = self._starting.pop(broker_id, None)
        if started is not None:
            started.set_exception(KlammError(f"broker {broker_id} was ended before it registered"))
        return running

    # -- their controllers

    @property
    def is_idle(self) -> bool:
        """True if no controller has anything to do."""
        return all(running.is_idle for running in tuple(self.values()))

    def on_candidacy_changed(self) -> None:
        """Notify the controllers that candidacy was put on hold, or that the hold ended."""
        for running in self.copy().values():
            if running.node.controller is not None:
                running.node.controller.on_candidacy_changed()

    @property
    def active_controller(self) -> int | None:
        """The id of the broker whose controller is active; None while there is none.

        Of two, one of which has not learnt yet that it was deposed, the one of the higher epoch.
        """
        active = [
            (epoch, broker_id)
            for broker_id, running in sorted(self.copy().items())
            if (epoch := running.active_epoch) is not None
        ]
        return max(active)[1] if active else None
