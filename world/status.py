"""Computes the status of a cluster, real or simulated.

Brokers of Kafka show none of this: they are judged by what ZooKeeper stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from klamm.brokers.broker import KafkaServer
from klamm.brokers.status import BrokerCounts, broker_counts
from klamm.cluster.errors import StoreError, ZooKeeperUnavailable
from klamm.cluster.status import (
    NOT_RUNNING,
    PAUSED,
    RUNNING,
    STARTING,
    STOPPING,
    BrokerStatus,
    ClusterStatus,
    DeadLeader,
    FailedLogDir,
    FailoverState,
    JournalState,
    MalformedConfig,
    OtherController,
    ZooKeeperState,
)
from klamm.cluster.types import NO_BROKER_EPOCH, TopicPartition
from klamm.controller.kafka_controller import KafkaController
from klamm.world.cluster import brokers_of, nodes_of
from klamm.world.real.cluster import RealCluster
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import SessionState, Store
from klamm.zk.znodes import ControllerEpochZNode, ControllerZNode, MalformedZNode

DEAD_LEADERS_LISTED: Final = 100
RunningCluster = RealCluster | SimulatedWorld
_ALIVE: Final = (RUNNING, PAUSED, STOPPING)


def cluster_status(
    cluster: RunningCluster,
    zookeeper: ZooKeeperState,
    states: Mapping[int, tuple[str, str | None]],
    store: Callable[[], Store],
) -> ClusterStatus:
    """Return the status of a cluster.

    - ``zookeeper``: without the malformed znodes.
    - ``states``: the state of each broker, and the reason if it failed.
    - ``store()``: a session with ZooKeeper. May raise ZooKeeperUnavailable.
    """
    spec, controller = cluster.spec, cluster.controller
    shown = None if controller is None else controller.status()
    if shown is None:
        zookeeper = msgspec.structs.replace(zookeeper, malformed=_malformed_election_znodes(store))
    believed = None if shown is None else set(map(int, shown.live_brokers))
    dead = {
        id_
        for id_ in (spec.broker_ids if believed is None else believed)
        if states.get(id_, (NOT_RUNNING, None))[0] not in _ALIVE
    }
    dead_leaders = _dead_leaders(cluster, dead, is_cached=shown is None) if dead else []
    brokers = sorted(brokers_of(cluster), key=lambda broker: broker.info.id)
    with cluster.broker_thread_paused():
        counts = {one.info.id: (one.broker_epoch, broker_counts(one)) for one in brokers}
        failed_log_dirs, malformed_configs = _failed_log_dirs(brokers), _malformed_configs(brokers)
    live = None if zookeeper.is_stale else believed
    failure, candidacy = cluster.guard.failure, cluster.candidacy
    return ClusterStatus(
        cluster_id=spec.cluster_id,
        run_id=spec.run_id,
        session_timeout_ms=spec.session_timeout_ms,
        zookeeper=zookeeper,
        controller=shown,
        journal=JournalState(
            is_writable=failure is None,
            failure=None if failure is None else failure.message,
            failed_for_ms=round(cluster.guard.failed_for_ms),
        ),
        failovers=FailoverState(
            candidacy.failed_failovers, candidacy.failure, round(candidacy.pause_ms())
        ),
        other_active_controllers=_other_controllers(cluster, controller),
        brokers=_brokers(cluster, controller, states, counts, live),
        dead_leaders=dead_leaders,
        partitions_without_live_leader=None
        if shown is None
        else shown.offline_partitions + sum(one.partition_count for one in dead_leaders),
        failed_log_dirs=failed_log_dirs,
        isolated_brokers=cluster.transport.isolated_broker_ids,
        network_faults=cluster.transport.fault_texts,
        disk_faults=cluster.disks.describe(),
        malformed_configs=malformed_configs,
        errors=list(cluster.errors),
    )


def _brokers(
    cluster: RunningCluster,
    controller: KafkaController | None,
    states: Mapping[int, tuple[str, str | None]],
    counts: Mapping[int, tuple[int, BrokerCounts]],
    live: set[int] | None,
) -> list[BrokerStatus]:
    """Return the status of each broker.

    - ``counts``: the epoch of each running broker, and the numbers of its replicas.
    - ``live``: the brokers that the controller considers live; None if that is unknown.
    """
    spec = cluster.spec
    controller_id = None if controller is None else controller.config.broker_id
    found = []
    for broker_id, (state, reason) in sorted(states.items()):
        epoch, of_broker = counts.get(broker_id, (None, BrokerCounts()))
        found.append(
            BrokerStatus(
                id=broker_id,
                rack=spec.racks.get(broker_id),
                state=state,
                reason=reason,
                live=None if live is None else broker_id in live,
                is_candidate=spec.is_candidate(broker_id),
                is_controller=broker_id == controller_id,
                broker_epoch=epoch,
                clock_skew_ms=cluster.clocks[broker_id].skew_ms,
                **msgspec.structs.asdict(of_broker),
            )
        )
    return found


def _other_controllers(
    cluster: RunningCluster, controller: KafkaController | None
) -> list[OtherController]:
    found = (node.controller for node in nodes_of(cluster))
    others = [one for one in found if one is not None and one.is_active and one is not controller]
    return [
        OtherController(id_, epoch)
        for id_, epoch in sorted((one.config.broker_id, one.context.epoch) for one in others)
    ]


def simulated_status(world: SimulatedWorld, store: Store) -> ClusterStatus:
    """Return the status of a simulated cluster.

    ``store``: an open session. Nothing changes in the cluster, so its next steps stay the same.
    """
    paused = world.paused_broker_ids

    def state_of(broker_id: int) -> str:
        running = world.nodes.get(broker_id)
        if running is None:
            return NOT_RUNNING
        if broker_id in paused:
            return PAUSED
        return STARTING if running.node.broker.broker_epoch == NO_BROKER_EPOCH else RUNNING

    return cluster_status(
        world,
        ZooKeeperState(
            connect="in memory",
            state=SessionState.CONNECTED.name,
            is_stale=False,
            embedded=False,
        ),
        {id_: (state_of(id_), None) for id_ in world.spec.broker_ids},
        lambda: store,
    )


def _dead_leaders(cluster: RunningCluster, dead: set[int], *, is_cached: bool) -> list[DeadLeader]:
    """Return dead brokers and the partitions that they lead.

    ``is_cached``: read the leaders from a broker's metadata cache, not from the controller's
    context.
    """
    led: dict[int, list[TopicPartition]] = {}
    for tp, leader in _cached_leaders(cluster) if is_cached else _leaders(cluster):
        if leader in dead:
            led.setdefault(leader, []).append(tp)
    return [
        DeadLeader(id_, len(tps), [str(tp) for tp in sorted(tps)[:DEAD_LEADERS_LISTED]])
        for id_, tps in sorted(led.items())
    ]


def _cached_leaders(cluster: RunningCluster) -> list[tuple[TopicPartition, int]]:
    with cluster.broker_thread_paused():
        broker = next(iter(brokers_of(cluster)), None)
        states = () if broker is None else broker.metadata_cache.states()
        return [(state.topic_partition, state.leader) for state in states]


def _leaders(cluster: RunningCluster) -> list[tuple[TopicPartition, int]]:
    context = cluster.controller_context
    # The controller's thread may change the context: copying a dictionary is atomic.
    found = {} if context is None else context.leaderships.copy()
    return [(tp, leadership.leader_and_isr.leader) for tp, leadership in found.items()]


def _failed_log_dirs(brokers: Iterable[KafkaServer]) -> list[FailedLogDir]:
    return [
        FailedLogDir(broker.info.id, path)
        for broker in brokers
        for path in broker.replica_manager.log_dirs.paths
        if not broker.replica_manager.log_dirs.is_online(path)
    ]


def _malformed_configs(brokers: Iterable[KafkaServer]) -> dict[str, MalformedConfig]:
    """Return the malformed configs and change notifications, keyed by znode path."""
    found: dict[str, MalformedConfig] = {}
    for broker in brokers:
        for path, reason in sorted(broker.dynamic_config_manager.malformed.items()):
            found.setdefault(path, MalformedConfig(reason, [])).brokers.append(broker.info.id)
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
