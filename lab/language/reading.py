"""Parser of a drill's YAML: converts nodes to plain values; every error has FILE:LINE:COLUMN.

Scalars follow JSON's rules, so that dates, octal numbers and yes/no are text. A broker id must
belong to the drill's cluster.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from klamm.cluster.errors import InvalidTopic
from klamm.cluster.integers import INT32_MAX
from klamm.cluster.status import PAUSED
from klamm.cluster.suggestions import suggestion
from klamm.cluster.topic_names import validate_topic_name
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.cluster.yaml_reader import YamlReader
from klamm.lab.actions.action import CONTROLLER, DEAD, BrokerRef, InRack, IsrFollower
from klamm.lab.actions.network_actions import OTHERS
from klamm.lab.actions.steps import znode_data
from klamm.lab.drill import DEFAULT_CLUSTER
from klamm.world.network import CLIENTS, ZOOKEEPER

HINT: Final = "klamm drill show NAME prints an example, klamm drill schema describes the language"
_INTEGER: Final = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_DIGITS: Final = re.compile(r"-?(0|[1-9][0-9]{0,99})")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]{1,3})?")
_DURATION: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?(ms|s|min)")
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(B|kB|MB|GB|TB)", re.ASCII)
_UNIT_BYTES: Final = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_MAX_SIZE_BYTES: Final = 10**15
_UNIT_MS: Final = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0}
_PARTITION: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,8})")
NONE: Final = "none"
EACH: Final = "each"
ROLES_HINT: Final = (
    "use an id, controller, dead, paused, leader of t-0, any ISR follower of t-0, rack a, or each "
    "in a step with for_each"
)
_LEADER_OF: Final = re.compile(r"leader of (\S+)")
_FOLLOWER_OF: Final = re.compile(r"any ISR follower of (\S+)")
_IN_RACK: Final = re.compile(r"rack (\S+)")
FAST_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Is several times as fast as PyYAML's SafeLoader, but its errors have other words and places."""
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}


