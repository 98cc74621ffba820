"""Types of the API's responses about the state of a cluster, its brokers and its ZooKeeper.

They are plain dictionaries, which klamm.server and klamm.world build and the commands print. The
OpenAPI document describes the responses by these types.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class ActiveDiskFault(TypedDict):
    """A fault that was injected into the disk of a broker's log directory or of the journal.

    ``kind`` is "slow" (with ``bytes_per_s``), or one of the kinds of the action FailDisk.
    """

    kind: str
    broker: NotRequired[int]
    log_dir: NotRequired[str]
    journal: NotRequired[bool]
    bytes_per_s: NotRequired[int]


class DiskFaults(TypedDict):
    """Response to POST /disks/fail, /disks/slow and /disks/heal: all injected disk faults."""

    disk_faults: list[ActiveDiskFault]


class ZooKeeperServerState(TypedDict):
    """An embedded ZooKeeper server and its state.

    ``state`` is leader, follower or standalone, or the reason why the server is none of these.
    """

    id: int
    address: str
    state: str


class ZooKeeperServers(TypedDict):
    """Response to GET /zookeeper: the embedded ZooKeeper servers."""

    servers: list[ZooKeeperServerState]


class ZooKeeperServerChange(TypedDict):
    """Response to POST /zookeeper/{server}/{action}: the states before and after the action."""

    id: int
    before: str
    state: str


class ZooKeeperState(TypedDict):
    """ZooKeeper as seen by the cluster's session.

    ``is_stale`` means that ZooKeeper is unreachable, so the other values of the status are the last
    known ones. ``malformed`` maps each znode that prevents the election of a controller to the
    reason. ``servers`` is empty unless ``embedded`` is true.
    """

    connect: str
    state: str
    is_stale: bool
    embedded: bool
    malformed: dict[str, str]
    servers: list[ZooKeeperServerState]


class Deletion(TypedDict):
    """A topic that is being deleted, and what its deletion waits for."""

    topic: str
    waits_for_brokers: list[int]
    waits_for_log_dirs_of: list[int]
    waits_for_reassignment: bool


class RunningReassignment(TypedDict):
    """A partition that is being reassigned, and the brokers that it waits for."""

    topic: str
    partition: int
    replicas: list[int]
    target: list[int]
    waits_for_brokers: list[int]


class ControllerStatus(TypedDict):
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


class JournalState(TypedDict):
    """Whether the journal can be written.

    If it cannot, ``failure`` is the error and ``failed_for_ms`` the time since it occurred.
    """

    is_writable: bool
    failure: str | None
    failed_for_ms: int


class FailoverState(TypedDict):
    """Controller failovers that have failed since the last successful one.

    ``failed`` is their number, ``failure`` the last error, and ``pause_ms`` the time until the
    candidates try again.
    """

    failed: int
    failure: str | None
    pause_ms: int


class OtherController(TypedDict):
    """Another broker that also considers itself the controller, and its epoch."""

    id: int
    epoch: int


class BrokerStatus(TypedDict):
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


class DeadLeader(TypedDict):
    """A dead broker that the controller still considers live.

    ``partition_count`` is the number of partitions that the broker leads; ``partitions`` lists the
    first of them.
    """

    broker: int
    partition_count: int
    partitions: list[str]


class FailedLogDir(TypedDict):
    """A log directory that has failed."""

    broker: int
    log_dir: str


class MalformedConfig(TypedDict):
    """A malformed config or change notification that brokers ignore.

    ``reason`` describes what is malformed; ``brokers`` are the brokers that ignore it.
    """

    reason: str
    brokers: list[int]


class ClusterState(TypedDict):
    """The state of a cluster; ``controller`` is null if no controller is elected."""

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


class KafkaAddresses(TypedDict):
    """Where Kafka's clients connect: HOST:PORT of up to three brokers, none without --listen."""

    bootstrap_servers: list[str]
    security_protocol: str | None


class Status(ClusterState, KafkaAddresses):
    """Response to GET /status: the state of the cluster and of the server."""

    klamm_version: str
    url: str | None
    data_dir: str
    uptime_ms: int


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


class CachedPartition(TypedDict):
    """A partition in a broker's metadata cache."""

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: list[int]
    replicas: list[int]
    offline_replicas: list[int]


class CachedMetadata(TypedDict):
    """Response to GET /brokers/{id}/metadata: the broker's metadata cache."""

    id: int
    controller_id: int | None
    live_brokers: list[int]
    partitions: list[CachedPartition]


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
