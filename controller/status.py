"""Status of a controller: its view of the cluster, and its pending work.

The context is read by a thread other than the event thread, so its collections are only counted or
copied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from klamm.cluster.status import ControllerStatus, Deletion, RunningReassignment
from klamm.cluster.types import TopicPartition
from klamm.statemachines.context import ControllerContext

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

REASSIGNMENTS_SHOWN: Final = 100
"""Maximum number of reassignments in the status; those that wait for a broker come first."""


def controller_status(controller: KafkaController) -> ControllerStatus:
    """Return one controller's view of the cluster, its pending work, and malformed znodes."""
    context, events = controller.context, controller.events
    replicas: Counter[str] = Counter()
    for states in list(context.replica_states.values()):
        replicas.update(state._value_ for state in list(states.values()))
    partitions = Counter(state._value_ for state in list(context.partition_states.values()))
    return ControllerStatus(
        controller_id=controller.config.broker_id,
        is_active=controller.is_active,
        active_controller_id=controller.active_controller_id,
        epoch=context.epoch,
        epoch_zk_version=context.epoch_zk_version,
        state=events.state.name,
        event_queue_size=events.event_queue_size,
        requests_waiting={
            str(id_): waiting for id_, (waiting, _) in controller.channels.queue_sizes().items()
        },
        live_brokers={
            str(id_): epoch for id_, epoch in sorted(list(context.live_broker_epochs.items()))
        },
        shutting_down_brokers=sorted(context.shutting_down_broker_ids),
        topics=len(context.all_topics),
        partitions=dict(sorted(partitions.items())),
        replicas=dict(sorted(replicas.items())),
        offline_partitions=context.offline_partition_count,
        preferred_replica_imbalance=context.preferred_replica_imbalance_count,
        topics_to_be_deleted=sorted(
            context.topics_to_be_deleted | context.topics_waiting_for_reassignment
        ),
        deletions=_deletions(context),
        partitions_being_reassigned=len(context.partitions_being_reassigned),
        reassignments=_reassignments(context),
        malformed=dict(sorted(controller.malformed.items())),
    )


def _deletions(context: ControllerContext) -> list[Deletion]:
    """Return the topics to be deleted, each with the brokers or reassignment that it waits for."""
    waiting = context.topics_waiting_for_reassignment.copy()
    live = context.live_or_shutting_down_broker_ids
    found = []
    for topic in sorted(context.topics_to_be_deleted | waiting):
        tps = context.partitions_for_topic(topic)
        brokers = _offline_brokers(
            context, [(tp, context.partition_replica_assignment(tp)) for tp in tps]
        )
        found.append(
            Deletion(
                topic=topic,
                waits_for_brokers=brokers,
                waits_for_log_dirs_of=[id_ for id_ in brokers if id_ in live],
                waits_for_reassignment=topic in waiting,
            )
        )
    return found


def _reassignments(context: ControllerContext) -> list[RunningReassignment]:
    """Return the status of at most REASSIGNMENTS_SHOWN of the ongoing reassignments."""
    found = []
    for tp in sorted(context.partitions_being_reassigned.copy()):
        assignment = context.partition_full_replica_assignment(tp)
        target = assignment.target_replicas
        found.append(
            RunningReassignment(
                topic=tp.topic,
                partition=tp.partition,
                replicas=list(assignment.origin_replicas),
                target=list(target),
                waits_for_brokers=_offline_brokers(context, [(tp, target)]),
            )
        )
    found.sort(key=lambda reassignment: not reassignment.waits_for_brokers)
    return found[:REASSIGNMENTS_SHOWN]


def _offline_brokers(
    context: ControllerContext, replicas: Iterable[tuple[TopicPartition, tuple[int, ...]]]
) -> list[int]:
    """Return the sorted ids of the brokers on which at least one of ``replicas`` is not online."""
    return sorted(
        {
            broker_id
            for tp, broker_ids in replicas
            for broker_id in broker_ids
            if not context.is_replica_online(broker_id, tp)
        }
    )
