"""What a controller shows of itself: plain values, for `klamm status`.

Reads the context from another thread than the one that changes it: counts and copies only.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.kafka_controller import KafkaController


def controller_status(controller: KafkaController) -> dict[str, Any]:
    """One controller's view: who is active, what it knows, what waits, what it cannot read."""
    context, events = controller.context, controller.events
    replicas: Counter[str] = Counter()
    for states in list(context.replica_states.values()):
        replicas.update(state._value_ for state in list(states.values()))
    partitions = Counter(state._value_ for state in list(context.partition_states.values()))
    return {
        "controller_id": controller.config.broker_id,
        "is_active": controller.is_active,
        "active_controller_id": controller.active_controller_id,
        "epoch": context.epoch,
        "epoch_zk_version": context.epoch_zk_version,
        "state": events.state.name,
        "event_queue_size": events.event_queue_size,
        "requests_waiting": {
            str(id_): waiting for id_, (waiting, _) in controller.channels.queue_sizes().items()
        },
        "live_brokers": {
            str(id_): epoch for id_, epoch in sorted(list(context.live_broker_epochs.items()))
        },
        "shutting_down_brokers": sorted(context.shutting_down_broker_ids),
        "topics": len(context.all_topics),
        "partitions": dict(sorted(partitions.items())),
        "replicas": dict(sorted(replicas.items())),
        "offline_partitions": context.offline_partition_count,
        "preferred_replica_imbalance": context.preferred_replica_imbalance_count,
        "topics_to_be_deleted": sorted(
            context.topics_to_be_deleted | context.topics_waiting_for_reassignment
        ),
        "malformed": dict(sorted(controller.malformed.items())),
    }
