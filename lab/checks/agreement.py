"""Check that brokers and the active controller agree with ZooKeeper.

The partition state znodes are compared with the state applied and cached by each broker, and
/brokers/ids with the live brokers in each broker's metadata cache. The active controller's context
is compared with all of these znodes. The checks only read and do not wait. Run them when the
cluster is idle: during changes brokers and controller may lag behind ZooKeeper.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from klamm.cluster.types import (
    NO_LEADER,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext
from klamm.world.node_host import NodeHost
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.brokers import BrokerView, broker_views
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store
from klamm.zk.znodes import MalformedZNode


class StoredCluster(msgspec.Struct, frozen=True):
    """Contents of ZooKeeper: assignments, partition states, epochs of the registered brokers.

    ``states`` does not contain partitions that never had a leader. ``controller_epoch`` is 0 if no
    controller was ever elected. ``malformed``: topic and state znodes that were skipped.
    """

    assignments: dict[TopicPartition, ReplicaAssignment]
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    broker_epochs: dict[int, int]
    controller_epoch: int
    malformed: list[MalformedZNode]

    @classmethod
    def read(cls, store: Store) -> StoredCluster:
        """Read the contents of ZooKeeper in a few pipelined batches.

        Malformed znodes are skipped, as in the controller."""
        client = KafkaZkClient(store)
        topics = client.get_topic_assignments(client.get_all_topics_in_cluster())
        assignments = {
            tp: assignment
            for _, topic in sorted(topics.values.items())
            for tp, assignment in sorted(topic.assignment.items())
        }
        states = client.get_partition_states(list(assignments))
        registered = client.get_all_brokers_and_epochs_in_cluster().values
        epoch = client.get_controller_epoch()
        return cls(
            assignments,
            states.values,
            {broker_id: found.epoch for broker_id, found in registered.items()},
            0 if epoch is None else epoch[0],
            [*topics.malformed, *states.malformed],
        )


def find_disagreements(
    stored: StoredCluster, brokers: Mapping[int, BrokerView], context: ControllerContext | None
) -> list[str]:
    """Return one line for each difference between ZooKeeper and a broker or the controller.

    ``brokers``: the running brokers by id. ``context``: the active controller's context, or
    None if no controller is active, which is also reported as a difference.

    A leader and every metadata cache must have the same leader, leader epoch, ISR and version
    as the state znode. For a follower only the leader and leader epoch must match: ISR changes
    within a leader epoch are not sent to followers, which reject a LeaderAndIsr for an epoch
    that they already have. A partition without a leader is compared only in the metadata
    caches, because its replicas are sent no LeaderAndIsr. A broker that has given up moving a
    replica to another log directory, and so keeps two logs, is reported, too (KAFKA-9087).
    """
    deleting = () if context is None else context.topics_to_be_deleted
    return [
        *_brokers_that_differ(stored, brokers),
        *(line for id_ in brokers for line in _cache_differs(stored, id_, brokers[id_], deleting)),
        *_replicas_that_differ(stored, brokers, deleting),
        *_context_differs(stored, context),
        *_failed_log_dirs_differ(stored, brokers, context),
        *_moves_that_failed(brokers),
    ]


def check_cluster(cluster: NodeHost[Any], store: Store) -> list[str]:
    """Compare a cluster with ZooKeeper, which ``store`` reads, while its broker thread is paused.

    Returns the lines of ``find_disagreements``."""
    context = cluster.controller_context
    with cluster.broker_thread_paused():
        return find_disagreements(StoredCluster.read(store), broker_views(cluster), context)


def check_simulated_world(world: SimulatedWorld) -> list[str]:
    """Compare a simulated cluster with ZooKeeper, between two steps of the simulation."""
    with contextlib.closing(world.open_store()) as store:
        return check_cluster(world, store)


# Live sets


def _brokers_that_differ(stored: StoredCluster, brokers: Mapping[int, BrokerView]) -> Iterator[str]:
    registered = stored.broker_epochs
    if sorted(brokers) != sorted(registered):
        yield f"brokers {_ids(brokers)} are running, but {_ids(registered)} are in /brokers/ids"
    for broker_id, broker in brokers.items():
        epoch = registered.get(broker_id, broker.broker_epoch)
        if broker.broker_epoch != epoch:
            yield (
                f"broker {broker_id} has broker epoch {broker.broker_epoch}, "
                f"but its registration has {epoch}"
            )
        alive = broker.alive_brokers
        if sorted(alive) != sorted(registered):
            yield (
                f"broker {broker_id} considers brokers {_ids(alive)} alive, "
                f"but {_ids(registered)} are in /brokers/ids"
            )


# Partitions


def _cache_differs(
    stored: StoredCluster, broker_id: int, broker: BrokerView, deleting: Container[str]
) -> Iterator[str]:
    """Compare a metadata cache with ZooKeeper, except for topics that are queued for deletion."""
    name = f"the metadata cache of broker {broker_id}"
    for tp, leadership in stored.states.items():
        if tp.topic in deleting:
            continue
        cached = broker.cached.get(tp)
        if cached is None:
            yield f"{tp}: {name} does not contain the partition"
        elif cached != leadership.leader_and_isr:
            yield f"{tp}: {name} has {cached}, but ZooKeeper has {leadership.leader_and_isr}"
    for tp, cached in broker.cached.items():
        if tp not in stored.states:
            yield f"{tp}: {name} has {cached}, but ZooKeeper has no state"


def _replicas_that_differ(
    stored: StoredCluster, brokers: Mapping[int, BrokerView], deleting: Container[str]
) -> Iterator[str]:
    """Compare replicas with ZooKeeper. Replicas of a topic to be deleted get no new leaders."""
    for tp, leadership in stored.states.items():
        expected = leadership.leader_and_isr
        if expected.leader == NO_LEADER or tp.topic in deleting:
            continue
        for broker_id in stored.assignments[tp].replicas:
            broker = brokers.get(broker_id)
            if broker is None:
                continue
            if tp in broker.offline_partitions:
                if broker_id in expected.isr:
                    yield f"{tp}: broker {broker_id} is in the ISR, but its log directory failed"
                continue
            applied = broker.applied.get(tp)
            if applied is None:
                yield f"{tp}: broker {broker_id} has not applied any LeaderAndIsr"
            elif not _is_up_to_date(applied, expected, leads=broker_id == expected.leader):
                yield f"{tp}: broker {broker_id} applied {applied}, but ZooKeeper has {expected}"


def _is_up_to_date(applied: LeaderAndIsr, expected: LeaderAndIsr, *, leads: bool) -> bool:
    if leads:
        return applied == expected
    return (applied.leader, applied.leader_epoch) == (expected.leader, expected.leader_epoch)


def _failed_log_dirs_differ(
    stored: StoredCluster, brokers: Mapping[int, BrokerView], context: ControllerContext | None
) -> Iterator[str]:
    if context is None:
        return
    for broker_id, broker in brokers.items():
        lost = broker.offline_partitions
        known = context.replicas_on_offline_dirs.get(broker_id, set())
        for tp in sorted({*lost, *known}):
            assignment = stored.assignments.get(tp)
            if assignment is None or broker_id not in assignment.replicas:
                continue
            if (tp in lost) != (tp in known):
                here, there = ("offline", "online") if tp in lost else ("online", "offline")
                yield (
                    f"{tp}: the log directory of broker {broker_id} is {here}, "
                    f"but the controller considers it {there}"
                )


def _moves_that_failed(brokers: Mapping[int, BrokerView]) -> Iterator[str]:
    for broker_id, broker in brokers.items():
        for tp in broker.abandoned_moves:
            yield f"{tp}: broker {broker_id} has given up moving its log to another log directory"


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
            f"but /controller_epoch is {stored.controller_epoch}"
        )
    if context.live_broker_epochs != stored.broker_epochs:
        yield (
            f"the controller's live brokers (id:epoch) are {_epochs(context.live_broker_epochs)}, "
            f"but /brokers/ids has {_epochs(stored.broker_epochs)}"
        )
    for what, known, expected in (
        ("assignment", context.assignments, stored.assignments),
        # When a replica turns out not to be in the ISR, only the epoch in memory is updated.
        ("leader and ISR", _without_epoch(context.leaderships), _without_epoch(stored.states)),
    ):
        for tp in sorted({*known, *expected}):
            ours, theirs = known.get(tp), expected.get(tp)
            if ours != theirs:
                yield f"{tp}: the controller has {what} {ours}, but ZooKeeper has {theirs}"
    kept, fresh = context.counts(), context.recount()
    for field in kept.__struct_fields__:
        if getattr(kept, field) != getattr(fresh, field):
            yield (
                f"the controller's {field} is {getattr(kept, field)}, "
                f"but a recount gives {getattr(fresh, field)}"
            )


def _ids(broker_ids: Iterable[int]) -> str:
    return ",".join(map(str, sorted(broker_ids))) or "none"


def _epochs(epochs: Mapping[int, int]) -> str:
    return ",".join(f"{id_}:{epoch}" for id_, epoch in sorted(epochs.items())) or "none"
