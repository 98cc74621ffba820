"""Describes the known bug that a drill shows: the texts of the table, and those of the quirks."""

from __future__ import annotations

import ast
import inspect
import itertools
from functools import cache
from typing import Final

import msgspec

from klamm.cluster.quirks import NAMES, Quirks, quirk_label
from klamm.lab.drills.known_bugs import FIXED, OWN, PRESENT

WITH_BUGS: Final = tuple(sorted({bug.drill for bug in (*PRESENT, *FIXED, *OWN)}))
"""The names of the drills that show known bugs."""

_NEVER: Final = {"never": "never fixed", "never present": "never present"}


class ShownBug(msgspec.Struct, frozen=True):
    """A bug that a drill shows: its names, which versions have it, what is wrong, what is right."""

    names: str
    versions: str
    wrong: str
    right: str

    @property
    def wrong_text(self) -> str:
        """The names of the bug, and what is wrong, as one line."""
        return f"{self.names}, {self.versions}: {self.wrong}"


@cache
def quirk_texts() -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of each quirk's docstring, by field: 2.8.2's behaviour, and klamm's."""
    (class_,) = ast.parse(inspect.getsource(Quirks)).body
    assert isinstance(class_, ast.ClassDef)
    texts = {}
    for field, text in itertools.pairwise(class_.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            paragraphs = str(ast.literal_eval(text.value)).split("\n\n")
            texts[ast.unparse(field.target)] = tuple(" ".join(p.split()) for p in paragraphs)
    return texts


def bugs_shown_by(drill: str) -> list[ShownBug]:
    """Return the bugs that a shipped drill shows."""
    found = []
    for bug in PRESENT:
        if bug.drill == drill:
            names = ", ".join((quirk_label(bug.name), *bug.also))
            wrong, right, *_ = quirk_texts()[NAMES[bug.name]]
            found.append(ShownBug(names, "in 2.8.2", wrong, right))
    for fixed in (*FIXED, *OWN):
        if fixed.drill == drill:
            names = ", ".join((fixed.name, *fixed.also))
            product = "klamm " if fixed in OWN else ""
            versions = _NEVER.get(fixed.since, f"fixed in {product}{fixed.since}")
            found.append(ShownBug(names, versions, fixed.wrong, fixed.right))
    return found
