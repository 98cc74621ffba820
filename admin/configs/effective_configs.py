"""Which value a config has, and why: the topic's, the broker's, all brokers', the file's, Kafka's.

Values in, entries out; nothing is read here. Mirrors kafka.server.ConfigHelper,
LogConfig.TopicConfigSynonyms and the precedence of kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from admin.configs.config_resource import BROKER_THROTTLES
from admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from admin.topics.topic_configs import TOPIC_CONFIGS

UNCLEAN: Final = "unclean.leader.election.enable"
BROKER_CAPACITIES: Final = (
    "klamm.log.dir.bytes.per.second",
    "klamm.network.in.bytes.per.second",
    "klamm.network.out.bytes.per.second",
)
"""klamm's own: what the disks and the network of a simulated broker carry."""
DYNAMIC_BROKER_CONFIGS: Final = (*BROKER_THROTTLES, *BROKER_CAPACITIES, UNCLEAN)
"""The configs that klamm's brokers take while they run."""

BROKER_DEFAULTS: Final[Mapping[str, str]] = {
    "auto.leader.rebalance.enable": "true",
    "broker.id": "-1",
    "compression.type": "producer",
    "controlled.shutdown.enable": "true",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "5000",
    "controller.socket.timeout.ms": "30000",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    "leader.imbalance.check.interval.seconds": "300",
    "leader.imbalance.per.broker.percentage": "10",
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.flush.scheduler.interval.ms": "9223372036854775807",
    "log.flush.start.offset.checkpoint.interval.ms": "60000",
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.difference.max.ms": "9223372036854775807",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.hours": "168",
    "log.roll.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "replica.fetch.backoff.ms": "1000",
    "replica.fetch.max.bytes": "1048576",
    "replica.fetch.wait.max.ms": "500",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "replica.lag.time.max.ms": "30000",
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
    "transactional.id.expiration.ms": "604800000",
    UNCLEAN: "false",
    "zookeeper.set.acl": "false",
}
"""Kafka's defaults of the brokers' configs that klamm has."""

_SYNONYMS: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.downconversion.enable": "log.message.downconversion.enable",
    "message.format.version": "log.message.format.version",
    "message.timestamp.difference.max.ms": "log.message.timestamp.difference.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    UNCLEAN: UNCLEAN,
}
"""The broker's config that a topic's config falls back to, where that one has a default."""


class BrokerConfigs(msgspec.Struct, frozen=True):
    """What is set for a broker: for it alone, for all brokers, and at its start."""

    own: Mapping[str, str] = {}
    of_all: Mapping[str, str] = {}
    static: Mapping[str, str] = {}

    def synonyms(self, name: str, default: str | None) -> tuple[ConfigSynonym, ...]:
        """Everything that says what ``name`` is, the strongest first."""
        levels = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.own.get(name)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.of_all.get(name)),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static.get(name)),
            (ConfigSource.DEFAULT_CONFIG, default),
        )
        return tuple(
            ConfigSynonym(source, name, value) for source, value in levels if value is not None
        )


def topic_entries(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[ConfigEntry]:
    """Every config of a topic whose leader has the configs ``broker``."""
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        synonyms: tuple[ConfigSynonym, ...] = ()
        if name in _SYNONYMS:
            synonyms = broker.synonyms(_SYNONYMS[name], config.default)
        text = synonyms[0].value if synonyms else config.default
        if name in overrides:
            text = config.text_of(name, overrides[name])
            of_topic = ConfigSynonym(ConfigSource.DYNAMIC_TOPIC_CONFIG, name, text)
            synonyms = (of_topic, *synonyms)
        entries.append(ConfigEntry(name, text, synonyms))
    return entries


def broker_entries(broker: BrokerConfigs) -> list[ConfigEntry]:
    """Every config of one broker that klamm knows."""
    names = dict.fromkeys((*BROKER_DEFAULTS, *broker.static, *broker.of_all, *broker.own))
    entries = []
    for name in names:
        synonyms = broker.synonyms(name, BROKER_DEFAULTS.get(name))
        entries.append(ConfigEntry(name, synonyms[0].value, synonyms))
    return entries


def default_entries(of_all: Mapping[str, str]) -> list[ConfigEntry]:
    """The configs that are set for all brokers."""
    return [
        ConfigEntry(
            name, value, (ConfigSynonym(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, name, value),)
        )
        for name, value in of_all.items()
    ]
