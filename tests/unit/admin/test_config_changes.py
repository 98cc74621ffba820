"""What a running cluster does with changes of configs, and which value holds and why."""

from __future__ import annotations

import pytest

from klamm.admin.configs.changes import alter_configs, checked_resource
from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource
from klamm.admin.configs.effective_configs import (
    BrokerConfigs,
    broker_entries,
    shown_overrides,
    static_topic_configs,
    topic_entries,
)
from klamm.admin.configs.zookeeper import change_configs
from klamm.admin.failures import InvalidConfiguration, InvalidRequest
from klamm.cluster.configs import BROKER_CONFIGS
from klamm.cluster.errors import AdminError, UnknownTopicOrPartition, UsageError
from klamm.zk.dump import dump
from klamm.zk.znodes import DEFAULT_ENTITY
from tests.unit.tools.reassign_world import World

TOPIC = ConfigResource(TOPICS, "t")
BROKER = ConfigResource(BROKERS, "0")
ALL_BROKERS = ConfigResource(BROKERS, DEFAULT_ENTITY)
RATE = "leader.replication.throttled.rate"
UNCLEAN = "unclean.leader.election.enable"


@pytest.fixture
def world() -> World:
    return World(1, {"t": {"0": [0]}})


def alter(world: World, resource: ConfigResource, wanted: dict[str, str | None]) -> None:
    alter_configs(world.client, resource, wanted, lambda topic: topic == "t")


def test_each_change_is_written_and_announced(world: World) -> None:
    alter(world, TOPIC, {"flush.ms": "1", "retention.ms": "2"})
    alter(world, TOPIC, {"flush.ms": None, "segment.ms": "3"})
    alter(world, BROKER, {RATE: "5"})
    alter(world, BROKER, {UNCLEAN: None})
    alter(world, ALL_BROKERS, {UNCLEAN: "true"})
    assert world.cluster.overrides([TOPIC, BROKER, ALL_BROKERS]) == {
        TOPIC: {"retention.ms": "2", "segment.ms": "3"},
        BROKER: {RATE: "5"},
        ALL_BROKERS: {UNCLEAN: "true"},
    }
    assert len(world.client.get_children("/config/changes")) == 5


