"""Records from when to when a run has faults of links, requests, disks and clocks, for its page.

Dead and paused brokers and lost sessions are states of brokers, which trace.py records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from klamm.lab.drivers.driver import ScenarioDriver
from klamm.world.cluster import Cluster
from klamm.world.network import LinkFault
from klamm.world.views.brokers import offline_log_dirs

MOST_PERIODS: Final = 1_000
"""How many of the last ended faults are kept."""


class Fault(NamedTuple):
    """A fault, and the brokers that it concerns; none if it concerns no particular brokers."""

    broker_ids: tuple[int, ...]
    text: str


class FaultPeriod(NamedTuple):
    """A fault, and from when to when it lasted, in milliseconds since the cluster started."""

    fault: Fault
    begin_ms: float
    end_ms: float


class FaultPeriods:
    """The faults of a driver's cluster over time. ``observe`` must be called after each change."""

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self._ended: deque[FaultPeriod] = deque(maxlen=MOST_PERIODS)
        self._began_ms: dict[Fault, float] = {}

    def observe(self) -> None:
        """Record the faults that have begun or ended."""
        now_ms = self._driver.elapsed_ms
        active = dict.fromkeys(_active_faults(self._driver.cluster))
        for fault in [one for one in self._began_ms if one not in active]:
            self._ended.append(FaultPeriod(fault, self._began_ms.pop(fault), now_ms))
        for fault in active:
            self._began_ms.setdefault(fault, now_ms)

    def until(self, end_ms: float) -> list[FaultPeriod]:
        """Return all faults, by their beginnings. Those that have not ended last to ``end_ms``."""
        active = (FaultPeriod(one, at_ms, end_ms) for one, at_ms in self._began_ms.items())
        return sorted((*self._ended, *active), key=lambda period: period.begin_ms)


def _active_faults(cluster: Cluster) -> Iterator[Fault]:
    for link_fault in cluster.transport.faults:
        if link_fault.isolated:
            ids = ",".join(map(str, link_fault.isolated))
            yield Fault(link_fault.isolated, f"isolated: {ids}")
        else:
            yield Fault(_brokers_concerned(link_fault), link_fault.text)
    for request_fault in tuple(cluster.transport.request_faults):
        yield Fault(tuple(sorted(request_fault.broker_ids or ())), request_fault.effect_text)
    for disk in cluster.disks.describe():
        broker_ids = () if disk.get("journal") else (disk["broker"],)
        where = f"disk {disk['log_dir']}" if broker_ids else "disk of the journal"
        rate = f", {disk['bytes_per_s']} bytes/s" if "bytes_per_s" in disk else ""
        yield Fault(broker_ids, f"{where}: {disk['kind']}{rate}")
    for broker_id, log_dir in offline_log_dirs(cluster):
        yield Fault((broker_id,), f"log directory {log_dir} offline")
    for broker_id in cluster.spec.broker_ids:
        skew_ms = cluster.clocks[broker_id].skew_ms
        if skew_ms:
            yield Fault((broker_id,), f"clock {skew_ms:+,} ms")


def _brokers_concerned(fault: LinkFault) -> tuple[int, ...]:
    """Return the broker that all links of a fault have in common, or else all their brokers."""
    links = [{party for party in link if isinstance(party, int)} for link in fault.links or ()]
    common = set.intersection(*links) if links else set()
    return tuple(sorted(common or set().union(*links)))
