"""Drills of quirks in the deletion of topics: each fails with its quirk and passes without."""

from __future__ import annotations

from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.deletions import delete_topics, topic_znodes
from tests.sim.worlds import active_controller, create_topic, three_brokers

T0 = TopicPartition("t", 0)


def settle(world: SimulatedWorld) -> None:
    """Let enough time pass for everything that follows from what was done."""
    world.run_for(20_000)


def topic_is_deleted_while_it_is_reassigned(quirks: Quirks) -> None:
    """A topic is served until its reassignment has ended, and then deleted; nothing stays."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (0, 1)})
    settle(world)
    slow = world.scheduler.actors[Address("broker", 2)]
    slow.paused = True
    store = world.open_store()
    KafkaZkClient(store).create_partition_reassignment({T0: (0, 2)})
    world.run_for(2_000)
    assert active_controller(world).context.partitions_being_reassigned == {T0}
    delete_topics(world, "t")
    world.run_for(5_000)
    seen = world.nodes[1].node.broker.metadata_cache.leader_of(T0)
    assert seen == 0, "a topic is deleted while it is reassigned"
    slow.paused = False
    settle(world)
    assert topic_znodes(world, "t") == [], "the topic is not deleted after its reassignment"
    assert not KafkaZkClient(store).reassign_partitions_in_progress()
    assert not active_controller(world).context.partitions_being_reassigned


def topic_is_deleted_while_another_is(quirks: Quirks) -> None:
    """Partitions led by another than the preferred leader are taken off their count once."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (2, 1)})
    create_topic(world, "u", {0: (0, 1)})
    settle(world)
    world.stop(2)
    settle(world)
    assert active_controller(world).context.preferred_replica_imbalance_count == 1
    delete_topics(world, "t")
    settle(world)
    delete_topics(world, "u")
    settle(world)
    count = active_controller(world).context.preferred_replica_imbalance_count
    assert count == 0, "partitions are counted that are not there"


def topic_is_made_again_after_its_znode_was_deleted(quirks: Quirks) -> None:
    """Nothing is remembered of a topic that somebody deleted by hand."""
    world = three_brokers(quirks=quirks)
    create_topic(world, "t", {0: (1, 2)})
    settle(world)
    client = KafkaZkClient(world.open_store())
    client.delete_recursive("/brokers/topics/t")
    client.delete_recursive("/config/topics/t")
    settle(world)
    create_topic(world, "t", {0: (2, 1)})
    settle(world)
    leaderships = active_controller(world).context.leaderships
    assert T0 in leaderships, "a topic made again is not served"


DELETION_DRILLS = {
    "kafka_8249": (
        topic_is_deleted_while_it_is_reassigned,
        "a topic is deleted while it is reassigned",
    ),
    "kafka_13572": (topic_is_deleted_while_another_is, "partitions are counted that are not there"),
    "deleted_topic_znode_leaves_stale_state": (
        topic_is_made_again_after_its_znode_was_deleted,
        "a topic made again is not served",
    ),
}
"""Drill and complaint by quirk."""