class DrillReader(YamlReader):
    """Converts the YAML nodes of one file to values.

    ``cluster``: the drill's cluster, once it has been read. ``each``: what the word ``each`` stands
    for.
    """

    def __init__(self, name: str, loader: Any = yaml.SafeLoader) -> None:
        super().__init__(name, HINT, loader)
        self.cluster = DEFAULT_CLUSTER
        self.each: BrokerRef | None = None

    def integer(
        self,
        node: yaml.Node,
        what: str,
        least: int = 0,
        most: int = INT32_MAX,
        hint: str | None = None,
    ) -> int:
        """Return an integer from ``least`` to ``most``, both inclusive."""
        text = self.text(node, what)
        if not _DIGITS.fullmatch(text):
            problem = f"{what} must be a whole number, not '{text}'"
            raise self.error(node, problem, hint or "as in 3")
        if not least <= (number := int(text)) <= most:
            raise self.error(node, f"{what} must be from {least} to {most}, not {number}", hint)
        return number

    def number(self, node: yaml.Node, what: str, most: float) -> float:
        """Return a decimal number from 0 to ``most``."""
        text = self.text(node, what)
        if not _NUMBER.fullmatch(text):
            raise self.error(node, f"{what} must be a number, not '{text}'", "as in 0.1, or 20")
        if not 0 <= (number := float(text)) <= most:
            raise self.error(node, f"{what} must be from 0 to {most:g}, not {text}")
        return number

    def boolean(self, node: yaml.Node, what: str, hint: str | None = None) -> bool:
        """Return a boolean, which must be written as true or false."""
        text = self.text(node, what)
        if text not in ("true", "false"):
            raise self.error(node, f"{what} must be true or false, not '{text}'", hint)
        return text == "true"

    def duration_ms(self, node: yaml.Node, what: str) -> float:
        """Return a duration such as 500ms, 2s or 1.5min in milliseconds."""
        text = self.text(node, what)
        match = _DURATION.fullmatch(text)
        if match is None:
            raise self.error(
                node,
                f"{what} must be a duration, not '{text}'",
                "as in 500ms, 2s or 5min, with at most 9 digits",
            )
        return float(match[1]) * _UNIT_MS[match[2]]

    def time_limit_ms(self, node: yaml.Node) -> float:
        """Return the value of ``within`` in milliseconds."""
        limit_ms = self.duration_ms(node, "within")
        if limit_ms == 0:
            raise self.error(node, "within must be more than 0s", "as in within: 5s")
        return limit_ms

    def size_bytes(self, node: yaml.Node, what: str) -> int:
        """Return a size such as 500MB, 2GB or 1.5TB, up to 1000TB, in bytes."""
        text = self.text(node, what)
        match = _SIZE.fullmatch(text)
        if match is None:
            raise self.error(node, f"{what} must be a size, not '{text}'", "as in 500MB, 2TB")
        size_bytes = float(match[1]) * _UNIT_BYTES[match[2]]
        if size_bytes > _MAX_SIZE_BYTES:
            raise self.error(node, f"{what} must be at most 1000TB, not {text}")
        return int(size_bytes)

    def partition(self, node: yaml.Node, what: str = "an item") -> TopicPartition:
        """Return a partition, which is written like t-0."""
        text = self.text(node, what)
        match = _PARTITION.fullmatch(text)
        if match is None:
            raise self.error(node, f"{what} must be a partition, not '{text}'", "as in t-0")
        return TopicPartition(match[1], int(match[2]))

    def topic(self, node: yaml.Node, what: str) -> str:
        """Return the name of a topic. Raises UsageError if no topic can have this name."""
        name = self.text(node, what)
        try:
            validate_topic_name(name)
        except InvalidTopic as error:
            raise self.error(node, error.message, "as in t") from None
        return name

    def log_dir(self, node: yaml.Node) -> str:
        """Return a log directory. Raises UsageError if the brokers do not have this directory."""
        name = self.text(node, "a log directory")
        log_dirs = self.cluster.broker_config.log_dirs
        if name not in log_dirs:
            raise self.error(
                node,
                f"the brokers have no log directory {name}",
                f"{suggestion(name, log_dirs)}; cluster: {{config: {{log.dirs: 'a,b'}}}}",
            )
        return name

    def path(self, node: yaml.Node, what: str) -> str:
        """Return the path of a znode. Raises UsageError if the path is invalid."""
        text = self.text(node, what)
        if not text.startswith("/") or text.endswith("/") or "//" in text:
            raise self.error(node, f"{what} must be the path of a znode, not '{text}'")
        return text

    def plain(self, node: yaml.Node) -> Any:
        """Return any YAML value: mappings, lists, and scalars according to JSON's rules."""
        if isinstance(node, yaml.MappingNode):
            if not node.value:
                return {}
            return {key: self.plain(e.value) for key, e in self.entries(node, "a value").items()}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(item) for item in node.value]
        return self._scalar(node)

    def _scalar(self, node: yaml.Node) -> Any:
        text = str(node.value)
        if node.style:
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
        return znode_data(self.plain(node))

    # -- brokers and partitions

    def broker(self, node: yaml.Node) -> int:
        """Return the id of a broker. Raises UsageError if the cluster has no such broker."""
        if isinstance(self.each, int) and self.text(node, "a broker") == EACH:
            return self.each
        broker_id = self.integer(node, "a broker")
        if broker_id not in self.cluster.broker_ids:
            ids = ", ".join(map(str, self.cluster.broker_ids))
            raise self.error(node, f"the cluster has no broker {broker_id}", f"brokers: {ids}")
        return broker_id

    def parties(self, node: yaml.Node) -> tuple[BrokerRef, ...]:
        """Return the parties of a network fault: brokers, others, clients or zookeeper."""
        words = (OTHERS, CLIENTS, ZOOKEEPER)
        return tuple(
            self.text(item, "a party")
            if getattr(item, "value", "") in words
            else self.broker_ref(item)
            for item in self.one_or_more(node)
        )

    def broker_ref(self, node: yaml.Node) -> BrokerRef:
        """Return a reference to brokers: an id, or a role such as ``leader of t-0``."""
        text = self.text(node, "a broker")
        if text in (CONTROLLER, DEAD, PAUSED):
            return text
        if text == EACH and self.each is not None:
            return self.each
        if (found := _LEADER_OF.fullmatch(text)) is not None:
            return self.partition(yaml.ScalarNode("", found[1], node.start_mark), "'leader of'")
        if (found := _FOLLOWER_OF.fullmatch(text)) is not None:
            tp = self.partition(yaml.ScalarNode("", found[1], node.start_mark), "'follower of'")
            return IsrFollower(str(tp))
        if (found := _IN_RACK.fullmatch(text)) is not None:
            racks = list(dict.fromkeys(self.cluster.racks.values()))
            if not racks:
                raise self.error(node, "the cluster has no racks", "cluster: {racks: [a, b, c]}")
            if found[1] not in racks:
                raise self.unknown(node, "rack", found[1], racks)
            return InRack(found[1])
        if not text.isdecimal():
            hint = suggestion(text, _similar_roles(text), ROLES_HINT)
            raise self.error(node, f"'{text}' is not a broker", hint)
        return self.broker(node)

    def brokers(self, node: yaml.Node, what: str = "brokers") -> list[int]:
        """Return a list of different broker ids of the cluster; the list may be empty."""
        return self._distinct(node, self.broker, what)

    def replicas(self, node: yaml.Node) -> list[int]:
        """Return a list of different broker ids, which the cluster need not have."""
        found = self._distinct(node, lambda item: self.integer(item, "a replica"))
        if not found:
            raise self.error(node, "a partition needs at least one replica")
        return found

    def leader(self, node: yaml.Node) -> int:
        """Return a broker id, or NO_LEADER for the word ``none``."""
        if self.text(node, "a leader") in (NONE, str(NO_LEADER)):
            return NO_LEADER
        return self.broker(node)

    def _distinct(
        self, node: yaml.Node, read: Callable[[yaml.Node], int], what: str = "brokers"
    ) -> list[int]:
        found: list[int] = []
        for item in self.items(node, what):
            broker_id = read(item)
            if broker_id in found:
                raise self.error(item, f"broker {broker_id} is listed twice")
            found.append(broker_id)
        return found


def _similar_roles(text: str) -> list[str]:
    """Return the roles that ``text`` may be meant to name, with its last word as their argument."""
    *others, last = text.split()
    if not others:
        return [CONTROLLER, DEAD, PAUSED]
    return [f"leader of {last}", f"any ISR follower of {last}", f"rack {last}"]


def is_null(node: yaml.Node) -> bool:
    """Return True for a missing or null value."""
    return isinstance(node, yaml.ScalarNode) and not node.style and node.value in ("", "null")
