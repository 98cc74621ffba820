"""What klamm prints to a terminal: nothing that comes from outside can give it orders.

Names, hosts and reasons come from ZooKeeper and from clients. A stream to a terminal escapes what
the terminal would obey; pipes and files get every byte as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from cluster.plain_text import harmless

CLEAR_LINE: Final = "\r\x1b[K"
"""How klamm begins a line of progress that replaces the one before."""


class HarmlessStream:
    """A text stream in front of a terminal. Consoles of rich write behind it, past the escaping."""

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


class HarmlessConsole(Console):
    """A console of rich whose texts are escaped, but not what rich itself tells the terminal."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of something to be shown."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)


@contextmanager
def harmless_output() -> Iterator[None]:
    """Inside the block standard output and error are harmless where they are terminals."""
    output, errors = sys.stdout, sys.stderr
    try:
        if output.isatty():
            sys.stdout = cast(TextIO, HarmlessStream(output))
        if errors.isatty():
            sys.stderr = cast(TextIO, HarmlessStream(errors))
        yield
    finally:
        sys.stdout, sys.stderr = output, errors
