"""Table of all broker and topic configs that klamm supports.

Other modules keep config values as text, and parse them with this table when they are used. Names,
types, defaults and limits are taken from kafka.server.KafkaConfig, kafka.log.LogConfig and
kafka.server.DynamicConfig, and error messages from org.apache.kafka.common.config.ConfigDef. Where
Kafka accepts meaningless values, such as a negative timeout, klamm adds a limit. docs/configs.md
shows the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple

from klamm.cluster.api_version import LATEST, is_api_version
from klamm.cluster.errors import InvalidConfig, UsageError
from klamm.cluster.jvm.java_double import double_text, parse_double
from klamm.cluster.jvm.java_integer import parse_java_int
from klamm.cluster.jvm.java_strings import java_trim
from klamm.cluster.suggestions import suggestion

LEADER_THROTTLED_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_THROTTLED_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_THROTTLED_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
THROTTLED_RATES: Final = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE, LOG_DIRS_THROTTLED_RATE)
LEADER_THROTTLED_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_THROTTLED_REPLICAS: Final = "follower.replication.throttled.replicas"
NETWORK_IN_CAPACITY: Final = "klamm.network.in.bytes.per.second"
NETWORK_OUT_CAPACITY: Final = "klamm.network.out.bytes.per.second"
LOG_DIR_CAPACITY: Final = "klamm.log.dir.bytes.per.second"
CAPACITIES: Final = (LOG_DIR_CAPACITY, NETWORK_IN_CAPACITY, NETWORK_OUT_CAPACITY)
"""klamm-specific configs: log directory and network bandwidth of a simulated broker."""
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
UNCLEAN: Final = "unclean.leader.election.enable"

_MAX_LONG: Final = str(2**63 - 1)
_UNITS_MS: Final = {"hours": 3_600_000, "minutes": 60_000}
_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?")


class Scope(Enum):
    """Entity type to which a config applies."""

    BROKER = "broker"
    TOPIC = "topic"


class Type(Enum):
    """Types of config values, with Kafka's names in lower case."""

    BOOLEAN = "boolean"
    DOUBLE = "double"
    INT = "int"
    LIST = "list"
    LONG = "long"
    STRING = "string"


class Validator(NamedTuple):
    """Constraint on a config value.

    - ``words``: description of the constraint for users.
    - ``check``: function of the config name and the parsed value. Raises InvalidConfig if the value
      violates the constraint.
    """

    words: str
    check: Callable[[str, Any], None]


def _invalid(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value_text(value)} for configuration {name}: {why}")


