"""What the words of a drill take as values: brokers of its cluster, partitions, replicas.

Each method turns a node into a value of a step or a condition, or raises UsageError with its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from cluster.types import NO_LEADER, TopicPartition
from drills.reading import Reader
from runtime.actions import CONTROLLER, DEAD, PAUSED, BrokerRef

NONE: Final = "none"
BROKER_WORDS: Final = "controller, dead, paused, or leader of t-0"
_LEADER_OF: Final = re.compile(r"leader of (\S+)")


class DrillReader(Reader):
    """A Reader that knows the brokers of the drill's cluster."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.broker_ids: tuple[int, ...] = ()

    def broker(self, node: yaml.Node) -> int:
        """The id of one of the cluster's brokers."""
        broker_id = self.integer(node, "a broker")
        if broker_id not in self.broker_ids:
            ids = ", ".join(map(str, self.broker_ids))
            raise self.error(node, f"there is no broker {broker_id}", f"brokers: {ids}")
        return broker_id

    def broker_ref(self, node: yaml.Node) -> BrokerRef:
        """A broker's id, ``controller``, ``dead``, ``paused``, or ``leader of t-0``."""
        text = self.text(node, "a broker")
        if text in (CONTROLLER, DEAD, PAUSED):
            return text
        match = _LEADER_OF.fullmatch(text)
        if match is not None:
            return self.partition(yaml.ScalarNode("", match[1], node.start_mark), "what is led")
        if not text.isdecimal():
            raise self.error(node, f"'{text}' is no broker", f"use an id, {BROKER_WORDS}")
        return self.broker(node)

    def brokers(self, node: yaml.Node) -> list[int]:
        """A list of the cluster's brokers, none of them twice; it may be empty."""
        return self._distinct(node, self.broker)

    def replicas(self, node: yaml.Node) -> list[int]:
        """A list of broker ids, whether the cluster has them or not."""
        found = self._distinct(node, lambda item: self.integer(item, "a replica"))
        if not found:
            raise self.error(node, "a partition needs a replica")
        return found

    def leader(self, node: yaml.Node) -> int:
        """A broker, or none: NO_LEADER."""
        if self.text(node, "a leader") in (NONE, str(NO_LEADER)):
            return NO_LEADER
        return self.broker(node)

    def by_partition(
        self, node: yaml.Node, read: Callable[[yaml.Node], Any]
    ) -> dict[TopicPartition, Any]:
        """A value for each of some partitions."""
        return {
            self.partition(entry.key, "a key"): read(entry.value)
            for entry in self.entries(node, "partitions with their values").values()
        }

    def by_partition_text(self, node: yaml.Node, read: Callable[[yaml.Node], Any]) -> Any:
        """A value for each of some partitions, by their names."""
        return {str(tp): value for tp, value in self.by_partition(node, read).items()}

    def partitions(self, node: yaml.Node) -> list[TopicPartition]:
        """Partitions; it may be an empty list."""
        return [self.partition(item, "an item") for item in self.one_or_more(node)]

    def _distinct(self, node: yaml.Node, read: Callable[[yaml.Node], int]) -> list[int]:
        found: list[int] = []
        for item in self.items(node, "brokers"):
            broker_id = read(item)
            if broker_id in found:
                raise self.error(item, f"broker {broker_id} is given twice")
            found.append(broker_id)
        return found
