"""docs/one-event.md walks through functions that exist, in the order in which they are called."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from tests.sim.worlds import create_topic, three_brokers

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "one-event.md").read_text(encoding="utf-8")


class Name(NamedTuple):
    """A function as the page names it."""

    file: str
    function: str


WALK, DOORS = PAGE.split("\n## Doors")
NAME = re.compile(r"`([\w/]+\.py): ([\w.]+)`")
NAMES = [Name(*found) for found in NAME.findall(PAGE)]
STEPS = [Name(*found) for found in NAME.findall(WALK)]


def functions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Functions of a module, and methods as Class.method."""
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield from functions(node.body, f"{prefix}{node.name}.")


def test_six_files_are_opened_in_order() -> None:
    headings = re.findall(r"^## (\d)\. .*: `([\w/]+\.py)`$", PAGE, re.M)
    assert [number for number, _ in headings] == list("123456")
    opened = [file for _, file in headings]
    assert len(set(opened)) == 6
    assert list(dict.fromkeys(step.file for step in STEPS)) == opened


@pytest.mark.parametrize("name", NAMES, ids=": ".join)
def test_the_function_exists(name: Name) -> None:
    tree = ast.parse((ROOT / name.file).read_text(encoding="utf-8"))
    assert name.function in set(functions(tree.body))


def test_no_name_is_written_another_way() -> None:
    spans = re.findall(r"`([^`\n]*\.py[^`\n]*)`", PAGE)
    assert [span for span in spans if ":" in span] == [": ".join(name) for name in NAMES]


def calls_of_a_creation() -> list[Name]:
    """Every call of a function of the project while a topic is created, in order."""
    world = three_brokers()
    calls: list[Name] = []

    def on_event(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            calls.append(Name(path.relative_to(ROOT).as_posix(), frame.f_code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        create_topic(world, "t", {0: (0, 1)})
        world.run_for(1_000)
    finally:
        sys.setprofile(before)
    return calls


def test_a_creation_walks_this_way() -> None:
    calls = iter(calls_of_a_creation())
    for step in STEPS:
        assert step in calls, f"{': '.join(step)} is not called after the step before it"
