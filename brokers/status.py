"""Status of a broker as plain dicts, for the command line and the HTTP API.

The values are computed on request, so that no counters have to be maintained.
"""

from __future__ import annotations

from typing import Any

from klamm.brokers.broker import KafkaServer


def broker_status(broker: KafkaServer) -> dict[str, Any]:
    """Return a broker's registration, replica counts, and the size of its metadata cache."""
    manager = broker.replica_manager
    cache = broker.metadata_cache
    broker_id = broker.info.id
    leaders = under_replicated = 0
    for partition in manager.partitions.values():
        if not partition.is_leader(broker_id):
            continue
        leaders += 1
        current = partition.leader_and_isr
        if current is not None and partition.state is not None:
            state = partition.state
            expected = len(state.replicas) - len(state.adding_replicas)
            under_replicated += len(current.isr) < expected
    return {
        "id": broker_id,
        "rack": broker.info.rack,
        "end_points": [one.connection_string for one in broker.info.end_points],
        "broker_epoch": broker.broker_epoch,
        "controller_id": cache.controller_id,
        "controller_epoch": manager.controller_epoch,
        "partitions": len(manager.partitions),
        "leaders": leaders,
        "under_replicated": under_replicated,
        "offline": len(manager.offline_partitions),
        "catching_up": broker.fetchers.partition_count,
        "pending_alter_isr": broker.alter_isr_manager.pending_count,
        "log_dirs": [
            {"path": path, "online": manager.log_dirs.is_online(path), "logs": logs}
            for path, logs in manager.log_dirs.log_counts().items()
        ],
        "malformed": dict(sorted(broker.dynamic_config_manager.malformed.items())),
        "metadata_cache": {
            "live_brokers": sorted(cache.alive_brokers),
            "topics": len(cache.topics()),
            "partitions": len(cache),
        },
    }


def metadata_status(broker: KafkaServer) -> dict[str, Any]:
    """Return the whole metadata cache of a broker, as a client would receive it."""
    cache = broker.metadata_cache
    return {
        "id": broker.info.id,
        "controller_id": cache.controller_id,
        "live_brokers": sorted(cache.alive_brokers),
        "partitions": [
            {
                "topic": state.topic_partition.topic,
                "partition": state.topic_partition.partition,
                "leader": state.leader,
                "leader_epoch": state.leader_epoch,
                "isr": list(state.isr),
                "replicas": list(state.replicas),
                "offline_replicas": list(state.offline_replicas),
            }
            for state in cache.states()
        ],
    }
