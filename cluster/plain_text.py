"""Escaping and cutting of untrusted text, such as topic names and racks, before it is displayed.

Control characters, line breaks and bidirectional formatting characters are replaced with JSON
escape sequences, so that escaped JSON text still decodes to the same value.
"""

from __future__ import annotations

import re
from typing import Final

_LINE_BREAKS: Final = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
_CONTROLS: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_MOST_SHOWN: Final = 80
_obeyed = re.compile(f"[{_CONTROLS}{_BIDI}\u2028\u2029\ufeff]")
_obeyed_in_line = re.compile(f"[\t{_LINE_BREAKS}{_CONTROLS}{_BIDI}\ufeff]")


def harmless(text: str) -> str:
    """Escape control and bidirectional formatting characters in multi-line text."""
    # Nearly all text is harmless, and this test is much faster than the pattern.
    if text.isascii() and text.isprintable():
        return text
    return _obeyed.sub(_escaped, text)


def harmless_line(text: str) -> str:
    """Escape the same characters as ``harmless``, and also line breaks and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return _obeyed_in_line.sub(_escaped, text)


def shortened(text: str) -> str:
    """Cut a text for a message about it, if it is longer than 80 characters."""
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
