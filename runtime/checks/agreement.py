"""Check that brokers and the active controller agree with ZooKeeper; one line per disagreement.

Compares the partition state znodes with the state applied and cached by each broker, the live sets
with /brokers/ids, and the active controller's context with both. Reads only and waits for nothing:
call it when the cluster is idle, because during changes all of these may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from klamm.brokers.broker import Broker
from klamm.cluster.requests import UpdateMetadataPartitionState
from klamm.cluster.types import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.simulated.world import SimulatedWorld
from klamm.statemachines.context import ControllerContext
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store


class StoredCluster(msgspec.Struct, frozen=True):
    """Contents of ZooKeeper: assignments, partition states, epochs of the registered brokers.

    ``states`` lacks partitions that never had a leader. ``controller_epoch`` 0: never elected.
    """

    assignments: dict[TopicPartition, ReplicaAssignment]
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    broker_epochs: dict[int, int]
    controller_epoch: int

    @classmethod
    def read(cls, store: Store) -> StoredCluster:
        """Read it in a few pipelined batches; skip malformed znodes, like the controller."""
        client = KafkaZkClient(store)
        topics = client.get_topic_assignments(client.get_all_topics_in_cluster()).values
        assignments = {
            tp: assignment
            for _, topic in sorted(topics.items())
            for tp, assignment in sorted(topic.assignment.items())
        }
        registered = client.get_all_brokers_and_epochs_in_cluster().values
        epoch = client.get_controller_epoch()
        return cls(
            assignments,
            client.get_partition_states(list(assignments)).values,
            {broker_id: found.epoch for broker_id, found in registered.items()},
            0 if epoch is None else epoch[0],
        )


def find_disagreements(
    stored: StoredCluster, brokers: Mapping[int, Broker], context: ControllerContext | None
) -> list[str]:
    """Return one line for each difference between ZooKeeper and a broker or the controller.

    ``brokers``: the running brokers by id. ``context``: of the active controller; None if there is
    none, which is a disagreement, too.

    A leader and every metadata cache must equal the state znode in leader, leader epoch, ISR and
    version. A follower only needs the leader and leader epoch, because ISR changes within a leader
    epoch are not sent to followers, which reject a LeaderAndIsr of an epoch they have. A partition
    without a leader is compared only in the caches, because its replicas apply nothing.
    """
    return [
        *_brokers_that_differ(stored, brokers),
        *(line for broker in brokers.values() for line in _cache_differs(stored, broker)),
        *_replicas_that_differ(stored, brokers),
        *_context_differs(stored, context),
        *_failed_log_dirs_differ(stored, brokers, context),
    ]


def check_real_cluster(cluster: RealCluster) -> list[str]:
    """Return ``find_disagreements`` of a real cluster, with its broker thread paused."""
    context = context_of_real_cluster(cluster)
    store = cluster.store
    with cluster.broker_thread_paused():
        brokers = {id_: node.node.broker for id_, node in sorted(cluster.nodes.items())}
        return find_disagreements(StoredCluster.read(store), brokers, context)


def check_simulated_world(world: SimulatedWorld) -> list[str]:
    """Return ``find_disagreements`` of a simulated cluster, between two of its steps."""
    store = world.open_store()
    stored = StoredCluster.read(store)
    store.close()
    brokers = {id_: running.node.broker for id_, running in sorted(world.nodes.items())}
    return find_disagreements(stored, brokers, context_of_simulated_world(world))


def context_of_real_cluster(cluster: RealCluster) -> ControllerContext | None:
    """Return the active controller's context, which its thread may change; None without one."""
    active = cluster.active_controller
    running = None if active is None else cluster.nodes.get(active)
    controller = None if running is None else running.node.controller
    return None if controller is None else controller.context


def context_of_simulated_world(world: SimulatedWorld) -> ControllerContext | None:
    """Return the active controller's context; None without one."""
    active = [
        controller.context
        for _, running in sorted(world.nodes.items())
        if (controller := running.node.controller) is not None and controller.is_active
    ]
    return max(active, key=lambda context: context.epoch, default=None)


# Live sets


def _brokers_that_differ(stored: StoredCluster, brokers: Mapping[int, Broker]) -> Iterator[str]:
    registered = stored.broker_epochs
    if sorted(brokers) != sorted(registered):
        yield f"brokers {_ids(brokers)} run, but {_ids(registered)} are in /brokers/ids"
    for broker_id, broker in brokers.items():
        epoch = registered.get(broker_id, broker.broker_epoch)
        if broker.broker_epoch != epoch:
            yield (
                f"broker {broker_id} has broker epoch {broker.broker_epoch}, "
                f"but its registration has {epoch}"
            )
        alive = broker.metadata_cache.alive_brokers
        if sorted(alive) != sorted(registered):
            yield (
                f"broker {broker_id} considers {_ids(alive)} alive, "
                f"but {_ids(registered)} are in /brokers/ids"
            )


