"""The texts of the quirks, which are the docstrings of their fields in cluster/quirks.py."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path

from docs.markdown import table
from klamm.cluster import quirks


def quirk_table() -> str:
    """Return the table of quirks: the behaviour of Kafka 2.8.2 and of klamm."""
    texts = quirk_texts()
    rows = [(quirks.quirk_label(name), *texts[field]) for name, field in quirks.NAMES.items()]
    return table(("quirk", "Kafka 2.8.2", "klamm"), rows)


def quirk_texts() -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of each quirk's docstring, by field."""
    tree = ast.parse(Path(quirks.__file__).read_text(encoding="utf-8"))
    body = next(n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Quirks")
    texts = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            paragraphs = str(ast.literal_eval(text.value)).split("\n\n")
            texts[ast.unparse(field.target)] = tuple(" ".join(p.split()) for p in paragraphs)
    return texts
