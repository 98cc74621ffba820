"""Types of the API's responses about the state of a cluster, its brokers and its ZooKeeper.

The OpenAPI document describes the responses by these types.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

from klamm.cluster.status import (
    ActiveDiskFault,
    BrokerStatus,
    ClusterStatus,
    ZooKeeperServerState,
)


class DiskFaults(TypedDict):
    """Response to POST /disks/fail, /disks/slow and /disks/heal: all injected disk faults."""

    disk_faults: list[ActiveDiskFault]


class ZooKeeperServers(TypedDict):
    """Response to GET /zookeeper: the embedded ZooKeeper servers."""

    servers: list[ZooKeeperServerState]


class ZooKeeperServerChange(TypedDict):
    """Response to POST /zookeeper/{server}/{action}: the states before and after the action."""

    id: int
    before: str
    state: str


class Status(ClusterStatus, frozen=True, kw_only=True):
    """Response to GET /status: the status of the cluster and of the server.

    ``bootstrap_servers`` and ``security_protocol``: where and how Kafka's clients connect,
    HOST:PORT of up to three brokers; none without --listen.
    """

    klamm_version: str
    url: str | None
    data_dir: str
    uptime_ms: int
    bootstrap_servers: list[str]
    security_protocol: str | None


class BrokerStates(TypedDict):
    """Response to GET /brokers: all brokers, and the ids of the live brokers."""

    brokers: list[BrokerStatus]
    live: list[int]


class BrokerRegistration(TypedDict):
    """Response to GET /brokers/{id}: state of a broker and its ZooKeeper session."""

    id: int
    state: str
    registered: bool
    session: str | None
    session_timeout_ms: int


class StartedBroker(TypedDict):
    """Response to POST /brokers/{id}/start: the state, and how long the start took."""

    id: int
    state: str
    took_ms: int


class AddedBroker(StartedBroker):
    """Response to POST /brokers: the new broker and its rack."""

    rack: str | None


class ShutdownOutcome(TypedDict):
    """Outcome of a controlled shutdown: succeeded, failed or not attempted.

    ``remaining`` are the partitions that the broker still led at the end.
    """

    outcome: str
    error: str
    remaining: list[str]


class ChangedBroker(TypedDict):
    """Response to an action on a broker; ``state`` is the state after the action."""

    id: int
    state: str
    session_timeout_ms: NotRequired[int]
    is_session_shared: NotRequired[bool]
    controlled_shutdown: NotRequired[ShutdownOutcome]
    clock_skew_ms: NotRequired[int]


class LogDirChange(TypedDict):
    """Response to POST /brokers/{id}/fail-log-dir."""

    id: int
    log_dir: str
    halted: bool
    state: str
    session_timeout_ms: int
    is_session_shared: bool


class NetworkFaults(TypedDict):
    """Response to POST /network and the paths below it: the faults of the network that remain.

    ``isolated``: the brokers that are cut off from the others. ``faults``: all other faults."""

    isolated: list[int]
    faults: list[str]


class ElectedController(TypedDict):
    """A controller and its epoch."""

    id: int
    epoch: int


class FormerController(TypedDict):
    """The controller before the move, and its epoch; ``id`` is null if it is unknown."""

    id: int | None
    epoch: int


ControllerMove = TypedDict("ControllerMove", {"from": FormerController, "to": ElectedController})
"""Response to POST /controller/move: the former and the new controller."""
