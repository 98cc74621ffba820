"""The calls of Kafka's Admin client on a simulated cluster: what they find and what they refuse."""

from __future__ import annotations

import pytest

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import UnknownTopicOrPartition
from klamm.cluster.requests import (
    ApiError,
    CreatableTopic,
    CreateTopicsRequest,
    NewPartitions,
)
from klamm.cluster.types import TopicPartitionReplica
from klamm.lab.actions.steps import BringUp
from klamm.lab.actions.tools import DriverChannel
from klamm.lab.drill import Quiesce, Step
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.runner import ScenarioRunner
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld

CONFIG = {"log.dirs": "/a,/b", "min.insync.replicas": "2", "log.segment.bytes": "99999"}


@pytest.fixture
def driver() -> SimulatedDriver:
    driver = SimulatedDriver(SimulatedWorld(ClusterSpec(broker_ids=(0, 1, 2), config=CONFIG)))
    ScenarioRunner(driver).run_step(Step("up", (BringUp((2, 0, 1)),), (Quiesce(),)))
    return driver


@pytest.fixture
def admin(driver: SimulatedDriver) -> KafkaAdmin:
    admin = KafkaAdmin(DriverChannel(driver), CONFIG)
    topic = CreatableTopic("t", assignments={0: (0, 1)}, configs={"segment.bytes": "77777"})
    [result] = admin.create_topics(CreateTopicsRequest((topic,), timeout_ms=5_000)).topics
    assert result.error is Errors.NONE
    driver.quiesce()
    return admin


def test_topics_are_described_with_the_configs_that_brokers_have(admin: KafkaAdmin) -> None:
    [topic] = admin.describe_topics(["t"])
    assert topic.configs == {"segment.bytes": "77777", "min.insync.replicas": "2"}
    with pytest.raises(UnknownTopicOrPartition, match="does not host this topic-partition") as no:
        admin.describe_topics(["t", "tt"])
    assert no.value.hint is not None and "topic tt does not exist" in no.value.hint
    assert [broker.id for broker in admin.live_brokers()] == [0, 1, 2]


def test_each_topic_that_cannot_grow_has_its_error(
    admin: KafkaAdmin, driver: SimulatedDriver
) -> None:
    wanted = {"t": NewPartitions(3), "u": NewPartitions(2)}
    assert admin.create_partitions(wanted, 5_000) == {
        "u": ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist.")
    }
    assert len(admin.describe_topics(["t"])[0].partitions) == 3
    began_ms = driver.elapsed_ms
    for broker_id in (0, 1, 2):
        driver.cluster.pause(broker_id)
    failed = admin.create_partitions({"t": NewPartitions(4)}, 7_000)
    assert failed == {"t": ApiError(Errors.REQUEST_TIMED_OUT)}
    assert driver.elapsed_ms == pytest.approx(began_ms + 7_000)


def test_log_directories_are_those_of_the_brokers_that_were_named(admin: KafkaAdmin) -> None:
    assert admin.describe_log_dirs([]) == {}
    found = admin.describe_log_dirs()
    assert [(id_, *dirs) for id_, dirs in found.items()] == [(n, "/a", "/b") for n in (0, 1, 2)]
    assert [*admin.describe_log_dirs([2])] == [2]
    held, other = TopicPartitionReplica("t", 0, 1), TopicPartitionReplica("t", 0, 2)
    states = admin.describe_replica_log_dirs([held, other])
    assert states[held].current in ("/a", "/b")
    assert (states[held].future, *states[other]) == (None, None, None)
    assert states.keys() == {held, other}
