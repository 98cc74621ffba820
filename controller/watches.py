"""Mapping of fired watches to controller events, and the set of active watches.

A fired watch only enqueues an event; the handler of the event reads the znode and thereby arms the
watch again. Mirrors the ...Handler classes of kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """Watches in which the controller is interested; a watch that fires later is ignored.

    Every candidate watches /controller from its startup; only the active controller watches other
    znodes. ``brokers``: brokers with a watched registration. ``topics``: topics with a watched
    znode. ``malformed``: partitions with a malformed state znode, by the path of the znode.
    ``event_of`` is called from the store's thread.
    """

    def __init__(self, quirks: Quirks = NO_QUIRKS) -> None:
        self._quirks = quirks
        self._is_active = False
        self.brokers: set[int] = set()
        self.topics: set[str] = set()
        self._reassigned: dict[str, TopicPartition] = {}
        self.malformed: dict[str, TopicPartition] = {}

    def activate(self) -> None:
        """Accept watches of brokers, topics and requests: the controller became active."""
        self._is_active = True

    def clear(self) -> None:
        """Ignore all watches except /controller: the controller resigned."""
        self._is_active = False
        self.brokers.clear()
        self.topics.clear()
        self._reassigned.clear()
        self.malformed.clear()

    def register_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Accept changes of the state znodes of these partitions."""
        self._reassigned.update((TopicPartitionStateZNode.path(tp), tp) for tp in partitions)

    def unregister_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Ignore changes of the state znodes of these partitions from now on."""
        for tp in partitions:
            self._reassigned.pop(TopicPartitionStateZNode.path(tp), None)

    def event_of(self, fired: WatchEvent) -> ControllerEvent | None:
        """Return the event for a fired watch; None if the watch is ignored."""
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
        malformed = self.malformed.get(path)
        if malformed is not None:
            return PartitionStateModifications(malformed)
        if kind is not WatchKind.DATA_CHANGED:
            return None
        reassigned = self._reassigned.get(path)
        if reassigned is not None:
            return PartitionReassignmentIsrChange(reassigned)
        parent, _, name = path.rpartition("/")
        if parent == TopicsZNode.path and name in self.topics:
            return PartitionModifications(name)
        if parent == BrokerIdsZNode.path and name.isdecimal() and int(name) in self.brokers:
            return BrokerModifications(int(name))
        return None
