"""Shrinks a drill that fails: removes steps, topics and configs as long as it fails the same way.

Applies delta debugging (Zeller's ddmin) to the steps before the final recovery, and to the steps
inside other steps. Steps inside another one are also tried in its place, and waits are joined. The
recovery is kept, because without it, every fault would look like a failure to recover; but a drill
that violates an invariant before its recovery does not need it, nor the check at the end. The
shrinker edits the text of the drill, so that the result is again a drill file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
import yaml

RECOVERY: Final = "heal_all"
MAX_RUNS: Final = 400
_LINE_WIDTH: Final = 100
_WAIT: Final = re.compile(r"([0-9]+)(m?s)")
"""The durations that hunts draw."""
_CHECKS: Final = (
    yaml.ScalarNode("tag:yaml.org,2002:str", "checks"),
    yaml.ScalarNode("tag:yaml.org,2002:bool", "false"),
)
"""The entry of a drill that leaves out the check at the end."""


class Shrunk(msgspec.Struct, frozen=True):
    """A shrunk drill: its text, its step counts before and after, and how many runs it took.

    Steps inside other steps count one by one."""

    text: str
    steps_before: int
    steps_after: int
    runs: int


class _Shrinking:
    """A drill that is being shrunk.

    ``root``: the drill's file as YAML nodes. A change is kept only if the drill still fails.
    """

    def __init__(self, text: str, still_fails: Callable[[str], bool]) -> None:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        assert isinstance(root, yaml.MappingNode), "a drill that ran is a mapping"
        self.root = root
        self.runs = 0
        self._still_fails = still_fails
        self._has_recovery = True

    def text(self) -> str:
        """Return the current text of the drill."""
        return yaml.serialize(self.root, Dumper=yaml.SafeDumper, width=_LINE_WIDTH)

    def steps(self) -> yaml.SequenceNode:
        """Return the YAML list of steps."""
        node = _value(self.root, "steps")
        assert isinstance(node, yaml.SequenceNode)
        return node

    def remove_recovery(self) -> None:
        """Try to remove the final recovery together with the check at the end."""
        items = list(self.steps().value)
        fields = [entry for entry in self.root.value if entry[0].value != _CHECKS[0].value]
        before = self.root.value
        steps = self.steps()
        steps.value = items[: _recovery_index(items)]
        if not steps.value or not self._try(self.root, [*fields, _CHECKS]):
            steps.value, self.root.value = items, before
            return
        self._has_recovery = False

    def shrink_steps(self) -> None:
        """Remove, unwrap and join steps until none of this succeeds any more."""
        before = ""
        while before != (before := self.text()):
            items = self.steps().value
            recovery = _recovery_index(items) if self._has_recovery else len(items)
            self._remove_items(self.steps(), items[recovery:])
            for inner in _inner_lists(self.steps()):
                self._remove_items(inner, [])
            self._unwrap_steps()
            self._join_waits()

    def _remove_items(self, node: yaml.SequenceNode, tail: list[yaml.Node]) -> None:
        """Remove items of a list, but not its ``tail``.

        First a half is removed at a time, then smaller parts, finally single items."""
        kept = node.value[: len(node.value) - len(tail)]
        parts = 2
        while kept:
            size = max(1, len(kept) // parts)
            chunks = [kept[at : at + size] for at in range(0, len(kept), size)]
            for chunk in chunks:
                without = [item for item in kept if item not in chunk]
                if (without or tail) and self._try(node, [*without, *tail]):
                    kept, parts = without, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    return
                parts = min(len(kept), parts * 2)

    def _unwrap_steps(self) -> None:
        """Try to put the steps inside ``steps`` or ``parallel`` in the place of that step."""
        steps = self.steps()
        for item in list(steps.value):
            inner = _inside(item)
            if inner and len(item.value) == 1:
                at = steps.value.index(item)
                self._try(steps, [*steps.value[:at], *inner, *steps.value[at + 1 :]])

    def _join_waits(self) -> None:
        """Try to replace two waits that follow each other by one, which is as long as both."""
        steps, at = self.steps(), 0
        while at + 1 < len(steps.value):
            one, other = steps.value[at : at + 2]
            first_ms, second_ms = _wait_ms(one), _wait_ms(other)
            if first_ms is not None and second_ms is not None:
                joined = yaml.compose(f"wait: {first_ms + second_ms}ms", Loader=yaml.SafeLoader)
                if self._try(steps, [*steps.value[:at], joined, *steps.value[at + 2 :]]):
                    continue
            at += 1

    def shrink_mapping(self, *path: str) -> None:
        """Try to remove the entries of a mapping in the drill's cluster, one at a time."""
        node: yaml.Node | None = self.root
        for name in path:
            node = _value(node, name)
        if not isinstance(node, yaml.MappingNode):
            return
        for entry in list(node.value):
            if len(node.value) > 1:
                self._try(node, [one for one in node.value if one is not entry])

    def _try(self, node: yaml.Node, value: list[object]) -> bool:
        if self.runs >= MAX_RUNS:
            return False
        before, node.value = node.value, value
        self.runs += 1
        if self._still_fails(self.text()):
            return True
        node.value = before
        return False


