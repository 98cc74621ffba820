"""Protocol for controlling a cluster in either world.

RealCluster and SimulatedWorld implement it. Each world has its own passage of time and loss of
messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from klamm.brokers.broker import Broker
from klamm.cluster.protocols import Clock
from klamm.controller.request_sender import RequestTap
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.disks import ClusterDisks
from klamm.runtime.transport import RoutedTransport


class Cluster(Protocol):
    """Brokers, controllers and their disks.

    Each action raises UsageError for a broker that is not running."""

    @property
    def spec(self) -> ClusterSpec:
        """The specification of the cluster."""
        ...

    @property
    def clock(self) -> Clock:
        """The cluster's clock: virtual in the simulated world."""
        ...

    @property
    def transport(self) -> RoutedTransport:
        """Transport of brokers, controllers and clients; ``isolated`` cuts brokers off."""
        ...

    @property
    def request_taps(self) -> list[RequestTap]:
        """Called with each request that a controller queues for a broker."""
        ...

    @property
    def disks(self) -> ClusterDisks:
        """The disks, for fault injection."""
        ...

    @property
    def nodes(self) -> Mapping[int, Any]:
        """The running brokers by id; ``node.broker`` of each is the broker."""
        ...

    @property
    def errors(self) -> Sequence[str]:
        """Internal errors of brokers and controllers, one line each: these are bugs."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker. Raises UsageError if it is running."""
        ...

    def begin_start_all(self) -> None:
        """Start every broker of the spec without waiting.

        Their controllers are held until ``begin_candidacy``."""
        ...

    def begin_candidacy(self, broker_id: int) -> None:
        """Make a held controller a candidate."""
        ...

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker; its session expires after its timeout.

        With ``loses_unflushed`` its machine crashes, too: logs lose their unflushed data.
        """
        ...

    def shut_down(self, broker_id: int) -> None:
        """Shut a broker down in a controlled way.

        It ends when the controller has moved its leaderships away, or after the last retry. In the
        simulated world this returns before the end.
        """
        ...

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller; no heartbeats are sent."""
        ...

    def resume(self, broker_id: int) -> None:
        """Resume a paused broker."""
        ...

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker."""
        ...


def brokers_of(cluster: Cluster) -> list[Broker]:
    """Return the running brokers; inspect them only while none handles an event."""
    return [running.node.broker for running in tuple(cluster.nodes.values())]
