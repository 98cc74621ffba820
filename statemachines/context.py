"""The controller's cache of the cluster: topics, assignments, leaders, ISRs, states, live brokers.

The context makes no decisions. It is changed by the state machines, by the failover loader and by
the event handlers. Mirrors kafka/controller/ControllerContext.scala.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import (
    EMPTY_ASSIGNMENT,
    INITIAL_CONTROLLER_EPOCH,
    Broker,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

ReplicasByBroker = dict[int, list[TopicPartition]]
"""Replicas grouped by broker: {broker id: partitions with a replica on that broker}, sorted."""
_OFFLINE: Final = PartitionState.OFFLINE


def replicas_by_broker(replicas: Mapping[TopicPartition, Iterable[int]]) -> ReplicasByBroker:
    """Convert {partition: broker ids} to {broker id: distinct partitions}, sorted by broker id."""
    found: ReplicasByBroker = {}
    for tp, broker_ids in replicas.items():
        for broker_id in dict.fromkeys(broker_ids):
            found.setdefault(broker_id, []).append(tp)
    return dict(sorted(found.items()))


class Counts(msgspec.Struct, frozen=True):
    """Counts of partitions and replicas in the controller context, exported as metrics.

    ``preferred_replica_imbalance_count`` excludes partitions of topics queued for deletion.
    ``offline_partition_count`` excludes partitions of topics whose deletion has started.
    """

    offline_partition_count: int
    preferred_replica_imbalance_count: int
    replicas_per_broker: dict[int, int]


def has_preferred_leader(
    assignment: ReplicaAssignment, leadership: LeaderIsrAndControllerEpoch
) -> bool:
    """Return True if the leader is the preferred replica, i.e. the first assigned replica.

    Also return True if the preferred replica is still being added and not yet in the ISR, or if the
    assignment is empty.
    """
    if not assignment.replicas:
        return True
    preferred = assignment.replicas[0]
    if preferred in assignment.adding_replicas:
        return preferred not in leadership.leader_and_isr.isr
    return leadership.leader_and_isr.leader == preferred


class ControllerContext:
    """Cached cluster state of the active controller.

    Callers may read the dictionaries and sets, but must change them through methods. Sets are
    unordered: sort a set before iterating over it if the order affects requests or logs. To save
    memory, all dictionaries use the same TopicPartition objects as keys.

    ``live_broker_ids`` excludes brokers that are shutting down;
    ``live_or_shutting_down_broker_ids`` and ``live_or_shutting_down_brokers`` (sorted by broker id)
    include them. A broker's epoch is the czxid of its registration znode.
    """

    def __init__(self, quirks: Quirks = NO_QUIRKS, controller_id: int = -1) -> None:
        self.quirks = quirks
        self.controller_id = controller_id
        self.reset_context()

    def reset_context(self) -> None:
        """Reset to the empty state before the first election and after a resignation."""
        self.live_brokers: dict[int, Broker] = {}
        self.live_broker_epochs: dict[int, int] = {}
        self.shutting_down_broker_ids: frozenset[int] = frozenset()
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self._refresh_brokers()
        self.epoch = INITIAL_CONTROLLER_EPOCH
        self.epoch_zk_version = 0
        self.offline_partition_count = 0
        self.preferred_replica_imbalance_count = 0
        self.all_topics: set[str] = set()
        self.topic_ids: dict[str, str] = {}
        self.topic_names: dict[str, str] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.leaderships: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[int, dict[TopicPartition, ReplicaState]] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()
        self.topics_waiting_for_reassignment: set[str] = set()
        self._partitions_by_topic: dict[str, list[TopicPartition]] = {}
        self._partitions_by_broker: dict[int, dict[TopicPartition, None]] = {}

    # Brokers, and the replicas on them

    def set_live_brokers(self, broker_and_epochs: Mapping[Broker, int]) -> None:
        """Set the live brokers to ``broker_and_epochs``."""
        self.live_brokers.clear()
        self.live_broker_epochs.clear()
        self.add_live_brokers(broker_and_epochs)

    def add_live_brokers(self, broker_and_epochs: Mapping[Broker, int]) -> None:
        """Add live brokers, replacing any that have the same id."""
        for broker, epoch in broker_and_epochs.items():
            self.live_brokers[broker.id] = broker
            self.live_broker_epochs[broker.id] = epoch
        self._refresh_brokers()

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        """Remove live brokers. Ids of brokers that are not live are ignored."""
        for broker_id in broker_ids:
            self.live_brokers.pop(broker_id, None)
            self.live_broker_epochs.pop(broker_id, None)
        self._refresh_brokers()

    def update_broker_metadata(self, broker: Broker) -> None:
        """Replace the end points and rack of a live broker without changing the broker's epoch."""
        assert broker.id in self.live_brokers, f"broker {broker.id} is not live"
        self.live_brokers[broker.id] = broker
        self._refresh_brokers()

    def add_shutting_down_broker(self, broker_id: int) -> None:
        """Mark a broker as shutting down."""
        self.shutting_down_broker_ids |= {broker_id}
        self._refresh_brokers()

    def remove_shutting_down_brokers(self, broker_ids: Iterable[int]) -> None:
        """Clear the shutting-down mark of brokers that have died or restarted."""
        self.shutting_down_broker_ids = self.shutting_down_broker_ids.difference(broker_ids)
        self._refresh_brokers()

    def is_replica_online(
        self, broker_id: int, tp: TopicPartition, include_shutting_down_brokers: bool = False
    ) -> bool:
        """Return True if the broker is live and the replica's log directory has not failed."""
        return bool(self.online_replicas(tp, (broker_id,), include_shutting_down_brokers))

    def online_replicas(
        self,
        tp: TopicPartition,
        replicas: tuple[int, ...],
        include_shutting_down_brokers: bool = False,
    ) -> tuple[int, ...]:
        """Return the online replicas among ``replicas``, in the same order."""
        ids = self.live_broker_ids
        if include_shutting_down_brokers:
            ids = self.live_or_shutting_down_broker_ids
        if not self.replicas_on_offline_dirs and ids.issuperset(replicas):
            return replicas
        dirs = self.replicas_on_offline_dirs
        return tuple(r for r in replicas if r in ids and tp not in dirs.get(r, ()))

    def offline_replicas(self, tp: TopicPartition, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Return the offline replicas among ``replicas``, in the same order."""
        online = self.online_replicas(tp, replicas)
        return () if online is replicas else tuple(r for r in replicas if r not in online)

    def split_by_online(
        self, broker_id: int, tps: Collection[TopicPartition]
    ) -> tuple[list[TopicPartition], list[TopicPartition]]:
        """Split ``tps`` into (partitions whose replica on the broker is online, the others)."""
        if broker_id not in self.live_broker_ids:
            return [], list(tps)
        failed = self.replicas_on_offline_dirs.get(broker_id)
        if not failed:
            return list(tps), []
        return [tp for tp in tps if tp not in failed], [tp for tp in tps if tp in failed]

    def _refresh_brokers(self) -> None:
        self.live_or_shutting_down_broker_ids = frozenset(self.live_broker_epochs)
        self.live_broker_ids = self.live_or_shutting_down_broker_ids - self.shutting_down_broker_ids
        self.live_or_shutting_down_brokers = tuple(
            self.live_brokers[broker_id] for broker_id in sorted(self.live_brokers)
        )

    # Topics

    def set_all_topics(self, topics: Iterable[str]) -> None:
        """Replace the set of all topic names.

        A topic missing from ``topics`` keeps its partitions until ``remove_topic`` is called.
        """
        self.all_topics = set(topics)

    def add_topic_id(self, topic: str, topic_id: str) -> None:
        """Set the topic id (22 base64 characters) of a topic that has no id yet."""
        assert topic in self.all_topics, f"topic {topic} is not contained in all topics."
        assert self.topic_ids.get(topic, topic_id) == topic_id, f"topic {topic} has another id"
        assert self.topic_names.get(topic_id, topic) == topic, (
            f"topic id {topic_id} already belongs to another topic"
        )
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        """Remove a topic with all its partitions and replicas from the context.

        With the quirk deleted_topic_znode_leaves_stale_state, the partition and replica states and
        the ongoing reassignments stay in the context.
        """
        for tp in self._partitions_by_topic.pop(topic, ()):
            assignment = self.assignments[tp]
            leadership = self.leaderships.get(tp)
            self._count_imbalance(tp, assignment, leadership, -1)
            self._index_replicas(tp, assignment.replicas, ())
            if not self.quirks.deleted_topic_znode_leaves_stale_state:
                self.put_partition_state(tp, PartitionState.NON_EXISTENT)
                for broker_id in assignment.replicas:
                    self.put_replica_states(broker_id, (tp,), ReplicaState.NON_EXISTENT)
                del self.partition_states[tp]
                self.partitions_being_reassigned.discard(tp)
            del self.assignments[tp]
            self.leaderships.pop(tp, None)
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)
        self.topics_waiting_for_reassignment.discard(topic)
        self.all_topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            del self.topic_names[topic_id]

    def queue_topic_deletion(self, topics: Iterable[str]) -> None:
        """Queue topics for deletion, and exclude their partitions from the imbalance count.

        With the quirk KAFKA-13572, the partitions of a topic are subtracted from the count again
        each time the topic is queued again.
        """
        for topic in topics:
            if self.quirks.kafka_13572:
                self.topics_to_be_deleted.discard(topic)
            for tp in self._partitions_by_topic.get(topic, ()):
                self._count_imbalance(tp, self.assignments[tp], self.leaderships.get(tp), -1)
            self.topics_to_be_deleted.add(topic)

    def begin_topic_deletion(self, topics: Iterable[str]) -> None:
        """Mark the deletion of topics as started, and stop counting their offline partitions."""
        for topic in topics:
            if topic not in self.topics_with_deletion_started:
                self.offline_partition_count -= len(self.partitions_in_states((_OFFLINE,), topic))
                self.topics_with_deletion_started.add(topic)

    def is_topic_eligible_for_deletion(self, topic: str) -> bool:
        """Return True if the topic is queued for deletion and its deletion is not halted."""
        return (
            topic in self.topics_to_be_deleted and topic not in self.topics_ineligible_for_deletion
        )

    # Assignments

    def partition_replica_assignment(self, tp: TopicPartition) -> tuple[int, ...]:
        """Return the assigned replicas of a partition, or () if the partition is unknown."""
        return self.assignments.get(tp, EMPTY_ASSIGNMENT).replicas

    def running_reassignments(self) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignments of the partitions that are being reassigned."""
        return {
            tp: assignment
            for tp in tuple(self.partitions_being_reassigned)  # called from other threads
            if (assignment := self.partition_full_replica_assignment(tp)).is_being_reassigned
        }

    def partition_full_replica_assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        """Return the assignment of a partition, or an empty assignment for an unknown partition."""
        return self.assignments.get(tp, EMPTY_ASSIGNMENT)

    def update_partition_full_replica_assignment(
        self, tp: TopicPartition, assignment: ReplicaAssignment
    ) -> None:
        """Set the assignment of a partition, and update the indexes and counts derived from it."""
        previous = self.assignments.get(tp)
        self.assignments[tp] = assignment
        if previous is None:
            self._partitions_by_topic.setdefault(tp.topic, []).append(tp)
            self._index_replicas(tp, (), assignment.replicas)
        elif previous.replicas != assignment.replicas:
            self._index_replicas(tp, previous.replicas, assignment.replicas)
        leadership = self.leaderships.get(tp)
        if leadership is not None:
            if previous is not None:
                self._count_imbalance(tp, previous, leadership, -1)
            self._count_imbalance(tp, assignment, leadership, 1)

    def partition_full_replica_assignment_for_topic(
        self, topic: str
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignments of a topic's partitions."""
        return {tp: self.assignments[tp] for tp in self._partitions_by_topic.get(topic, ())}

    def all_partitions(self) -> Collection[TopicPartition]:
        """Return all partitions that have an assignment."""
        return self.assignments.keys()

    def partitions_for_topic(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return list(self._partitions_by_topic.get(topic, ()))

    def replicas_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that have a replica on the broker."""
        return list(self._partitions_by_broker.get(broker_id, ()))

    def replicas_on_brokers(self, broker_ids: Iterable[int]) -> ReplicasByBroker:
        """Return the replicas on the brokers ``broker_ids``, omitting brokers without replicas."""
        index = self._partitions_by_broker
        return {b: list(index[b]) for b in sorted(broker_ids) if b in index}

    def replicas_for_topic(self, topic: str) -> ReplicasByBroker:
        """Return the replicas of a topic, grouped by broker."""
        return self.replicas_for_partitions(self._partitions_by_topic.get(topic, ()))

    def replicas_for_partitions(self, tps: Iterable[TopicPartition]) -> ReplicasByBroker:
        """Return the replicas of ``tps``, grouped by broker."""
        return replicas_by_broker({tp: self.partition_replica_assignment(tp) for tp in tps})

    def online_and_offline_replicas(self) -> tuple[ReplicasByBroker, ReplicasByBroker]:
        """Return all replicas as (online, offline), each grouped by broker."""
        online: ReplicasByBroker = {}
        offline: ReplicasByBroker = {}
        for broker_id in sorted(self._partitions_by_broker):
            up, down = self.split_by_online(broker_id, self._partitions_by_broker[broker_id])
            if up:
                online[broker_id] = up
            if down:
                offline[broker_id] = down
        return online, offline

    # States

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        """Return the state of a partition, or NON_EXISTENT if the partition is unknown."""
        return self.partition_states.get(tp, PartitionState.NON_EXISTENT)

    def put_partition_state(self, tp: TopicPartition, state: PartitionState) -> None:
        """Set the state of a partition and update the count of offline partitions."""
        was_offline = self.partition_states.get(tp) is _OFFLINE
        self.partition_states[tp] = state
        if (state is _OFFLINE) is not was_offline and (
            tp.topic not in self.topics_with_deletion_started
        ):
            self.offline_partition_count += -1 if was_offline else 1

    def partitions_in_states(
        self, states: Collection[PartitionState], topic: str | None
    ) -> list[TopicPartition]:
        """Return the partitions of ``topic``, or of all topics, that are in one of ``states``."""
        if topic is None:
            return [tp for tp, state in self.partition_states.items() if state in states]
        tps = self._partitions_by_topic.get(topic, ())
        return [tp for tp in tps if self.partition_state(tp) in states]

    def replica_state(self, broker_id: int, tp: TopicPartition) -> ReplicaState:
        """Return the state of a replica, or NON_EXISTENT if the replica is unknown."""
        return self.replica_states.get(broker_id, {}).get(tp, ReplicaState.NON_EXISTENT)

    def put_replica_states(
        self, broker_id: int, tps: Iterable[TopicPartition], state: ReplicaState
    ) -> None:
        """Set the state of replicas on a broker. NON_EXISTENT removes the replicas."""
        states = self.replica_states.setdefault(broker_id, {})
        if state is ReplicaState.NON_EXISTENT:
            for tp in tps:
                states.pop(tp, None)
        else:
            states.update(dict.fromkeys(tps, state))

    def replicas_in_state(self, topic: str, state: ReplicaState) -> ReplicasByBroker:
        """Return the replicas of a topic that are in ``state``, grouped by broker."""
        found = {
            broker_id: [tp for tp in tps if self.replica_state(broker_id, tp) is state]
            for broker_id, tps in self.replicas_for_topic(topic).items()
        }
        return {broker_id: tps for broker_id, tps in found.items() if tps}

    # Leadership

    def partition_leadership_info(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """Return the cached leader, ISR and znode version of a partition, or None if not cached."""
        return self.leaderships.get(tp)

    def put_partition_leadership_info(
        self, tp: TopicPartition, leadership: LeaderIsrAndControllerEpoch
    ) -> None:
        """Cache the leader and ISR of a partition as stored in ZooKeeper."""
        previous = self.leaderships.get(tp)
        self.leaderships[tp] = leadership
        assignment = self.assignments.get(tp)
        if assignment is not None:
            self._count_imbalance(tp, assignment, previous, -1)
            self._count_imbalance(tp, assignment, leadership, 1)

    def remove_partition_leadership_info(self, tp: TopicPartition) -> None:
        """Remove the cached leader and ISR of a partition without a state znode.

        The partition's topic must be queued for deletion: the imbalance count then excludes it.
        """
        del self.leaderships[tp]

    def partitions_with_leaders(self) -> list[TopicPartition]:
        """Return the partitions with a cached leader and ISR whose topic is not being deleted."""
        return [tp for tp in self.leaderships if tp.topic not in self.topics_to_be_deleted]

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Return the partitions whose leader is offline and whose topic is not being deleted."""
        dirs = self.replicas_on_offline_dirs
        live = self.live_broker_ids
        return [
            tp
            for tp, leadership in self.leaderships.items()
            if (
                (leader := leadership.leader_and_isr.leader) not in live
                or (dirs and tp in dirs.get(leader, ()))
            )
            and tp.topic not in self.topics_to_be_deleted
        ]

    def partition_leaders_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """Return the partitions that the broker leads and that have more than one replica.

        Partitions of topics queued for deletion are omitted.
        """
        return [
            tp
            for tp, leadership in self.leaderships.items()
            if leadership.leader_and_isr.leader == broker_id
            and tp.topic not in self.topics_to_be_deleted
            and len(self.partition_replica_assignment(tp)) > 1
        ]

    # Counts

    def counts(self) -> Counts:
        """Return the current counts. Every change updates the counts, so this call is cheap."""
        return Counts(
            self.offline_partition_count,
            self.preferred_replica_imbalance_count,
            {b: len(tps) for b, tps in sorted(self._partitions_by_broker.items())},
        )

    def recount(self) -> Counts:
        """Compute the counts from scratch, to check the result of ``counts``."""
        replicas: dict[int, int] = {}
        for assignment in self.assignments.values():
            for broker_id in assignment.replicas:
                replicas[broker_id] = replicas.get(broker_id, 0) + 1
        return Counts(
            sum(
                state is _OFFLINE and tp.topic not in self.topics_with_deletion_started
                for tp, state in self.partition_states.items()
            ),
            sum(
                tp in self.leaderships and not has_preferred_leader(a, self.leaderships[tp])
                for tp, a in self.assignments.items()
                if tp.topic not in self.topics_to_be_deleted
            ),
            dict(sorted(replicas.items())),
        )

    def _count_imbalance(
        self,
        tp: TopicPartition,
        assignment: ReplicaAssignment,
        leadership: LeaderIsrAndControllerEpoch | None,
        step: int,
    ) -> None:
        if (
            leadership is not None
            and not has_preferred_leader(assignment, leadership)
            and tp.topic not in self.topics_to_be_deleted
        ):
            self.preferred_replica_imbalance_count += step

    def _index_replicas(
        self, tp: TopicPartition, before: Collection[int], after: Collection[int]
    ) -> None:
        for broker_id in set(before).difference(after):
            on_broker = self._partitions_by_broker[broker_id]
            del on_broker[tp]
            if not on_broker:
                del self._partitions_by_broker[broker_id]
        for broker_id in after:
            if broker_id not in before:
                self._partitions_by_broker.setdefault(broker_id, {})[tp] = None
