"""Java's way to divide and to trim a text, on which Kafka's tools rely.

Mirrors java.lang.String.split and trim. Unlike Python's, they do not know Unicode's white space.
"""

from __future__ import annotations

import re
from typing import Final

_BLANKS: Final = "".join(map(chr, range(0x21)))


def java_split(text: str, pattern: str) -> list[str]:
    """Return the parts of ``text`` between the matches of a regex, without empty parts at the end.

    A text without a match is one part, even if it is empty.
    """
    parts = re.split(pattern, text, flags=re.ASCII)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def java_trim(text: str) -> str:
    """Return ``text`` without blanks and control characters at both ends."""
    return text.strip(_BLANKS)
