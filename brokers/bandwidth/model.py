"""Fluid model of bandwidth: flows share networks, disks and throttles, and have completion times.

A flow takes the same rate of every resource on its path; rates are max-min fair (Bertsekas
and Gallager, Data Networks, 6.5.2). A copy of any length is therefore a single event, its
completion, as in flow-level simulators such as SimGrid. Like SimGrid's LMM solver, a change
recomputes only the flows and resources connected to it.

Everything is an integer: time in microseconds, and bytes in fractions small enough that one byte
per second shared by up to 20 flows is a whole number of fractions per microsecond. So nothing
drifts, the order of calls and flows does not matter, and the rounding error of a share is below
one fraction. No clock (times are arguments), no brokers, no logs; replication_quotas.py maps
replication to flows. Kafka has no such file: its networks and disks are real.
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
    paths: Mapping[int, Sequence[int]], demands: Mapping[int, int], rooms: Mapping[int, int]
) -> dict[int, int]:
    """Return the max-min fair rate of each flow, at most its demand.

    ``paths``: the links of each flow; a link named twice carries the flow twice. ``rooms``:
    capacity of each link. Shares are rounded down: a link used n times may keep less than n free.
    Of two links with equal shares, the first in ``rooms`` is filled first.
    """
    members: dict[int, list[int]] = {link: [] for link in rooms}
    for flow, path in paths.items():
        for link in path:
            members[link].append(flow)
    free = dict(rooms)
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
        # A share in the heap is never too large: shares grow as other flows get fixed below them.
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
"""Bytes per second: Kafka's value for a throttle that is not set; no flow here exceeds it."""

_US_PER_MS: Final = 1000
_PARTS_PER_US: Final = math.lcm(*range(1, 21))
"""One byte per second, in fractions per microsecond."""
_PARTS_PER_BYTE: Final = _PARTS_PER_US * 1_000_000
_SPARE_ENDS: Final = 64

Id = TypeVar("Id", bound=Hashable)


class ResourceKind(StrEnum):
    """Kinds of shared resources."""

    DISK = "disk"
    NETWORK_IN = "network_in"
    NETWORK_OUT = "network_out"
    LEADER_THROTTLE = "leader_throttle"
    FOLLOWER_THROTTLE = "follower_throttle"
    MOVE_THROTTLE = "move_throttle"


class Resource(NamedTuple):
    """A resource that flows share. ``log_dir``: selects one of the broker's disks."""

    kind: ResourceKind
    broker_id: int
    log_dir: str = ""


@dataclass(frozen=True, slots=True)
class Flow(Generic[Id]):
    """A transfer. ``resources``: its path; a resource named twice is used twice.

    ``demand_bytes_per_s``: upper bound of its rate. ``counted_by``: resources that it
    uses without being limited by their capacity: by its demand, or by the smallest capacity on its
    path if that is less.
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

    ``capacities``: bytes per second; a resource without an entry is unlimited."""
    model = FluidModel[Id](capacities)
    for flow in flows:
        model.add(flow)
    return model.rates()


