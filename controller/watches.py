"""From what a watch saw to the event it means, and which watches are wanted.

A handler only puts an event: reading, and thereby arming the watch again, is done when the event
is processed. Mirrors the ...Handler classes of kafka/controller/KafkaController.scala.
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
    """Which watches the controller wants. One that fires after it was unregistered is nothing.

    /controller is watched by every candidate from its startup, all else by the active controller
    alone. ``event_of`` is called from the store's thread. ``brokers``: whose registrations are
    watched; ``topics``: whose znodes are; ``malformed``: the partitions whose states cannot be
    read, by the path of the state.
    """

    def __init__(self, quirks: Quirks = NO_QUIRKS) -> None:
        self._quirks = quirks
        self._is_active = False
        self.brokers: set[int] = set()
        self.topics: set[str] = set()
        self._reassigned: dict[str, TopicPartition] = {}
        self.malformed: dict[str, TopicPartition] = {}

    def activate(self) -> None:
        """The controller is active: changes of the brokers and the topics are wanted."""
        self._is_active = True

    def clear(self) -> None:
        """The controller resigned: only /controller is wanted."""
        self._is_active = False
        self.brokers.clear()
        self.topics.clear()
        self._reassigned.clear()
        self.malformed.clear()

    def register_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Changes of these partitions' states are wanted."""
        self._reassigned.update((TopicPartitionStateZNode.path(tp), tp) for tp in partitions)

    def unregister_reassigned(self, partitions: Iterable[TopicPartition]) -> None:
        """Changes of these partitions' states are wanted no more."""
        for tp in partitions:
            self._reassigned.pop(TopicPartitionStateZNode.path(tp), None)

    def event_of(self, fired: WatchEvent) -> ControllerEvent | None:
        """The event that a watch means; None if nobody wants it."""
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
