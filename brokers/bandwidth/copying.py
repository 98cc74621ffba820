"""The transfers in progress with limited bandwidth: replica copies and log directory moves.

Leaders use this module to send records to followers, and brokers use it to move replicas between
log directories, if a network, a disk or a throttle limits the transfer. model.py computes the rates
and completion times, so even a copy that takes hours is only one event. Kafka has no equivalent:
its brokers wait for sockets and disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from klamm.brokers.bandwidth.model import (
    UNLIMITED,
    Flow,
    FluidModel,
    Resource,
    ResourceKind,
)
from klamm.brokers.bandwidth.replication_quotas import LogPlace
from klamm.brokers.logs.record_parts import end_of, first_part, rest_after
from klamm.cluster.data_requests import FetchedPartition, FetchResponse
from klamm.cluster.protocols import Clock
from klamm.cluster.records import size_of
from klamm.cluster.requests import NO_CORRELATION_ID, Address, Message
from klamm.cluster.types import TopicPartition

PathOf = Callable[[TopicPartition], str | None]
"""Returns the path of the log directory that contains a replica; None if there is no replica."""


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
    """Bytes that a copy has transferred since it began, or since the last ``Copying.take``.

    ``answer`` is the part of the leader's response that has been transferred. It is None for a
    directory move, and in the event that notifies the owner of a copy that the copy has ended.
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
"""Delivers an event to the actor at an address, or drops it if there is no such actor."""
Reaches = Callable[[Address, Address], bool]


@dataclass(slots=True)
class _CopyInProgress:
    """A copy in progress.

    - ``size_bytes``: the size of the whole copy.
    - ``answer``: the part of the leader's response that ``take`` has not returned yet; None for a
      directory move.
    - ``start``: the leader epoch and first offset of the response; None for a directory move.
    - ``taken_bytes``: the number of bytes that ``take`` has returned.
    """

    size_bytes: int
    answer: FetchedPartition | None
    start: tuple[int, int] | None
    taken_bytes: int = 0


