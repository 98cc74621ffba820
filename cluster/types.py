"""Kafka's basic values: partitions, replicas, brokers, assignments, leader and ISR.

Mirrors kafka.controller.{ReplicaAssignment,LeaderIsrAndControllerEpoch}, kafka.api.LeaderAndIsr
and kafka.cluster.{Broker,EndPoint}.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

NO_LEADER: Final = -1
NO_CONTROLLER: Final = -1
LEADER_DURING_DELETE: Final = -2
NO_EPOCH: Final = -1
EPOCH_DURING_DELETE: Final = -2
INITIAL_LEADER_EPOCH: Final = 0
INITIAL_ZK_VERSION: Final = 0
INITIAL_CONTROLLER_EPOCH: Final = 0
NO_BROKER_EPOCH: Final = -1


class ElectionType(Enum):
    """Type of election in an ElectLeaders request: preferred or unclean."""

    PREFERRED = "PREFERRED"
    UNCLEAN = "UNCLEAN"


class TopicPartition(NamedTuple):
    """Topic name and partition number, printed as ``topic-partition``, as in Kafka."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicPartitionReplica(NamedTuple):
    """A partition's replica on one broker; Kafka prints it as topic-partition-broker."""

    topic: str
    partition: int
    broker_id: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker_id}"

    @property
    def order(self) -> tuple[int, str, int]:
        """Sort key for replicas, which Kafka's tool sorts by broker, topic and partition."""
        return self.broker_id, self.topic, self.partition


class PartitionAndReplica(NamedTuple):
    """One replica of a partition: the partition and the id of the broker that hosts it."""

    topic_partition: TopicPartition
    replica: int

    def __str__(self) -> str:
        tp = self.topic_partition
        return f"[Topic={tp.topic},Partition={tp.partition},Replica={self.replica}]"


def host_and_port(host: str, port: int) -> str:
    """Return HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class EndPoint(msgspec.Struct, frozen=True, gc=False):
    """Listener address of a broker (kafka.cluster.EndPoint)."""

    host: str
    port: int
    listener_name: str = "PLAINTEXT"
    security_protocol: str = "PLAINTEXT"

    @property
    def connection_string(self) -> str:
        """The address as in the config listeners, e.g. ``PLAINTEXT://localhost:9092``."""
        return f"{self.listener_name}://{host_and_port(self.host, self.port)}"


class Broker(msgspec.Struct, frozen=True):
    """A registered broker. ``rack`` is None if no rack is set; an empty string is a valid rack."""

    id: int
    end_points: tuple[EndPoint, ...] = ()
    rack: str | None = None


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False):
    """Leader, leader epoch and in-sync replicas of a partition, with the state znode's version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int = INITIAL_ZK_VERSION

    def with_leader_and_isr(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Return a new state with ``leader``, ``isr`` and an incremented leader epoch."""
        return LeaderAndIsr(leader, self.leader_epoch + 1, isr, self.zk_version)

    def with_zk_version(self, zk_version: int) -> LeaderAndIsr:
        """Return the same state with ``zk_version`` as the znode version."""
        return LeaderAndIsr(self.leader, self.leader_epoch, self.isr, zk_version)

    def equals_ignoring_zk_version(self, other: LeaderAndIsr) -> bool:
        """Return True if leader, leader epoch and ISR are equal. The order of the ISR matters."""
        return self.with_zk_version(other.zk_version) == other

    def __str__(self) -> str:
        isr = ", ".join(map(str, self.isr))
        return (
            f"LeaderAndIsr(leader={self.leader}, leaderEpoch={self.leader_epoch}, "
            f"isr=List({isr}), zkVersion={self.zk_version})"
        )


class LeaderIsrAndControllerEpoch(msgspec.Struct, frozen=True, gc=False):
    """A LeaderAndIsr and the epoch of the controller that last wrote it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int

    def __str__(self) -> str:
        state = self.leader_and_isr
        isr = ",".join(map(str, state.isr))
        return (
            f"(Leader:{state.leader},ISR:{isr},LeaderEpoch:{state.leader_epoch},"
            f"ZkVersion:{state.zk_version},ControllerEpoch:{self.controller_epoch})"
        )


class ReplicaAssignment(msgspec.Struct, frozen=True, gc=False):
    """Replicas of a partition, and the replicas that a reassignment adds and removes (KIP-455).

    Replicas are given as broker ids. The first of ``replicas`` is the preferred leader.
    """

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()

    @property
    def origin_replicas(self) -> tuple[int, ...]:
        """Replicas of the partition before the ongoing reassignment, if there is one."""
        return _difference(self.replicas, self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[int, ...]:
        """Replicas of the partition after the ongoing reassignment, if there is one."""
        return _difference(self.replicas, self.removing_replicas)

    @property
    def is_being_reassigned(self) -> bool:
        """True while a replica is being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    def reassign_to(self, target: Sequence[int]) -> ReplicaAssignment:
        """Return the initial assignment for a reassignment of the partition to ``target``.

        Its ``replicas`` are the target replicas, followed by the replicas to remove.
        """
        origin = self.origin_replicas
        full = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(full, _difference(full, origin), _difference(full, target))

    def remove_replica(self, replica: int) -> ReplicaAssignment:
        """Return the assignment with ``replica`` removed from all three lists."""
        lists = (self.replicas, self.adding_replicas, self.removing_replicas)
        return ReplicaAssignment(*(tuple(r for r in ids if r != replica) for ids in lists))

    def __str__(self) -> str:
        parts = (self.replicas, self.adding_replicas, self.removing_replicas)
        replicas, adding, removing = (",".join(map(str, part)) for part in parts)
        return (
            f"ReplicaAssignment(replicas={replicas}, "
            f"addingReplicas={adding}, removingReplicas={removing})"
        )


def _difference(replicas: tuple[int, ...], without: Sequence[int]) -> tuple[int, ...]:
    """Return the multiset difference, like Scala's Seq.diff: each item removes one equal item."""
    if not without:
        return replicas
    left = list(replicas)
    for replica in without:
        if replica in left:
            left.remove(replica)
    return tuple(left)


EMPTY_ASSIGNMENT: Final = ReplicaAssignment(())


class TopicIdReplicaAssignment(msgspec.Struct, frozen=True):
    """Content of a topic znode: the topic id (22 base64 characters, or None) and the assignment."""

    topic: str
    topic_id: str | None
    assignment: dict[TopicPartition, ReplicaAssignment]
