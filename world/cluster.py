"""Protocol for controlling a cluster.

Implemented by RealCluster and SimulatedWorld, and by KafkaCluster, whose brokers are Kafka's. The
passing of time and the loss of messages are not part of the protocol, because they differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from klamm.brokers.broker import KafkaServer
from klamm.brokers.logs.log_journal import LogJournal
from klamm.cluster.disk_faults import DiskFault
from klamm.cluster.protocols import Clock
from klamm.cluster.status import ActiveDiskFault
from klamm.controller.request_sender import RequestTap
from klamm.statemachines.context import ControllerContext
from klamm.world.clock import MachineClocks
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.node import Node
from klamm.world.transport import RoutedTransport


class Disks(Protocol):
    """The disks of a cluster, for fault injection. ``ClusterDisks`` describes the methods."""

    def fail(self, broker_id: int, log_dir: str | None, fault: DiskFault) -> None:
        """Inject a fault into one or all log directories of a broker."""
        ...

    def slow(self, broker_id: int, log_dir: str | None, bytes_per_s: int) -> None:
        """Limit the rate at which replicas are copied to and from log directories."""
        ...

    def fail_journal(self, fault: DiskFault) -> None:
        """Inject a fault into the journal's file."""
        ...

    def heal(self) -> None:
        """End all disk faults."""
        ...

    def describe(self) -> list[ActiveDiskFault]:
        """Return the active faults."""
        ...


class Cluster(Protocol):
    """A cluster of brokers and controllers, with its disks.

    Unless noted otherwise, an action on a broker that is not running raises WrongState."""

    @property
    def spec(self) -> ClusterSpec:
        """The specification of the cluster."""
        ...

    @property
    def clock(self) -> Clock:
        """The cluster's clock, which is a virtual clock in the simulated world."""
        ...

    @property
    def clocks(self) -> MachineClocks:
        """The clocks of the brokers' machines. Change their ``skew_ms`` to let them differ."""
        ...

    @property
    def transport(self) -> RoutedTransport:
        """Transport between brokers, controllers and clients.

        Set its ``faults`` to cut, clog, delay or degrade links, also those with ZooKeeper."""
        ...

    @property
    def log_journal(self) -> LogJournal:
        """Receives journal rows about logs and corrupt batches."""
        ...

    @property
    def request_taps(self) -> list[RequestTap]:
        """Functions that are called with each control request when it is queued for a broker."""
        ...

    @property
    def disks(self) -> Disks:
        """The disks of the cluster, for fault injection."""
        ...

    @property
    def nodes(self) -> Mapping[int, Any]:
        """The running nodes, keyed by broker id. ``nodes[id].node.broker`` is the Broker.

        ``nodes[id].node`` is None for a broker of Kafka."""
        ...

    @property
    def controller_context(self) -> ControllerContext | None:
        """The active controller's context, or None if there is none in this process."""
        ...

    @property
    def errors(self) -> Sequence[str]:
        """Internal errors of brokers and controllers, one line each. Each of them is a bug."""
        ...

    def start(self, broker_id: int) -> None:
        """Start a broker. Raises WrongState if the broker is already running."""
        ...

    def begin_start_all(self) -> None:
        """Start every broker in the spec, without waiting for the brokers to register.

        Their controllers do not take part in elections until ``begin_candidacy``."""
        ...

    def begin_candidacy(self, broker_id: int) -> None:
        """Let the controller on a broker take part in elections."""
        ...

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker. Its session expires after the session timeout.

        If ``loses_unflushed``, its machine crashes as well: the logs lose their unflushed data.
        """
        ...

    def kill_all(self) -> None:
        """Kill the process of the whole cluster.

        ZooKeeper, the disks and the clients survive."""
        ...

    def shut_down(self, broker_id: int) -> None:
        """Start a controlled shutdown of a broker.

        The broker stops when the controller has moved its leaderships away, or after the last
        retry. In the simulated world this method returns before the broker has stopped.
        """
        ...

    def pause(self, broker_id: int) -> None:
        """Freeze a broker and its controller. They send no heartbeats until ``resume``."""
        ...

    @property
    def paused_broker_ids(self) -> frozenset[int]:
        """Ids of the paused brokers."""
        ...

    def resume(self, broker_id: int) -> None:
        """Resume a paused broker."""
        ...

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker."""
        ...

    @property
    def failed_log_dir_broker_ids(self) -> frozenset[int]:
        """Ids of the running brokers with a failed log directory."""
        ...


def nodes_of(cluster: Cluster) -> list[Node]:
    """Return the running nodes, except brokers of Kafka, which klamm cannot inspect."""
    nodes = (running.node for running in tuple(cluster.nodes.values()))
    return [node for node in nodes if node is not None]


def brokers_of(cluster: Cluster) -> list[KafkaServer]:
    """Return the running brokers. Inspect them only while no broker is handling an event."""
    return [node.broker for node in nodes_of(cluster)]
