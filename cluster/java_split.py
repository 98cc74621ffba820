"""Java's way to divide a text, on which Kafka's tools rely. Mirrors java.lang.String.split."""

from __future__ import annotations

import re


def java_split(text: str, pattern: str) -> list[str]:
    """Return the parts of ``text`` between the matches of a regex, without empty parts at the end.

    A text without a match is one part, even if it is empty.
    """
    parts = re.split(pattern, text)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts
