"""Parser of the YAML file that assigns brokers and topics to resource isolation pools.

Error messages name the file and the line. placement/pools.py checks whether the brokers exist.
Kafka has no equivalent.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Final

import yaml

from klamm.cluster.jvm.java_strings import compiled
from klamm.cluster.yaml_reader import YamlEntry, YamlReader, read_text
from klamm.placement.broker_metadata import broker_ids
from klamm.placement.pools import Pool, Pools, TopicRule

_SECTIONS: Final = ("pools", "topics", "weights")
_ID: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_HINT: Final = "e.g. {pools: {small: [1, 2-4]}, topics: {orders-.*: small}}"


def read_pools(path: Path) -> Pools:
    """Read the pools that a file declares. Raises UsageError with file name and line number."""
    return parse_pools(read_text(path, _HINT), str(path))


def parse_pools(text: str, name: str = "pools") -> Pools:
    """Parse the pools that ``text`` declares; ``name`` is the file name for error messages.

    Raises UsageError.
    """
    return _File(name).read(text)


class _File(YamlReader):
    """Parser of one file of pools."""

    def __init__(self, name: str) -> None:
        super().__init__(name, _HINT)
        self._pool_of_broker: dict[int, str] = {}

    def read(self, text: str) -> Pools:
        root = self.compose(text)
        sections = {
            name: self.entries(entry.value, f"section '{name}'")
            for name, entry in self.fields(root, "the file", _SECTIONS).items()
        }
        by_name = {
            name: Pool(name, self._broker_ids(name, entry))
            for name, entry in sections.get("pools", {}).items()
        }
        rules = tuple(
            self._rule(pattern, entry, by_name)
            for pattern, entry in sections.get("topics", {}).items()
        )
        weights = {
            self._weighed_broker(word, entry): self._weight(word, entry)
            for word, entry in sections.get("weights", {}).items()
        }
        # Checked last: errors in the existing sections of an unfinished file are reported first.
        for needed in ("pools", "topics"):
            if needed not in sections:
                problem = f"section '{needed}' is missing"
                raise self.error(root, problem, f"add a line '{needed}:'; {_HINT}")
        return Pools(by_name, rules, weights)

    def _broker_ids(self, pool: str, entry: YamlEntry) -> tuple[int, ...]:
        node = entry.value
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self.error(
                entry.key, f"pool {pool} must list its brokers", f"for example, {pool}: [1, 2, 3]"
            )
        ids: set[int] = set()
        for item in node.value:
            try:
                found = broker_ids(self.text(item, f"a broker of pool {pool}"))
            except ValueError as error:
                hint = "give an id such as 7 or a range such as 1-9"
                raise self.error(item, str(error), hint) from None
            for broker_id in found:
                other = self._pool_of_broker.setdefault(broker_id, pool)
                if other != pool:
                    raise self.error(
                        item, f"broker {broker_id} is in pool {other} and in pool {pool}"
                    )
                if broker_id in ids:
                    raise self.error(item, f"broker {broker_id} is listed twice in pool {pool}")
                ids.add(broker_id)
        return tuple(sorted(ids))

    def _rule(self, pattern: str, entry: YamlEntry, by_name: dict[str, Pool]) -> TopicRule:
        try:
            compiled(pattern)
        except ValueError as error:
            raise self.error(
                entry.key,
                f"'{pattern}' is not a regular expression: {error}",
                "the pattern must match the whole name of a topic, for example orders-.*",
            ) from None
        pool = self.text(entry.value, f"the pool of topics {pattern}")
        if by_name and pool not in by_name:
            raise self.error(
                entry.value,
                f"pool '{pool}' of topics {pattern} is not declared",
                f"the declared pools are {', '.join(by_name)}",
            )
        return TopicRule(pattern, pool)

    def _weighed_broker(self, word: str, entry: YamlEntry) -> int:
        if not _ID.fullmatch(word):
            raise self.error(entry.key, f"'{word}' in section 'weights' is not a broker id")
        broker_id = int(word)
        if self._pool_of_broker and broker_id not in self._pool_of_broker:
            raise self.error(entry.key, f"broker {broker_id} has a weight but no pool")
        return broker_id

    def _weight(self, broker: str, entry: YamlEntry) -> float:
        text = self.text(entry.value, f"the weight of broker {broker}")
        weight = float(text) if _WEIGHT.fullmatch(text) else math.nan
        if not weight > 0:
            raise self.error(
                entry.value,
                f"the weight of broker {broker} must be a positive number, not '{text}'",
                "a broker of weight 2 takes twice the load of a broker of weight 1",
            )
        return weight
