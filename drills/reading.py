"""Parser of a drill's YAML: nodes in, plain values out, every error with FILE:LINE:COLUMN.

Scalars follow JSON's rules: YAML's dates, octal numbers and yes/no are text. Brokers must belong
to the drill's cluster.
"""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from klamm.cluster.errors import UsageError
from klamm.cluster.plain_text import harmless_line
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.runtime.actions import CONTROLLER, DEAD, PAUSED, BrokerRef

HINT: Final = "docs/drills.md describes the language; klamm drill show NAME prints an example"
MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 50
_OPENING: Final = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING: Final = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(ms|s|min)")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(B|kB|MB|GB|TB)", re.ASCII)
_UNIT_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_MAX_SIZE_BYTES: Final = 10**15
_UNIT_MS: Final = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0}
_PARTITION: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})")
NONE: Final = "none"
BROKER_WORDS: Final = "controller, dead, paused, or leader of t-0"
_LEADER_OF: Final = re.compile(r"leader of (\S+)")
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


class Entry(NamedTuple):
    """One entry of a mapping: the nodes of its key and of its value."""

    key: yaml.Node
    value: yaml.Node


def read_text(path: Path) -> str:
    """Read a file as text. Raises UsageError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", hint=HINT) from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path}: a drill has at most {MAX_BYTES} bytes", hint=HINT)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason}", hint=HINT) from error


class DrillReader:
    """Reader of the nodes of one file.

    ``name``: the file's name in errors. ``broker_ids``: the brokers of the drill's cluster.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.broker_ids: tuple[int, ...] = ()

    def compose(self, text: str) -> yaml.Node:
        """Parse the file's single document. Raises UsageError."""
        try:
            self._scan(text)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            problem = error.problem or error.context or "not YAML"
            raise self.error_at(error.problem_mark or error.context_mark, problem) from None
        except yaml.YAMLError as error:
            raise self.error_at(None, f"not YAML: {' '.join(str(error).split())}") from None
        if root is None:
            raise self.error_at(None, "the file is empty")
        return root

    def _scan(self, text: str) -> None:
        """Raise UsageError for anchors, aliases, tags and deep nesting.

        A few aliases can expand to any amount of text; tags would be ignored.
        """
        depth = 0
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
                raise self.error_at(token.start_mark, "anchors and aliases are not allowed")
            if isinstance(token, yaml.TagToken):
                tag = "".join(filter(None, token.value))
                raise self.error_at(token.start_mark, f"the tag {tag} is not allowed")
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > MAX_DEPTH:
                raise self.error_at(token.start_mark, "nested too deeply")

    # -- errors

    def error(self, node: yaml.Node, problem: str, hint: str | None = None) -> UsageError:
        """Return an error at the position of ``node``."""
        return self.error_at(node.start_mark, problem, hint)

    def error_at(self, mark: Any, problem: str, hint: str | None = None) -> UsageError:
        """Return an error at the position ``mark``; None: an error of the whole file."""
        return UsageError(f"{self._place(mark)}: {harmless_line(problem)}", hint=hint or HINT)

    def place(self, node: yaml.Node) -> str:
        """Return FILE:LINE:COLUMN of a node; line and column start at 1."""
        return self._place(node.start_mark)

    def _place(self, mark: Any) -> str:
        return self.name if mark is None else f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def unknown(self, node: yaml.Node, what: str, word: str, known: Iterable[str]) -> UsageError:
        """Return the error for a word that is not in ``known``."""
        names = list(known)
        close = difflib.get_close_matches(word, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
        return self.error(node, f"unknown {what} '{word}'", hint)

    # -- collections

    def entries(self, node: yaml.Node, what: str) -> dict[str, Entry]:
        """Return the entries of a mapping by key."""
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise self.error(node, f"{what} must be 'name: value' lines")
        found: dict[str, Entry] = {}
        for key_node, value in node.value:
            key = self.text(key_node, f"a name in {what}")
            if key in found:
                raise self.error(key_node, f"'{key}' is given twice in {what}")
            found[key] = Entry(key_node, value)
        return found

    def fields(self, node: yaml.Node, what: str, known: Iterable[str]) -> dict[str, Entry]:
        """Return the entries of a mapping by key. Raises UsageError for a key not in ``known``."""
        found = self.entries(node, what)
        names = tuple(known)
        for key, entry in found.items():
            if key not in names:
                raise self.unknown(entry.key, f"word in {what}", key, names)
        return found

    def items(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        """Return the items of a list."""
        if not isinstance(node, yaml.SequenceNode):
            raise self.error(node, f"{what} must be a list")
        return list(node.value)

    def one_or_more(self, node: yaml.Node) -> list[yaml.Node]:
        """Return the items of a list, or a single node as a list."""
        return list(node.value) if isinstance(node, yaml.SequenceNode) else [node]

    # -- scalars

    def text(self, node: yaml.Node, what: str) -> str:
        """Return a scalar as text. Raises UsageError if it is empty."""
        if not isinstance(node, yaml.ScalarNode):
            raise self.error(node, f"{what} must be a single word")
        if not node.value.strip():
            raise self.error(node, f"{what} is empty")
        return str(node.value)

    def integer(self, node: yaml.Node, what: str, least: int = 0, most: int = 2**31 - 1) -> int:
        """Return an integer between two bounds, inclusive."""
        text = self.text(node, what)
        if not _INTEGER.fullmatch(text):
            raise self.error(node, f"{what} must be a whole number, not '{text}'")
        if not least <= (number := int(text)) <= most:
            raise self.error(node, f"{what} must be from {least} to {most}, not {number}")
        return number

    def number(self, node: yaml.Node, what: str, most: float) -> float:
        """Return a decimal number from 0 to ``most``."""
        text = self.text(node, what)
        if not _NUMBER.fullmatch(text):
            raise self.error(node, f"{what} must be a number, not '{text}'", "as in 0.1, or 20")
        if not 0 <= (number := float(text)) <= most:
            raise self.error(node, f"{what} must be from 0 to {most:g}, not {text}")
        return number

    def boolean(self, node: yaml.Node, what: str) -> bool:
        """Return a boolean, written true or false."""
        text = self.text(node, what)
        if text not in ("true", "false"):
            raise self.error(node, f"{what} must be true or false, not '{text}'")
        return text == "true"

    def duration_ms(self, node: yaml.Node, what: str) -> float:
        """Return a duration such as 500ms, 2s or 1.5min in milliseconds."""
        text = self.text(node, what)
        match = _DURATION.fullmatch(text)
        if match is None:
            raise self.error(node, f"{what} must be a duration, not '{text}'", "as in 500ms, 2s")
        return float(match[1]) * _UNIT_MS[match[2]]

    def size_bytes(self, node: yaml.Node, what: str) -> int:
        """Return a size such as 500MB, 2GB or 1.5TB, up to 1000TB, in bytes."""
        text = self.text(node, what)
        match = _SIZE.fullmatch(text)
        if match is None:
            raise self.error(node, f"{what} must be a size, not '{text}'", "as in 500MB, 2TB")
        size_bytes = int(float(match[1]) * _UNIT_BYTES[match[2]])
        if size_bytes > _MAX_SIZE_BYTES:
            raise self.error(node, f"{what} must be at most 1000TB, not {text}")
        return size_bytes

    def partition(self, node: yaml.Node, what: str) -> TopicPartition:
        """Return a partition such as t-0."""
        text = self.text(node, what)
        match = _PARTITION.fullmatch(text)
        if match is None:
            raise self.error(node, f"{what} must be a partition, not '{text}'", "as in t-0")
        return TopicPartition(match[1], int(match[2]))

    def path(self, node: yaml.Node, what: str) -> str:
        """Return the path of a znode."""
        text = self.text(node, what)
        if not text.startswith("/") or text.endswith("/") or "//" in text:
            raise self.error(node, f"{what} must be the path of a znode, not '{text}'")
        return text

    def plain(self, node: yaml.Node) -> Any:
        """Return any value: mappings, lists, and scalars by JSON's rules."""
        if isinstance(node, yaml.MappingNode):
            if not node.value:
                return {}
            return {key: self.plain(e.value) for key, e in self.entries(node, "a value").items()}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item) for item in node.value]
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        text = str(node.value)
        if node.style is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            return int(text)
        if _NUMBER.fullmatch(text):
            number = float(text)
            if not math.isfinite(number):
                raise self.error(node, f"the number {text} is too large")
            return number
        return text

    def znode_data(self, node: yaml.Node) -> bytes | None:
        """Return the data of a znode: text unchanged, null as None, other values as JSON."""
        value = self.plain(node)
        if value is None or isinstance(value, str):
            return None if value is None else value.encode()
        return json.dumps(value).encode()

    # -- brokers and partitions

    def broker(self, node: yaml.Node) -> int:
        """Return the id of a broker. Raises UsageError if the cluster does not have it."""
        broker_id = self.integer(node, "a broker")
        if broker_id not in self.broker_ids:
            ids = ", ".join(map(str, self.broker_ids))
            raise self.error(node, f"the drill has no broker {broker_id}", f"brokers: {ids}")
        return broker_id

    def broker_ref(self, node: yaml.Node) -> BrokerRef:
        """Return a broker id, ``controller``, ``dead``, ``paused``, or the t-0 of leader of t-0."""
        text = self.text(node, "a broker")
        if text in (CONTROLLER, DEAD, PAUSED):
            return text
        match = _LEADER_OF.fullmatch(text)
        if match is not None:
            return self.partition(yaml.ScalarNode("", match[1], node.start_mark), "'leader of'")
        if not text.isdecimal():
            raise self.error(node, f"'{text}' is not a broker", f"use an id, {BROKER_WORDS}")
        return self.broker(node)

    def brokers(self, node: yaml.Node) -> list[int]:
        """Return a list of different brokers of the cluster; it may be empty."""
        return self._distinct(node, self.broker)

    def replicas(self, node: yaml.Node) -> list[int]:
        """Return a list of different broker ids, which the cluster need not have."""
        found = self._distinct(node, lambda item: self.integer(item, "a replica"))
        if not found:
            raise self.error(node, "a partition requires a replica")
        return found

    def leader(self, node: yaml.Node) -> int:
        """Return a broker id; NO_LEADER for the word none."""
        if self.text(node, "a leader") in (NONE, str(NO_LEADER)):
            return NO_LEADER
        return self.broker(node)

    def by_partition(
        self, node: yaml.Node, read: Callable[[yaml.Node], Any]
    ) -> dict[TopicPartition, Any]:
        """Return the values of a mapping by partition."""
        return {
            self.partition(entry.key, "a key"): read(entry.value)
            for entry in self.entries(node, "partitions with their values").values()
        }

    def by_partition_text(self, node: yaml.Node, read: Callable[[yaml.Node], Any]) -> Any:
        """Return the values of a mapping by the partitions' names."""
        return {str(tp): value for tp, value in self.by_partition(node, read).items()}

    def partitions(self, node: yaml.Node) -> list[TopicPartition]:
        """Return a list of partitions; it may be empty."""
        return [self.partition(item, "an item") for item in self.one_or_more(node)]

    def _distinct(self, node: yaml.Node, read: Callable[[yaml.Node], int]) -> list[int]:
        found: list[int] = []
        for item in self.items(node, "brokers"):
            broker_id = read(item)
            if broker_id in found:
                raise self.error(item, f"broker {broker_id} is given twice")
            found.append(broker_id)
        return found


def is_null(node: yaml.Node) -> bool:
    """Return True for a missing or null value."""
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in ("", "null")
