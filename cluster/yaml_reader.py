"""Reads a YAML file as nodes, so that every error has FILE:LINE:COLUMN.

Keys and values are read as text: YAML's numbers, dates and booleans are not converted. Drills and
the file of pools are such files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import yaml

from klamm.cluster.errors import UsageError
from klamm.cluster.plain_text import harmless_line, shortened
from klamm.cluster.suggestions import suggestion

T = TypeVar("T")

MAX_DEPTH: Final = 50
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_OPENING: Final = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING: Final = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)


class YamlEntry(NamedTuple):
    """One entry of a YAML mapping: the node of its key and the node of its value."""

    key: yaml.Node
    value: yaml.Node


def read_text(path: Path, hint: str | None = None) -> str:
    """Read a file as text. Raises UsageError if the file cannot be read."""
    try:
        return path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason}", hint=hint) from error


class YamlReader:
    """Reads the YAML nodes of one file.

    ``name``: the name of the file in error messages. ``hint``: the hint of errors without another
    one. ``loader``: the class of PyYAML that parses the file.
    """

    def __init__(self, name: str, hint: str, loader: Any = yaml.SafeLoader) -> None:
        self.name = name
        self._hint = hint
        self._loader = loader

    def compose(self, text: str) -> yaml.Node:
        """Parse the file as a single YAML document. Raises UsageError if it is not one."""
        try:
            self._scan(text)
            root = yaml.compose(text, Loader=self._loader)
        except yaml.MarkedYAMLError as error:
            problem = error.problem or error.context or "not YAML"
            raise self.error_at(error.problem_mark or error.context_mark, problem) from None
        except yaml.reader.ReaderError as error:
            before = text[: error.position]
            mark = yaml.Mark("", 0, before.count("\n"), len(before.rpartition("\n")[2]), None, 0)
            raise self.error_at(mark, f"not YAML: {error.reason}") from None
        if root is None:
            raise self.error_at(None, "the file is empty")
        return root

    def _scan(self, text: str) -> None:
        """Raise UsageError for anchors, aliases, tags, deep nesting and surrogates.

        A few aliases can expand to a huge document, and tags would be ignored. Surrogates are no
        characters: text with them cannot be encoded.
        """
        depth = 0
        for token in yaml.scan(text, Loader=self._loader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
                raise self.error_at(token.start_mark, "anchors and aliases are not allowed")
            if isinstance(token, yaml.TagToken):
                tag = "".join(filter(None, token.value))
                raise self.error_at(token.start_mark, f"the tag {shortened(tag)} is not allowed")
            if isinstance(token, yaml.ScalarToken) and (found := _SURROGATE.search(token.value)):
                escape = f"\\u{ord(found[0]):04x}"
                raise self.error_at(token.start_mark, f"{escape} is not a character")
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > MAX_DEPTH:
                raise self.error_at(token.start_mark, "nested too deeply")

    # -- errors

    def error(self, node: yaml.Node, problem: str, hint: str | None = None) -> UsageError:
        """Return an error at the position of ``node``, whose value is cut in the text."""
        if isinstance(node, yaml.ScalarNode):
            problem = problem.replace(node.value, shortened(node.value))
        return self.error_at(node.start_mark, problem, hint)

    def error_at(self, mark: Any, problem: str, hint: str | None = None) -> UsageError:
        """Return an error at the position ``mark``, or about the whole file if ``mark`` is None."""
        return UsageError(f"{self._place(mark)}: {harmless_line(problem)}", hint=hint or self._hint)

    def place(self, node: yaml.Node) -> str:
        """Return the position of a node as FILE:LINE:COLUMN. Lines and columns begin at 1."""
        return self._place(node.start_mark)

    def _place(self, mark: Any) -> str:
        return self.name if mark is None else f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def unknown(self, node: yaml.Node, what: str, word: str, known: Iterable[str]) -> UsageError:
        """Return the error for a word that is not in ``known``, with a suggestion."""
        return self.error(node, f"unknown {what} '{shortened(word)}'", suggestion(word, known))

    # -- collections

    def entries(self, node: yaml.Node, what: str) -> dict[str, YamlEntry]:
        """Return the entries of a mapping, keyed by the text of their keys."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise self.error(node, f"{what} must be at least one 'name: value' line")
        found: dict[str, YamlEntry] = {}
        for key_node, value in node.value:
            key = self.text(key_node, f"a name in {what}")
            if key in found:
                raise self.error(key_node, f"'{key}' is given twice in {what}")
            found[key] = YamlEntry(key_node, value)
        return found

    def fields(self, node: yaml.Node, what: str, known: Iterable[str]) -> dict[str, YamlEntry]:
        """Return the entries of a mapping. Raises UsageError if a key is not in ``known``."""
        found = self.entries(node, what)
        names = tuple(known)
        for key, entry in found.items():
            if key not in names:
                raise self.unknown(entry.key, f"word in {what}", key, names)
        return found

    def items(self, node: yaml.Node, what: str, hint: str | None = None) -> list[yaml.Node]:
        """Return the items of a YAML list."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"{what} must be a list", hint)
        return list(node.value)

    def one_or_more(self, node: yaml.Node) -> list[yaml.Node]:
        """Return the items of a list; a node that is not a list counts as one item."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    def at_least_one(
        self, node: yaml.Node, what: str, read: Callable[[yaml.Node], T], hint: str | None = None
    ) -> list[T]:
        """Return the values of ``one_or_more`` items. Raises UsageError if there are none."""
        found = [read(item) for item in self.one_or_more(node)]
        if not found:
            raise self.error(node, f"name at least one {what}", hint)
        return found

    # -- scalars

    def text(self, node: yaml.Node, what: str) -> str:
        """Return a scalar as text. Raises UsageError if it is empty."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{what} must be a single word")
        if not node.value.strip():
            raise self.error(node, f"{what} is empty")
        return str(node.value)
