"""Layout of the large cluster, whose topics, partitions and brokers are copies of recorded ones."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from klamm.cluster.journal import JournalRow
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.replay.generate.options import HistoryOptions

KEPT: Final = "kept"
DELETED: Final = "deleted"
"""The two topics of the recorded cluster. DELETED is repeatedly deleted and created again."""
ANOMALOUS: Final = TopicPartition(KEPT, 0)
"""The recorded partition in which anomalies happen."""
IntArray = NDArray[np.int32]
_RECORDED_KEPT: Final = 36
_RECORDED_DELETED: Final = 6
_RECORDED_BROKERS: Final = range(6, 12)
_DELETED_PART: Final = 10
"""One topic in ten is repeatedly deleted and created again."""
_SHIFT: Final = 7


class Layout:
    """Layout of the large cluster.

    Brokers form groups, each of which is a copy of the recorded cluster. Brokers that are left over
    have no replicas. ``topic`` and ``number``: for each partition of the cluster, the number of its
    topic, and its partition number in the topic.
    """

    def __init__(self, options: HistoryOptions) -> None:
        self.options = options
        self.topic, self.number = _topics(options)
        count, planted = options.partitions, sum(options.planted.values())
        is_deleted = self.topic % _DELETED_PART == _DELETED_PART - 1
        if count - int(is_deleted.sum()) < planted:
            is_deleted[:] = False
        self.is_deleted = is_deleted
        """For each partition: whether the partition's topic is repeatedly deleted."""
        self.brokers = options.brokers
        if options.brokers > _RECORDED_BROKERS[-1]:
            self.brokers = min(_RECORDED_BROKERS, key=lambda size: options.brokers % size)
        self.groups = options.brokers // self.brokers
        kept = np.nonzero(~is_deleted)[0]
        rng = np.random.default_rng(options.seed)
        self.planted: list[int] = rng.permutation(kept)[:planted].tolist()
        """Partitions for the planted anomalies, in random order: copies of ANOMALOUS."""
        others = np.setdiff1d(kept, self.planted)
        self.kept = max(1, min(_RECORDED_KEPT, len(others)))
        self.deleted = min(_RECORDED_DELETED, int(is_deleted.sum()))
        self.base = np.zeros(count, np.int32)
        """For each partition: number of the recorded partition of which it is a copy."""
        self.group = np.zeros(count, np.int32)
        for copies, first, size in (
            (self.planted, ANOMALOUS.partition, 1),
            (others, 0, self.kept),
            (np.nonzero(is_deleted)[0], self.kept, self.deleted),
        ):
            nth = np.arange(len(copies))
            self.base[copies] = first + nth % max(1, size)
            self.group[copies] = nth // max(1, size) % self.groups
        self.assignments = spread(self.kept + self.deleted, self.brokers)
        """Replicas of each recorded partition."""
        all_topics, at = np.unique(self.topic, return_index=True)
        gone = is_deleted[at]
        self.topics = {KEPT: all_topics[~gone], DELETED: all_topics[gone]}
        self._targets: dict[tuple[str | None, int, bool], IntArray] = {}

    @cached_property
    def names(self) -> list[TopicPartition]:
        """Topic name and partition number of each partition."""
        return [
            TopicPartition(topic_name(topic), number)
            for topic, number in zip(self.topic.tolist(), self.number.tolist(), strict=True)
        ]

    @cached_property
    def topic_names(self) -> pa.Array:
        """Name of each topic."""
        return pa.array([topic_name(topic) for topic in range(int(self.topic[-1]) + 1)])

    def recorded_name(self, base: int) -> TopicPartition:
        """Return the name of a recorded partition. Those of topic DELETED come last."""
        deleted = base - self.kept
        return TopicPartition(KEPT, base) if deleted < 0 else TopicPartition(DELETED, deleted)

    def base_of(self, recorded: JournalRow) -> int:
        """Return the number of the recorded partition that a row is about, -1 for none."""
        if recorded.topic is None or recorded.partition < 0:
            return -1
        return recorded.partition + (self.kept if recorded.topic == DELETED else 0)

    def targets(self, recorded: JournalRow) -> IntArray:
        """Return all copies of the partition, topic or broker that a row is about.

        The array has three rows: the number of the partition and of the topic of each copy, -1 for
        none, and its group of brokers.
        """
        is_broker = recorded.topic is None and recorded.replica >= 0
        key = (recorded.topic, recorded.partition, is_broker)
        if key not in self._targets:
            p = topic = np.array([-1], np.int32)
            group = np.arange(self.groups if is_broker else 1, dtype=np.int32)
            base = self.base_of(recorded)
            if base >= 0:
                p = np.nonzero(self.base == base)[0].astype(np.int32)
                group = self.group[p]
            elif recorded.topic is not None:
                topic = self.topics[recorded.topic]
            self._targets[key] = np.stack(np.broadcast_arrays(p, topic, group))
        return self._targets[key]

    def assignment(self, p: int) -> tuple[int, ...]:
        """Return a partition's initial replicas, which it also has between episodes."""
        shift = int(self.group[p]) * self.brokers
        return tuple(broker + shift for broker in self.assignments[int(self.base[p])])

    def partitions_of(self, topic: int) -> tuple[int, int]:
        """Return the range of a topic's partitions: the first index, and the last index plus 1."""
        first, end = np.searchsorted(self.topic, [topic, topic + 1])
        return int(first), int(end)

    def new_topic(self, topic: int) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the assignment with which a topic is created."""
        return {
            self.names[p]: ReplicaAssignment(self.assignment(p))
            for p in range(*self.partitions_of(topic))
        }

    def copies_of_broker(self, broker: int) -> list[int]:
        """Return the ids of the brokers that are copies of a recorded broker, one in each group."""
        return [broker + group * self.brokers for group in range(self.groups)]


def spread(count: int, brokers: int) -> list[tuple[int, ...]]:
    """Assign replicas to brokers as Kafka's AdminUtils.assignReplicasToBrokersRackUnaware does."""
    found = []
    for n in range(count):
        others = (n + 1 + (_SHIFT + n // brokers + k) % (brokers - 1) for k in range(2))
        found.append((n % brokers + 1, *(other % brokers + 1 for other in others)))
    return found


def cluster_name(seed: int) -> str:
    """Return the cluster id of the history with this seed."""
    return f"generated-{seed}"


def run_name(seed: int, run: int) -> str:
    """Return the run id of a run, which is numbered from 0."""
    return f"{cluster_name(seed)}-{run}"


def topic_name(topic: int) -> str:
    """Return the name of the topic with this number."""
    return f"topic-{topic:05d}"


def _topics(options: HistoryOptions) -> tuple[IntArray, IntArray]:
    """Return the topic number and the partition number of each partition."""
    partitions = np.arange(options.partitions, dtype=np.int32)
    large = round(options.skew * options.partitions)
    rest = partitions - large
    per_topic = options.partitions_per_topic
    is_large = partitions < large
    first = 1 if large else 0
    topic = np.where(is_large, 0, first + rest // per_topic)
    number = np.where(is_large, partitions, rest % per_topic)
    return topic.astype(np.int32), number.astype(np.int32)
