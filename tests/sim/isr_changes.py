"""Clusters whose leaders write ISRs themselves, and what tests look at there."""

from __future__ import annotations

from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.sim.worlds import active_controller, create_topic, three_brokers

NOTICES = "/isr_change_notification"
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OLD = {"auto.leader.rebalance.enable": "false", "inter.broker.protocol.version": "2.6"}


def old_brokers(**spec: object) -> SimulatedWorld:
    """Brokers 0 to 2 of the protocol 2.6; t-0 is on 1 and 2, t-1 on 2 and 1, all in sync."""
    world = three_brokers(**{"config": OLD, **spec})
    create_topic(world, "t", {0: (1, 2), 1: (2, 1)})
    world.run_for(20_000)
    return world


def broker_2_comes_back(**spec: object) -> SimulatedWorld:
    """``old_brokers`` in which broker 2 was away and is starting."""
    world = old_brokers(**spec)
    world.stop(2)
    world.run_for(10_000)
    world.start(2)
    return world


def notices(world: SimulatedWorld) -> list[str]:
    """The notices that were not processed yet."""
    store = world.open_store()
    found = KafkaZkClient(store).get_children(NOTICES)
    store.close()
    return found


def cached_isr(world: SimulatedWorld, partition: TopicPartition) -> tuple[int, ...]:
    """What the controller believes."""
    return active_controller(world).context.leaderships[partition].leader_and_isr.isr


def events(world: SimulatedWorld, name: str = "IsrChangeNotification") -> int:
    """How often a controller processed such an event."""
    return sum(row.kind == "event" and row.detail == name for row in world.journal.rows)
