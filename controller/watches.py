"""Converts fired watches to controller events, and ignores watches that no longer matter.

A fired watch only enqueues an event. The event's handler reads the znode, which also sets the watch
again. Mirrors the classes in kafka/controller/KafkaController.scala whose names end in Handler.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Final

from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import TopicPartition
from klamm.controller.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ControllerEvent,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    PartitionStateModifications,
    Reelect,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from klamm.zk.store import WatchEvent, WatchKind
from klamm.zk.znodes import (
    BrokerIdsZNode,
    BrokerIdZNode,
    ControllerZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
)

_CHILD_CHANGES: Final[Mapping[str, ControllerEvent]] = {
    BrokerIdsZNode.path: BrokerChange(),
    TopicsZNode.path: TopicChange(),
    DeleteTopicsZNode.path: TopicDeletion(),
    IsrChangeNotificationZNode.path: IsrChangeNotification(),
    LogDirEventNotificationZNode.path: LogDirEventNotification(),
}


class Watches:
    """Watches that a controller currently reacts to; other fired watches are ignored.

    Every candidate watches /controller from startup on. Only the active controller watches other
    znodes. ``event_of`` is called from the ZooKeeper client's thread.

    - ``brokers``: brokers with a watched registration znode.
    - ``topics``: topics with a watched topic znode.
    """

    def __init__(self, malformed: Container[str], quirks: Quirks = NO_QUIRKS) -> None:
        """``malformed``: the paths of the quarantined znodes, which change with time."""
        self._malformed = malformed
        self._quirks = quirks
        self._is_active = False
        self.brokers: set[int] = set()
        self.topics: set[str] = set()
        self._reassigned: dict[str, TopicPartition] = {}

    def activate(self) -> None:
        """React to all watches from now on, because this controller has become active."""
        self._is_active = True

    def clear(self) -> None:
        """Ignore all watches except that on /controller, because the controller resigned."""
        self._is_active = False
        self.brokers.clear()
        self.topics.clear()
        self._reassigned.clear()

    def register_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """React to changes to the state znodes of ``partitions``, which are being reassigned."""
        self._reassigned.update((TopicPartitionStateZNode.path(tp), tp) for tp in partitions)

    def unregister_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Ignore further changes to the state znodes of ``partitions``."""
        for tp in partitions:
            self._reassigned.pop(TopicPartitionStateZNode.path(tp), None)

    def event_of(self, fired: WatchEvent) -> ControllerEvent | None:
        """Return the controller event for a fired watch, or None if the watch is ignored."""
        path, kind = fired.path, fired.kind
        if path == ControllerZNode.path:
            return Reelect() if kind is WatchKind.DELETED else ControllerChange()
        if not self._is_active:
            return None
        if kind is WatchKind.CHILDREN_CHANGED:
            return _CHILD_CHANGES.get(path)
        if path == ReassignPartitionsZNode.path and (
            kind is WatchKind.CREATED or not self._quirks.kafka_9478
        ):
            return ZkPartitionReassignment()
        if path == PreferredReplicaElectionZNode.path and kind is WatchKind.CREATED:
            return ReplicaLeaderElection()
        if path in self._malformed:
            tp = TopicPartitionStateZNode.partition_of(path)
            if tp is not None:
                return PartitionStateModifications(tp)
        if kind is not WatchKind.DATA_CHANGED:
            return None
        reassigned = self._reassigned.get(path)
        if reassigned is not None:
            return PartitionReassignmentIsrChange(reassigned)
        parent, _, name = path.rpartition("/")
        if parent == TopicsZNode.path and name in self.topics:
            return PartitionModifications(name)
        broker_id = BrokerIdZNode.id_of(path)
        if broker_id is not None and broker_id in self.brokers:
            return BrokerModifications(broker_id)
        return None
