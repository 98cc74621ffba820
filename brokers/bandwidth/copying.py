"""All copies in progress in a cluster: replication and directory moves under bandwidth limits.

A leader with records for a follower, and a broker that moves a replica to another directory, begin
a copy here if a network, a disk or a throttle limits it. Rates come from the fluid model in
model.py, so that even a copy of hours is one event. Kafka has no such file: its brokers wait for
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
"""Returns the log directory of a broker's replica; None without one."""


class ReplicaCopy(NamedTuple):
    """Id of a copy from a leader to a follower."""

    topic_partition: TopicPartition
    leader: int
    follower: int


class DirectoryMove(NamedTuple):
    """Id of a copy from one log directory of a broker to another."""

    topic_partition: TopicPartition
    broker_id: int


CopyId = ReplicaCopy | DirectoryMove


class Arrived(NamedTuple):
    """Bytes that a copy has carried, since it began or since it was last taken.

    ``answer``: the leader's response with these records, if the follower is to apply it.
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
"""Hands an event to an actor; lost if there is none at the address."""
Reaches = Callable[[Address, Address], bool]


@dataclass(slots=True)
class _CopyInProgress:
    """A copy in progress. ``answer``: the rest that the follower is to receive.

    ``taken_bytes``: bytes of it already taken. ``start``: leader epoch and offset of the first
    record; None for a directory move."""

    size_bytes: int
    answer: FetchedPartition | None
    start: tuple[int, int] | None
    taken_bytes: int = 0


class Copying:
    """The copies of a cluster, used only by the thread of the brokers.

    Without ``set_capacities`` nothing is limited, and unlimited copies do not pass through here.
    When a copy arrives, its owner (a leader, or a broker that moves a replica) is given an
    ``Arrived`` event. Records go to the follower by the transport, as an unsolicited response. A
    move carries no data: its owner reads and appends when it is notified, or when it ends the move.
    ``reaches``: True if records from one broker reach another.
    ``on_change``: called when the time of the next arrival may have changed.
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
        self._copies: dict[CopyId, _CopyInProgress] = {}

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def next_due_ms(self) -> float | None:
        """Return when the next copy arrives, in monotonic milliseconds; None: never."""
        return self._model.next_completion_ms() if self._copies else None

    def on_timer(self) -> None:
        """Deliver all copies that have arrived."""
        self._advance()

    # -- capacities

    @property
    def is_limited(self) -> bool:
        """True if anything limits a copy in this cluster."""
        return bool(self._capacities or self._copies)

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """Add a starting broker and its log directories.

        ``reserve_all`` makes all its reservations. It is called when a resource becomes limited; no
        reservation is needed before."""
        self._paths[broker_id] = path_of
        self._reserve_all[broker_id] = reserve_all

    def place_of(self, partition: TopicPartition, broker_id: int) -> Place:
        """Return the place of a broker's replica; its directory is "" if there is none."""
        path_of = self._paths.get(broker_id)
        return Place(broker_id, (path_of and path_of(partition)) or "")

    def set_capacities(self, capacities: Mapping[Resource, int]) -> None:
        """Set the capacity of resources in bytes per second; UNLIMITED removes the limit."""
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
        """Reserve bandwidth for constant-rate traffic ahead of replica copies, in bytes per second.

        Replaces the partition's earlier reservation; an empty ``traffic`` ends it."""
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
        """Pause or resume all copies from and to a broker, as with its process."""
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
        """Begin a copy; return False if nothing on its path limits it, so that it is immediate.

        Also False if a link is cut: the transport then drops the message. ``answer``: the leader's
        response. A copy with the same id and start position continues instead; one with another
        start position is dropped.
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
        self._copies[flow.id] = _CopyInProgress(size_bytes, answer, start)
        self._model.add(flow, size_bytes)
        self._changed()
        return True

    def change(self, flow: Flow[CopyId]) -> None:
        """Change the path of a copy in progress."""
        self._advance()
        if flow.id in self._copies:
            self._model.change(flow)
            self._changed()

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """Return the copies in progress that a broker owns."""
        return [copy_id for copy_id in self._copies if _owner_of(copy_id) == broker_id]

    def in_progress(self) -> list[tuple[CopyId, int]]:
        """Return every copy with the bytes it has carried."""
        self._advance()
        return [(copy_id, self._model.carried_bytes(copy_id)) for copy_id in self._copies]

    def take(self, copy_id: CopyId) -> Arrived | None:
        """Take the whole batches that a copy has carried by now; the copy continues.

        None if there is no such copy, or no whole batch has arrived."""
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
        """Take the records that have arrived of all copies to a follower."""
        found = [self.take(copy_id) for copy_id in self._to(follower)]
        return [arrived for arrived in found if arrived is not None]

    def end(self, copy_id: CopyId) -> Arrived | None:
        """End a copy, notify its owner, and return what ``take`` returns; the rest is lost."""
        arrived = self.take(copy_id)
        if copy_id in self._copies:
            self._notify(Arrived(copy_id, self._remove(copy_id)))
        return arrived

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """End a copy for its leader: the records sent so far arrive as a shorter response."""
        arrived = self.end(copy_id)
        if arrived is not None and arrived.answer is not None:
            self._send(_message(copy_id, arrived.answer))

    def cut(self, broker_id: int) -> list[Arrived]:
        """End all copies of a broker that dies.

        Records it had sent arrive as shorter responses. Returns the parts that had arrived at this
        broker, and its directory moves."""
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
        """End the copies over links that were cut; records that had passed the link arrive."""
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
        self._notify(Arrived(copy_id, known.size_bytes))

    def _remove(self, copy_id: CopyId) -> int:
        """Remove a copy; return the bytes it has carried."""
        del self._copies[copy_id]
        self._changed()
        return self._model.remove(copy_id)

    def _notify(self, arrived: Arrived) -> None:
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
        FetchResponse({copy_id.topic_partition: answer}, is_unsolicited=True),
    )
