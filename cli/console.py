"""A console of the rich library that escapes control characters in printed text.

This file is separate from cli/terminal.py, because few commands need rich.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from klamm.cluster.plain_text import harmless


class HarmlessConsole(Console):
    """A rich console that escapes control characters in text, but not in rich's own sequences."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield rich's segments of a renderable, with control characters in text escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)
