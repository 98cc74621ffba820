"""Runs a function on many inputs in several processes, and limits the CPU time of one call.

A process that dies, e.g. because the machine is out of memory, costs only the input that it worked
on. This module prints nothing.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Final, Generic, TypeVar

from klamm.interrupts import starting_workers

T = TypeVar("T")
R = TypeVar("R")

_REPEAT_S: Final = 1.0
_RARELY: Final = (200_000, 5, 20)


class OutOfTime(BaseException):
    """Raised when a limit of CPU time is exceeded.

    It is a BaseException, so that no error handler of a broker or controller catches it.
    """


def print_no_warnings() -> None:
    """From now on, this process does not print what simulated brokers log."""
    logging.getLogger().addHandler(logging.NullHandler())


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Context manager: raise OutOfTime if the body takes more CPU time. For the main thread.

    A simulation computes and never waits, so that a limit of CPU time means the same on a busy
    machine. The exception is raised again after another second if a destructor has swallowed it.
    """
    is_over = False

    def expire(*_: object) -> None:
        if not is_over:
            raise OutOfTime

    began_s = time.process_time()
    handler = signal.signal(signal.SIGPROF, expire)
    left_s, interval_s = signal.setitimer(signal.ITIMER_PROF, seconds, _REPEAT_S)
    try:
        yield
    finally:
        is_over = True
        outer_s = max(left_s - (time.process_time() - began_s), 0.001) if left_s else 0.0
        signal.setitimer(signal.ITIMER_PROF, outer_s, interval_s)
        signal.signal(signal.SIGPROF, handler)


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Context manager: look for cyclic garbage less often.

    A simulation keeps most of what it allocates, so that there is little to find.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class Died(Exception):
    """A worker process has ended before it returned a result."""


class _Worker(Generic[T, R]):
    """A process that calls ``function`` for each input that it is sent."""

    def __init__(self, function: Callable[[T], R], number: int) -> None:
        self.number = number
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(function, other), daemon=True)
        with starting_workers():
            self._process.start()
        other.close()

    def send(self, item: T) -> None:
        # If the process has died, ``receive`` reports that.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(item)

    def receive(self) -> R:
        """Return the result for the input. Raises Died, or the error that the function raised."""
        try:
            result, error = self.connection.recv()
        except (EOFError, ConnectionResetError) as lost:
            self._process.join()
            raise Died(f"its process ended with exit code {self._process.exitcode}") from lost
        if error is not None:
            raise error
        returned: R = result
        return returned

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self.connection.close()


class Workers(Generic[T, R]):
    """Up to ``jobs`` processes that call ``function``, until the context manager is left.

    A worker ends when this process has ended, even if that was killed and the worker is busy.
    """

    def __init__(self, function: Callable[[T], R], jobs: int) -> None:
        self.jobs = jobs
        self._function = function
        self._idle: list[_Worker[T, R]] = []
        self._busy: dict[object, tuple[_Worker[T, R], T]] = {}
        self._started = 0

    def __enter__(self) -> Workers[T, R]:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *(worker for worker, _ in self._busy.values())):
            worker.end()

    def run(self, inputs: Iterable[T]) -> Iterator[tuple[T, R | Died]]:
        """Call the function for each input; yield inputs and results when ready.

        An input whose process died is yielded with Died instead of a result. An error that the
        function raises is raised here. With one job, the function runs in this process.
        """
        rest = iter(inputs)
        yield from self.run_chosen(lambda _: next(rest, None))

    def run_chosen(self, choose: Callable[[int], T | None]) -> Iterator[tuple[T, R | Died]]:
        """Like ``run`` with the inputs that ``choose`` returns for idle workers.

        It is called with the number of a worker, and returns None if there is nothing to do for it.
        """
        if self.jobs == 1:
            while (item := choose(0)) is not None:
                yield item, self._function(item)
            return
        idle, self._idle = self._idle, []
        for worker in (*idle, *[None] * (self.jobs - len(idle))):
            self._give_next(choose, worker)
        while self._busy:
            for connection in wait([worker.connection for worker, _ in self._busy.values()]):
                current, item = self._busy[connection]
                left: _Worker[T, R] | None = current
                result: R | Died
                try:
                    result = current.receive()
                except Died as died:
                    result, left = died, None
                    current.end()
                del self._busy[connection]
                self._give_next(choose, left)
                yield item, result

    def _give_next(self, choose: Callable[[int], T | None], worker: _Worker[T, R] | None) -> None:
        """Send a worker its next input, if there is one; if ``worker`` is None, a new worker."""
        item = choose(self._started if worker is None else worker.number)
        if item is None:
            if worker is not None:
                self._idle.append(worker)
            return
        if worker is None:
            worker = _Worker(self._function, self._started)
            self._started += 1
        self._busy[worker.connection] = worker, item
        worker.send(item)


def run_parallel(
    function: Callable[[T], R], inputs: Iterable[T], jobs: int
) -> Iterator[tuple[T, R | Died]]:
    """Call ``function`` for each input in ``jobs`` processes; see ``Workers.run``."""
    with Workers(function, jobs) as workers:
        yield from workers.run(inputs)


def _serve(function: Callable[[T], R], connection: Connection) -> None:
    """Serve one _Worker, and print no warnings."""
    print_no_warnings()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # The parent has closed its end of the connection if it has ended.
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            item = connection.recv()
            answer: tuple[R | None, Exception | None]
            try:
                answer = (function(item), None)
            except Exception as error:
                answer = (None, error)
            connection.send(answer)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "a worker is a child process"
    parent.join()
    os._exit(1)
