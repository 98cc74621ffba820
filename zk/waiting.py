"""Waits in real time until a condition holds. For simulated worlds: lab/drivers/turns.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

POLL_S: Final = 0.02

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float, poll_s: float = POLL_S) -> T:
    """Return the first value of ``condition`` that is true, or the last one after the timeout."""
    deadline_s = time.monotonic() + timeout_s
    while not (value := condition()) and time.monotonic() <= deadline_s:
        time.sleep(poll_s)
    return value
