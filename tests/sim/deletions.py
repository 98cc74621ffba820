"""Deletions in simulated clusters: how tests ask for them, and what must be left of a topic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from klamm.lab.checks.agreement import check_simulated_world
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.znodes import ConfigEntityZNode, DeleteTopicsTopicZNode, TopicZNode
from tests.sim.worlds import active_controller


def delete_topics(world: SimulatedWorld, *topics: str) -> None:
    """Ask for the deletion of topics as kafka-topics does with --zookeeper."""
    store = world.open_store()
    client = KafkaZkClient(store)
    for topic in topics:
        client.create_delete_topic_path(topic)
    store.close()


def topic_znodes(world: SimulatedWorld, topic: str) -> list[str]:
    """Those znodes of a topic that are there: its own, its overrides, the request to delete it."""
    store = world.open_store()
    paths = [
        TopicZNode.path(topic),
        ConfigEntityZNode.path("topics", topic),
        DeleteTopicsTopicZNode.path(topic),
    ]
    exist = KafkaZkClient(store).paths_exist(paths)
    store.close()
    return [path for path, exists in zip(paths, exist, strict=True) if exists]


def topic_id(world: SimulatedWorld, topic: str) -> str | None:
    """The id in a topic's znode."""
    store = world.open_store()
    found = KafkaZkClient(store).get_topic_assignments([topic]).values[topic].topic_id
    store.close()
    return found


def hosts(world: SimulatedWorld, topic: str) -> list[int]:
    """The running brokers that host a replica of the topic."""
    return [
        broker_id
        for broker_id, running in sorted(world.nodes.items())
        if any(tp.topic == topic for tp in running.node.broker.replica_manager.partitions)
    ]


def assert_gone(world: SimulatedWorld, *topics: str) -> None:
    """Nobody knows anything of the topics, and whoever is left agrees on all else."""
    context = active_controller(world).context
    for topic in topics:
        assert topic_znodes(world, topic) == []
        assert hosts(world, topic) == []
        assert topic not in context.all_topics
        assert not context.partitions_for_topic(topic)
        assert topic not in context.topic_ids
        known = {*context.partition_states, *chain(*context.replica_states.values())}
        assert not [tp for tp in known if tp.topic == topic]
        for running in world.nodes.values():
            assert not running.node.broker.metadata_cache.num_partitions(topic)
    assert not context.topics_to_be_deleted
    assert not context.topics_with_deletion_started
    assert not context.topics_ineligible_for_deletion
    assert not context.topics_waiting_for_reassignment
    assert_in_agreement(world)


def assert_in_agreement(world: SimulatedWorld) -> None:
    """Brokers, controller and ZooKeeper agree, and no actor has failed."""
    lines: Sequence[str] = check_simulated_world(world)
    assert not lines, "\n".join(lines)
    assert not world.errors
