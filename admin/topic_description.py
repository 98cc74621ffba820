"""Descriptions of topics and partitions, and their lines in the output of kafka-topics --describe.

Mirrors TopicDescription and PartitionDescription of kafka.admin.TopicCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec

from klamm.cluster.counting import joined
from klamm.cluster.types import ReplicaAssignment

_ZERO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"


class PartitionDescription(msgspec.Struct, frozen=True):
    """State of one partition, as ``--describe`` prints it.

    If ``leader`` is None, the partition has no leader. If ``min_isr`` is None, the value of
    min.insync.replicas is unknown.
    """

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int | None = None
    marked_for_deletion: bool = False
    reassignment: ReplicaAssignment | None = None

    @property
    def replication_factor(self) -> int:
        """Replication factor, not counting replicas that a running reassignment adds."""
        moving = self.reassignment
        if moving and {*moving.adding_replicas, *moving.removing_replicas} & set(self.replicas):
            return len(moving.origin_replicas)
        return len(self.replicas)

    @property
    def is_under_replicated(self) -> bool:
        """True if the ISR has fewer members than the replication factor."""
        return self.replication_factor > len(self.isr)

    @property
    def is_under_min_isr(self) -> bool:
        """True if the partition has no leader or the ISR is below min.insync.replicas."""
        return self.leader is None or (self.min_isr is not None and len(self.isr) < self.min_isr)

    @property
    def is_at_min_isr(self) -> bool:
        """True if the ISR has exactly min.insync.replicas members."""
        return self.min_isr == len(self.isr)

    def is_unavailable(self, live_brokers: Collection[int]) -> bool:
        """Return True if the partition has no leader or its leader is not alive."""
        return self.leader is None or self.leader not in live_brokers

    @property
    def text(self) -> str:
        """The partition's line in the output of ``--describe``, with the newline."""
        line = (
            f"\tTopic: {self.topic}\tPartition: {self.partition}"
            f"\tLeader: {'none' if self.leader is None else self.leader}"
            f"\tReplicas: {joined(self.replicas)}\tIsr: {joined(self.isr)}"
        )
        if self.reassignment is not None:
            line += f"\tAdding Replicas: {joined(self.reassignment.adding_replicas)}"
            line += f"\tRemoving Replicas: {joined(self.reassignment.removing_replicas)}"
        return f"{line}{_marked(self.marked_for_deletion)}\n"


class TopicDescription(msgspec.Struct, frozen=True):
    """A topic and its partitions in ascending order, as ``--describe`` prints them.

    ``configs`` are the configs that differ from the default, in the order in which they are
    printed. If ``topic_id`` is None or the zero id, the topic has no id.
    """

    topic: str
    topic_id: str | None
    configs: Mapping[str, str]
    partitions: tuple[PartitionDescription, ...]
    marked_for_deletion: bool = False

    @property
    def replication_factor(self) -> int:
        """Replication factor of the first partition, or 0 if there are no partitions."""
        return self.partitions[0].replication_factor if self.partitions else 0

    @property
    def text(self) -> str:
        """The topic's line in the output of ``--describe``, with the newline."""
        topic_id = f"\tTopicId: {self.topic_id}" if self.topic_id not in (None, _ZERO_ID) else ""
        configs = ",".join(f"{name}={value}" for name, value in self.configs.items())
        return (
            f"Topic: {self.topic}{topic_id}\tPartitionCount: {len(self.partitions)}"
            f"\tReplicationFactor: {self.replication_factor}"
            f"\tConfigs: {configs}{_marked(self.marked_for_deletion)}\n"
        )


def _marked(marked_for_deletion: bool) -> str:
    return "\tMarkedForDeletion: true" if marked_for_deletion else ""
