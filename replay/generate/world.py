"""A cluster that never was: partitions, replicas and leaders as arrays, and the rows it leaves.

Keeps the numbers that a controller's recorder keeps (seq, key_seq, since when) and applies what it
is told; what happens is decided in steps.py and planting.py. Mirrors controller/recorder.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from cluster.journal import Kind
from cluster.types import NO_LEADER, ReplicaAssignment, TopicPartition
from replay.event_schema import KINDS, STATE_CODES, code_of
from replay.generate.options import REPLICATION_FACTOR, HistoryOptions
from replay.generate.rows import NOBODY, Array, RowBuffer
from statemachines.partition_state import PartitionState
from statemachines.replica_state import ReplicaState

WIDTH: Final = REPLICATION_FACTOR + 1
"""Replicas that a partition has at most: one is added before another one leaves."""
START_MS: Final = 1_760_000_000_000
_SHIFT: Final = 7


def kind_code(kind: str) -> int:
    """The published code of a kind."""
    return code_of(kind, KINDS)


def state_code(state: PartitionState | ReplicaState) -> int:
    """The published code of a state."""
    return STATE_CODES[state.value]


class Leadership(NamedTuple):
    """Leaders and ISRs of some partitions, as they were."""

    leader: Array
    isr: Array


@dataclass(slots=True)
class Before:
    """What is left of a controller whose epoch is over."""

    controller: int
    epoch: int
    seq: int
    replica_key_seq: Array


class World:
    """The cluster. Arrays have a row a partition, those of replicas a column a place."""

    def __init__(self, options: HistoryOptions) -> None:
        count = options.partitions
        self.options = options
        self.rows = RowBuffer(WIDTH)
        self.t_ms = START_MS
        self.epoch = 0
        self.controller = 0
        self.seq = 0
        self.event_id = 0
        self.live = np.zeros(options.brokers + 1, bool)
        self.topic, self.number = _topics(options)
        self.replicas = _assignment(count, options.brokers)
        self.initial_replicas = self.replicas.copy()
        self.is_insync = np.zeros((count, WIDTH), bool)
        self.leader = np.full(count, NO_LEADER, np.int32)
        self.leader_epoch = np.full(count, -1, np.int32)
        self.zk_version = np.full(count, -1, np.int32)
        self.state = np.full(count, state_code(PartitionState.NON_EXISTENT), np.int8)
        self.since_ms = np.zeros(count, np.int64)
        self.key_seq = np.zeros(count, np.int64)
        none = state_code(ReplicaState.NON_EXISTENT)
        self.replica_state = np.full((count, WIDTH), none, np.int8)
        self.replica_since_ms = np.zeros((count, WIDTH), np.int64)
        self.replica_key_seq = np.zeros((count, WIDTH), np.int64)
        names = [self.topic_name(topic) for topic in range(int(self.topic[-1]) + 1)]
        self.names = [
            TopicPartition(names[topic], number)
            for topic, number in zip(self.topic.tolist(), self.number.tolist(), strict=True)
        ]
        """By partition."""
        self.before: Before | None = None
        self.gone: dict[tuple[int, int], tuple[int, int]] = {}
        """(since_ms, key_seq) of replicas that were taken away in this epoch."""

    def topic_name(self, topic: int) -> str:
        """The name of a topic by its number."""
        return f"topic-{topic:05d}"

    def partitions_of(self, topic: int) -> tuple[int, int]:
        """The number of a topic's first partition, and of the one behind its last."""
        return int(np.searchsorted(self.topic, topic)), int(
            np.searchsorted(self.topic, topic, side="right")
        )

    def assignment(self, p: int) -> tuple[int, ...]:
        """A partition's replicas."""
        return tuple(int(broker) for broker in self.replicas[p] if broker != NOBODY)

    # Time and epochs

    def tick(self, ms: int) -> None:
        """Time passes."""
        self.t_ms += ms

    def begin_epoch(self, controller: int) -> None:
        """A broker becomes the controller: numbers begin again."""
        if self.epoch:
            kept = self.replica_key_seq.copy()
            self.before = Before(self.controller, self.epoch, self.seq, kept)
        self.epoch += 1
        self.controller = controller
        self.seq = 0
        self.key_seq[:] = 0
        self.replica_key_seq[:] = 0
        self.gone.clear()

    # Rows

    def record(self, count: int, kind: Kind | str, **columns: Any) -> None:
        """Rows of the controller of today, numbered."""
        seqs = np.arange(self.seq + 1, self.seq + count + 1)
        self.seq += count
        self.rows.add(
            count,
            {
                "t_ms": self.t_ms,
                "seq": seqs,
                "controller": self.controller,
                "epoch": self.epoch,
                "kind": kind_code(kind),
                "event_id": self.event_id,
                **columns,
            },
        )

    def event(self, text: str) -> None:
        """The controller begins with an event."""
        self.event_id += 1
        self.record(1, Kind.EVENT, detail=self.rows.text(text))

    def on_partitions(self, kind: Kind, p: Array, **columns: Any) -> None:
        """A row of each partition, none of which is there twice."""
        if len(p):
            self.key_seq[p] += 1
            self.record(len(p), kind, p=p, key_seq=self.key_seq[p], **columns)

    def on_replicas(self, kind: Kind, p: Array, slot: Array, **columns: Any) -> None:
        """A row of each replica."""
        if len(p):
            self.replica_key_seq[p, slot] += 1
            self.record(
                len(p),
                kind,
                p=p,
                replica=self.replicas[p, slot],
                key_seq=self.replica_key_seq[p, slot],
                **columns,
            )

    def move(self, p: Array, to: PartitionState, **columns: Any) -> None:
        """Partitions change their state; ``columns`` say what else is in the row."""
        before, since_ms = self.state[p], self.since_ms[p]
        self.on_partitions(
            Kind.PARTITION_TRANSITION,
            p,
            from_state=before,
            to_state=state_code(to),
            since_ms=since_ms,
            **columns,
        )
        self.state[p] = state_code(to)
        self.since_ms[p] = self.t_ms

    def move_replicas(self, p: Array, slot: Array, to: ReplicaState, **columns: Any) -> None:
        """Replicas change their state."""
        self.on_replicas(
            Kind.REPLICA_TRANSITION,
            p,
            slot,
            from_state=self.replica_state[p, slot],
            to_state=state_code(to),
            since_ms=self.replica_since_ms[p, slot],
            **columns,
        )
        self.replica_state[p, slot] = state_code(to)
        self.replica_since_ms[p, slot] = self.t_ms

    # Leaders and ISRs

    def isr(self, p: Array) -> Array:
        """ISRs as rows have them: in one order, whichever place a replica has."""
        return np.sort(np.where(self.is_insync[p], self.replicas[p], NOBODY), axis=1)

    def leadership(self, p: Array) -> Leadership:
        """Leaders and ISRs before something changes them."""
        return Leadership(self.leader[p], self.isr(p))

    def written(
        self, p: Array, before: Leadership | None, *, is_new: bool = True
    ) -> dict[str, Any]:
        """Columns of leaderships; ``is_new``: they were just stored, in a new version."""
        if is_new:
            self.zk_version[p] += 1
        columns = {
            "leader": self.leader[p],
            "leader_epoch": self.leader_epoch[p],
            "isr": self.isr(p),
            "zk_version": self.zk_version[p],
        }
        if before is not None:
            columns |= {"prev_leader": before.leader, "prev_isr": before.isr}
        return columns

    def slots(self, broker: int, among: Array | None = None) -> tuple[Array, Array]:
        """Partitions with a replica on a broker, and its place."""
        if among is None:
            p, slot = np.nonzero(self.replicas == broker)
            return p, slot
        rows, slot = np.nonzero(self.replicas[among] == broker)
        return among[rows], slot

    def is_live(self, p: Array) -> Array:
        """Whose replicas stand on live brokers: a row a partition, a column a place."""
        return self.live[np.maximum(self.replicas[p], 0)] & (self.replicas[p] != NOBODY)

    def full_assignment(self, p: int, adding: int, removing_slot: int) -> ReplicaAssignment:
        """A partition's assignment while ``adding`` takes the place of the replica there."""
        target = list(self.assignment(p)[:REPLICATION_FACTOR])
        removing, target[removing_slot] = target[removing_slot], adding
        return ReplicaAssignment((*target, removing), (adding,), (removing,))


def _topics(options: HistoryOptions) -> tuple[Array, Array]:
    """Topic and number of each partition."""
    everyone = np.arange(options.partitions, dtype=np.int32)
    large = round(options.skew * options.partitions)
    rest = everyone - large
    per_topic = options.partitions_per_topic
    is_large = everyone < large
    first = 1 if large else 0
    topic = np.where(is_large, 0, first + rest // per_topic)
    number = np.where(is_large, everyone, rest % per_topic)
    return topic.astype(np.int32), number.astype(np.int32)


def _assignment(count: int, brokers: int) -> Array:
    """Replicas as Kafka spreads them: AdminUtils.assignReplicasToBrokersRackUnaware."""
    everyone = np.arange(count)
    replicas = np.full((count, WIDTH), NOBODY, np.int16)
    first = everyone % brokers
    shift = _SHIFT + everyone // brokers
    replicas[:, 0] = first + 1
    for n in range(1, REPLICATION_FACTOR):
        replicas[:, n] = (first + 1 + (shift + n - 1) % (brokers - 1)) % brokers + 1
    return replicas
