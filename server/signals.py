"""Handlers for the signals that terminate a process: SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

from klamm.runtime.interrupts import ENDING_SIGNALS


@contextlib.contextmanager
def ending_signals_handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context manager that installs ``handler`` for termination signals.

    The earlier handlers are restored on exit.
    """
    before = {number: signal.signal(number, handler) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