class Copying:
    """The copies in progress in a cluster. Only the thread that runs the brokers may use it.

    ``set_capacities`` sets the limits. A transfer to which no limit applies bypasses this class.
    When a copy completes, its owner (the leader, or the broker that moves a replica) receives an
    ``Arrived`` event, and the follower receives the records as an unsolicited fetch response. A
    directory move carries no records: when the move completes or is ended early, its owner reads
    the records from the current log and appends them to the future log.

    - ``reaches``: returns True if messages from the first address can reach the second.
    - ``on_change``: called when the time of the next completion may have changed.
    """

    def __init__(
        self,
        clock: Clock,
        send: Callable[[Message], None],
        give: Give = lambda address, event: None,
        reaches: Reaches = lambda one, other: True,
    ) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._clock = clock
        self._send = send
        self._give = give
        self._reaches_broker = reaches
        self._model = FluidModel[CopyId](clock.monotonic_ms())
        self._capacities: dict[Resource, int] = {}
        self._traffic: dict[tuple[int, TopicPartition], Mapping[Resource, int]] = {}
        self._taken: dict[Resource, int] = {}
        self._paths: dict[int, PathOf] = {}
        self._reserve_all: dict[int, Callable[[], None]] = {}
        self._paused: dict[int, None] = {}
        self._copies: dict[CopyId, _CopyInProgress] = {}

    def next_due_ms(self) -> float | None:
        """Return the time at which the next copy completes, in monotonic milliseconds.

        Return None if no copy will complete.
        """
        return self._model.next_completion_ms() if self._copies else None

    def on_timer(self) -> None:
        """Deliver all copies that have completed."""
        self._advance()

    # -- capacities

    @property
    def is_limited(self) -> bool:
        """True if a capacity or throttle limits this cluster, or if a copy is in progress."""
        return bool(self._capacities or self._copies)

    def join(self, broker_id: int, path_of: PathOf, reserve_all: Callable[[], None]) -> None:
        """Add a starting broker. ``path_of`` returns the log directory of a replica on this broker.

        ``reserve_all`` reserves bandwidth for all constant-rate traffic of the broker. It is called
        as soon as one resource of the cluster is limited; without limits, nothing is reserved.
        """
        self._paths[broker_id] = path_of
        self._reserve_all[broker_id] = reserve_all

    def place_of(self, partition: TopicPartition, broker_id: int) -> LogPlace:
        """Return the broker and the log directory of a replica ("" if there is no replica)."""
        path_of = self._paths.get(broker_id)
        return LogPlace(broker_id, (path_of and path_of(partition)) or "")

    def set_capacities(self, capacities: Mapping[Resource, int]) -> None:
        """Set the capacity of each resource, in bytes per second; UNLIMITED removes a limit."""
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
        self.on_change()

    def _set_capacity(self, resource: Resource) -> None:
        stands = resource.broker_id in self._paused and resource.kind in _STOPPED_BY_A_PAUSE
        bytes_per_s = 0 if stands else self._capacities.get(resource, UNLIMITED)
        if bytes_per_s < UNLIMITED:
            bytes_per_s = max(0, bytes_per_s - self._taken.get(resource, 0))
        self._model.set_capacity(resource, bytes_per_s)

    def reserve(
        self, partition: TopicPartition, leader: int, traffic: Mapping[Resource, int]
    ) -> None:
        """Reserve bandwidth for a partition's constant-rate traffic, in bytes per second.

        Copies share the remaining bandwidth. The new reservation replaces the partition's previous
        reservation; an empty ``traffic`` only removes the previous reservation.
        """
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
        self.on_change()

    def set_paused(self, broker_id: int, paused: bool) -> None:
        """Pause or resume all copies from and to a broker that is itself paused or resumed."""
        self._advance()
        if paused:
            self._paused[broker_id] = None
        else:
            self._paused.pop(broker_id, None)
        for kind in _STOPPED_BY_A_PAUSE:
            self._set_capacity(Resource(kind, broker_id))
        self.on_change()

    # -- copies

    def begin(
        self, flow: Flow[CopyId], size_bytes: int, answer: FetchedPartition | None = None
    ) -> bool:
        """Begin a copy, or return False if the caller must send the records itself.

        Return False if no resource on the path is limited. Also return False if the network link
        is cut: the transport then drops the message that the caller sends.

        If a copy with the same id and the same start position is in progress, that copy continues.
        If its start position differs, the new copy replaces it. ``answer`` is the leader's
        response; it is None for a directory move.
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
        self.on_change()
        return True

    def change(self, flow: Flow[CopyId]) -> None:
        """Replace the path of the copy with the same id, if it is in progress."""
        self._advance()
        if flow.id in self._copies:
            self._model.change(flow)
            self.on_change()

    def of_owner(self, broker_id: int) -> Iterable[CopyId]:
        """Return the ids of a broker's copies to followers and between its log directories."""
        return [copy_id for copy_id in self._copies if _owner_of(copy_id) == broker_id]

    def take(self, copy_id: CopyId) -> Arrived | None:
        """Return the whole batches that a copy has transferred since the last call.

        The copy continues. Return None if there is no such copy, or no new whole batch.
        """
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
        """Call ``take`` for all copies to a follower, and return the results."""
        found = [self.take(copy_id) for copy_id in self._to(follower)]
        return [arrived for arrived in found if arrived is not None]

    def end(self, copy_id: CopyId) -> Arrived | None:
        """End a copy before it completes, and notify its owner.

        Return the batches that have arrived since the last ``take``; the rest is dropped.
        """
        arrived = self.take(copy_id)
        if copy_id in self._copies:
            self._notify(Arrived(copy_id, self._remove(copy_id)))
        return arrived

    def give_up(self, copy_id: ReplicaCopy) -> None:
        """End a copy before it completes, and send the follower the records that have arrived."""
        if (message := self._end(copy_id)) is not None:
            self._send(message)

    def _end(self, copy_id: ReplicaCopy) -> Message | None:
        arrived = self.end(copy_id)
        if arrived is None or arrived.answer is None:
            return None
        return _message(copy_id, arrived.answer)

    def cut(self, broker_id: int) -> list[Arrived]:
        """End all copies from and to a broker whose process dies.

        Followers get responses with only the records that the broker had sent. For each of the
        broker's directory moves and copies from leaders, return the data that has arrived since the
        last ``take``.
        """
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
        """End all copies whose network link was cut.

        Each follower gets the records that were transferred before the cut.
        """
        for copy_id in tuple(self._copies):
            if (
                isinstance(copy_id, ReplicaCopy)
                and not self._reaches(copy_id)
                and (message := self._end(copy_id)) is not None
            ):
                self._give(message.destination, message)

    def _reaches(self, copy_id: CopyId) -> bool:
        if isinstance(copy_id, DirectoryMove):
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
        for copy_id in self._model.advance(self._clock.monotonic_ms()):
            known = self._copies.pop(copy_id)
            if isinstance(copy_id, ReplicaCopy) and known.answer is not None:
                self._send(_message(copy_id, known.answer))
            self._notify(Arrived(copy_id, known.size_bytes))

    def _remove(self, copy_id: CopyId) -> int:
        """Remove a copy; return the number of bytes that it has transferred."""
        del self._copies[copy_id]
        self.on_change()
        return self._model.remove(copy_id)

    def _notify(self, arrived: Arrived) -> None:
        self._give(Address("broker", _owner_of(arrived.copy_id)), arrived)


def _owner_of(copy_id: CopyId) -> int:
    return copy_id.leader if isinstance(copy_id, ReplicaCopy) else copy_id.broker_id


def _message(copy_id: ReplicaCopy, answer: FetchedPartition) -> Message:
    return Message(
        Address("broker", copy_id.leader),
        Address("broker", copy_id.follower),
        NO_CORRELATION_ID,
        FetchResponse({copy_id.topic_partition: answer}, is_unsolicited=True),
    )
