"""Log configs: a broker's defaults, and the overrides of a topic.

brokers/dynamic_config.py reads the overrides from ZooKeeper and handles their changes. Mirrors
kafka.log.LogConfig.fromProps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from klamm.brokers.logs.log_config import LogConfig, ThrottledReplicas
from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.cluster.configs import (
    BROKER_CONFIGS,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
    TOPIC_CONFIGS,
    topic_default,
)
from klamm.cluster.errors import InvalidConfig

ReadOverrides = Callable[[Iterable[str]], Mapping[str, Mapping[str, str]]]

logger = logging.getLogger(__name__)


def _compression_id(codec: str) -> int | None:
    if codec == "producer":
        return None
    return 0 if codec == "uncompressed" else COMPRESSIONS.index(codec)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    **{
        name: (field, int)
        for field in LogConfig.__struct_fields__
        if (name := field.replace("_", ".")) in TOPIC_CONFIGS
    },
    "cleanup.policy": ("cleanup_policy", tuple),
    "compression.type": ("compression_id", _compression_id),
    "message.timestamp.difference.max.ms": ("timestamp_difference_max_ms", int),
    "message.timestamp.type": ("is_log_append_time", "LogAppendTime".__eq__),
    LEADER_THROTTLED_REPLICAS: ("leader_throttled", ThrottledReplicas.of),
    FOLLOWER_THROTTLED_REPLICAS: ("follower_throttled", ThrottledReplicas.of),
}
"""Topic configs that logs use, each with its LogConfig field and a conversion function."""


def broker_log_config(properties: Mapping[str, str]) -> LogConfig:
    """Return a broker's default LogConfig, from its static properties. Raises InvalidConfig."""
    values = {
        field: made_of(topic_default(TOPIC_CONFIGS[name], properties))
        for name, (field, made_of) in _FIELDS.items()
    }
    expiration_ms = BROKER_CONFIGS["transactional.id.expiration.ms"].value(properties)
    return LogConfig(**values, producer_id_expiration_ms=expiration_ms)


def topic_log_config(topic: str, overrides: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Return a topic's LogConfig: the broker's defaults with the topic's overrides applied.

    Invalid overrides are logged and skipped.
    """
    values = {}
    for name, text in overrides.items():
        if name in _FIELDS:
            field, made_of = _FIELDS[name]
            try:
                values[field] = made_of(TOPIC_CONFIGS[name].parse(text))
            except InvalidConfig as error:
                logger.warning("topic %s: %s", topic, error.message)
    return msgspec.structs.replace(defaults, **values) if values else defaults


class TopicLogConfigs:
    """Provides the LogConfig of a topic when one of the topic's logs is created.

    ``read_overrides`` reads the overrides of many topics in one pipelined batch.
    """

    def __init__(self, defaults: LogConfig, read_overrides: ReadOverrides) -> None:
        self._defaults = defaults
        self._read_overrides = read_overrides
        self._read: dict[str, LogConfig] = {}

    def __call__(self, topic: str) -> LogConfig:
        """Return the log config of a topic.

        The config is read from ZooKeeper, unless ``read_ahead`` has already read it.
        """
        return self._read.get(topic) or self._read_configs([topic])[topic]

    def _read_configs(self, topics: Iterable[str]) -> dict[str, LogConfig]:
        return {
            topic: topic_log_config(topic, overrides, self._defaults)
            for topic, overrides in self._read_overrides(topics).items()
        }

    @contextmanager
    def read_ahead(self, topics: Iterable[str]) -> Iterator[None]:
        """Context manager: read the configs of topics in one batch, for use in the body."""
        wanted = list(topics)
        if wanted:
            self._read = self._read_configs(wanted)
        try:
            yield
        finally:
            self._read = {}
