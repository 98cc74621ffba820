"""What can be done to a cluster, in either world: one protocol.

RealCluster and SimulatedWorld implement it. How time passes, and how messages are lost, is each
world's own.
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
    """Brokers, controllers and their disks. Each action raises UsageError for a broker that does
    not run."""

    @property
    def spec(self) -> ClusterSpec:
        """What the cluster is made of."""
        ...

    @property
    def clock(self) -> Clock:
        """The cluster's time: virtual in the simulated world."""
        ...

    @property
    def transport(self) -> RoutedTransport:
        """Messages of brokers, controllers and clients; ``isolated`` cuts brokers off."""
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
        """The brokers that run; ``node.broker`` of each is the broker."""
        ...

    @property
    def errors(self) -> Sequence[str]:
        """What went wrong inside brokers and controllers, a line each: bugs."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker. Raises UsageError if it runs."""
        ...

    def begin_start_all(self) -> None:
        """Start every broker of the spec without waiting; their controllers wait for
        ``begin_candidacy``."""
        ...

    def begin_candidacy(self, broker_id: int) -> None:
        """Let a controller that was held at its start be a candidate."""
        ...

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker: its session ends when it times out.

        With ``loses_unflushed`` its machine stopped, too: each log loses what was not flushed.
        """
        ...

    def shut_down(self, broker_id: int) -> None:
        """Shut a broker down in a controlled way: it ends once the controller has moved away its
        leaderships, or has been asked often enough. Returns before that in the simulated world.
        """
        ...

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller; no heartbeat leaves them."""
        ...

    def resume(self, broker_id: int) -> None:
        """Let a paused broker continue where it was."""
        ...

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker."""
        ...


def brokers_of(cluster: Cluster) -> list[Broker]:
    """Return the brokers that run; look at them only while none handles an event."""
    return [running.node.broker for running in tuple(cluster.nodes.values())]
