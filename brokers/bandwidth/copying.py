"""The copies of one cluster on its clock: records and replicas on their way, and their arrival.

A leader that has records for a follower, and a broker that moves a replica to another directory,
begin a copy here if a network, a disk or a throttle limits it. Rates are those of the fluid model
in model.py, so that a copy of hours is one event. Kafka has no such file: its brokers wait for
sockets and disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from klamm.brokers.bandwidth.model import (
    UNLIMITED,
    Completed,
    Flow,
    FluidModel,
    Resource,
    ResourceKind,
)
from klamm.brokers.bandwidth.replication_quotas import Place
from klamm.brokers.logs.record_parts import end_of, first_part, rest_after
from klamm.cluster.data_requests import FetchedPartition, FetchResponse
from klamm.cluster.protocols import Clock
from klamm.cluster.records import size_of
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Message
from klamm.cluster.types import TopicPartition

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


_STOPPED_BY_A_PAUSE = (
    ResourceKind.NETWORK_IN,
    ResourceKind.NETWORK_OUT,
    ResourceKind.MOVE_THROTTLE,
)
Give = Callable[[Address, object], None]
"""Gives an event to an actor; lost if there is none."""
Reaches = Callable[[Address, Address], bool]


@dataclass(slots=True)
class _UnderWay:
    """``answer``: what the follower is still to get; ``taken_bytes`` of it were taken already.
    ``start``: leader epoch and offset of the first record; of a move None."""

    size_bytes: int
    answer: FetchedPartition | None
    start: tuple[int, int] | None
    taken_bytes: int = 0


class Copying:
    """The copies of a cluster. Nothing limits a copy before ``set_capacities``, and what nothing
    limits never comes here. Only one thread may use it, that of the brokers.

    When a copy has arrived, its owner (a leader, a broker that moves a replica) is given an
    ``Arrived`` as an event. What a leader sent goes to the follower by the transport, as an
    unsolicited answer. A move brings nothing: its owner reads and appends when it is notified, or
    when it ends the move. ``reaches``: whether records from one broker get to another.
    ``on_change`` is called when the next arrival may be at another time.
    """

    def __init__(
        self,
        clock: Clock,
        send: Callable[[Message], None],
        give: Give | None = None,
        reaches: Reaches | None = None,
    ) -> None:
        self.on_change: Callable[[], None] | None = None
        self._clock = clock
        self._send = send
        self._give = give
        self._reaches_broker = reaches
        self._model = FluidModel[CopyId](now_ms=clock.monotonic_ms())
        self._capacities: dict[Resource, int] = {}
        self._traffic: dict[tuple[int, TopicPartition], Mapping[Resource, int]] = {}
        self._taken: dict[Resource, int] = {}
        self._paths: dict[int, PathOf] = {}
        self._reserve_all: dict[int, Callable[[], None]] = {}
        self._paused: dict[int, None] = {}
        self._copies: dict[CopyId, _UnderWay] = {}

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def next_due_ms(self) -> float | None:
        """When the next copy arrives, in the clock's monotonic milliseconds."""
        return self._model.next_completion_ms() if self._copies else None

    def on_timer(self) -> None:
        """Hand over what has arrived."""
        self._advance()

    # -- capacities

    @property
    def is_limited(self) -> bool:
        """False if nothing in the cluster limits any copy."""
        return bool(self._capacities or self._copies)

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """A broker starts, whose replicas are in these directories. ``reserve_all`` makes all of
        its reservations: it is called when a resource becomes limited, and none is needed
        before."""
        self._paths[broker_id] = path_of
        self._reserve_all[broker_id] = reserve_all

    def place_of(self, partition: TopicPartition, broker_id: int) -> Place:
        """Where a broker has a replica; the directory is "" if it has none."""
        path_of = self._paths.get(broker_id)
        return Place(broker_id, (path_of and path_of(partition)) or "")

    def set_capacities(self, capacities: Mapping[Resource, int]) -> None:
        """Bytes a second of these resources from now on; UNLIMITED: it does not limit."""
        self._advance()
        was_limited = self.is_limited
        for resource, bytes_per_s in capacities.items():
            if bytes_per_s < UNLIMITED:
                self._capacities[resource] = bytes_per_s
            elif self._capacities.pop(resource, None) is None:
                continue
            self._set_capacity(resource)
        if self.is_limited and not was_limited:
            self._traffic.clear()
            self._taken.clear()
            for reserve_all in self._reserve_all.values():
                reserve_all()
        self._changed()

    def _set_capacity(self, resource: Resource) -> None:
        stands = resource.broker_id in self._paused and resource.kind in _STOPPED_BY_A_PAUSE
        bytes_per_s = 0 if stands else self._capacities.get(resource, UNLIMITED)
        if bytes_per_s < UNLIMITED:
            bytes_per_s = max(0, bytes_per_s - self._taken.get(resource, 0))
        self._model.set_capacity(resource, bytes_per_s)

    def reserve(
        self, partition: TopicPartition, leader: int, traffic: Mapping[Resource, int]
    ) -> None:
        """Reserve bytes a second for the producers of a partition, ahead of all copies, instead of
        an earlier reservation; of no resource: end it."""
        before = self._traffic.pop((leader, partition), {})
        if traffic:
            self._traffic[leader, partition] = traffic
        if traffic == before:
            return
        self._advance()
        for resource in {**before, **traffic}:
            added = traffic.get(resource, 0) - before.get(resource, 0)
            self._taken[resource] = self._taken.get(resource, 0) + added
            if resource in self._capacities:
                self._set_capacity(resource)
        self._changed()

    def set_paused(self, broker_id: int, paused: bool) -> None:
        """Stop all copies from and to a broker, as a paused process does, or resume them."""
        self._advance()
        if paused:
            self._paused[broker_id] = None
        else:
            self._paused.pop(broker_id, None)
        for kind in _STOPPED_BY_A_PAUSE:
            self._set_capacity(Resource(kind, broker_id))
        self._changed()

    # -- copies

    def begin(
        self, flow: Flow[CopyId], size_bytes: int, answer: FetchedPartition | None = None
    ) -> bool:
        """Let a copy begin; False if nothing on its path limits it, so that it is done at once. One
        over a link that is cut is lost with its message by the transport.

        ``answer``: what a leader sends with it. A copy with this id that is under way from the
        same place goes on instead; from another place, it is given up.
        """
        if not any(resource in self._capacities for resource in flow.resources):
            return False
        if not self._reaches(flow.id):
            return False
        self._advance()
        start = None if answer is None else (answer.leader_epoch, answer.fetch_offset)
        known = self._copies.get(flow.id)
        if known is not None:
            if known.start == start:
                return True
            self._remove(flow.id)
        self._copies[flow.id] = _UnderWay(size_bytes, answer, start)
        self._model.add(flow, size_bytes)
        self._changed()
        return True

    def change(self, flow: Flow[CopyId]) -> None:
        """Let a copy under way take another path."""
        self._advance()
        if flow.id in self._copies:
            self._model.change(flow)
            self._changed()

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """The copies under way that a broker owns."""
        return [copy_id for copy_id in self._copies if _owner_of(copy_id) == broker_id]

    def under_way(self) -> list[tuple[CopyId, int]]:
        """Every copy, and the bytes that it has brought."""
        self._advance()
        return [(copy_id, self._model.carried_bytes(copy_id)) for copy_id in self._copies]

    def take(self, copy_id: CopyId) -> Arrived | None:
        """What a copy has brought until now; it goes on. None if there is no such copy, or
        nothing whole has come."""
        self._advance()
        known = self._copies.get(copy_id)
        if known is None:
            return None
        fresh_bytes = self._model.carried_bytes(copy_id) - known.taken_bytes
        if known.answer is None:
            known.taken_bytes += fresh_bytes
            return Arrived(copy_id, fresh_bytes) if fresh_bytes else None
        records = known.answer.records
        part = None if records is None else first_part(records, fresh_bytes)
        if records is None or part is None:
            return None
        whole = known.answer
        epoch, offset = end_of(part)
        known.answer = msgspec.structs.replace(
            whole,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            records=rest_after(records, part),
        )
        known.taken_bytes += size_of(part)
        return Arrived(copy_id, size_of(part), msgspec.structs.replace(whole, records=part))

    def take_all(self, follower: int) -> list[Arrived]:
        """The same of all records on their way to a broker."""
        found = [self.take(copy_id) for copy_id in self._to(follower)]
        return [arrived for arrived in found if arrived is not None]

    def end(self, copy_id: CopyId) -> Arrived | None:
        """End a copy and notify its owner; returns what ``take`` does. The rest is lost."""
        arrived = self.take(copy_id)
        if copy_id in self._copies:
            self._tell(Arrived(copy_id, self._remove(copy_id)))
        return arrived

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """The same for its leader: what it had sent arrives as a shorter answer."""
        arrived = self.end(copy_id)
        if arrived is not None and arrived.answer is not None:
            self._send(_message(copy_id, arrived.answer))

    def cut(self, broker_id: int) -> list[Arrived]:
        """A broker dies: end all its copies. What it had sent arrives as a shorter answer, what
        had come to it, and its moves, are returned."""
        self._paused.pop(broker_id, None)
        found = []
        for copy_id in self.of_owner(broker_id):
            if isinstance(copy_id, ReplicaCopy):
                self.give_up(copy_id)
            else:
                found.append(self.end(copy_id))
        found += [self.end(copy_id) for copy_id in self._to(broker_id)]
        self._paths.pop(broker_id, None)
        self._reserve_all.pop(broker_id, None)
        for leader, partition in [key for key in self._traffic if key[0] == broker_id]:
            self.reserve(partition, leader, {})
        return [arrived for arrived in found if arrived is not None]

    def on_links_cut(self) -> None:
        """Messages do not reach everybody any more: end the copies that are concerned. What had
        passed the link arrives."""
        for copy_id in tuple(self._copies):
            if isinstance(copy_id, ReplicaCopy) and not self._reaches(copy_id):
                arrived = self.end(copy_id)
                if arrived is not None and arrived.answer is not None:
                    message = _message(copy_id, arrived.answer)
                    self._deliver(message.destination, message)

    def _reaches(self, copy_id: CopyId) -> bool:
        if isinstance(copy_id, DirectoryMove) or self._reaches_broker is None:
            return True
        leader, follower = copy_id.leader, copy_id.follower
        return self._reaches_broker(Address("broker", leader), Address("broker", follower))

    def _to(self, follower: int) -> list[CopyId]:
        return [
            copy_id
            for copy_id in self._copies
            if isinstance(copy_id, ReplicaCopy) and copy_id.follower == follower
        ]

    def _advance(self) -> None:
        for completed in self._model.advance(self._clock.monotonic_ms()):
            self._complete(completed)

    def _complete(self, completed: Completed[CopyId]) -> None:
        copy_id = completed.flow_id
        known = self._copies.pop(copy_id)
        if isinstance(copy_id, ReplicaCopy) and known.answer is not None:
            self._send(_message(copy_id, known.answer))
        self._tell(Arrived(copy_id, known.size_bytes))

    def _remove(self, copy_id: CopyId) -> int:
        """Returns the bytes it has carried."""
        del self._copies[copy_id]
        self._changed()
        return self._model.remove(copy_id)

    def _tell(self, arrived: Arrived) -> None:
        self._deliver(Address("broker", _owner_of(arrived.copy_id)), arrived)

    def _deliver(self, address: Address, event: object) -> None:
        if self._give is not None:
            self._give(address, event)


def _owner_of(copy_id: CopyId) -> int:
    return copy_id.leader if isinstance(copy_id, ReplicaCopy) else copy_id.broker_id


def _message(copy_id: ReplicaCopy, answer: FetchedPartition) -> Message:
    return Message(
        Address("broker", copy_id.leader),
        Address("broker", copy_id.follower),
        NO_CORRELATION_ID,
        FetchResponse({copy_id.topic_partition: answer}, is_standing=True),
    )
