"""Shrinks a drill that fails: removes steps, topics and configs as long as it fails the same way.

Applies delta debugging (Zeller's ddmin) to the steps before the final recovery. The recovery is
kept, because without it, every fault would look like a failure to recover; but a drill that
violates an invariant before its recovery does not need it, nor the check at the end. The shrinker
edits the text of the drill, so that the result is again a drill file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import yaml

RECOVERY: Final = "heal_all"
MAX_RUNS: Final = 400
_LINE_WIDTH: Final = 100
_CHECKS: Final = (
    yaml.ScalarNode("tag:yaml.org,2002:str", "checks"),
    yaml.ScalarNode("tag:yaml.org,2002:bool", "false"),
)
"""The entry of a drill that leaves out the check at the end."""


class Shrunk(msgspec.Struct, frozen=True):
    """A shrunk drill: its text, its step counts before and after, and how many runs it took."""

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
        """Remove steps: first a half at a time, then smaller parts, finally single steps."""
        items = list(self.steps().value)
        recovery = _recovery_index(items) if self._has_recovery else len(items)
        kept, tail = items[:recovery], items[recovery:]
        parts = 2
        while kept:
            size = max(1, len(kept) // parts)
            chunks = [kept[at : at + size] for at in range(0, len(kept), size)]
            for chunk in chunks:
                without = [item for item in kept if item not in chunk]
                if self._try(self.steps(), [*without, *tail]):
                    kept, parts = without, max(2, parts - 1)
                    break
            else:
                if size == 1:
                    return
                parts = min(len(kept), parts * 2)

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
    before = len(shrinking.steps().value)
    if not needs_recovery:
        shrinking.remove_recovery()
    shrinking.shrink_steps()
    for path in (("cluster", "topics"), ("cluster", "config"), ("cluster",)):
        shrinking.shrink_mapping(*path)
    shrinking.shrink_steps()
    return Shrunk(shrinking.text(), before, len(shrinking.steps().value), shrinking.runs)


def _recovery_index(items: Sequence[yaml.Node]) -> int:
    """Return the index of the step that begins the final recovery, or else of the last step."""
    for at in reversed(range(len(items))):
        if isinstance(items[at], yaml.ScalarNode) and items[at].value == RECOVERY:
            return at
    return max(0, len(items) - 1)


def _value(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)