def shrink(text: str, still_fails: Callable[[str], bool], *, needs_recovery: bool) -> Shrunk:
    """Return the smallest drill found that still fails.

    ``still_fails`` returns True if the drill with this text fails. It must do so for ``text``.
    ``needs_recovery``: whether the drill may only be said to fail after its final recovery.
    """
    shrinking = _Shrinking(text, still_fails)
    before = _count(shrinking.steps().value)
    if not needs_recovery:
        shrinking.remove_recovery()
    shrinking.shrink_steps()
    for path in (("cluster", "topics"), ("cluster", "config"), ("cluster",)):
        shrinking.shrink_mapping(*path)
    shrinking.shrink_steps()
    return Shrunk(shrinking.text(), before, _count(shrinking.steps().value), shrinking.runs)


def _recovery_index(items: Sequence[yaml.Node]) -> int:
    """Return the index of the step that begins the final recovery, or else of the last step."""
    for at in reversed(range(len(items))):
        if items[at].value == RECOVERY:
            return at
    return max(0, len(items) - 1)


def _lists_of(step: yaml.Node) -> Iterator[yaml.SequenceNode]:
    """Yield the lists of steps directly inside a step: one, or one for each parallel branch."""
    if isinstance(found := _value(step, "steps"), yaml.SequenceNode):
        yield found
    if isinstance(branches := _value(step, "parallel"), yaml.SequenceNode):
        yield from (one for one in branches.value if isinstance(one, yaml.SequenceNode))


def _inner_lists(steps: yaml.SequenceNode) -> Iterator[yaml.SequenceNode]:
    """Yield the lists of branches and of steps at any depth inside the steps of a list."""
    for step in steps.value:
        if isinstance(branches := _value(step, "parallel"), yaml.SequenceNode):
            yield branches
            yield from _inner_lists(branches)
        for inner in _lists_of(step):
            yield inner
            yield from _inner_lists(inner)


def _inside(step: yaml.Node) -> list[yaml.Node]:
    """Return the steps directly inside a step. A parallel branch is a step or a list of steps."""
    if isinstance(branches := _value(step, "parallel"), yaml.SequenceNode):
        return [
            inner
            for branch in branches.value
            for inner in (branch.value if isinstance(branch, yaml.SequenceNode) else [branch])
        ]
    return [inner for one in _lists_of(step) for inner in one.value]


def _count(steps: Iterable[yaml.Node]) -> int:
    """Return the number of steps; steps inside other steps count instead of those."""
    return sum(_count(_inside(step)) or 1 for step in steps)


def _wait_ms(step: yaml.Node) -> int | None:
    """Return how long a step waits, in milliseconds, or None if it is another step."""
    value = _value(step, "wait")
    match = _WAIT.fullmatch(value.value) if isinstance(value, yaml.ScalarNode) else None
    if match is None or len(step.value) > 1:
        return None
    return int(match[1]) * (1_000 if match[2] == "s" else 1)


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)
