"""Filters of kafka-topics --describe. Mirrors DescribeOptions of kafka.admin.TopicCommand."""

from __future__ import annotations

from collections.abc import Callable, Collection

from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.tools.jopt import Options


class DescribeFilter:
    """Selects what ``--describe`` prints, according to flags like --unavailable-partitions."""

    def __init__(self, options: Options, live_brokers: Collection[int]) -> None:
        reports: dict[str, Callable[[PartitionDescription], bool]] = {
            "under-replicated-partitions": lambda one: one.is_under_replicated,
            "unavailable-partitions": lambda one: one.is_unavailable(live_brokers),
            "under-min-isr-partitions": lambda one: one.is_under_min_isr,
            "at-min-isr-partitions": lambda one: one.is_at_min_isr,
        }
        self._reports = [reports[name] for name in reports if options.has(name)]
        self._overrides = options.has("topics-with-overrides")

    def shows_topic(self, topic: TopicDescription) -> bool:
        """Return True if the summary line of this topic should be printed."""
        return not self._reports and (not self._overrides or bool(topic.configs))

    def shows(self, partition: PartitionDescription) -> bool:
        """Return True if the flags select this partition."""
        return not self._reports or any(report(partition) for report in self._reports)

    def partitions(self, topic: TopicDescription) -> list[PartitionDescription]:
        """Return the partitions of a topic that are to be printed."""
        return [] if self._overrides else [p for p in topic.partitions if self.shows(p)]

    def text(self, topic: TopicDescription) -> str:
        """Return the text that is printed for a topic."""
        own = topic.text if self.shows_topic(topic) else ""
        return own + "".join(partition.text for partition in self.partitions(topic))
