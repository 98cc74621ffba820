"""rich's console with escaped text. Separate from cli/terminal.py: few commands need rich."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from klamm.cluster.plain_text import harmless


class HarmlessConsole(Console):
    """A rich console that escapes text, but not rich's own control sequences."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Yield the segments of a renderable, with their text escaped."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(harmless(segment.text), segment.style)
