"""Fluid model of bandwidth: how flows share networks, disks and throttles, and when they complete.

A flow uses every resource on its path at the same rate. Rates are max-min fair (Bertsekas and
Gallager, Data Networks, 6.5.2). A transfer of any length is therefore a single event, its
completion, as in flow-level simulators such as SimGrid. As in SimGrid's LMM solver, a change
recomputes only the rates of flows that share resources with it, directly or through other flows.

All quantities are integers. Time is in microseconds, and bytes are divided into parts so small that
one byte per second, shared by up to 20 flows, is a whole number of parts per microsecond.
Therefore rounding errors do not accumulate, and the order of calls and flows does not matter. The
model has no clock (times are arguments) and does not depend on brokers or logs;
replication_quotas.py maps replication to flows. Kafka has no equivalent: its networks and disks are
real.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, NamedTuple, TypeVar


def max_min_fair(
    paths: Mapping[int, Sequence[int]], demands: Mapping[int, int], capacities: Mapping[int, int]
) -> dict[int, int]:
    """Return the max-min fair rate of each flow. No rate exceeds the flow's demand.

    ``paths`` lists the links (shared resources) that each flow uses; a link may be listed twice.
    Rates are rounded down, so less than one unit per flow may remain unused on a link. If two links
    have equal shares, the first of them in ``capacities`` is filled first.
    """
    members: dict[int, list[int]] = {link: [] for link in capacities}
    for flow, path in paths.items():
        for link in path:
            members[link].append(flow)
    free = dict(capacities)
    rising = {link: len(flows) for link, flows in members.items()}
    shares = [
        (free[link] // count, position, link)
        for position, (link, count) in enumerate(rising.items())
        if count
    ]
    heapify(shares)
    rates: dict[int, int] = {}

    def fix_rate(flow: int, rate: int) -> None:
        rates[flow] = rate
        for link in paths[flow]:
            free[link] -= rate
            rising[link] -= 1

    for flow in sorted(demands, key=demands.__getitem__):
        # A share in the heap is never too large, because fixing smaller rates makes shares grow.
        while flow not in rates and shares and shares[0][0] < demands[flow]:
            share, position, link = shares[0]
            if not rising[link]:
                heappop(shares)
            elif (current := free[link] // rising[link]) > share:
                heapreplace(shares, (current, position, link))
            else:
                for member in members[link]:
                    if member not in rates:
                        fix_rate(member, share)
        if flow not in rates:
            fix_rate(flow, demands[flow])
    return rates


UNLIMITED: Final = 2**63 - 1
"""Kafka's default rate of a throttle, in bytes per second; it is too large to limit anything."""

_US_PER_MS: Final = 1000
_PARTS_PER_US: Final = math.lcm(*range(1, 21))
"""One byte per second, in the model's unit of rate (parts per microsecond).

It is divisible by each number from 1 to 20, so that up to 20 flows can share it without rounding.
"""
_PARTS_PER_BYTE: Final = _PARTS_PER_US * 1_000_000
_SPARE_ENDS: Final = 64

Id = TypeVar("Id", bound=Hashable)


class ResourceKind(StrEnum):
    """Kinds of resources that flows share: disks, networks and throttles."""

    DISK = "disk"
    NETWORK_IN = "network_in"
    NETWORK_OUT = "network_out"
    LEADER_THROTTLE = "leader_throttle"
    FOLLOWER_THROTTLE = "follower_throttle"
    MOVE_THROTTLE = "move_throttle"


class Resource(NamedTuple):
    """A resource whose bandwidth is shared by flows. For a disk, ``log_dir`` is set."""

    kind: ResourceKind
    broker_id: int
    log_dir: str = ""


@dataclass(frozen=True, slots=True)
class Flow(Generic[Id]):
    """A transfer of bytes through resources.

    - ``resources``: the path of the flow. A resource that is listed twice is used twice.
    - ``demand_bytes_per_s``: maximum rate of the flow.
    - ``counted_by``: resources that count the flow against their capacity, but do not limit the
      flow. Each of them reserves the flow's maximum rate: the demand, or the smallest capacity on
      the path if that is less. Other flows share the rest of the capacity.
    """

    id: Id
    resources: tuple[Resource, ...]
    demand_bytes_per_s: int = UNLIMITED
    counted_by: tuple[Resource, ...] = ()


