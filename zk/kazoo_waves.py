"""Waiting for ZooKeeper: a Completion anyone may wait for, and the wave of requests that is one.

It knows neither kazoo nor the session: what becomes of a lost request is decided elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.zk.kazoo_wire import Request
from klamm.zk.store import ResultCode

_LOOK_AGAIN_S: Final = 0.1


class Completion:
    """Something that will be finished, from any thread, once."""

    def __init__(self) -> None:
        self._finished = threading.Event()
        self._completion_lock = threading.Lock()
        self._callbacks: list[Callable[[Completion], None]] = []

    @property
    def done(self) -> bool:
        """Whether it is finished."""
        return self._finished.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block this thread until it is finished, or the timeout passed. Returns ``done``."""
        return self._finished.wait(timeout_s)

    def add_done_callback(self, callback: Callable[[Completion], None]) -> None:
        """Call ``callback`` when it is finished, on whatever thread; at once if it is already.

        The callback may only enqueue, and must not raise.
        """
        with self._completion_lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self) -> None:
        """Finish it, unless it is finished."""
        with self._completion_lock:
            if self.done:
                return
            self._finished.set()
        for callback in self._callbacks:
            callback(self)


Wait = Callable[[Completion], None]


def block(completion: Completion) -> None:
    """The plain way to wait: this thread does nothing else."""
    completion.wait()


def within(timeout_s: float) -> Wait:
    """Wait for a limited time, then raise ZooKeeperUnavailable: sent requests may still succeed."""

    def wait(completion: Completion) -> None:
        if not completion.wait(timeout_s):
            raise ZooKeeperUnavailable(
                f"ZooKeeper did not answer within {timeout_s:g} s",
                hint="klamm continues when it is back",
                definite=False,
            )

    return wait


def unless_lost(limit_s: float, is_connected: Callable[[], bool]) -> Wait:
    """Wait as long as ZooKeeper is connected; raise ZooKeeperUnavailable once it was lost for the
    limit: sent requests may still succeed."""

    def wait(completion: Completion) -> None:
        connected_at = time.monotonic()
        while not completion.wait(min(limit_s, _LOOK_AGAIN_S)):
            now = time.monotonic()
            if is_connected():
                connected_at = now
            elif now - connected_at >= limit_s:
                raise ZooKeeperUnavailable(
                    f"ZooKeeper was lost and did not come back within {limit_s:g} s",
                    hint="the last write may have been done: look, and repeat the command when "
                    "ZooKeeper is back",
                    definite=False,
                )

    return wait


class Wave(Completion):
    """Requests that were sent together; finished when each has its answer or its definite loss."""

    def __init__(
        self, requests: Sequence[Request], repeat: bool, on_settled: Callable[[Wave], None]
    ) -> None:
        super().__init__()
        self.requests = requests
        self.repeat = repeat
        self._on_settled = on_settled
        self._unsettled = 0
        self._lock = threading.Lock()
        for request in requests:
            request.listener = self

    def lost(self) -> list[Request]:
        """The requests whose connection was lost."""
        return [r for r in self.requests if r.code is ResultCode.CONNECTIONLOSS]

    def sending(self, count: int) -> None:
        """``count`` requests will now be sent."""
        self._unsettled = count

    def settled(self, request: Request) -> None:
        """One of them has its answer, or was lost."""
        with self._lock:
            self._unsettled -= 1
            last = self._unsettled == 0
        if last:
            self._on_settled(self)
