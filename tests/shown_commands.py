"""The commands that README.md and the pages in docs and bench show, with what they print.

A page marks its code blocks by the word after the fence:

- ``sh``: commands, one a line; a line that ends with a backslash continues.
- ``console``: commands after ``$ `` and below each its output, in which ``...`` is any text.
- any other word and a file name, as in ``yaml pools.yaml``: a file that later commands read.

A command succeeds unless its comment says ``exit code N``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "bench/README.md",
    *sorted(f"docs/{p.name}" for p in ROOT.glob("docs/*.md")),
)
_FENCE = re.compile(r"^```([a-z]*)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")


class Block(NamedTuple):
    """A fenced block; ``line`` is its first one, ``file`` the name after its language."""

    page: str
    line: int
    language: str
    file: str
    text: str


class Command(NamedTuple):
    """A command and the output that the page shows, or None if it shows none."""

    page: str
    line: int
    text: str
    output: str | None

    @property
    def exit_code(self) -> int:
        """The exit code that the page says."""
        found = _EXIT_CODE.search(self.text)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}"


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 2
        yield Block(page, line, found[1], found[2] or "", found[3])


def commands(block: Block) -> Iterator[Command]:
    """The commands of a block; none if its language is neither ``sh`` nor ``console``."""
    prompt = {"sh": "", "console": r"\$ "}.get(block.language)
    if prompt is None:
        return
    found = list(re.finditer(rf"^{prompt}((?:.*\\\n)*.+)\n", block.text, re.MULTILINE))
    ends = [*(one.start() for one in found[1:]), len(block.text)]
    for one, end in zip(found, ends, strict=True):
        line = block.line + block.text.count("\n", 0, one.start())
        output = block.text[one.end() : end]
        yield Command(block.page, line, re.sub(r" *\\\n *", " ", one[1]), output.strip() or None)


def page_commands(page: str) -> list[Command]:
    """All commands of a page."""
    return [command for block in blocks(page) for command in commands(block)]
