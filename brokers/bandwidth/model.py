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
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, Generic, NamedTuple, TypeVar


def max_min_fair(
    paths: Mapping[int, Sequence[int]], capacities: Mapping[int, int]
) -> dict[int, int]:
    """Return the max-min fair rate of each flow that uses a link.

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
    while shares:
        # A share in the heap is never too large, because fixing smaller rates makes shares grow.
        share, position, link = shares[0]
        if not rising[link]:
            heappop(shares)
        elif (current := free[link] // rising[link]) > share:
            heapreplace(shares, (current, position, link))
        else:
            for flow in members[link]:
                if flow not in rates:
                    rates[flow] = share
                    for used in paths[flow]:
                        free[used] -= share
                        rising[used] -= 1
    return rates


UNLIMITED: Final = 2**63 - 1
"""Kafka's default rate of a throttle, in bytes per second; it is too large to limit anything."""

_US_PER_MS: Final = 1000
PARTS_PER_US: Final = math.lcm(*range(1, 21))
"""One byte per second, in the model's unit of rate (parts per microsecond).

It is divisible by each number from 1 to 20, so that up to 20 flows can share it without rounding.
"""
_PARTS_PER_BYTE: Final = PARTS_PER_US * 1_000_000
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
    - ``counted_by``: resources that count the flow against their capacity, but do not limit the
      flow. Each of them reserves the flow's maximum rate: the smallest capacity on the path. Other
      flows share the rest of the capacity.
    """

    id: Id
    resources: tuple[Resource, ...]
    counted_by: tuple[Resource, ...] = ()


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

    - ``size``: amount to be transferred in all, in parts of a byte.
    - ``carried``: amount that has been transferred, in parts of a byte.
    - ``rate``: current rate, in parts of a byte per microsecond.
    - ``end_us``: when the flow completes; None if it never completes at its current rate.
    - ``path``, ``counted_by``: links that the flow passes through, and links that only count it.
    - ``limits``: the links of the path whose capacity is limited.
    """

    flow: Flow[Id]
    size: int
    since_us: int
    path: tuple[int, ...] = ()
    limits: tuple[int, ...] = ()
    counted_by: tuple[int, ...] = ()
    carried: int = 0
    rate: int = 0
    end_us: int | None = None

    def carried_at(self, now_us: int) -> int:
        return self.carried + self.rate * (now_us - self.since_us)

    def advance(self, now_us: int) -> None:
        self.carried, self.since_us = self.carried_at(now_us), now_us

    def end(self) -> int | None:
        """Return the time, in microseconds, at which the flow completes at its current rate.

        Return None if it never completes.
        """
        left = self.size - self.carried
        if left and not self.rate:
            return None
        return self.since_us + (-(-left // self.rate) if left else 0)


class FluidModel(Generic[Id]):
    """The flows in progress, their rates and their completion times.

    A change takes effect at the time of the last ``advance``, so call ``advance`` with the current
    time before you make a change. Rates are computed lazily, only once for all changes at the same
    time. A deep copy behaves exactly like the original.
    """

    def __init__(self, now_ms: float) -> None:
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

    def add(self, flow: Flow[Id], size_bytes: int) -> None:
        """Start a flow."""
        assert flow.id not in self._stream_numbers, f"flow {flow.id} already exists"
        assert size_bytes >= 0, f"flow {flow.id}: negative size {size_bytes}"
        number = self._stream_numbers[flow.id] = self._next_number
        self._next_number += 1
        self._streams[number] = _Stream(flow, size_bytes * _PARTS_PER_BYTE, self._now_us)
        self._attach(number)

    def change(self, flow: Flow[Id]) -> None:
        """Replace the path of the flow with the same id."""
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

    def advance(self, now_ms: float) -> list[Id]:
        """Advance the time; return the ids of the flows that completed since the last call.

        The flows are sorted by completion time and then by age. Bandwidth released by a completed
        flow is available from the time of its completion, not only from ``now_ms``.
        """
        now_us = _microseconds(now_ms)
        assert now_us >= self._now_us, f"time went backwards from {self._now_us} to {now_us} us"
        completed = []
        while (end_us := self._next_end()) is not None and end_us <= now_us:
            self._now_us = end_us
            completed.append(self._drop(heappop(self._ends)[1]))
        self._now_us = now_us
        return completed

    def next_completion_ms(self) -> float | None:
        """Return the time at which the next flow completes, in milliseconds.

        The time is rounded up to a whole microsecond; it is None if no flow will complete.
        """
        end_us = self._next_end()
        return None if end_us is None else end_us / _US_PER_MS

    def carried_bytes(self, flow_id: Id) -> int:
        """Return the number of whole bytes that a flow has transferred so far."""
        stream = self._streams[self._stream_numbers[flow_id]]
        return stream.carried_at(self._now_us) // _PARTS_PER_BYTE

    # -- streams and links

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

    def _drop(self, number: int) -> Id:
        self._detach(number)
        self._changed_streams.pop(number, None)
        flow_id = self._streams.pop(number).flow.id
        del self._stream_numbers[flow_id]
        return flow_id

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
            {
                link: self._room(link) * PARTS_PER_US
                for link in sorted(links, key=links.__getitem__)
            },
        )
        for number, stream in streams.items():
            rate = new_rates.get(number, UNLIMITED * PARTS_PER_US)
            if stream.rate != rate:
                stream.advance(self._now_us)
                stream.rate = rate
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
        capacities = (self._links[link].capacity_bytes_per_s for link in stream.path)
        return min(capacities, default=UNLIMITED)


def _microseconds(now_ms: float) -> int:
    return round(now_ms * _US_PER_MS)
