"""Parser of the YAML file that assigns brokers and topics to resource isolation pools.

Error messages name the file and the line. placement/pools.py checks whether the brokers exist.
Kafka has no equivalent.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from klamm.cluster.errors import UsageError
from klamm.placement.pools import Pool, Pools, TopicRule

MAX_BROKER_ID: Final = 2**31 - 1
MAX_POOL_BROKERS: Final = 10_000
_SECTIONS: Final = ("pools", "topics", "weights")
_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_RANGE: Final = re.compile(r"(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})")
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_MAX_DEPTH: Final = 20
_OPENING: Final = (
    yaml.FlowSequenceStartToken,
    yaml.FlowMappingStartToken,
    yaml.BlockSequenceStartToken,
    yaml.BlockMappingStartToken,
)
_CLOSING: Final = (yaml.FlowSequenceEndToken, yaml.FlowMappingEndToken, yaml.BlockEndToken)
_HINT: Final = "e.g. {pools: {small: [1, 2-4]}, topics: {orders-.*: small}}"


class _Entry(NamedTuple):
    """A key of a YAML mapping with its value and the key's line number (from 1)."""

    key: str
    value: yaml.Node
    line: int


def read_pools(path: Path) -> Pools:
    """Read the pools that a file declares. Raises UsageError with file name and line number."""
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}", hint=_HINT) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text: {error.reason}", hint=_HINT) from error
    return parse_pools(text, str(path))


def parse_pools(text: str, name: str = "pools") -> Pools:
    """Parse the pools that ``text`` declares; ``name`` is the file name for error messages.

    Keys and values are read as text: YAML's numbers, dates and booleans are not converted. Raises
    UsageError.
    """
    return _File(name).read(text)