@dataclass(slots=True)
class _Link:
    """A resource: numbers of the ``streams`` that pass it, and of those only ``counted`` by it."""

    name: Resource
    capacity_bytes_per_s: int = UNLIMITED
    streams: dict[int, None] = field(default_factory=dict)
    counted: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class _Stream(Generic[Id]):
    """State of a flow at ``since_us``: bytes in fractions, rate in fractions per microsecond.

    ``left``: None without a size. ``end_us``: None if it never ends. ``limits``: the limited links
    of its path. Links are numbers.
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
        """Return the microsecond at which it completes at its current rate; None: never."""
        if self.left is None or (self.left and not self.rate):
            return None
        return self.since_us + (-(-self.left // self.rate) if self.left else 0)


class FluidModel(Generic[Id]):
    """Flows in progress.

    A change takes effect at the time of the last ``advance``: first advance to now, then change.
    Rates are computed lazily, so that all changes at one time cost one computation. A deep copy
    continues exactly like the original.
    """

    def __init__(self, capacities: Mapping[Resource, int] | None = None, now_ms: float = 0) -> None:
        self._now_us = _microseconds(now_ms)
        self._links: list[_Link] = []
        self._link_numbers: dict[Resource, int] = {}
        self._streams: dict[int, _Stream[Id]] = {}
        self._stream_numbers: dict[Id, int] = {}
        self._next_number = 0
        self._ends: list[tuple[int, int]] = []
        """Heap of (end_us, stream); outdated entries are skipped."""
        self._changed_links: dict[int, None] = {}
        self._changed_streams: dict[int, None] = {}
        for resource, bytes_per_s in (capacities or {}).items():
            self.set_capacity(resource, bytes_per_s)

    # -- changes

    def set_capacity(self, resource: Resource, bytes_per_s: int) -> None:
        """Set the capacity of a resource, which is UNLIMITED before the first call."""
        assert bytes_per_s >= 0, f"{resource} cannot carry {bytes_per_s} bytes a second"
        number = self._link(resource)
        link = self._links[number]
        if link.capacity_bytes_per_s != bytes_per_s:
            link.capacity_bytes_per_s = bytes_per_s
            self._changed_links[number] = None
            for stream in link.streams:
                self._find_limits(self._streams[stream])

    def add(self, flow: Flow[Id], size_bytes: int | None = None) -> None:
        """Start a flow; without a size it continues until it is removed."""
        assert flow.id not in self._stream_numbers, f"flow {flow.id} already exists"
        assert size_bytes is None or size_bytes >= 0, f"flow {flow.id} has {size_bytes} bytes"
        left = None if size_bytes is None else size_bytes * _PARTS_PER_BYTE
        number = self._stream_numbers[flow.id] = self._next_number
        self._next_number += 1
        self._streams[number] = _Stream(flow, left, self._now_us)
        self._attach(number)

    def change(self, flow: Flow[Id]) -> None:
        """Replace the path or demand of the flow with this id."""
        number = self._stream_numbers[flow.id]
        stream = self._streams[number]
        stream.advance(self._now_us)
        self._detach(number)
        stream.flow = flow
        self._attach(number)

    def remove(self, flow_id: Id) -> int:
        """Remove a flow, completed or not; return the whole bytes it has transferred."""
        carried_bytes = self.carried_bytes(flow_id)
        self._drop(self._stream_numbers[flow_id])
        return carried_bytes

    # -- time

    @property
    def now_ms(self) -> float:
        """Time of the last ``advance``."""
        return self._now_us / _US_PER_MS

    def advance(self, now_ms: float) -> list[Completed[Id]]:
        """Advance the time; return the flows completed on the way, by time and then by age.

        Bandwidth released by a completed flow is available from its end on, not from now.
        """
        now_us = _microseconds(now_ms)
        assert now_us >= self._now_us, f"time went back from {self.now_ms} to {now_ms} ms"
        completed = []
        while (end_us := self._next_end()) is not None and end_us <= now_us:
            self._now_us = end_us
            completed.append(self._complete(heappop(self._ends)[1]))
        self._now_us = now_us
        return completed

    def next_completion_ms(self) -> float | None:
        """Return when the next flow completes, rounded up to microseconds; None: never."""
        end_us = self._next_end()
        return None if end_us is None else end_us / _US_PER_MS

    # -- queries

    def __contains__(self, flow_id: Id) -> bool:
        return flow_id in self._stream_numbers

    def __len__(self) -> int:
        return len(self._streams)

    def rate(self, flow_id: Id) -> Fraction:
        """Return the exact current rate of a flow in bytes per second."""
        self._recompute()
        return Fraction(self._stream(flow_id).rate, _PARTS_PER_US)

    def rates(self) -> dict[Id, Fraction]:
        """Return the current rate of each flow in bytes per second, the oldest first."""
        self._recompute()
        return {s.flow.id: Fraction(s.rate, _PARTS_PER_US) for s in self._streams.values()}

    def carried_bytes(self, flow_id: Id) -> int:
        """Return the whole bytes transferred so far."""
        return self._stream(flow_id).carried_at(self._now_us) // _PARTS_PER_BYTE

    def left_bytes(self, flow_id: Id) -> int | None:
        """Return the bytes still to be transferred, rounded up; None if the flow has no size."""
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
        # It ended within the last microsecond: a negative rest was not really transferred.
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
        """Return the streams with rates that may have changed.

        These are connected by limited links to a changed stream or link."""
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
        """Return the bytes per second of a link that are free for the streams it limits."""
        link = self._links[number]
        counted = sum(self._bound(self._streams[n]) for n in link.counted)
        return max(0, link.capacity_bytes_per_s - counted)

    def _bound(self, stream: _Stream[Id]) -> int:
        capacities = [self._links[link].capacity_bytes_per_s for link in stream.path]
        return min([stream.flow.demand_bytes_per_s, *capacities])


def _microseconds(now_ms: float) -> int:
    return round(now_ms * _US_PER_MS)