@pytest.mark.parametrize(
    ("resource", "wanted", "kind", "said"),
    [
        (
            ConfigResource(TOPICS, "x"),
            {"flush.ms": "1"},
            UnknownTopicOrPartition,
            "The topic 'x' does not exist.",
        ),
        (TOPIC, {"nope": "1"}, InvalidConfiguration, "Unknown topic config name: nope"),
        (
            TOPIC,
            {"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "3"},
            InvalidConfiguration,
            "conflict topic config setting min.compaction.lag.ms (9) > max.compaction.lag.ms (3)",
        ),
        (
            TOPIC,
            {"zzz": "1", "flush.ms": "1", "aaa": "1"},
            InvalidConfiguration,
            "Unknown topic config name: aaa",
        ),
        (
            TOPIC,
            {"compression.type": "x", "segment.ms": "x", "cleanup.policy": "x"},
            InvalidRequest,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
            "Invalid value x for configuration segment.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            {"follower.replication.throttled.rate": "x", UNCLEAN: "x", RATE: "x"},
            InvalidRequest,
            "Invalid config value for resource ConfigResource(type=BROKER, name='0'): "
            f"Invalid value x for configuration {RATE}: Not a number of type LONG",
        ),
        (
            TOPIC,
            {"flush.ms": "x"},
            InvalidRequest,
            "Invalid config value for resource ConfigResource(type=TOPIC, name='t'): "
            "Invalid value x for configuration flush.ms: Not a number of type LONG",
        ),
        (
            ALL_BROKERS,
            {RATE: "-1"},
            InvalidRequest,
            "Invalid config value for resource ConfigResource(type=BROKER, name=''): "
            f"Invalid value -1 for configuration {RATE}: Value must be at least 0",
        ),
        (
            BROKER,
            {"zookeeper.connect": "x"},
            InvalidRequest,
            "Invalid config value for resource ConfigResource(type=BROKER, name='0'): "
            "Cannot update these configs dynamically: Set(zookeeper.connect)",
        ),
    ],
)
def test_a_refused_change_of_configs_writes_nothing(
    world: World,
    resource: ConfigResource,
    wanted: dict[str, str | None],
    kind: type[AdminError],
    said: str,
) -> None:
    before = dump(world.client.store)
    with pytest.raises(kind) as raised:
        alter(world, resource, wanted)
    assert raised.value.message == said
    assert dump(world.client.store) == before


@pytest.mark.parametrize("name", ["01", "+1", "\uff11"])
def test_a_broker_id_is_parsed_before_the_config_znode_is_written(world: World, name: str) -> None:
    resource = checked_resource(ConfigResource(BROKERS, name))
    assert resource.name == "1"
    change_configs(world.client, ConfigResource(BROKERS, name), {RATE: "5"})
    assert world.client.get_all_entities_with_config(BROKERS) == ["1"]


def test_a_broker_id_with_a_space_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Broker id must be an integer, but it is:  1"):
        checked_resource(ConfigResource(BROKERS, " 1"))


@pytest.mark.parametrize(
    "name", ["log.cleaner.threads", "log.retention.bytes", "max.connections.per.ip"]
)
def test_a_config_that_klamm_does_not_support_is_refused_with_those_it_does(
    world: World, name: str
) -> None:
    with pytest.raises(UsageError, match=r"is not a dynamic config of klamm.s brokers") as raised:
        alter(world, BROKER, {name: "2"})
    assert UNCLEAN in str(raised.value.hint)


def test_overrides_are_shown_as_brokers_read_them() -> None:
    stored = {"min.cleanable.dirty.ratio": "0", "cleanup.policy": "delete , compact"}
    assert shown_overrides(
        {**stored, "preallocate": "TRUE", "segment.ms": "x", "no.such": "1"}
    ) == {
        "min.cleanable.dirty.ratio": "0.0",
        "cleanup.policy": "delete,compact",
        "preallocate": "true",
        "segment.ms": "x",
        "no.such": "1",
    }


def test_topic_configs_hold_before_broker_configs_and_broker_configs_before_defaults() -> None:
    broker = BrokerConfigs({}, {UNCLEAN: "true"}, {"min.insync.replicas": "2"})
    entries = {entry.name: entry for entry in topic_entries({"retention.ms": " 5"}, broker)}
    assert entries["retention.ms"].value == "5"
    assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert [synonym.source.value for synonym in entries[UNCLEAN].synonyms] == [
        "DYNAMIC_DEFAULT_BROKER_CONFIG",
        "DEFAULT_CONFIG",
    ]
    assert entries[UNCLEAN].value == "true"
    assert entries["min.insync.replicas"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert entries["flush.ms"] == ConfigEntry("flush.ms", "9223372036854775807")


def test_a_brokers_own_value_is_stronger_than_that_of_all() -> None:
    broker = BrokerConfigs({RATE: "7"}, {RATE: "9"})
    [entry] = [entry for entry in broker_entries(broker) if entry.name == RATE]
    assert (entry.value, [one.value for one in entry.synonyms]) == ("7", ["7", "9"])


def test_an_override_is_followed_by_its_synonyms() -> None:
    ms, hours = "log.roll.ms", "log.roll.hours"
    broker = BrokerConfigs(static={hours: "1", ms: "4"})
    entries = {entry.name: entry for entry in topic_entries({"segment.ms": "9"}, broker)}
    assert [(one.source.value, one.name, one.value) for one in entries["segment.ms"].synonyms] == [
        ("DYNAMIC_TOPIC_CONFIG", "segment.ms", "9"),
        ("STATIC_BROKER_CONFIG", ms, "4"),
        ("STATIC_BROKER_CONFIG", hours, "1"),
        ("DEFAULT_CONFIG", hours, "168"),
    ]


def test_a_broker_shows_every_config_that_it_takes_at_its_start() -> None:
    static = {"broker.id": "3", "log.roll.hours": " 5", "log.retention.minutes": "7"}
    own = {"replica.fetch.max.bytes": "8", RATE: "x", "of.a.plugin": "y"}
    entries = {entry.name: entry for entry in broker_entries(BrokerConfigs(own=own, static=static))}
    at_start = {name for name, config in BROKER_CONFIGS.items() if config.at_start}
    assert entries.keys() == {"broker.id", "of.a.plugin", *at_start}
    assert (entries["broker.id"].value, entries["of.a.plugin"].value) == ("3", "y")
    values = {name: entry.value for name, entry in entries.items()}
    assert values["inter.broker.protocol.version"] == "2.8-IV1"
    assert (values["log.dir"], values["log.dirs"]) == ("kafka-logs", None)
    assert (values["log.roll.hours"], values["log.roll.ms"]) == ("5", None)
    assert values["replica.fetch.max.bytes"] == "1048576", "it does not change while a broker runs"
    assert entries["log.retention.ms"] == ConfigEntry("log.retention.ms", None)
    assert [(one.name, one.value) for one in entries["log.retention.minutes"].synonyms] == [
        ("log.retention.minutes", "7"),
        ("log.retention.hours", "168"),
    ]
    assert entries["broker.id"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert RATE not in entries, "a value that is no rate does not count"


def test_a_topic_has_its_brokers_value_in_coarser_units_but_not_its_source() -> None:
    coarse = BrokerConfigs(static={"log.roll.hours": "2", "log.retention.hours": "-1"})
    entries = {entry.name: entry for entry in topic_entries({}, coarse)}
    assert entries["segment.ms"] == ConfigEntry("segment.ms", "7200000")
    assert entries["retention.ms"] == ConfigEntry("retention.ms", "-1")
    fine = BrokerConfigs(static={"log.roll.hours": "2", "log.roll.ms": "9"})
    [entry] = [entry for entry in topic_entries({}, fine) if entry.name == "segment.ms"]
    assert entry.value == "9"
    assert [(one.name, one.value) for one in entry.synonyms] == [
        ("log.roll.ms", "9"),
        ("log.roll.hours", "2"),
        ("log.roll.hours", "168"),
    ]


def test_static_broker_configs_are_shown_for_topics() -> None:
    static = {"min.insync.replicas": " 2", "log.segment.bytes": "99", "log.roll.hours": "1"}
    assert static_topic_configs(static) == {"min.insync.replicas": "2", "segment.bytes": "99"}


@pytest.mark.parametrize("name", ["compression.type", "log.retention.ms", "min.insync.replicas"])
def test_a_default_of_topics_that_only_kafka_can_change_is_refused(world: World, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} is not a dynamic config of klamm"):
        alter(world, BROKER, {name: "1"})
