"""Shows on standard error what a command waits for, or which step it runs.

On a terminal, a status line shows the elapsed seconds and is erased at the end. Without a terminal,
one plain line is printed after two seconds. Standard output gets only the command's result.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from klamm.cli.terminal import STATUS_LINE

PLAIN_AFTER_S: Final = 2.0
STATUS_AFTER_S: Final = 0.5
_TICK_S: Final = 1.0
_outermost = threading.Lock()


def waiting(what: str, *, is_certain: bool = False) -> AbstractContextManager[None]:
    """Context manager that shows what the command waits for if its body takes a long time.

    ``what``: the rest of the message after "waiting for". If ``is_certain`` is set, the message
    appears at once. A nested call prints nothing, because the outer message is already shown.
    """
    return _shown(f"waiting for {what}", is_certain)


def running_step(title: str) -> AbstractContextManager[None]:
    """Context manager that shows the title of a step if the step takes a long time."""
    return _shown(f"running step: {title}", is_certain=False)


@contextmanager
def _shown(message: str, is_certain: bool) -> Iterator[None]:
    if not _outermost.acquire(blocking=False):
        yield
        return
    ended = threading.Event()
    speaker = threading.Thread(
        target=_speak, args=(message, is_certain, ended), name="waiting", daemon=True
    )
    try:
        speaker.start()
        yield
    finally:
        ended.set()
        with suppress(RuntimeError):  # Ctrl-C came while the thread was starting
            speaker.join()
        _outermost.release()


def _speak(message: str, is_certain: bool, ended: threading.Event) -> None:
    """Show the message, until the event ``ended`` is set."""
    begun_s = time.monotonic()
    stream = sys.stderr
    if not stream.isatty():
        if is_certain or not ended.wait(PLAIN_AFTER_S):
            stream.write(f"{message}\n")
            stream.flush()
        return
    wait_s = 0 if is_certain else STATUS_AFTER_S
    while not ended.wait(wait_s):
        STATUS_LINE.show(f"{message} ({time.monotonic() - begun_s:.0f} s)")
        wait_s = _TICK_S
    STATUS_LINE.erase()
