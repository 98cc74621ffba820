"""Log configs: a broker's defaults, and a topic's overrides of them.

brokers/dynamic_config.py reads configs and handles their changes.
Mirrors kafka.log.LogConfig.fromProps.
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


def _deletes(policies: list[str]) -> bool:
    return "delete" in policies


def _compression_id(codec: str) -> int | None:
    if codec == "producer":
        return None
    return 0 if codec == "uncompressed" else COMPRESSIONS.index(codec)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any], Any]]]] = {
    "cleanup.policy": ("delete", _deletes),
    "compression.type": ("compression_id", _compression_id),
    "message.timestamp.difference.max.ms": ("timestamp_difference_max_ms", int),
    "message.timestamp.type": ("is_log_append_time", "LogAppendTime".__eq__),
    LEADER_THROTTLED_REPLICAS: ("leader_throttled", ThrottledReplicas.of),
    FOLLOWER_THROTTLED_REPLICAS: ("follower_throttled", ThrottledReplicas.of),
    **{
        name: (field, int)
        for field in LogConfig.__struct_fields__
        if (name := field.replace("_", ".")) in TOPIC_CONFIGS
    },
}
"""Topic configs that logs use: the field of LogConfig, and the conversion to its value."""


def broker_log_config(properties: Mapping[str, str]) -> LogConfig:
    """Return the log defaults in a broker's own properties. Raises InvalidConfig."""
    values = {
        field: made_of(topic_default(TOPIC_CONFIGS[name], properties))
        for name, (field, made_of) in _FIELDS.items()
    }
    expiration_ms = BROKER_CONFIGS["transactional.id.expiration.ms"].value(properties)
    return LogConfig(**values, producer_id_expiration_ms=expiration_ms)


def topic_log_config(topic: str, overrides: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Return the broker's defaults with a topic's overrides; log and skip invalid values."""
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
    """The log config of a topic, read when a log is created.

    ``read_overrides`` reads the overrides of many topics in one pipelined batch."""

    def __init__(self, defaults: LogConfig, read_overrides: ReadOverrides) -> None:
        self._defaults = defaults
        self._read_overrides = read_overrides
        self._read: dict[str, LogConfig] = {}

    def __call__(self, topic: str) -> LogConfig:
        """Return a topic's config, read from ZooKeeper unless it was read ahead."""
        config = self._read.get(topic)
        return self.parse(topic, self._read_overrides([topic])[topic]) if config is None else config

    def parse(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """Return the log config that these overrides give."""
        return topic_log_config(topic, overrides, self._defaults)

    @contextmanager
    def read_ahead(self, topics: Iterable[str]) -> Iterator[None]:
        """Read the overrides of all these topics at once, for use within the context."""
        wanted = list(topics)
        if wanted:
            found = self._read_overrides(wanted)
            self._read = {topic: self.parse(topic, overrides) for topic, overrides in found.items()}
        try:
            yield
        finally:
            self._read = {}