class Completed(NamedTuple, Generic[Id]):
    """A flow that has transferred all its bytes."""

    flow_id: Id
    at_ms: float
    carried_bytes: int


def rates(flows: Iterable[Flow[Id]], capacities: Mapping[Resource, int]) -> dict[Id, Fraction]:
    """Return the rate of each flow in bytes per second, in the order of the flows.

    ``capacities`` are in bytes per second; a resource without a capacity is unlimited.
    """
    model = FluidModel[Id](capacities)
    for flow in flows:
        model.add(flow)
    return model.rates()


@dataclass(slots=True)
class _Link:
    """A resource and its streams, identified by number.

    - ``streams``: streams that pass through the resource.
    - ``counted``: streams that the resource counts but does not limit.
    """

    name: Resource
    capacity_bytes_per_s: int = UNLIMITED
    streams: dict[int, None] = field(default_factory=dict)
    counted: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Stream(Generic[Id]):
    """State of a flow at the time ``since_us``. Links are identified by their numbers.

    - ``left``: amount still to be transferred, in parts of a byte; None if the flow is unbounded.
    - ``carried``: amount that has been transferred, in parts of a byte.
    - ``rate``: current rate, in parts of a byte per microsecond.
    - ``end_us``: when the flow completes; None if it never completes at its current rate.
    - ``path``, ``counted_by``: links that the flow passes through, and links that only count it.
    - ``limits``: the links of the path whose capacity is limited.
    """

    flow: Flow[Id]
    left: int | None
    since_us: int
    path: tuple[int, ...] = ()
    limits: tuple[int, ...] = ()
    counted_by: tuple[int, ...] = ()
    carried: int = 0
    rate: int = 0
    end_us: int | None = None

    def carried_at(self, now_us: int) -> int:
        return self.carried + self.rate * (now_us - self.since_us)

    def left_at(self, now_us: int) -> int | None:
        return None if self.left is None else self.left - self.rate * (now_us - self.since_us)

    def advance(self, now_us: int) -> None:
        self.left, self.carried = self.left_at(now_us), self.carried_at(now_us)
        self.since_us = now_us

    def end(self) -> int | None:
        """Return the time, in microseconds, at which the flow completes at its current rate.

        Return None if it never completes.
        """
        if self.left is None or (self.left and not self.rate):
            return None
        return self.since_us + (-(-self.left // self.rate) if self.left else 0)


class FluidModel(Generic[Id]):
    """The flows in progress, their rates and their completion times.

    A change takes effect at the time of the last ``advance``, so call ``advance`` with the current
    time before you make a change. Rates are computed lazily, only once for all changes at the same
    time. A deep copy behaves exactly like the original.
    """

    def __init__(self, capacities: Mapping[Resource, int] | None = None, now_ms: float = 0) -> None:
        self._now_us = _microseconds(now_ms)
        self._links: list[_Link] = []
        self._link_numbers: dict[Resource, int] = {}
        self._streams: dict[int, _Stream[Id]] = {}
        self._stream_numbers: dict[Id, int] = {}
        self._next_number = 0
        self._ends: list[tuple[int, int]] = []
        """Heap of (end_us, stream number). Outdated entries are skipped."""
        self._changed_links: dict[int, None] = {}
        self._changed_streams: dict[int, None] = {}
        for resource, bytes_per_s in (capacities or {}).items():
            self.set_capacity(resource, bytes_per_s)

    # -- changes

    def set_capacity(self, resource: Resource, bytes_per_s: int) -> None:
        """Set the capacity of a resource. The default is UNLIMITED."""
        assert bytes_per_s >= 0, f"negative capacity of {resource}: {bytes_per_s} bytes per second"
        number = self._link(resource)
        link = self._links[number]
        if link.capacity_bytes_per_s != bytes_per_s:
            link.capacity_bytes_per_s = bytes_per_s
            self._changed_links[number] = None
            for stream in link.streams:
                self._find_limits(self._streams[stream])

    def add(self, flow: Flow[Id], size_bytes: int | None = None) -> None:
        """Start a flow. If ``size_bytes`` is None, the flow continues until it is removed."""
        assert flow.id not in self._stream_numbers, f"flow {flow.id} already exists"
        assert size_bytes is None or size_bytes >= 0, f"flow {flow.id}: negative size {size_bytes}"
        left = None if size_bytes is None else size_bytes * _PARTS_PER_BYTE
        number = self._stream_numbers[flow.id] = self._next_number
        self._next_number += 1
        self._streams[number] = _Stream(flow, left, self._now_us)
        self._attach(number)

    def change(self, flow: Flow[Id]) -> None:
        """Replace the path and the demand of the flow with the same id."""
        number = self._stream_numbers[flow.id]
        stream = self._streams[number]
        stream.advance(self._now_us)
        self._detach(number)
        stream.flow = flow
        self._attach(number)

    def remove(self, flow_id: Id) -> int:
        """Remove a flow, completed or not; return the number of whole bytes it has transferred."""
        carried_bytes = self.carried_bytes(flow_id)
        self._drop(self._stream_numbers[flow_id])
        return carried_bytes

    # -- time

    @property
    def now_ms(self) -> float:
        """Time of the last ``advance``, in milliseconds."""
        return self._now_us / _US_PER_MS

    def advance(self, now_ms: float) -> list[Completed[Id]]:
        """Advance the time; return the flows that completed since the last call.

        The flows are sorted by completion time and then by age. Bandwidth released by a completed
        flow is available from the time of its completion, not only from ``now_ms``.
        """
        now_us = _microseconds(now_ms)
        assert now_us >= self._now_us, f"time went backwards from {self.now_ms} to {now_ms} ms"
        completed = []
        while (end_us := self._next_end()) is not None and end_us <= now_us:
            self._now_us = end_us
            completed.append(self._complete(heappop(self._ends)[1]))
        self._now_us = now_us
        return completed

    def next_completion_ms(self) -> float | None:
        """Return the time at which the next flow completes, in milliseconds.

        The time is rounded up to a whole microsecond; it is None if no flow will complete.
        """
        end_us = self._next_end()
        return None if end_us is None else end_us / _US_PER_MS

    # -- queries

    def __contains__(self, flow_id: Id) -> bool:
        return flow_id in self._stream_numbers

    def __len__(self) -> int:
        return len(self._streams)

    def rates(self) -> dict[Id, Fraction]:
        """Return the current rate of each flow in bytes per second, oldest flow first."""
        self._recompute()
        return {s.flow.id: Fraction(s.rate, _PARTS_PER_US) for s in self._streams.values()}

    def carried_bytes(self, flow_id: Id) -> int:
        """Return the number of whole bytes that a flow has transferred so far."""
        return self._stream(flow_id).carried_at(self._now_us) // _PARTS_PER_BYTE

    def left_bytes(self, flow_id: Id) -> int | None:
        """Return the number of bytes still to be transferred, rounded up.

        Return None if the flow is unbounded.
        """
        left = self._stream(flow_id).left_at(self._now_us)
        return None if left is None else -(-left // _PARTS_PER_BYTE)

    # -- streams and links

    def _stream(self, flow_id: Id) -> _Stream[Id]:
        return self._streams[self._stream_numbers[flow_id]]

    def _link(self, resource: Resource) -> int:
        number = self._link_numbers.get(resource)
        if number is None:
            number = self._link_numbers[resource] = len(self._links)
            self._links.append(_Link(resource))
        return number

    def _attach(self, number: int) -> None:
        stream = self._streams[number]
        stream.path = tuple(self._link(resource) for resource in stream.flow.resources)
        stream.counted_by = tuple(self._link(resource) for resource in stream.flow.counted_by)
        for link in stream.path:
            self._links[link].streams[number] = None
        for link in stream.counted_by:
            self._links[link].counted[number] = None
        self._find_limits(stream)
        self._changed_streams[number] = None

    def _find_limits(self, stream: _Stream[Id]) -> None:
        limited = (n for n in stream.path if self._links[n].capacity_bytes_per_s < UNLIMITED)
        stream.limits = tuple(limited)

    def _detach(self, number: int) -> None:
        stream = self._streams[number]
        for link in stream.path:
            self._links[link].streams.pop(number, None)
        for link in stream.counted_by:
            self._links[link].counted.pop(number, None)
        self._changed_links |= dict.fromkeys(stream.limits + stream.counted_by)

    def _drop(self, number: int) -> None:
        self._detach(number)
        self._changed_streams.pop(number, None)
        del self._stream_numbers[self._streams.pop(number).flow.id]

    def _complete(self, number: int) -> Completed[Id]:
        stream = self._streams[number]
        stream.advance(self._now_us)
        # The flow ended within the last microsecond: bytes beyond its size were not transferred.
        arrived = stream.carried + (stream.left or 0)
        self._drop(number)
        return Completed(stream.flow.id, self.now_ms, arrived // _PARTS_PER_BYTE)

    def _next_end(self) -> int | None:
        self._recompute()
        while self._ends:
            end_us, number = self._ends[0]
            if number in self._streams and self._streams[number].end_us == end_us:
                return end_us
            heappop(self._ends)
        return None

    # -- rates

    def _recompute(self) -> None:
        if not self._changed_links and not self._changed_streams:
            return
        streams = self._affected()
        self._changed_links, self._changed_streams = {}, {}
        paths = {n: stream.limits for n, stream in streams.items()}
        links = {link: self._links[link].name for path in paths.values() for link in path}
        new_rates = max_min_fair(
            paths,
            {n: s.flow.demand_bytes_per_s * _PARTS_PER_US for n, s in streams.items()},
            {
                link: self._room(link) * _PARTS_PER_US
                for link in sorted(links, key=links.__getitem__)
            },
        )
        for number, stream in streams.items():
            if stream.rate != new_rates[number]:
                stream.advance(self._now_us)
                stream.rate = new_rates[number]
            end_us = stream.end()
            if end_us != stream.end_us:
                stream.end_us = end_us
                if end_us is not None:
                    heappush(self._ends, (end_us, number))
        if len(self._ends) > 2 * len(self._streams) + _SPARE_ENDS:
            ends = ((stream.end_us, n) for n, stream in self._streams.items())
            self._ends = [(end_us, n) for end_us, n in ends if end_us is not None]
            heapify(self._ends)

    def _affected(self) -> dict[int, _Stream[Id]]:
        """Return the streams whose rates may have changed.

        These are the changed streams, and all streams that share a limited link with one of them or
        with a changed link, directly or through other streams.
        """
        found = {number: self._streams[number] for number in self._changed_streams}
        waiting = list(self._changed_links)
        seen = dict(self._changed_links)
        fresh = list(found.values())
        while fresh or waiting:
            while fresh:
                stream = fresh.pop()
                for link in stream.limits + stream.counted_by:
                    if link not in seen:
                        seen[link] = None
                        waiting.append(link)
            if waiting:
                for number in self._links[waiting.pop()].streams:
                    if number not in found:
                        found[number] = self._streams[number]
                        fresh.append(found[number])
        return found

    def _room(self, number: int) -> int:
        """Return the part of a link's capacity that the streams in ``counted`` do not reserve."""
        link = self._links[number]
        counted = sum(self._bound(self._streams[n]) for n in link.counted)
        return max(0, link.capacity_bytes_per_s - counted)

    def _bound(self, stream: _Stream[Id]) -> int:
        capacities = [self._links[link].capacity_bytes_per_s for link in stream.path]
        return min([stream.flow.demand_bytes_per_s, *capacities])


def _microseconds(now_ms: float) -> int:
    return round(now_ms * _US_PER_MS)
