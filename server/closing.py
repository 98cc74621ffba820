"""Waiting that ends when the server does.

Requests wait on threads of their own; none of them may keep the server from ending.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent import futures
from typing import Any, Final, TypeVar

from cluster.errors import KlammError, RequestTimedOut

POLL_S: Final = 0.02

T = TypeVar("T")


class Closing:
    """Says to everybody who waits that the server ends."""

    def __init__(self) -> None:
        self._closed: futures.Future[None] = futures.Future()

    @property
    def is_set(self) -> bool:
        """True once ``set`` was called."""
        return self._closed.done()

    def set(self) -> None:
        """End every wait; idempotent."""
        if not self._closed.done():
            self._closed.set_result(None)

    def result_of(self, future: futures.Future[T], timeout_s: float | None) -> T:
        """What ``future`` ends with.

        Raises what it raises, TimeoutError, or KlammError if the server ends first.
        """
        either: tuple[futures.Future[Any], ...] = (future, self._closed)
        futures.wait(either, timeout_s, futures.FIRST_COMPLETED)
        if future.done():
            return future.result()
        if self.is_set:
            raise KlammError("klamm is ending")
        raise TimeoutError

    def wait_until(self, condition: Callable[[], T | None], deadline_s: float, what: str) -> T:
        """The first value of ``condition`` that is not None, before the monotonic ``deadline_s``.

        Raises RequestTimedOut with the words ``what``, or KlammError if the server ends first.
        """
        while (value := condition()) is None:
            if time.monotonic() >= deadline_s:
                raise RequestTimedOut(what)
            futures.wait((self._closed,), POLL_S)
            if self.is_set:
                raise KlammError("klamm is ending")
        return value
