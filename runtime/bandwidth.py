"""The copies of one cluster on its clock: what is on its way, how fast it is, when it arrives.

An actor like others, in both worlds: it sleeps until the next copy arrives, so that a copy of hours
is one event. What is limited by nothing never comes here. Rates are those of the fluid model of
brokers/bandwidth/model.py; it must not be used from another thread than that of the brokers. Kafka
has no such file: its networks and disks are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from brokers.bandwidth.copying import Arrived, CopyId, DirectoryMove, PathOf, ReplicaCopy
from brokers.bandwidth.model import UNLIMITED, Completed, Flow, FluidModel, Resource, ResourceKind
from brokers.bandwidth.replication_quotas import Place
from brokers.logs.record_parts import end_of, first_part, rest_after
from cluster.data_requests import FetchedPartition, FetchResponse
from cluster.protocols import Clock
from cluster.records import size_of
from cluster.requests import Address, Message
from cluster.types import TopicPartition
from runtime.actors import Actor
from runtime.transport import NO_CORRELATION_ID, RoutedTransport

ADDRESS = Address("bandwidth", 0)
_STOPPED_BY_A_PAUSE = (
    ResourceKind.NETWORK_IN,
    ResourceKind.NETWORK_OUT,
    ResourceKind.MOVE_THROTTLE,
)

Give = Callable[[Address, object], None]
"""Gives an event to an actor; lost if there is none."""


@dataclass(slots=True)
class _UnderWay:
    """``answer``: what the follower is still to get; ``taken_bytes`` of it were taken already.
    ``start``: leader epoch and offset of the first record; of a move None."""

    size_bytes: int
    answer: FetchedPartition | None
    start: tuple[int, int] | None
    taken_bytes: int = 0


class Bandwidth(Actor):
    """Implements Copying of brokers.bandwidth. Nothing limits a copy before ``set_capacities``."""

    is_shared = True

    def __init__(self, clock: Clock, transport: RoutedTransport, give: Give) -> None:
        super().__init__(ADDRESS, self._handle)
        self._clock = clock
        self._transport = transport
        self._give = give
        self._model = FluidModel[CopyId](now_ms=clock.monotonic_ms())
        self._capacities: dict[Resource, int] = {}
        self._traffic: dict[tuple[int, TopicPartition], Mapping[Resource, int]] = {}
        self._taken: dict[Resource, int] = {}
        self._paths: dict[int, PathOf] = {}
        self._reserve_all: dict[int, Callable[[], None]] = {}
        self._paused: dict[int, None] = {}
        self._copies: dict[CopyId, _UnderWay] = {}

    # -- as an actor

    def next_due_ms(self) -> float | None:
        """When the next copy arrives, in the clock's monotonic milliseconds."""
        return self._model.next_completion_ms() if self._copies else None

    def run_event(self) -> None:
        """Hand over what has arrived."""
        self._advance()

    def _handle(self, event: object) -> None:
        raise AssertionError(f"{self.address} has only timers, not {event}")

    # -- capacities

    @property
    def is_limited(self) -> bool:
        """False if nothing in the cluster limits any copy."""
        return bool(self._capacities or self._copies)

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """A broker starts, whose replicas are in these directories."""
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
        self.woken()

    def _set_capacity(self, resource: Resource) -> None:
        stands = resource.broker_id in self._paused and resource.kind in _STOPPED_BY_A_PAUSE
        bytes_per_s = 0 if stands else self._capacities.get(resource, UNLIMITED)
        if bytes_per_s < UNLIMITED:
            bytes_per_s = max(0, bytes_per_s - self._taken.get(resource, 0))
        self._model.set_capacity(resource, bytes_per_s)

    def reserve(
        self, partition: TopicPartition, leader: int, traffic: Mapping[Resource, int]
    ) -> None:
        """Reserve bytes a second for producers, ahead of all copies."""
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
        self.woken()

    def set_paused(self, broker_id: int, paused: bool) -> None:
        """Let all copies of a broker stand still, as connections of a paused process do, or let
        them go on."""
        self._advance()
        if paused:
            self._paused[broker_id] = None
        else:
            self._paused.pop(broker_id, None)
        for kind in _STOPPED_BY_A_PAUSE:
            self._set_capacity(Resource(kind, broker_id))
        self.woken()

    # -- copies

    def begin(
        self, flow: Flow[CopyId], size_bytes: int, answer: FetchedPartition | None = None
    ) -> bool:
        """Let a copy begin, as Copying says. One over a link that is cut is lost with its message
        by the transport."""
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
        self.woken()
        return True

    def change(self, flow: Flow[CopyId]) -> None:
        """Let a copy under way take another path."""
        self._advance()
        if flow.id in self._copies:
            self._model.change(flow)
            self.woken()

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """The copies under way that a broker owns."""
        return [copy_id for copy_id in self._copies if _owner_of(copy_id) == broker_id]

    def under_way(self) -> list[tuple[CopyId, int]]:
        """Every copy, and the bytes that it has brought."""
        self._advance()
        return [(copy_id, self._model.carried_bytes(copy_id)) for copy_id in self._copies]

    def take(self, copy_id: CopyId) -> Arrived | None:
        """What a copy has brought until now; it goes on."""
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
        """End a copy, its owner is told; returns what ``take`` does."""
        arrived = self.take(copy_id)
        if copy_id in self._copies:
            self._tell(Arrived(copy_id, self._remove(copy_id)))
        return arrived

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """The same for its leader: what it had sent arrives as a shorter answer."""
        arrived = self.end(copy_id)
        if arrived is not None and arrived.answer is not None:
            self._transport.send(_message(copy_id, arrived.answer))

    def cut(self, broker_id: int) -> list[Arrived]:
        """A broker dies, as Copying says."""
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
                    self._give(message.destination, message)

    def _reaches(self, copy_id: CopyId) -> bool:
        return isinstance(copy_id, DirectoryMove) or self._transport.reaches(
            Address("broker", copy_id.leader), Address("broker", copy_id.follower)
        )

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
            self._transport.send(_message(copy_id, known.answer))
        self._tell(Arrived(copy_id, known.size_bytes))

    def _remove(self, copy_id: CopyId) -> int:
        """Returns the bytes it has carried."""
        del self._copies[copy_id]
        self.woken()
        return self._model.remove(copy_id)

    def _tell(self, arrived: Arrived) -> None:
        self._give(Address("broker", _owner_of(arrived.copy_id)), arrived)


def _owner_of(copy_id: CopyId) -> int:
    return copy_id.leader if isinstance(copy_id, ReplicaCopy) else copy_id.broker_id


def _message(copy_id: ReplicaCopy, answer: FetchedPartition) -> Message:
    return Message(
        Address("broker", copy_id.leader),
        Address("broker", copy_id.follower),
        NO_CORRELATION_ID,
        FetchResponse({copy_id.topic_partition: answer}, is_standing=True),
    )
