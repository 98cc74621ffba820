"""Termination signals: their handlers, and sections that they must not interrupt."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals_handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context manager that installs ``handler`` for termination signals.

    The earlier handlers are restored on exit.
    """
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Context manager that postpones termination signals such as Ctrl-C to the end of the block."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[int] = []

    try:
        # Another thread can receive the signal; Python then calls the handler in this one.
        with ending_signals_handled(lambda number, _: seen.append(number)):
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
            try:
                yield
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    finally:
        if seen:
            signal.raise_signal(seen[0])


@contextmanager
def starting_workers() -> Iterator[None]:
    """Context manager for the start of worker processes, which will ignore Ctrl-C.

    The process that starts them handles it and ends them. Ctrl-C is postponed to the end of the
    block, because a worker whose parent ends during the start prints a traceback.
    """
    from multiprocessing import resource_tracker

    # Otherwise it would start with the first worker, and unblock SIGINT in the block.
    resource_tracker.ensure_running()
    with interrupts_deferred():
        yield


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Context manager that creates a temporary directory and removes it, even after Ctrl-C.

    ``prefix`` is the beginning of the directory's name. tempfile.TemporaryDirectory alone leaves
    the directory behind if Ctrl-C arrives while it is created or removed.
    """
    folder = None
    try:
        with interrupts_deferred():
            folder = tempfile.TemporaryDirectory(prefix=prefix)
        yield Path(folder.name)
    finally:
        with interrupts_deferred():
            if folder is not None:
                folder.cleanup()
