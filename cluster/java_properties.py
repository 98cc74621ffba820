"""Java's properties files. Mirrors java.util.Properties.load."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n?|\n")
_CONTINUES: Final = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_PROPERTY: Final = re.compile(
    r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL | re.ASCII
)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the text of a properties file. Raises ValueError for a malformed \uXXXX."""
    properties = {}
    for line in _lines(text):
        found = _PROPERTY.fullmatch(line)
        assert found is not None, f"not a property: {line}"
        properties[_unescaped(found[1])] = _unescaped(found[2])
    return properties


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that are neither blank nor comments, each with those that continue it."""
    lines = iter(_LINE_END.split(text))
    for first in lines:
        line = first.lstrip(_BLANKS)
        if line.startswith(("#", "!")):
            continue
        while _CONTINUES.search(line):
            line = line[:-1] + next(lines, "").lstrip(_BLANKS)
        if line:
            yield line


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text)


def _character(escape: re.Match[str]) -> str:
    word = escape[1]
    if word == "u":
        raise ValueError("Malformed \\uxxxx encoding.")
    return chr(int(word[1:], 16)) if len(word) > 1 else _ESCAPED.get(word, word)
