"""The signals that end a process: what is done when one comes."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def ending_signals_handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Call ``handler`` for each of them inside the block; afterwards all is as before."""
    before = {number: signal.signal(number, handler) for number in _ENDING}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
