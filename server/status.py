"""Values of `klamm status`: controller, pending work, brokers, faults, malformed znodes.

Drills also show them for simulated clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from klamm.cluster.errors import StoreError, ZooKeeperUnavailable
from klamm.cluster.types import NO_BROKER_EPOCH, TopicPartition
from klamm.lab.actions.action import PAUSED, RUNNING
from klamm.server.broker_operations import STARTING, BrokerOperations
from klamm.server.states import (
    ActiveDiskFault,
    BrokerStatus,
    ClusterState,
    DeadLeader,
    FailedLogDir,
    MalformedConfig,
    ZooKeeperServerState,
    ZooKeeperState,
)
from klamm.server.zookeeper import connected_store
from klamm.world.node_host import NodeHost
from klamm.world.real.cluster import RealCluster
from klamm.world.real.running_node import RunningNode
from klamm.world.simulated.world import SimulatedNode, SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionState, Store
from klamm.zk.znodes import ControllerEpochZNode, ControllerZNode, MalformedZNode

DEAD_LEADERS_LISTED: Final = 100
NOT_RUNNING: Final = "not running"
Led = tuple[TopicPartition, int]
"""A partition and its leader."""
_NOTHING_KNOWN = dict.fromkeys(("partitions", "leaders", "under_replicated", "offline"), 0)


def cluster_status(
    cluster: RealCluster,
    operations: BrokerOperations,
    zookeeper_servers: list[ZooKeeperServerState] | None,
) -> ClusterState:
    """Return the state of the cluster.

    ``zookeeper_servers`` are the states of the embedded ZooKeeper servers, or None if ZooKeeper is
    external. In the result:

    - If no controller is elected, ``controller`` is None, and ``malformed`` in ``zookeeper`` lists
      the znodes that prevent an election.
    - If ``is_stale`` in ``zookeeper`` is true, ZooKeeper is unreachable: the controller, leaders
      and ISRs are the last known ones, and another controller may have been elected. Whether a
      broker is live is then unknown.
    - ``dead_leaders`` lists brokers that have died, but that the controller considers live until
      their sessions expire.
    - ``partitions_without_live_leader`` counts the partitions led by dead leaders, and the offline
      partitions of the controller; the count is None if no controller is elected.
    """
    # An expired session does not count: a server reported the expiry, so ZooKeeper is reachable.
    is_stale = cluster.session_state is SessionState.DISCONNECTED
    nodes = cluster.nodes
    return _cluster_state(
        cluster,
        {
            "connect": cluster.connect_string,
            "state": cluster.session_state.name,
            "is_stale": is_stale,
            "embedded": zookeeper_servers is not None,
            "servers": zookeeper_servers or [],
            "malformed": {},
        },
        states={
            id_: (operations.state_of(id_), operations.reason_of(id_))
            for id_ in cluster.spec.broker_ids
        },
        is_dead=lambda id_: id_ not in nodes or nodes.is_starting(id_),
        leaders=partial(_leaders, cluster),
        store=partial(connected_store, cluster),
    )


def simulated_status(world: SimulatedWorld, store: Store) -> ClusterState:
    """Return the state of a simulated cluster, as ``cluster_status`` does for a real one.

    ``store``: an open session. Nothing changes in the cluster, so its next steps stay the same.
    """
    paused = world.paused_broker_ids
    states: dict[int, tuple[str, str | None]] = {}
    for broker_id in world.spec.broker_ids:
        running = world.nodes.get(broker_id)
        if running is None:
            state = NOT_RUNNING
        elif broker_id in paused:
            state = PAUSED
        else:
            state = STARTING if running.node.broker.broker_epoch == NO_BROKER_EPOCH else RUNNING
        states[broker_id] = (state, None)
    return _cluster_state(
        world,
        {
            "connect": "in memory",
            "state": SessionState.CONNECTED.name,
            "is_stale": False,
            "embedded": False,
            "servers": [],
            "malformed": {},
        },
        states=states,
        is_dead=lambda id_: states[id_][0] not in (RUNNING, PAUSED),
        leaders=lambda *, is_cached: _cached_leaders(world.nodes) if is_cached else _led(world),
        store=lambda: store,
    )


def _cluster_state(
    cluster: RealCluster | SimulatedWorld,
    zookeeper: ZooKeeperState,
    *,
    states: Mapping[int, tuple[str, str | None]],
    is_dead: Callable[[int], bool],
    leaders: Callable[..., list[Led]],
    store: Callable[[], Store],
) -> ClusterState:
    """Return the state of a cluster of either world.

    - ``states``: the state of each broker, and the reason if it failed.
    - ``leaders(is_cached=...)``: see ``_leaders``.
    - ``store()``: a session with ZooKeeper. May raise ZooKeeperUnavailable.
    """
    status = cluster.status()
    active = status["active_controller"]
    controllers = {c["controller_id"]: c for c in status["controllers"]}
    controller = controllers.get(active)
    failure = cluster.guard.failure
    believed = None if controller is None else {int(id_) for id_ in controller["live_brokers"]}
    known = cluster.spec.broker_ids if believed is None else believed
    dead = set(filter(is_dead, known))
    dead_leaders = _dead_leaders(dead, leaders(is_cached=believed is None) if dead else ())
    return {
        "cluster_id": cluster.spec.cluster_id,
        "run_id": cluster.spec.run_id,
        "session_timeout_ms": cluster.spec.session_timeout_ms,
        "zookeeper": {
            **zookeeper,
            "malformed": {} if controller is not None else _malformed_election_znodes(store),
        },
        "controller": controller,
        "journal": {
            "is_writable": failure is None,
            "failure": None if failure is None else failure.message,
            "failed_for_ms": round(cluster.guard.failed_for_ms),
        },
        "failovers": {
            "failed": cluster.candidacy.failed_failovers,
            "failure": cluster.candidacy.failure,
            "pause_ms": round(cluster.candidacy.pause_ms()),
        },
        "other_active_controllers": [
            {"id": id_, "epoch": other["epoch"]}
            for id_, other in controllers.items()
            if other["is_active"] and id_ != active
        ],
        "brokers": [
            *_brokers(cluster, states, status, None if zookeeper["is_stale"] else believed)
        ],
        "dead_leaders": dead_leaders,
        "partitions_without_live_leader": None
        if controller is None
        else controller["offline_partitions"] + sum(at["partition_count"] for at in dead_leaders),
        "failed_log_dirs": _failed_log_dirs(status["brokers"]),
        "isolated_brokers": cluster.transport.isolated_broker_ids,
        "network_faults": cluster.transport.fault_texts,
        "disk_faults": cast(list[ActiveDiskFault], cluster.disks.describe()),
        "malformed_configs": _malformed_configs(status["brokers"]),
        "errors": cluster.errors,
    }


def _brokers(
    cluster: RealCluster | SimulatedWorld,
    states: Mapping[int, tuple[str, str | None]],
    status: Mapping[str, Any],
    believed: set[int] | None,
) -> Iterator[BrokerStatus]:
    known = {broker["id"]: broker for broker in status["brokers"]}
    spec = cluster.spec
    for broker_id in sorted(spec.broker_ids):
        of_broker = known.get(broker_id, _NOTHING_KNOWN)
        state, reason = states[broker_id]
        yield {
            "id": broker_id,
            "rack": spec.racks.get(broker_id),
            "state": state,
            "reason": reason,
            "live": None if believed is None else broker_id in believed,
            "is_candidate": spec.is_candidate(broker_id),
            "is_controller": broker_id == status["active_controller"],
            "broker_epoch": of_broker.get("broker_epoch"),
            "clock_skew_ms": cluster.clocks[broker_id].skew_ms,
            "partitions": of_broker["partitions"],
            "leaders": of_broker["leaders"],
            "under_replicated": of_broker["under_replicated"],
            "offline": of_broker["offline"],
        }


def _dead_leaders(dead: set[int], leaders: Iterable[Led]) -> list[DeadLeader]:
    """Return dead brokers and the partitions that they lead according to ``leaders``.

    The controller considers these brokers live, or no controller is active. At most
    DEAD_LEADERS_LISTED partitions are listed for each broker, in order of topic and partition.
    """
    led: dict[int, list[TopicPartition]] = {}
    for tp, leader in leaders:
        if leader in dead:
            led.setdefault(leader, []).append(tp)
    return [
        {
            "broker": broker_id,
            "partition_count": len(partitions),
            "partitions": [str(tp) for tp in sorted(partitions)[:DEAD_LEADERS_LISTED]],
        }
        for broker_id, partitions in sorted(led.items())
    ]


def _leaders(cluster: RealCluster, *, is_cached: bool) -> list[Led]:
    """Return each partition and its leader.

    ``is_cached``: read them from a broker's metadata cache, not from the controller's context.
    """
    if is_cached:
        with cluster.broker_thread_paused():
            return _cached_leaders(cluster.nodes.copy())
    return _led(cluster)


def _cached_leaders(nodes: Mapping[int, SimulatedNode | RunningNode]) -> list[Led]:
    """Return each partition and its leader, from the metadata cache of a running broker."""
    running = next(iter(nodes.values()), None)
    states = () if running is None else running.node.broker.metadata_cache.states()
    return [(state.topic_partition, state.leader) for state in states]


def _led(cluster: NodeHost[Any]) -> list[Led]:
    context = cluster.controller_context
    # The controller's thread may change the context: copying a dictionary is atomic.
    found = {} if context is None else context.leaderships.copy()
    return [(tp, leadership.leader_and_isr.leader) for tp, leadership in found.items()]


def _failed_log_dirs(brokers: list[dict[str, Any]]) -> list[FailedLogDir]:
    return [
        {"broker": broker["id"], "log_dir": log_dir["path"]}
        for broker in brokers
        for log_dir in broker["log_dirs"]
        if not log_dir["online"]
    ]


def _malformed_configs(brokers: list[dict[str, Any]]) -> dict[str, MalformedConfig]:
    """Return the malformed configs and change notifications, keyed by znode path."""
    found: dict[str, MalformedConfig] = {}
    for broker in brokers:
        for path, reason in broker["malformed"].items():
            one = found.setdefault(path, {"reason": reason, "brokers": []})
            one["brokers"].append(broker["id"])
    return found


def _malformed_election_znodes(store: Callable[[], Store]) -> dict[str, str]:
    """Return the malformed znodes that prevent the election of a controller, and the reasons.

    The result is empty while ZooKeeper is unreachable.
    """
    malformed: dict[str, str] = {}
    try:
        client = KafkaZkClient(store())
        for path, read in (
            (ControllerEpochZNode.path, client.get_controller_epoch),
            (ControllerZNode.path, client.get_controller_id),
        ):
            try:
                read()
            except MalformedZNode as error:
                malformed[path] = error.reason
    except (ZooKeeperUnavailable, StoreError):
        pass
    return malformed