class _File:
    def __init__(self, name: str) -> None:
        self._name = name
        self._pool_of_broker: dict[int, str] = {}

    def read(self, text: str) -> Pools:
        root = self._compose(text)
        sections = {entry.key: entry for entry in self._entries(root, "the file")}
        for entry in sections.values():
            if entry.key not in _SECTIONS:
                raise self._error(
                    f"unknown section '{entry.key}'",
                    entry.line,
                    "the sections are pools, topics and weights",
                )
        by_name = {
            entry.key: Pool(entry.key, self._broker_ids(entry))
            for entry in self._section(sections, "pools")
        }
        rules = tuple(self._rule(entry, by_name) for entry in self._section(sections, "topics"))
        weights = {
            self._weighed_broker(entry): self._weight(entry)
            for entry in self._section(sections, "weights")
        }
        # Checked last: errors in the existing sections of an unfinished file are reported first.
        for needed in ("pools", "topics"):
            if needed not in sections:
                raise self._error(
                    f"section '{needed}' is missing",
                    root.start_mark.line + 1,
                    f"add a line '{needed}:'; {_HINT}",
                )
        return Pools(by_name, rules, weights)

    def _section(self, sections: Mapping[str, _Entry], name: str) -> Iterator[_Entry]:
        if name in sections:
            yield from self._entries(sections[name].value, f"section '{name}'")

    def _compose(self, text: str) -> yaml.Node:
        try:
            self._scan(text)
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            problem = error.problem or error.context or "not YAML"
            raise self._error(problem, None if mark is None else mark.line + 1) from None
        except yaml.YAMLError as error:
            position = getattr(error, "position", None)
            line = None if position is None else text.count("\n", 0, position) + 1
            problem = getattr(error, "reason", "") or " ".join(str(error).split())
            raise self._error(f"not YAML: {problem}", line) from None
        if root is None:
            raise self._error("the file is empty")
        return root

    def _scan(self, text: str) -> None:
        """Raise UsageError for YAML tags (which would otherwise be ignored) and deep nesting."""
        depth = 0
        for token in yaml.scan(text, Loader=yaml.SafeLoader):
            line = token.start_mark.line + 1
            if isinstance(token, yaml.TagToken):
                tag = "".join(filter(None, token.value))
                raise self._error(f"the tag {tag} is not allowed", line)
            depth += isinstance(token, _OPENING) - isinstance(token, _CLOSING)
            if depth > _MAX_DEPTH:
                raise self._error("nested too deeply", line)

    def _entries(self, node: yaml.Node, what: str) -> Iterator[_Entry]:
        """Yield a mapping's entries. Raises UsageError if it is empty or has a duplicate key."""
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode) or not node.value:
            raise self._error(f"{what} must be a list of 'name: value' lines", line)
        seen: set[str] = set()
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            key = self._text(key_node, f"a name in {what}")
            if not key:
                raise self._error(f"a name in {what} is empty", line)
            if key in seen:
                raise self._error(f"'{key}' is given twice in {what}", line)
            seen.add(key)
            yield _Entry(key, value, line)

    def _broker_ids(self, pool: _Entry) -> tuple[int, ...]:
        node = pool.value
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self._error(
                f"pool {pool.key} must list its brokers",
                pool.line,
                f"for example, {pool.key}: [1, 2, 3]",
            )
        ids: set[int] = set()
        for item in node.value:
            line = item.start_mark.line + 1
            for broker_id in self._ids(self._text(item, f"a broker of pool {pool.key}"), line):
                other = self._pool_of_broker.setdefault(broker_id, pool.key)
                if other != pool.key:
                    raise self._error(
                        f"broker {broker_id} is in pool {other} and in pool {pool.key}", line
                    )
                if broker_id in ids:
                    raise self._error(
                        f"broker {broker_id} is listed twice in pool {pool.key}", line
                    )
                ids.add(broker_id)
        return tuple(sorted(ids))

    def _ids(self, text: str, line: int) -> range:
        match = _RANGE.fullmatch(text)
        if match is not None:
            first, last = int(match[1]), int(match[2])
        elif _ID.fullmatch(text):
            first = last = int(text)
        else:
            raise self._error(
                f"'{text}' is not a broker id", line, "give an id such as 7 or a range such as 1-9"
            )
        if last < first:
            raise self._error(f"the range {text} is descending", line)
        if last > MAX_BROKER_ID:
            raise self._error(f"broker id {last} exceeds the maximum of {MAX_BROKER_ID}", line)
        if last - first >= MAX_POOL_BROKERS:
            raise self._error(f"the range {text} has more than {MAX_POOL_BROKERS} brokers", line)
        return range(first, last + 1)

    def _rule(self, entry: _Entry, by_name: dict[str, Pool]) -> TopicRule:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                re.compile(entry.key)
        except (re.error, RecursionError, OverflowError, FutureWarning) as error:
            raise self._error(
                f"'{entry.key}' is not a regular expression: {error}",
                entry.line,
                "the pattern must match the whole name of a topic, for example orders-.*",
            ) from None
        pool = self._text(entry.value, f"the pool of topics {entry.key}")
        if by_name and pool not in by_name:
            raise self._error(
                f"pool '{pool}' of topics {entry.key} is not declared",
                entry.line,
                f"the declared pools are {', '.join(by_name)}",
            )
        return TopicRule(entry.key, pool)

    def _weighed_broker(self, entry: _Entry) -> int:
        if not _ID.fullmatch(entry.key):
            raise self._error(f"'{entry.key}' in section 'weights' is not a broker id", entry.line)
        broker_id = int(entry.key)
        if self._pool_of_broker and broker_id not in self._pool_of_broker:
            raise self._error(f"broker {broker_id} has a weight but no pool", entry.line)
        return broker_id

    def _weight(self, entry: _Entry) -> float:
        text = self._text(entry.value, f"the weight of broker {entry.key}")
        weight = float(text) if _WEIGHT.fullmatch(text) else math.nan
        if not weight > 0:
            raise self._error(
                f"the weight of broker {entry.key} must be a positive number, not '{text}'",
                entry.line,
                "a broker of weight 2 takes twice the load of a broker of weight 1",
            )
        return weight

    def _text(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(f"{what} must be a single word", node.start_mark.line + 1)
        return str(node.value)

    def _error(self, problem: str, line: int | None = None, hint: str | None = None) -> UsageError:
        where = self._name if line is None else f"{self._name}:{line}"
        return UsageError(f"{where}: {problem}", hint=hint or _HINT)
