"""Output to a terminal, with control characters escaped.

Names, hosts and reasons come from ZooKeeper and from clients. Control sequences in them are escaped
when the output is a terminal; pipes and files get every byte unchanged.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from klamm.cluster.plain_text import harmless, harmless_line

_CLEAR_LINE: Final = "\r\x1b[K"
_REFRESH_INTERVAL_S: Final = 0.2
_COLUMNS: Final = 80
"""Width to assume if the terminal does not report its width."""


class StatusLine:
    """Status line at the bottom of the terminal, erased before any other output.

    Written to standard error. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._stream: TextIO | None = None
        self._shown_s = -math.inf

    def refresh(self, text: Callable[[], str]) -> None:
        """Replace the status line, unless it was replaced less than 0.2 s ago."""
        if time.monotonic() - self._shown_s >= _REFRESH_INTERVAL_S:
            self.show(text())

    def show(self, text: str) -> None:
        """Replace the status line with ``text``, cut to the width of the terminal."""
        with self._lock:
            self._shown_s = time.monotonic()
            stream = cast(TextIO, getattr(sys.stderr, "rich_proxied_file", sys.stderr))
            columns = os.get_terminal_size(stream.fileno()).columns or _COLUMNS
            stream.write(_CLEAR_LINE + harmless_line(text)[: columns - 1])
            stream.flush()
            self._stream = stream

    def erase(self) -> None:
        """Erase the status line if it is shown."""
        with self._lock:
            stream, self._stream = self._stream, None
            if stream is not None:
                stream.write(_CLEAR_LINE)
                stream.flush()


STATUS_LINE: Final = StatusLine()


class HarmlessStream:
    """Text stream that escapes control characters and writes to a terminal.

    Consoles of the library rich bypass this stream; use HarmlessConsole for them.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text, with control characters escaped."""
        STATUS_LINE.erase()
        self.rich_proxied_file.write(harmless(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, with control characters escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


class JsonStream:
    """Standard error of a command with --json: each line is a JSON object.

    A line such as "warning: TEXT" becomes ``{"warning": TEXT}``, a line that is no object
    ``{"note": LINE}``.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._begun = ""

    def write(self, text: str) -> int:
        """Write text; the part after the last newline is kept until its line is complete."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in filter(None, lines):
            self._stream.write(f"{_as_object(line)}\n")
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _as_object(line: str) -> str:
    if line.startswith("{"):
        return line
    kind, colon, text = line.partition(": ")
    is_known = bool(colon) and kind in ("warning", "hint")
    return json.dumps({kind: text} if is_known else {"note": line}, separators=(",", ":"))


@contextmanager
def harmless_output(*, as_json: bool = False) -> Iterator[None]:
    """Context manager that escapes control characters in all output to a terminal.

    With ``as_json``, standard error has only JSON objects, one per line, unless it is a terminal.
    """
    output, errors = sys.stdout, sys.stderr
    try:
        if output.isatty():
            sys.stdout = cast(TextIO, HarmlessStream(output))
        if errors.isatty():
            sys.stderr = cast(TextIO, HarmlessStream(errors))
        elif as_json:
            sys.stderr = cast(TextIO, JsonStream(errors))
        yield
    finally:
        sys.stdout, sys.stderr = output, errors
