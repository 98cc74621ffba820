"""Elements of HTML and SVG as text; what is not an element is escaped, whoever wrote it.

Knows no page.
"""

from __future__ import annotations

import html
import re
from typing import Final

_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufffe\uffff]"
)
_VOID: Final = frozenset({"meta", "br", "rect", "line", "path"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Any text as HTML that shows it. What no page may hold, or what turns the direction of
    writing around, is shown as a replacement character."""
    return Markup(html.escape(_UNPRINTABLE.sub("\ufffd", text), quote=True))


def element(tag: str, /, *children: str, **attributes: str | float) -> Markup:
    """An element. Children that are no Markup are escaped, attributes are.

    An attribute's trailing underscore is dropped (``class_``), others become hyphens.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
    )
    if tag in _VOID and not children:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """Children one after another."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escaped(child) for child in children)
    )


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escaped(value)
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
