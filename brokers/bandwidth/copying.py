"""What takes time because it takes network and disk: the seam between brokers and the bandwidth.

A leader that has records for a follower, and a broker that moves a replica to another directory,
begin a copy with ``Copying``; it knows how fast all copies of the cluster are and says when one has
arrived. Values and a protocol: nothing is computed here, and no clock is read. The implementation
is runtime/bandwidth.py. Kafka has no such file: its brokers wait for sockets and disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from brokers.bandwidth.model import Flow, Resource
from brokers.bandwidth.replication_quotas import Place
from cluster.data_requests import FetchedPartition
from cluster.types import TopicPartition

PathOf = Callable[[TopicPartition], str | None]
"""The log directory in which a broker has a replica."""


class ReplicaCopy(NamedTuple):
    """Records on their way from a leader to a follower."""

    topic_partition: TopicPartition
    leader: int
    follower: int


class DirectoryMove(NamedTuple):
    """Records on their way from one directory of a broker to another."""

    topic_partition: TopicPartition
    broker_id: int


CopyId = ReplicaCopy | DirectoryMove


class Arrived(NamedTuple):
    """What a copy has brought: bytes since it began, or since this was last said of it.

    ``answer``: what the leader says with the records that came, where somebody is to take it.
    """

    copy_id: CopyId
    size_bytes: int
    answer: FetchedPartition | None = None


class Copying(Protocol):
    """The copies of a cluster. Only one thread may use it, that of the brokers.

    When a copy has arrived, its owner (a leader, a broker that moves) is given an ``Arrived`` as an
    event. What a leader sent goes to the follower by the transport, as a standing answer. A move
    brings nothing: its owner reads and appends when it hears of it, or has ended it.
    """

    @property
    def is_limited(self) -> bool:
        """False if nothing in the cluster limits any copy; then none ever begins."""
        ...

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """A broker starts, whose replicas are in these directories. ``reserve_all`` makes all of
        its reservations: it is called when a resource becomes limited, and none is needed
        before."""
        ...

    def set_capacities(self, capacities: Mapping[Resource, int]) -> None:
        """Bytes a second of these resources from now on; UNLIMITED: it does not limit."""
        ...

    def reserve(
        self, partition: TopicPartition, leader: int, traffic: Mapping[Resource, int]
    ) -> None:
        """Reserve bytes a second for the producers of a partition, ahead of all copies, instead of
        an earlier reservation; of no resource: end it."""
        ...

    def place_of(self, partition: TopicPartition, broker_id: int) -> Place:
        """Where a broker has a replica; the directory is "" if it has none, or is not known."""
        ...

    def begin(
        self, flow: Flow[CopyId], size_bytes: int, answer: FetchedPartition | None = None
    ) -> bool:
        """Let a copy begin; False if nothing on its path limits it, so that it is done at once.

        ``answer``: what a leader sends with it. A copy with this id that is under way from the
        same place goes on instead; from another place, it is given up.
        """
        ...

    def change(self, flow: Flow[CopyId]) -> None:
        """Let a copy under way take another path: it is throttled now, or not any more."""
        ...

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """The copies under way that a broker owns."""
        ...

    def take(self, copy_id: CopyId) -> Arrived | None:
        """What a copy has brought until now; it goes on. None if there is no such copy, or
        nothing whole has come."""
        ...

    def take_all(self, follower: int) -> list[Arrived]:
        """The same of all records on their way to a broker."""
        ...

    def end(self, copy_id: CopyId) -> Arrived | None:
        """End a copy, its owner is told; returns what ``take`` does. The rest is lost."""
        ...

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """The same for its leader: what it had sent arrives as a shorter answer."""
        ...

    def cut(self, broker_id: int) -> list[Arrived]:
        """A broker dies: end all its copies. What it had sent arrives as a shorter answer, what
        had come to it, and its moves, are returned."""
        ...


class UnlimitedCopying:
    """A cluster in which copies take no time."""

    is_limited = False

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """Nobody asks where replicas are."""

    def set_capacities(self, capacities: Mapping[Resource, int]) -> None:
        """No capacity limits."""

    def reserve(
        self, partition: TopicPartition, leader: int, traffic: Mapping[Resource, int]
    ) -> None:
        """There is room for all."""

    def place_of(self, partition: TopicPartition, broker_id: int) -> Place:
        """Nowhere in particular."""
        return Place(broker_id, "")

    def begin(
        self, flow: Flow[CopyId], size_bytes: int, answer: FetchedPartition | None = None
    ) -> bool:
        """It is done at once."""
        return False

    def change(self, flow: Flow[CopyId]) -> None:
        """No copy is under way."""

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """None."""
        return ()

    def take(self, copy_id: CopyId) -> Arrived | None:
        """None."""
        return None

    def take_all(self, follower: int) -> list[Arrived]:
        """None."""
        return []

    def end(self, copy_id: CopyId) -> Arrived | None:
        """None."""
        return None

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """No copy is under way."""

    def cut(self, broker_id: int) -> list[Arrived]:
        """None."""
        return []
