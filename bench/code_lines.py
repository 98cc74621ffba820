"""How many lines of code the product has: ``python -m bench.code_lines [FOLDER ...]``.

Lines without blank ones, comments, docstrings (and other strings that stand alone) and imports. A
line a package, and the sum; folders are those of the shipped packages unless others are given.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_NO_CODE: Final = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def code_lines(text: str) -> int:
    """The lines of a Python file that count."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines.difference(*_left_out(ast.parse(text))))


def _left_out(tree: ast.Module) -> Iterator[range]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom) or (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield range(node.lineno, (node.end_lineno or 0) + 1)


def packages() -> list[str]:
    """The folders of the shipped packages."""
    return sorted(file.parent.name for file in ROOT.glob("*/__init__.py"))


def main() -> int:
    """Print a line for each folder, and the sum."""
    parser = argparse.ArgumentParser(prog="python -m bench.code_lines", description=__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="of this checkout")
    folders = parser.parse_args().folders or packages()
    for folder in folders:
        if not (ROOT / folder).is_dir():
            parser.error(f"there is no folder {folder}")
    counts = Counter[str]()
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            counts[folder] += code_lines(path.read_text())
    for folder, count in counts.items():
        print(f"{count:7,} {folder}")
    print(f"{counts.total():7,} in all")
    return 0


if __name__ == "__main__":
    sys.exit(main())
