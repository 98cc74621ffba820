"""Opens and closes the parts of a server, and ends the waits of its requests when it shuts down.

Requests wait for results on threads or in the event loop, and must not delay the shutdown.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent import futures
from typing import Any, Final, Self, TypeVar

from klamm.cluster.errors import KlammError, RequestTimedOut

POLL_S: Final = 0.02
_FIRST: Final = asyncio.FIRST_COMPLETED

T = TypeVar("T")


class Closing:
    """Shutdown flag of the server; setting it ends all waits."""

    def __init__(self) -> None:
        self._closed: futures.Future[None] = futures.Future()
        # No lock: a signal handler may call ``set`` on a thread that is just changing this set.
        self._end_awaits: set[Callable[[], None]] = set()

    @property
    def is_set(self) -> bool:
        """True after ``set`` was called."""
        return self._closed.done()

    def set(self) -> None:
        """Set the flag and end every wait; idempotent."""
        if not self._closed.done():
            self._closed.set_result(None)
        for end_await in tuple(self._end_awaits):
            end_await()

    def result_of(self, future: futures.Future[T], timeout_s: float | None) -> T:
        """Wait for ``future`` and return its result.

        Raises the future's exception, TimeoutError, or KlammError if the server shuts down first.
        """
        either: tuple[futures.Future[Any], ...] = (future, self._closed)
        futures.wait(either, timeout_s, futures.FIRST_COMPLETED)
        if future.done():
            return future.result()
        if self.is_set:
            raise KlammError("klamm is shutting down")
        raise TimeoutError

    async def awaited(self, future: futures.Future[T], timeout_s: float) -> T:
        """Like ``result_of``, but for coroutines: does not block a thread.

        If the wait ends without a result, ``future`` is cancelled, unless it is already running.
        """
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def end() -> None:
            loop.call_soon_threadsafe(ended.set)

        result = asyncio.wrap_future(future)
        ending = loop.create_task(ended.wait())
        self._end_awaits.add(end)
        try:
            if not self.is_set:
                await asyncio.wait((result, ending), timeout=timeout_s, return_when=_FIRST)
            if result.done():
                return result.result()
        finally:
            self._end_awaits.discard(end)
            result.cancel()
            ending.cancel()
        if self.is_set:
            raise KlammError("klamm is shutting down")
        raise TimeoutError

    def wait_until(self, condition: Callable[[], T | None], deadline_s: float, what: str) -> T:
        """Poll ``condition`` until it returns a value other than None, and return that value.

        ``deadline_s`` is a time on the monotonic clock. Raises RequestTimedOut with the message
        ``what``, or KlammError if the server shuts down first.
        """
        while (value := condition()) is None:
            if time.monotonic() >= deadline_s:
                raise RequestTimedOut(what)
            futures.wait((self._closed,), POLL_S)
            if self.is_set:
                raise KlammError("klamm is shutting down")
        return value


class OpenedParts(ABC):
    """The parts of a running cluster or controller, from ``open`` to ``close``.

    ``_open`` opens them and adds to ``_stack`` what closes them, in reverse order.
    """

    def __init__(self) -> None:
        self.closing = Closing()
        self._stack = contextlib.ExitStack()

    @abstractmethod
    def _open(self) -> None: ...

    def open(self) -> None:
        """Open all parts. If that fails, close those that were opened and raise the error."""
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the waits of all requests, then close all parts; idempotent."""
        self.closing.set()
        self._stack.close()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
