"""Waiting in tests: for a condition, with a deadline, never for a length of time."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 20.0, what: str = "") -> T:
    """The first true value of ``condition``. Raises AssertionError after ``timeout_s``.

    ``what`` says in words what was waited for.
    """
    never = threading.Event()
    deadline_s = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what or condition}")
        never.wait(0.01)


def replace_sleep(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], None]) -> None:
    """Let ``time.sleep`` call ``sleep`` in this thread; others, such as py4j's, still sleep."""
    own = threading.get_ident()

    def replaced(wait_s: float) -> None:
        if threading.get_ident() == own:
            sleep(wait_s)
        else:
            threading.Event().wait(wait_s)

    monkeypatch.setattr("time.sleep", replaced)


class WaitingEnds(io.StringIO):
    """Standard error without a terminal; once it says what a command waits for, the wait ends."""

    def __init__(self, end: Callable[[], None]) -> None:
        super().__init__()
        self._end = end

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.startswith(("waiting for ", '{"note":"waiting for ')):
            self._end()
        return written
