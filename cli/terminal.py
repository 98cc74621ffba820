"""Terminal output: escapes control characters in text that comes from outside.

Names, hosts and reasons come from ZooKeeper and from clients. A stream to a terminal escapes
control sequences in them; pipes and files get every byte unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from klamm.cluster.plain_text import harmless

CLEAR_LINE: Final = "\r\x1b[K"
"""Prefix of a progress line that replaces the previous one."""


class HarmlessStream:
    """An escaping text stream to a terminal. rich's consoles bypass the escaping."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text, escaped."""
        begin = CLEAR_LINE if text.startswith(CLEAR_LINE) else ""
        self.rich_proxied_file.write(begin + harmless(text[len(begin) :]))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Escape standard output and error inside the block, if they are terminals."""
    output, errors = sys.stdout, sys.stderr
    try:
        if output.isatty():
            sys.stdout = cast(TextIO, HarmlessStream(output))
        if errors.isatty():
            sys.stderr = cast(TextIO, HarmlessStream(errors))
        yield
    finally:
        sys.stdout, sys.stderr = output, errors
