"""Waiting for ZooKeeper: completions, and pipelined batches of requests.

Independent of kazoo and of the session, which decides how lost requests continue.
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
    """An operation that will be finished once, by any thread."""

    def __init__(self) -> None:
        self._finished = threading.Event()
        self._completion_lock = threading.Lock()
        self._callbacks: list[Callable[[Completion], None]] = []

    @property
    def done(self) -> bool:
        """Whether the operation is finished."""
        return self._finished.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block this thread until the operation is finished or times out; return ``done``."""
        return self._finished.wait(timeout_s)

    def add_done_callback(self, callback: Callable[[Completion], None]) -> None:
        """Call ``callback`` when the operation is finished, or now if it is.

        The callback runs on any thread; it may only enqueue, and must not raise.
        """
        with self._completion_lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self) -> None:
        """Mark the operation as finished and call the callbacks; the first call counts."""
        with self._completion_lock:
            if self.done:
                return
            self._finished.set()
        for callback in self._callbacks:
            callback(self)


Wait = Callable[[Completion], None]


def block(completion: Completion) -> None:
    """Wait by blocking this thread."""
    completion.wait()


def within(timeout_s: float) -> Wait:
    """Return a wait with a time limit, after which it raises ZooKeeperUnavailable.

    Requests that were sent may still succeed.
    """

    def wait(completion: Completion) -> None:
        if not completion.wait(timeout_s):
            raise ZooKeeperUnavailable(
                f"ZooKeeper did not answer within {timeout_s:g} s",
                hint="klamm continues when it is back",
                definite=False,
            )

    return wait


def unless_lost(limit_s: float, is_connected: Callable[[], bool]) -> Wait:
    """Return a wait that raises ZooKeeperUnavailable when ZooKeeper was lost for ``limit_s``.

    It waits without limit while ZooKeeper is connected. Requests that were sent may still succeed.
    """

    def wait(completion: Completion) -> None:
        connected_at = time.monotonic()
        while not completion.wait(min(limit_s, _LOOK_AGAIN_S)):
            now = time.monotonic()
            if is_connected():
                connected_at = now
            elif now - connected_at >= limit_s:
                raise ZooKeeperUnavailable(
                    f"ZooKeeper was lost and did not come back within {limit_s:g} s",
                    hint="the last write may have been done: when ZooKeeper is back, check its "
                    "effect before you repeat the command",
                    definite=False,
                )

    return wait


class PipelinedBatch(Completion):
    """Requests that are sent together; finished when each has a reply or is finally lost."""

    def __init__(
        self,
        requests: Sequence[Request],
        repeat: bool,
        on_completed: Callable[[PipelinedBatch], None],
    ) -> None:
        super().__init__()
        self.requests = requests
        self.repeat = repeat
        self._on_completed = on_completed
        self._incomplete = 0
        self._lock = threading.Lock()
        for request in requests:
            request.listener = self

    def lost(self) -> list[Request]:
        """Return the requests that lost their connection."""
        return [r for r in self.requests if r.code is ResultCode.CONNECTIONLOSS]

    def sending(self, count: int) -> None:
        """Record that ``count`` requests are about to be sent."""
        self._incomplete = count

    def request_completed(self, request: Request) -> None:
        """Record that a request has its reply or was lost."""
        with self._lock:
            self._incomplete -= 1
            last = self._incomplete == 0
        if last:
            self._on_completed(self)