def value_text(value: object) -> str:
    """Format the parsed value of a config as text, as Kafka does."""
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return double_text(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parse(name: str, kind: Type, text: str) -> Any:
    word = java_trim(text)
    if kind in (Type.INT, Type.LONG):
        number = parse_java_int(word, 32 if kind is Type.INT else 64)
        if number is None:
            raise _invalid(name, text, f"Not a number of type {kind.name}")
        return number
    if kind is Type.BOOLEAN:
        if word.lower() not in ("true", "false"):
            raise _invalid(name, text, "Expected value to be either true or false")
        return word.lower() == "true"
    if kind is Type.LIST:
        return re.split(r"\s*,\s*", word, flags=re.ASCII) if word else []
    if kind is Type.STRING:
        return word
    try:
        return parse_double(word)
    except ValueError:
        raise _invalid(name, text, "Not a number of type DOUBLE") from None


def _range(least: int, most: int | None = None) -> Validator:
    def check(name: str, value: float) -> None:
        if value < least:
            raise _invalid(name, value, f"Value must be at least {least}")
        if most is not None and value > most:
            raise _invalid(name, value, f"Value must be no more than {most}")

    return Validator(f"at least {least}" if most is None else f"{least} to {most}", check)


def _one_of(*words: str) -> Validator:
    def check(name: str, value: str) -> None:
        if value not in words:
            raise _invalid(name, value, f"String must be one of: {', '.join(words)}")

    return Validator(f"one of {', '.join(words)}", check)


def _all_of(*words: str) -> Validator:
    def check(name: str, values: list[str]) -> None:
        for value in values:
            _one_of(*words).check(name, value)

    return Validator(f"some of {', '.join(words)}", check)


def _check_throttled(name: str, values: list[str]) -> None:
    if not all(map(_THROTTLED.fullmatch, values)) and values != ["*"]:
        raise _invalid(
            name,
            f"[{', '.join(values)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def _check_version(name: str, value: str) -> None:
    if not is_api_version(value):
        raise _invalid(name, value, f"Version `{value}` is not a valid version")


def _check_log_dirs(_: str, value: str) -> None:
    paths = split_log_dirs(value)
    if not paths:
        raise InvalidConfig("At least one log directory must be defined via log.dirs or log.dir.")
    if len(set(paths)) < len(paths):
        raise InvalidConfig(f"Duplicate log directory found: {', '.join(paths)}")


def split_log_dirs(text: str) -> tuple[str, ...]:
    """Split the value of log.dirs or log.dir, a comma-separated list, into paths."""
    return tuple(path for path in (part.strip() for part in text.split(",")) if path)


@dataclass(frozen=True)
class Config:
    """Definition of one broker or topic config.

    - ``default``: default value as text, or None if the config has no default.
    - ``synonyms``: broker configs that apply if this config is not set. For a broker config, these
      are variants with coarser units; for a topic config, the broker config for its default.
    - ``at_start``: True if ``klamm up`` and drills accept the broker config.
    - ``dynamic``: True if the broker config can be changed while the broker is running.
    - ``is_dynamic_in_kafka``: True if brokers of Kafka can change the config while they run, and
      klamm's cannot. The defaults of topic configs are such configs without being marked.

    A broker config that is neither ``at_start`` nor ``dynamic`` is set in another way, for example
    by an option of ``klamm up``. Topic configs can be changed at any time.
    """

    scope: Scope
    name: str
    type: Type
    default: str | None = None
    validator: Validator | None = None
    synonyms: tuple[str, ...] = ()
    at_start: bool = True
    dynamic: bool = False
    is_dynamic_in_kafka: bool = False

    @cached_property
    def default_value(self) -> Any:
        """Parsed default value, or None if the config has no default."""
        return None if self.default is None else _parse(self.name, self.type, self.default)

    def parse(self, text: str) -> Any:
        """Parse and validate a value. Raises InvalidConfig if the value is not valid."""
        value = _parse(self.name, self.type, text)
        if self.validator is not None:
            self.validator.check(self.name, value)
        return value

    def value(self, configs: Mapping[str, str]) -> Any:
        """Return the config's parsed value from ``configs``, or the default if it is not set.

        Raises InvalidConfig if the value is not valid.
        """
        return self.parse(configs[self.name]) if self.name in configs else self.default_value

    def is_valid(self, text: str) -> bool:
        """Return True if ``text`` is a valid value of the config."""
        try:
            self.parse(text)
        except InvalidConfig:
            return False
        return True


def _broker(name: str, *columns: Any, **others: Any) -> Config:
    return Config(Scope.BROKER, name, *columns, **others)


def _fixed(name: str, *columns: Any) -> Config:
    """Return a broker config that only brokers of Kafka can change while they run."""
    return _broker(name, *columns, is_dynamic_in_kafka=True)


def _topic(
    name: str, synonym: str | None, kind: Type, default: str, validator: Validator | None = None
) -> Config:
    synonyms = (synonym,) if synonym else ()
    return Config(Scope.TOPIC, name, kind, default, validator, synonyms)


def _log(name: str, *columns: Any) -> Config:
    """Return a topic config that is log.NAME for brokers."""
    return _topic(name, f"log.{name}", *columns)


_BOOLEAN, _DOUBLE, _INT, _LIST, _LONG, _STRING = Type
_COUNT: Final = _range(0)
_POSITIVE: Final = _range(1)
_LIMIT: Final = _range(-1)
_COMPRESSION: Final = _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_POLICIES: Final = _all_of("compact", "delete")
_TIMESTAMP_TYPE: Final = _one_of("CreateTime", "LogAppendTime")
_VERSION: Final = Validator("a version of Kafka, at most 2.8", _check_version)
_THROTTLES: Final = Validator("* or partition:broker, ...", _check_throttled)
_MECHANISM: Final = _one_of(*SASL_MECHANISMS)
_MECHANISMS: Final = _all_of(*SASL_MECHANISMS)
_IDENTIFICATION: Final = Validator("https, or empty", _one_of("https", "").check)
_CLIENT_AUTH: Final = _one_of("required", "requested", "none")
_LOG_DIRS: Final = Validator("comma-separated paths", _check_log_dirs)

CONFIGS: Final = (
    _broker(LEADER_THROTTLED_RATE, _LONG, None, _COUNT, at_start=False, dynamic=True),
    _broker(FOLLOWER_THROTTLED_RATE, _LONG, None, _COUNT, at_start=False, dynamic=True),
    _broker(LOG_DIRS_THROTTLED_RATE, _LONG, None, _COUNT, at_start=False, dynamic=True),
    _broker("advertised.listeners", _STRING, at_start=False, is_dynamic_in_kafka=True),
    _broker("auto.create.topics.enable", _BOOLEAN, "true"),
    _broker("auto.leader.rebalance.enable", _BOOLEAN, "true"),
    _broker("broker.id", _INT, "-1", at_start=False),
    _broker("broker.rack", _STRING, at_start=False),
    _broker("compression.type", _STRING, "producer", _COMPRESSION),
    _broker("connection.failed.authentication.delay.ms", _INT, "100", _COUNT),
    _broker("connections.max.idle.ms", _LONG, "600000", _POSITIVE),
    _broker("control.plane.listener.name", _STRING),
    _broker("controlled.shutdown.enable", _BOOLEAN, "true"),
    _broker("controlled.shutdown.max.retries", _INT, "3", _COUNT),
    _broker("controlled.shutdown.retry.backoff.ms", _LONG, "5000", _COUNT),
    _broker("controller.socket.timeout.ms", _INT, "30000", _POSITIVE),
    _broker("default.replication.factor", _INT, "1", _POSITIVE),
    _broker("delete.topic.enable", _BOOLEAN, "true"),
    _broker("fetch.max.bytes", _INT, "57671680", _range(1024)),
    _broker("group.initial.rebalance.delay.ms", _INT, "3000", _COUNT),
    _broker("group.max.session.timeout.ms", _INT, "1800000", _POSITIVE),
    _broker("group.max.size", _INT, "2147483647", _POSITIVE),
    _broker("group.min.session.timeout.ms", _INT, "6000", _COUNT),
    _broker("inter.broker.protocol.version", _STRING, LATEST, _VERSION),
    _broker(LOG_DIR_CAPACITY, _LONG, _MAX_LONG, _COUNT, dynamic=True),
    _broker(NETWORK_IN_CAPACITY, _LONG, _MAX_LONG, _COUNT, dynamic=True),
    _broker(NETWORK_OUT_CAPACITY, _LONG, _MAX_LONG, _COUNT, dynamic=True),
    _broker("klamm.sasl.inter.broker.user.location", _STRING),
    _broker("klamm.sasl.plain.users.location", _STRING),
    _broker("klamm.ssl.key.password.location", _STRING),
    _broker("leader.imbalance.check.interval.seconds", _LONG, "300", _POSITIVE),
    _broker("leader.imbalance.per.broker.percentage", _INT, "10", _COUNT),
    _broker("log.cleanup.policy", _LIST, "delete", _POLICIES),
    _broker("log.dir", _STRING, "kafka-logs", _LOG_DIRS),
    _broker("log.dirs", _STRING, None, _LOG_DIRS),
    _broker("log.flush.interval.messages", _LONG, _MAX_LONG, _POSITIVE),
    _broker("log.flush.interval.ms", _LONG, None, _COUNT, ("log.flush.scheduler.interval.ms",)),
    _broker("log.flush.offset.checkpoint.interval.ms", _INT, "60000", _COUNT),
    _broker("log.flush.scheduler.interval.ms", _LONG, _MAX_LONG, _POSITIVE),
    _broker("log.flush.start.offset.checkpoint.interval.ms", _INT, "60000", _COUNT),
    _broker("log.index.interval.bytes", _INT, "4096", _COUNT),
    _broker("log.index.size.max.bytes", _INT, "10485760", _range(4)),
    _broker("log.message.timestamp.difference.max.ms", _LONG, _MAX_LONG, _COUNT),
    _broker("log.message.timestamp.type", _STRING, "CreateTime", _TIMESTAMP_TYPE),
    _broker("log.retention.bytes", _LONG, "-1", _LIMIT),
    _broker("log.retention.check.interval.ms", _LONG, "300000", _POSITIVE),
    _broker("log.retention.hours", _INT, "168", _LIMIT),
    _broker("log.retention.minutes", _INT, None, _LIMIT, ("log.retention.hours",)),
    _broker(
        "log.retention.ms", _LONG, None, _LIMIT, ("log.retention.minutes", "log.retention.hours")
    ),
    _broker("log.roll.hours", _INT, "168", _POSITIVE),
    _broker("log.roll.ms", _LONG, None, _POSITIVE, ("log.roll.hours",)),
    _broker("log.segment.bytes", _INT, "1073741824", _range(14)),
    _broker("log.segment.delete.delay.ms", _LONG, "60000", _COUNT),
    _fixed("max.connections", _INT, "2147483647", _COUNT),
    _fixed("max.connections.per.ip", _INT, "2147483647", _COUNT),
    _broker("max.incremental.fetch.session.cache.slots", _INT, "1000", _COUNT),
    _broker("message.max.bytes", _INT, "1048588", _COUNT),
    _broker("min.insync.replicas", _INT, "1", _POSITIVE),
    _broker("num.partitions", _INT, "1", _POSITIVE),
    _broker("num.replica.alter.log.dirs.threads", _INT, None, _POSITIVE),
    _broker("offset.metadata.max.bytes", _INT, "4096", _COUNT),
    _broker("offsets.commit.timeout.ms", _INT, "5000", _POSITIVE),
    _broker("offsets.retention.check.interval.ms", _LONG, "600000", _POSITIVE),
    _broker("offsets.retention.minutes", _INT, "10080", _POSITIVE),
    _broker("offsets.topic.num.partitions", _INT, "50", _POSITIVE),
    _broker("offsets.topic.replication.factor", _INT, "3", _range(1, 32767)),
    _broker("offsets.topic.segment.bytes", _INT, "104857600", _POSITIVE),
    _broker("replica.fetch.backoff.ms", _INT, "1000", _COUNT),
    _broker("replica.fetch.max.bytes", _INT, "1048576", _COUNT),
    _broker("replica.fetch.wait.max.ms", _INT, "500", _COUNT),
    _broker("replica.high.watermark.checkpoint.interval.ms", _LONG, "5000", _COUNT),
    _broker("replica.lag.time.max.ms", _LONG, "30000", _COUNT),
    _broker("replica.socket.timeout.ms", _INT, "30000", _COUNT),
    _broker("request.timeout.ms", _INT, "30000", _COUNT),
    _fixed("sasl.enabled.mechanisms", _LIST, ",".join(SASL_MECHANISMS), _MECHANISMS),
    _fixed("sasl.mechanism.inter.broker.protocol", _STRING, None, _MECHANISM),
    _broker("socket.request.max.bytes", _INT, "104857600", _POSITIVE),
    _fixed("ssl.client.auth", _STRING, "none", _CLIENT_AUTH),
    _fixed("ssl.endpoint.identification.algorithm", _STRING, "https", _IDENTIFICATION),
    _fixed("ssl.keystore.location", _STRING),
    _fixed("ssl.truststore.location", _STRING),
    _broker("transaction.state.log.min.isr", _INT, "2", _POSITIVE),
    _broker("transaction.state.log.num.partitions", _INT, "50", _POSITIVE),
    _broker("transaction.state.log.replication.factor", _INT, "3", _range(1, 32767)),
    _broker("transaction.state.log.segment.bytes", _INT, "104857600", _POSITIVE),
    _broker("transactional.id.expiration.ms", _INT, "604800000", _POSITIVE),
    _broker(UNCLEAN, _BOOLEAN, "false", dynamic=True),
    _broker("zookeeper.connect", _STRING, at_start=False),
    _broker("zookeeper.connection.timeout.ms", _INT, None, _POSITIVE),
    _broker("zookeeper.session.timeout.ms", _INT, at_start=False),
    _broker("zookeeper.set.acl", _BOOLEAN, "false"),
    _log("segment.bytes", _INT, "1073741824", _range(14)),
    _topic("segment.ms", "log.roll.ms", _LONG, "604800000", _POSITIVE),
    _topic("segment.jitter.ms", None, _LONG, "0", _COUNT),
    _topic("segment.index.bytes", "log.index.size.max.bytes", _INT, "10485760", _COUNT),
    _topic("flush.messages", "log.flush.interval.messages", _LONG, _MAX_LONG, _COUNT),
    _topic("flush.ms", "log.flush.interval.ms", _LONG, _MAX_LONG, _COUNT),
    _log("retention.bytes", _LONG, "-1"),
    _log("retention.ms", _LONG, "604800000", _LIMIT),
    _topic("max.message.bytes", "message.max.bytes", _INT, "1048588", _COUNT),
    _log("index.interval.bytes", _INT, "4096", _COUNT),
    _topic("delete.retention.ms", "log.cleaner.delete.retention.ms", _LONG, "86400000", _COUNT),
    _topic("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms", _LONG, "0", _COUNT),
    _topic(
        "max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms", _LONG, _MAX_LONG, _POSITIVE
    ),
    _topic("file.delete.delay.ms", "log.segment.delete.delay.ms", _LONG, "60000", _COUNT),
    _topic(
        "min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio", _DOUBLE, "0.5", _range(0, 1)
    ),
    _log("cleanup.policy", _LIST, "delete", _POLICIES),
    _topic(UNCLEAN, UNCLEAN, _BOOLEAN, "false"),
    _topic("min.insync.replicas", "min.insync.replicas", _INT, "1", _POSITIVE),
    _topic("compression.type", "compression.type", _STRING, "producer", _COMPRESSION),
    _log("preallocate", _BOOLEAN, "false"),
    _log("message.format.version", _STRING, LATEST, _VERSION),
    _log("message.timestamp.type", _STRING, "CreateTime", _TIMESTAMP_TYPE),
    _log("message.timestamp.difference.max.ms", _LONG, _MAX_LONG, _COUNT),
    _topic(LEADER_THROTTLED_REPLICAS, None, _LIST, "", _THROTTLES),
    _topic(FOLLOWER_THROTTLED_REPLICAS, None, _LIST, "", _THROTTLES),
    _log("message.downconversion.enable", _BOOLEAN, "true"),
)
"""All configs, in the order in which Kafka validates their values (DynamicConfig, LogConfig)."""
BROKER_CONFIGS: Final = {one.name: one for one in CONFIGS if one.scope is Scope.BROKER}
TOPIC_CONFIGS: Final = {one.name: one for one in CONFIGS if one.scope is Scope.TOPIC}


def with_synonyms(name: str) -> tuple[str, ...]:
    """Return the name of a broker config followed by its synonyms, in order of precedence."""
    return (name, *BROKER_CONFIGS[name].synonyms) if name in BROKER_CONFIGS else (name,)


def valid_dynamic_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the dynamic configs of a broker that have an effect.

    As in Kafka, values that are invalid and configs that are not dynamic are ignored.
    """
    return {
        name: text
        for name, text in configs.items()
        if (config := BROKER_CONFIGS.get(name)) is None
        or (config.dynamic and config.is_valid(text))
    }


def effective_broker_configs(
    own: Mapping[str, str], of_all: Mapping[str, str], static: Mapping[str, str]
) -> dict[str, str]:
    """Return the effective values of the configs that are set for a broker.

    The broker's own dynamic configs precede those of all brokers, and these the static configs.
    """
    return {**static, **valid_dynamic_configs(of_all), **valid_dynamic_configs(own)}


def topic_default(config: Config, broker: Mapping[str, str]) -> Any:
    """Return the value of a topic config for topics that do not override it.

    If ``broker`` contains one of the config's synonyms, its value is used, otherwise the default.
    Raises InvalidConfig if a broker config has an invalid value.
    """
    for name in with_synonyms(config.synonyms[0]) if config.synonyms else ():
        value = BROKER_CONFIGS[name].value(broker) if name in BROKER_CONFIGS else None
        if value is not None:
            unit_ms = _UNITS_MS.get(name.rpartition(".")[2])
            return value if unit_ms is None else max(value * unit_ms, -1)
    return config.default_value


def broker_fields(fields: Collection[str], configs: Mapping[str, str]) -> dict[str, Any]:
    """Return the parsed value for each of ``fields`` that is named after a broker config.

    For example, the field ``num_partitions`` gets the value of num.partitions. Other fields are
    omitted. Raises InvalidConfig if a value in ``configs`` is not valid.
    """
    found = {field: BROKER_CONFIGS.get(field.replace("_", ".")) for field in fields}
    return {field: one.value(configs) for field, one in found.items() if one and one.at_start}


_SET_OTHERWISE: Final = {
    "zookeeper.session.timeout.ms": "use --session-timeout-ms, or session_timeout in a drill",
    "broker.rack": "use --racks, or racks in a drill",
}


def check_broker_configs(configs: Mapping[str, str]) -> None:
    """Check the broker configs that a user has given to start a cluster.

    Raises UsageError if a config is unknown or has an invalid value.
    """
    known = [one.name for one in BROKER_CONFIGS.values() if one.at_start]
    for name, text in configs.items():
        if name not in known:
            hint = _SET_OTHERWISE.get(name) or suggestion(name, known, "docs/configs.md lists them")
            raise UsageError(f"unknown config {name}", hint=hint)
        one = BROKER_CONFIGS[name]
        try:
            one.parse(text)
        except InvalidConfig as error:
            words = f", {one.validator.words}" if one.validator else ""
            raise UsageError(error.message, hint=f"type {one.type.value}{words}") from None
