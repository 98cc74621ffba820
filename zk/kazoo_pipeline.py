"""Waitable completions (like futures) and pipelined batches of ZooKeeper requests.

This module does not depend on kazoo. KazooSession decides what happens to requests in flight when
the connection is lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.zk.kazoo_wire import ZooKeeperRequest
from klamm.zk.store import ResultCode

_LOOK_AGAIN_S: Final = 0.1


class Completion:
    """An operation that one thread finishes and that other threads can wait for."""

    def __init__(self) -> None:
        self._finished = threading.Event()
        self._completion_lock = threading.Lock()
        self._callbacks: list[Callable[[Completion], None]] = []

    @property
    def done(self) -> bool:
        """True if the operation is finished."""
        return self._finished.is_set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the operation is finished or ``timeout_s`` has passed. Return ``done``."""
        return self._finished.wait(timeout_s)

    def add_done_callback(self, callback: Callable[[Completion], None]) -> None:
        """Call ``callback`` when the operation finishes, or now if it is already finished.

        The callback may run on any thread. It should only enqueue work, and must not raise.
        """
        with self._completion_lock:
            if not self.done:
                self._callbacks.append(callback)
                return
        callback(self)

    def finish(self) -> None:
        """Mark the operation as finished and call the callbacks. Only the first call counts."""
        with self._completion_lock:
            if self.done:
                return
            self._finished.set()
        for callback in self._callbacks:
            callback(self)


Wait = Callable[[Completion], None]


def block(completion: Completion) -> None:
    """Block the calling thread, without a time limit, until ``completion`` is finished."""
    completion.wait()


def within(timeout_s: float) -> Wait:
    """Return a wait function that raises ZooKeeperUnavailable after ``timeout_s`` seconds.

    After the error, requests that were already sent may still succeed.
    """

    def wait(completion: Completion) -> None:
        if not completion.wait(timeout_s):
            raise ZooKeeperUnavailable(
                f"ZooKeeper did not answer within {timeout_s:g} s",
                hint="klamm continues when ZooKeeper is back",
                definite=False,
            )

    return wait


def unless_lost(limit_s: float, is_connected: Callable[[], bool]) -> Wait:
    """Return a wait function that fails after ``limit_s`` seconds without a connection.

    It then raises ZooKeeperUnavailable, although requests that were already sent may still succeed.
    While ZooKeeper is connected, the function waits without a limit.
    """

    def wait(completion: Completion) -> None:
        connected_at = time.monotonic()
        while not completion.wait(min(limit_s, _LOOK_AGAIN_S)):
            now = time.monotonic()
            if is_connected():
                connected_at = now
            elif now - connected_at >= limit_s:
                raise ZooKeeperUnavailable(
                    f"the connection to ZooKeeper was lost for more than {limit_s:g} s",
                    hint="the last write may have taken effect: when ZooKeeper is back, check "
                    "whether it did before you repeat the command",
                    definite=False,
                )

    return wait


class PipelinedBatch(Completion):
    """Requests that are sent together.

    The batch is finished when every request has a reply, or is lost and will not be sent again.
    """

    def __init__(
        self,
        requests: Sequence[ZooKeeperRequest],
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
            request.listener = self.request_completed

    def lost(self) -> list[ZooKeeperRequest]:
        """Return the requests that got no reply because the connection was lost."""
        return [r for r in self.requests if r.code is ResultCode.CONNECTIONLOSS]

    def sending(self, count: int) -> None:
        """Record that ``count`` requests are about to be sent."""
        self._incomplete = count

    def request_completed(self, request: ZooKeeperRequest) -> None:
        """Record that a request got a reply or was lost."""
        with self._lock:
            self._incomplete -= 1
            last = self._incomplete == 0
        if last:
            self._on_completed(self)
