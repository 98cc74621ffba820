"""What a ControllerContext alone takes, of a cluster as it is in ZooKeeper.

Reads; changes nothing. It loads as controller/loader.py does, but without a controller: what
recorder, channels and brokers hold besides is not in the figure.
"""

from __future__ import annotations

import gc
import tracemalloc

from klamm.controller.loader import broker_and_epochs
from klamm.statemachines.context import ControllerContext
from klamm.statemachines.partition_transitions import initialize_partition_states
from klamm.statemachines.replica_transitions import initialize_replica_states
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Store


def context_alone_bytes(store: Store) -> dict[str, int]:
    """Load a context and say what it added: ``bytes`` (tracemalloc must run), ``partitions``."""
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    context = loaded_context(store)
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return {"bytes": after - before, "partitions": len(context.assignments)}


def loaded_context(store: Store) -> ControllerContext:
    """A context as a failover fills it, with the states of all partitions and replicas."""
    zk = KafkaZkClient(store)
    context = ControllerContext()
    brokers = zk.get_all_brokers_and_epochs_in_cluster().values
    context.set_live_brokers(broker_and_epochs(brokers.values()))
    names = zk.get_all_topics_in_cluster()
    context.set_all_topics(names)
    for topic in zk.get_topic_assignments(names).values.values():
        if topic.topic_id is not None:
            context.add_topic_id(topic.topic, topic.topic_id)
        for tp, assignment in topic.assignment.items():
            context.update_partition_full_replica_assignment(tp, assignment)
    for tp, state in zk.get_partition_states(list(context.all_partitions())).values.items():
        context.put_partition_leadership_info(tp, state)
    initialize_partition_states(context)
    initialize_replica_states(context)
    return context
