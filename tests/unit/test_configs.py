"""The table of configs: its rows hold together, and who reads it sees all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.admin.config_validation import validate_broker_configs
from klamm.admin.configs.effective_configs import BrokerConfigs, broker_entries
from klamm.brokers.config import BrokerConfig
from klamm.brokers.log_configs import broker_log_config
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG
from klamm.cluster.configs import (
    BROKER_CONFIGS,
    CONFIGS,
    THROTTLED_RATES,
    TOPIC_CONFIGS,
    Config,
    Scope,
    Type,
    broker_fields,
    check_broker_configs,
    topic_default,
    value_text,
)
from klamm.cluster.errors import InvalidConfig, UsageError
from klamm.cluster.jvm.java_double import double_text, parse_double
from klamm.controller.config import ControllerConfig
from klamm.wire.config import InterBrokerConfig, ListenerConfig

READ_BY_NAME = {
    "control.plane.listener.name",
    "inter.broker.protocol.version",
    "klamm.log.dir.bytes.per.second",
    "klamm.network.in.bytes.per.second",
    "klamm.network.out.bytes.per.second",
    "log.dir",
    "transactional.id.expiration.ms",
    "zookeeper.connection.timeout.ms",
    "zookeeper.set.acl",
}


def config(name: str) -> Config:
    """A row, of brokers if topics have one of that name too."""
    return BROKER_CONFIGS.get(name) or TOPIC_CONFIGS[name]


def test_rows_are_unique_and_their_defaults_valid() -> None:
    names = [(one.scope.value, one.name) for one in CONFIGS]
    assert len(names) == len(set(names))
    for one in CONFIGS:
        if one.default is not None:
            assert value_text(one.parse(one.default)) == one.default


def test_every_config_that_a_broker_takes_at_its_start_is_read() -> None:
    readers = (BrokerConfig, ControllerConfig, InterBrokerConfig, ListenerConfig)
    fields = {field for reader in readers for field in reader.__struct_fields__}
    topics = {name for one in TOPIC_CONFIGS.values() for name in one.synonyms}
    coarser = {name for one in BROKER_CONFIGS.values() for name in one.synonyms}
    read = {field.replace("_", ".") for field in fields} | topics | coarser | READ_BY_NAME
    assert {one.name for one in BROKER_CONFIGS.values() if one.at_start} <= read


def test_a_topic_has_the_defaults_of_a_broker_that_sets_nothing() -> None:
    for one in TOPIC_CONFIGS.values():
        assert topic_default(one, {}) == one.default_value, one.name
    assert broker_log_config({}) == DEFAULT_LOG_CONFIG


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("auto.leader.rebalance.enable", " TRUE ", True),
        ("num.partitions", "+7", 7),
        ("num.partitions", "1", 1),
        ("num.partitions", "2147483647", 2**31 - 1),
        ("log.segment.bytes", "14", 14),
        ("retention.bytes", "-9223372036854775808", -(2**63)),
        ("retention.bytes", "9223372036854775807", 2**63 - 1),
        ("cleanup.policy", "compact , delete", ["compact", "delete"]),
        ("leader.replication.throttled.replicas", "", []),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("inter.broker.protocol.version", "2.6.2", "2.6.2"),
    ],
)
def test_texts_stand_for_values(name: str, text: str, value: object) -> None:
    found = config(name).parse(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("num.partitions", " 1e3", " 1e3 for configuration .*: Not a number of type INT"),
        ("num.partitions", "2147483648", "Not a number of type INT"),
        ("num.partitions", "-2147483649", "Not a number of type INT"),
        ("num.partitions", "0", "Value must be at least 1"),
        ("flush.ms", "9223372036854775808", "Not a number of type LONG"),
        ("min.cleanable.dirty.ratio", "half", "Not a number of type DOUBLE"),
        ("min.cleanable.dirty.ratio", "1.5", "1.5 for .*: Value must be no more than 1"),
        ("log.segment.bytes", "13", "Value must be at least 14"),
        ("delete.topic.enable", "yes", "Expected value to be either true or false"),
        ("cleanup.policy", "delete,shred", "shred for .*: String must be one of: compact, delete"),
        ("compression.type", "bzip2", "must be one of: uncompressed, zstd, lz4, snappy, gzip"),
        ("message.format.version", "2.8-IV7", "Version `2.8-IV7` is not a valid version"),
        ("leader.replication.throttled.replicas", "0:1,x", r"\[0:1, x\] for .*must be the literal"),
    ],
)
def test_texts_that_are_not_valid_are_refused_in_kafkas_words(
    name: str, text: str, said: str
) -> None:
    with pytest.raises(InvalidConfig, match=f"^Invalid value .*{said}"):
        config(name).parse(text)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (" , ", "At least one log directory must be defined via log.dirs or log.dir."),
        ("/a,/b,/a", "Duplicate log directory found: /a, /b, /a"),
    ],
)
def test_log_dirs_that_cannot_be_used_are_refused(value: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        config("log.dirs").parse(value)
    assert refused.value.message == said


@pytest.mark.parametrize(
    ("name", "text", "said", "hint"),
    [
        ("num.partition", "1", "unknown config num.partition", "did you mean num.partitions?"),
        ("x", "1", "unknown config x", "docs/configs.md lists them"),
        (
            "zookeeper.session.timeout.ms",
            "1",
            "unknown config zookeeper.session.timeout.ms",
            "use --session-timeout-ms, or session_timeout in a drill",
        ),
        ("broker.id", "1", "unknown config broker.id", ""),
        (
            "num.partitions",
            "0",
            "Invalid value 0 for configuration num.partitions: Value must be at least 1",
            "type int, at least 1",
        ),
    ],
)
def test_a_cluster_is_started_only_with_configs_that_brokers_read_at_the_start(
    name: str, text: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as raised:
        check_broker_configs({name: text})
    assert raised.value.message == said
    assert str(raised.value.hint).startswith(hint)


# A new config, by the steps in CONTRIBUTING.md.


class GrownConfig(BrokerConfig, frozen=True, kw_only=True):
    """Step 2: a field of the struct that the reader has."""

    replica_fetch_min_bytes: int


def test_a_new_config_is_a_row_and_a_field(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "replica.fetch.min.bytes"
    # Step 1: a row of the table.
    row = Config(Scope.BROKER, name, Type.INT, "1", dynamic=True)
    monkeypatch.setitem(BROKER_CONFIGS, name, row)
    check_broker_configs({name: "5"})
    validate_broker_configs({name: "6"}, {name: "6"})
    entries = broker_entries(BrokerConfigs({name: "6"}, {}, {name: "5"}))
    [synonyms] = [entry.synonyms for entry in entries if entry.name == name]
    assert [one.value for one in synonyms] == ["6", "5", "1"]
    values = broker_fields(GrownConfig.__struct_fields__, {name: "5"})
    # Step 3: whoever reads the field.
    assert values["replica_fetch_min_bytes"] == 5


def test_broker_configs_have_kafkas_names() -> None:
    recorded = Path(__file__).parents[1] / "data" / "admin" / "broker_config_names.txt"
    unknown = BROKER_CONFIGS.keys() - set(recorded.read_text().split()) - set(THROTTLED_RATES)
    assert [name for name in sorted(unknown) if not name.startswith("klamm.")] == []


def test_more_than_four_configs_that_are_not_dynamic_are_in_the_order_of_a_scala_hash_set() -> None:
    fixed = {
        "offsets.topic.replication.factor": "1",
        "replica.socket.timeout.ms": "1",
        "replica.fetch.max.bytes": "1",
        "transactional.id.expiration.ms": "1",
        "auto.create.topics.enable": "true",
    }
    with pytest.raises(InvalidConfig) as raised:
        validate_broker_configs(fixed, fixed)
    assert raised.value.message == (
        "Cannot update these configs dynamically: HashSet(offsets.topic.replication.factor, "
        "replica.fetch.max.bytes, replica.socket.timeout.ms, transactional.id.expiration.ms, "
        "auto.create.topics.enable)"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1", "1.0"),
        (" -0 ", "-0.0"),
        ("1e3", "1000.0"),
        ("9999999", "9999999.0"),
        ("1E7", "1.0E7"),
        ("1e-3", "0.001"),
        ("-9.99e-4", "-9.99E-4"),
        ("123456789.125", "1.23456789125E8"),
        ("+.5e-2f", "0.005"),
        ("5.D", "5.0"),
        ("1e400", "Infinity"),
        ("-Infinity", "-Infinity"),
        ("+NaN", "NaN"),
    ],
)
def test_a_double_is_read_and_shown_as_java_does(text: str, shown: str) -> None:
    assert double_text(parse_double(text)) == shown


@pytest.mark.parametrize("text", ["", "1_0", "nan", "inf", "1L", "e5", "0x1", "\uff11"])
def test_text_that_java_refuses_as_a_double_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        parse_double(text)
    with pytest.raises(InvalidConfig, match="Not a number of type DOUBLE"):
        TOPIC_CONFIGS["min.cleanable.dirty.ratio"].parse(text)
