"""The house rules that no linter knows, over every file of the project."""

from __future__ import annotations

import ast
import gc
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = tuple(sorted(file.parent.name for file in ROOT.glob("*/__init__.py")))
"""The top-level folders that are shipped as packages of klamm."""
NOT_OURS = ("build", "dist", "__pycache__", ".git")
FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 500
MACHINE = re.compile(
    r"/wor[k]/|/tm[p]/|\.\./share[d]|index-[u]rl|https?://\S*(/simple/|/maven2|registry|mirror)"
)
LEFT_OVER = re.compile(r"\b(TO[D]O|FIXM[E]|XX[X])\b")
# What a test does that can fail: an assertion, or a helper whose name says that it makes one.
JUDGES = re.compile(r"\bassert\b|raises|assert_|check|expect|verify|compare")
COMMENT = re.compile(r"#.*")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """One Python file. ``name`` is relative to the root, with slashes.

    ``nodes``: its functions, imports and attributes, so that its tree is walked once."""

    name: str
    text: str
    docstring: str | None
    nodes: tuple[ast.AST, ...]


@cache
def text_files() -> tuple[tuple[str, str], ...]:
    """(name, text) of files that people write: no dotted folder but .ci and .github, no data."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        relative = Path(folder).relative_to(ROOT)
        folders[:] = sorted(
            name
            for name in folders
            if name not in NOT_OURS
            and not name.endswith(".egg-info")
            and (not name.startswith(".") or name in (".ci", ".github"))
            and (relative / name) != Path("tests/data")
        )
        for name in sorted(set(names).difference(NOT_OURS)):
            try:
                found.append(((relative / name).as_posix(), (ROOT / relative / name).read_text()))
            except UnicodeDecodeError:
                continue
    return tuple(found)


@cache
def sources() -> tuple[Source, ...]:
    # Millions of new nodes and no garbage: the collector would take most of the time.
    gc.disable()
    try:
        return tuple(_parsed(name, text) for name, text in text_files() if name.endswith(".py"))
    finally:
        gc.enable()


def _parsed(name: str, text: str) -> Source:
    tree = ast.parse(text, name)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom, ast.Attribute)
    nodes = tuple(node for node in ast.walk(tree) if isinstance(node, kinds))
    return Source(name, text, ast.get_docstring(tree), nodes)


@pytest.fixture(autouse=True, scope="module")
def forgotten() -> Iterator[None]:
    """The syntax trees would slow down every collection of the tests that follow."""
    yield
    sources.cache_clear()
    text_files.cache_clear()


def product_sources() -> Iterator[Source]:
    return (
        source
        for source in sources()
        if "/" not in source.name or source.name.split("/")[0] in PRODUCT
    )


def functions(source: Source) -> Iterator[Function]:
    return (node for node in source.nodes if isinstance(node, Function))


def imported_modules(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").split(".")[0]


def lines_that(match: Callable[[str], object]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:80]}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if match(line)
    ]


def test_every_file_says_what_it_is_for() -> None:
    silent = [source.name for source in sources() if not source.docstring and source.text.strip()]
    assert silent == []


def test_every_package_with_code_is_shipped() -> None:
    outside = {"bench", "docs", "tests"}
    folders = {
        Path(source.name).parent for source in sources() if source.name.split("/")[0] not in outside
    }
    assert [folder for folder in folders if not (ROOT / folder / "__init__.py").exists()] == []
    assert outside.isdisjoint(PRODUCT)


def test_functions_fit_on_a_screen() -> None:
    long = [
        f"{source.name}:{function.lineno}: {function.name}"
        for source in sources()
        for function in functions(source)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert long == []


def test_product_files_are_short() -> None:
    long = {
        source.name: source.text.count("\n")
        for source in product_sources()
        if source.text.count("\n") > FILE_LINES_MAX
    }
    assert long == {}


def test_no_test_sleeps() -> None:
    sleepers = [
        f"{source.name}:{node.lineno}"
        for source in sources()
        if source.name.startswith("tests/")
        for node in source.nodes
        if (
            isinstance(node, ast.ImportFrom)
            or (isinstance(node, ast.Attribute) and node.attr == "sleep")
        )
        and ast.unparse(node) in ("time.sleep", "from time import sleep")
    ]
    assert sleepers == []


def test_every_test_can_fail() -> None:
    toothless = [
        f"{source.name}:{function.lineno}: {function.name}"
        for source in sources()
        if source.name.startswith("tests/")
        for lines in (COMMENT.sub("", source.text).splitlines(),)
        for function in functions(source)
        if function.name.startswith("test_")
        and not JUDGES.search("\n".join(lines[function.lineno : function.end_lineno]))
    ]
    assert toothless == []


def test_nothing_is_left_for_later() -> None:
    assert lines_that(LEFT_OVER.search) == []


def test_nothing_names_a_machine_or_a_registry() -> None:
    assert lines_that(MACHINE.search) == []


ENGINES = ("duckdb", "pyspark", "sqlglot")


def test_only_their_own_files_import_kazoo_and_engines() -> None:
    strangers = [
        f"{source.name}: {module}"
        for source in product_sources()
        for module in imported_modules(source)
        if (module == "kazoo" and not re.match(r"zk/kazoo_\w+\.py$", source.name))
        or (module in ENGINES and not source.name.startswith("replay/"))
    ]
    assert strangers == []
