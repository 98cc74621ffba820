"""Status of a cluster as values: what `klamm status` and GET /status tell of it, and its health.

world/status.py computes it, with controller/status.py and brokers/status.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NotRequired, TypedDict

import msgspec

from klamm.cluster.counting import are, brokers_text, counted

RUNNING: Final = "running"
PAUSED: Final = "paused"
STARTING: Final = "starting"
STOPPING: Final = "stopping"
NOT_RUNNING: Final = "not running"


class ZooKeeperServerState(msgspec.Struct, frozen=True):
    """An embedded ZooKeeper server and its state.

    ``state`` is leader, follower or standalone, or the reason why the server is none of these.
    """

    id: int
    address: str
    state: str


class ZooKeeperState(msgspec.Struct, frozen=True, kw_only=True):
    """ZooKeeper as seen by the cluster's session.

    ``is_stale``: ZooKeeper is unreachable. The controller, leaders and ISRs of the status are then
    the last known ones, another controller may have been elected, and whether a broker is live is
    unknown. ``malformed`` maps each znode that prevents the election of a controller to the reason.
    ``servers`` is empty unless ``embedded`` is true.
    """

    connect: str
    state: str
    is_stale: bool
    embedded: bool
    malformed: dict[str, str] = {}
    servers: list[ZooKeeperServerState] = []


class Deletion(msgspec.Struct, frozen=True):
    """A topic that is being deleted, and what its deletion waits for.

    ``waits_for_log_dirs_of`` lists the live brokers with a failed log directory.
    """

    topic: str
    waits_for_brokers: list[int]
    waits_for_log_dirs_of: list[int]
    waits_for_reassignment: bool


class RunningReassignment(msgspec.Struct, frozen=True):
    """A partition that is being reassigned, and the brokers that it waits for."""

    topic: str
    partition: int
    replicas: list[int]
    target: list[int]
    waits_for_brokers: list[int]


class ControllerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A controller's view of the cluster, and its pending work."""

    controller_id: int
    is_active: bool
    active_controller_id: int
    epoch: int
    epoch_zk_version: int
    state: str
    event_queue_size: int
    requests_waiting: dict[str, int]
    live_brokers: dict[str, int]
    shutting_down_brokers: list[int]
    topics: int
    partitions: dict[str, int]
    replicas: dict[str, int]
    offline_partitions: int
    preferred_replica_imbalance: int
    topics_to_be_deleted: list[str]
    deletions: list[Deletion]
    partitions_being_reassigned: int
    reassignments: list[RunningReassignment]
    malformed: dict[str, str]


class JournalState(msgspec.Struct, frozen=True):
    """Whether the journal can be written.

    If it cannot, ``failure`` is the error and ``failed_for_ms`` the time since it occurred.
    """

    is_writable: bool
    failure: str | None
    failed_for_ms: int


class FailoverState(msgspec.Struct, frozen=True):
    """Controller failovers that have failed since the last successful one.

    ``failed`` is their number, ``failure`` the last error, and ``pause_ms`` the time until the
    candidates try again.
    """

    failed: int
    failure: str | None
    pause_ms: int


class OtherController(msgspec.Struct, frozen=True):
    """Another broker that also considers itself the controller, and its epoch."""

    id: int
    epoch: int


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, as GET /status shows it.

    ``live`` is true if the controller considers the broker live, and null if there is no
    controller. ``reason`` is the reason for the broker's failure, if it failed. ``clock_skew_ms``
    is how far the time of day of its machine is ahead.
    """

    id: int
    rack: str | None
    state: str
    reason: str | None
    live: bool | None
    is_candidate: bool
    is_controller: bool
    broker_epoch: int | None
    clock_skew_ms: int
    partitions: int
    leaders: int
    under_replicated: int
    offline: int


class DeadLeader(msgspec.Struct, frozen=True):
    """A dead broker that the controller considers live until the broker's session expires.

    ``partition_count`` is the number of partitions that the broker leads; ``partitions`` lists the
    first of them, in order of topic and partition.
    """

    broker: int
    partition_count: int
    partitions: list[str]


class FailedLogDir(msgspec.Struct, frozen=True):
    """A log directory that has failed."""

    broker: int
    log_dir: str


class ActiveDiskFault(TypedDict):
    """A fault that was injected into the disk of a broker's log directory or of the journal.

    ``kind`` is "slow" (with ``bytes_per_s``), or one of the kinds of the action FailDisk.
    """

    kind: str
    broker: NotRequired[int]
    log_dir: NotRequired[str]
    journal: NotRequired[bool]
    bytes_per_s: NotRequired[int]


class MalformedConfig(msgspec.Struct, frozen=True):
    """A malformed config or change notification that brokers ignore.

    ``reason`` describes what is malformed; ``brokers`` are the brokers that ignore it.
    """

    reason: str
    brokers: list[int]


class ClusterStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a cluster; ``controller`` is null if no controller is elected.

    ``partitions_without_live_leader`` counts the partitions led by dead leaders, and the offline
    partitions of the controller; it is null if no controller is elected.
    """

    cluster_id: str | None
    run_id: str
    session_timeout_ms: int
    zookeeper: ZooKeeperState
    controller: ControllerStatus | None
    journal: JournalState
    failovers: FailoverState
    other_active_controllers: list[OtherController]
    brokers: list[BrokerStatus]
    dead_leaders: list[DeadLeader]
    partitions_without_live_leader: int | None
    failed_log_dirs: list[FailedLogDir]
    isolated_brokers: list[int]
    network_faults: list[str]
    disk_faults: list[ActiveDiskFault]
    malformed_configs: dict[str, MalformedConfig]
    errors: list[str]


def unhealthy(status: ClusterStatus) -> Iterator[str]:
    """Yield the reasons why a cluster is not healthy; none if it is.

    A drill's condition ``healthy`` (lab/conditions/conditions.py) does not believe the controller
    and the leaders, but reads ZooKeeper.
    """
    controller, brokers = status.controller, status.brokers
    if status.zookeeper.is_stale:
        yield "ZooKeeper is unreachable"
    if controller is None:
        yield "no controller is elected"
    else:
        for count, noun, what in (
            (status.partitions_without_live_leader, "partition", "without a live leader"),
            (controller.partitions_being_reassigned, "partition", "being reassigned"),
            (len(controller.deletions), "topic", "being deleted"),
        ):
            if count:
                yield f"{counted(count, noun)} {what}"
    lagging = sum(broker.under_replicated for broker in brokers)
    if lagging:
        yield f"{counted(lagging, 'partition')} under-replicated"
    states = {one.id: one.state for one in brokers if one.state != RUNNING}
    for state in dict.fromkeys(states.values()):
        ids = [id_ for id_, found in states.items() if found == state]
        yield f"{brokers_text(ids)} {are(ids)} {state}"
    absent = [one.id for one in brokers if one.live is False and one.id not in states]
    if absent:
        yield f"{brokers_text(absent)} {are(absent)} not registered"
    for failed in status.failed_log_dirs:
        yield f"log directory {failed.log_dir} of broker {failed.broker} has failed"
    isolated = status.isolated_brokers
    if isolated:
        yield f"{brokers_text(isolated)} {are(isolated)} isolated"