# Partitions


def _cache_differs(stored: StoredCluster, broker: Broker) -> Iterator[str]:
    cache = broker.metadata_cache
    name = f"the metadata cache of broker {broker.info.id}"
    for tp, leadership in stored.states.items():
        cached = cache.get(tp)
        if cached is None:
            yield f"{tp}: {name} does not have it"
        elif (seen := _leader_and_isr(cached)) != leadership.leader_and_isr:
            yield f"{tp}: {name} has {seen}, ZooKeeper {leadership.leader_and_isr}"
    for cached in cache.states():
        tp = cached.topic_partition
        if tp not in stored.states:
            yield f"{tp}: {name} has {_leader_and_isr(cached)}, ZooKeeper nothing"


def _replicas_that_differ(stored: StoredCluster, brokers: Mapping[int, Broker]) -> Iterator[str]:
    for tp, leadership in stored.states.items():
        expected = leadership.leader_and_isr
        if expected.leader == NO_LEADER:
            continue
        for broker_id in stored.assignments[tp].replicas:
            broker = brokers.get(broker_id)
            if broker is None:
                continue
            if tp in broker.replica_manager.offline_partitions:
                if broker_id in expected.isr:
                    yield f"{tp}: broker {broker_id} is in sync, but its log directory failed"
                continue
            replica = broker.replica_manager.partitions.get(tp)
            applied = None if replica is None else replica.leader_and_isr
            if applied is None:
                yield f"{tp}: broker {broker_id} applied no LeaderAndIsr"
            elif not _is_up_to_date(applied, expected, leads=broker_id == expected.leader):
                yield f"{tp}: broker {broker_id} applied {applied}, ZooKeeper has {expected}"


def _is_up_to_date(applied: LeaderAndIsr, expected: LeaderAndIsr, *, leads: bool) -> bool:
    if leads:
        return applied == expected
    return (applied.leader, applied.leader_epoch) == (expected.leader, expected.leader_epoch)


def _leader_and_isr(state: UpdateMetadataPartitionState) -> LeaderAndIsr:
    return LeaderAndIsr(state.leader, state.leader_epoch, state.isr, state.zk_version)


def _failed_log_dirs_differ(
    stored: StoredCluster, brokers: Mapping[int, Broker], context: ControllerContext | None
) -> Iterator[str]:
    if context is None:
        return
    for broker_id, broker in brokers.items():
        lost = broker.replica_manager.offline_partitions
        known = context.replicas_on_offline_dirs.get(broker_id, set())
        for tp in sorted({*lost, *known}):
            assignment = stored.assignments.get(tp)
            if assignment is None or broker_id not in assignment.replicas:
                continue
            if (tp in lost) != (tp in known):
                here, there = ("failed", "online") if tp in lost else ("online", "failed")
                yield (
                    f"{tp}: the log directory of broker {broker_id} is {here}, "
                    f"the controller considers it {there}"
                )


# The controller


def _without_epoch(
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch],
) -> dict[TopicPartition, LeaderAndIsr]:
    return {tp: leadership.leader_and_isr for tp, leadership in states.items()}


def _context_differs(stored: StoredCluster, context: ControllerContext | None) -> Iterator[str]:
    if context is None:
        yield "no controller is active"
        return
    if context.epoch != stored.controller_epoch:
        yield (
            f"the controller has epoch {context.epoch}, "
            f"/controller_epoch has {stored.controller_epoch}"
        )
    if context.live_broker_epochs != stored.broker_epochs:
        yield (
            f"the controller considers {_epochs(context.live_broker_epochs)} alive, "
            f"but {_epochs(stored.broker_epochs)} are in /brokers/ids"
        )
    for what, known, expected in (
        ("assignment", context.assignments, stored.assignments),
        # A replica found to be outside the ISR leaves a newer controller epoch in memory only.
        ("leadership", _without_epoch(context.leaderships), _without_epoch(stored.states)),
    ):
        for tp in sorted({*known, *expected}):
            ours, theirs = known.get(tp), expected.get(tp)
            if ours != theirs:
                yield f"{tp}: the controller has the {what} {ours}, ZooKeeper {theirs}"
    kept, fresh = context.counts(), context.recount()
    for field in kept.__struct_fields__:
        if getattr(kept, field) != getattr(fresh, field):
            yield (
                f"the controller kept {field} {getattr(kept, field)}, "
                f"a recount gives {getattr(fresh, field)}"
            )


def _ids(broker_ids: Mapping[int, object] | Sequence[int]) -> str:
    return ",".join(map(str, sorted(broker_ids))) or "none"


def _epochs(epochs: Mapping[int, int]) -> str:
    return ",".join(f"{id_}:{epoch}" for id_, epoch in sorted(epochs.items())) or "none"
