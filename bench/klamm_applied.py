"""Whether klamm's brokers hold what ZooKeeper holds. It must not change or time anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from klamm.brokers.broker import KafkaServer
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.types import LeaderIsrAndControllerEpoch, ReplicaAssignment, TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store

SHOWN = 3


def what_is_not_applied(store: Store, brokers: Iterable[KafkaServer]) -> dict[str, Any]:
    """Compare the metadata cache and the hosted replicas of every broker with the state znodes.

    ``not_applied`` counts what differs, ``not_applied_shown`` holds the first, ``applied`` counts
    what agrees: a cached state a broker and partition, a state a replica on a broker given.
    """
    zk = KafkaZkClient(store)
    topics = zk.get_topic_assignments(zk.get_all_topics_in_cluster()).values.values()
    assignments = {tp: a for topic in topics for tp, a in topic.assignment.items()}
    states = zk.get_partition_states(list(assignments)).values
    wrong: list[str] = []
    right = 0
    for broker in brokers:
        for tp, assignment in assignments.items():
            state = states.get(tp)
            for found in _differences(broker, tp, assignment, state):
                if found is None:
                    right += 1
                else:
                    wrong.append(f"broker {broker.info.id}: {tp}: {found}, not {state}")
    return {
        "applied": right,
        "not_applied": len(wrong),
        "not_applied_shown": "; ".join(wrong[:SHOWN]),
    }


def _differences(
    broker: KafkaServer,
    tp: TopicPartition,
    assignment: ReplicaAssignment,
    state: LeaderIsrAndControllerEpoch | None,
) -> list[str | None]:
    """One item for each place that should hold the state: None, or what it holds instead."""
    found = [_in_cache(broker.metadata_cache, tp, state)]
    if broker.info.id in assignment.replicas and not _was_stopped(broker, state):
        found.append(_in_replica(broker.replica_manager, tp, state))
    return found


def _was_stopped(broker: KafkaServer, state: LeaderIsrAndControllerEpoch | None) -> bool:
    """A broker about to leave hears no more of what it is out of sync with."""
    return (
        broker.replica_manager.is_shutting_down
        and state is not None
        and broker.info.id not in state.leader_and_isr.isr
    )


def _in_cache(
    cache: MetadataCache, tp: TopicPartition, state: LeaderIsrAndControllerEpoch | None
) -> str | None:
    """Its controller epoch is that of the last controller that looked at a dead replica, not only
    of the last that wrote (as in 2.8.2), so it is not compared.
    """
    cached = cache.get(tp)
    if cached is None or state is None:
        return f"cached {cached}"
    wanted = state.leader_and_isr
    same = (
        cached.leader == wanted.leader
        and cached.leader_epoch == wanted.leader_epoch
        and cached.isr == wanted.isr
        and cached.zk_version == wanted.zk_version
    )
    return None if same else f"cached {cached}"


def _in_replica(
    replicas: ReplicaManager, tp: TopicPartition, state: LeaderIsrAndControllerEpoch | None
) -> str | None:
    """A follower does not hear of what an AlterIsr changes within a leader epoch."""
    hosted = replicas.partitions.get(tp)
    held = None if hosted is None else hosted.leader_and_isr
    if hosted is None or held is None or state is None or hosted.log is None:
        return f"hosted {hosted}"
    wanted = state.leader_and_isr
    if hosted.is_leader(replicas.broker_id):
        same = held == wanted
    else:
        same = (held.leader, held.leader_epoch) == (wanted.leader, wanted.leader_epoch)
    return None if same else f"hosted {hosted}"
