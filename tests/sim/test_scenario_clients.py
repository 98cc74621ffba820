"""The producers and consumers of a scenario: what they count, and where they begin to read."""

from __future__ import annotations

from klamm.cluster.types import TopicPartition
from klamm.lab.actions import network_actions
from klamm.lab.actions.steps import Produce, Wait
from klamm.lab.drill import Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.preloading import preload_replicas
from tests.sim.worlds import create_topic, three_brokers

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def a_topic() -> SimulatedDriver:
    """A cluster with a topic whose partitions brokers 0 and 1 lead."""
    world = three_brokers()
    create_topic(world, "t", {0: (0, 1), 1: (1, 2)})
    world.run_for(1_000)
    return SimulatedDriver(world)


def test_records_that_are_refused_are_neither_acknowledged_nor_in_doubt() -> None:
    driver = a_topic()
    refusal = network_actions.FailRequests(api="Produce", error="TOPIC_AUTHORIZATION_FAILED")
    runner = ScenarioRunner(driver)
    runner.run_step(Step("taken", (Produce({T0: 20}), Wait(1_000))))
    runner.run_step(Step("refused", (refusal, Produce({T0: 3}), Wait(1_000))))
    clients = driver.clients
    seen = [
        count(tp)
        for tp in (T0, T1)
        for count in (clients.acknowledged, clients.records_in_doubt, clients.records_lost)
    ]
    assert seen == [20, 0, 0, 0, None, None]


def test_a_consumer_starts_at_the_longest_log_when_the_producer_begins() -> None:
    driver = a_topic()
    world, unknown = driver.cluster, TopicPartition("nowhere", 0)
    # The follower, broker 1, has not fetched these seven records yet.
    preload_replicas([world.nodes[0].node.broker], T0, 7_000, world.clock)
    for tp in (T0, unknown):
        driver.clients.produce(tp, 1)
    consumer = driver.clients._consumer
    assert (consumer.position(T0), consumer.position(unknown)) == (7, None)
