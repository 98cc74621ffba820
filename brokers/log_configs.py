"""What logs are told by configs: a broker's defaults, and a topic's overrides of them.

How configs are read, and when they change, is brokers/dynamic_config.py's business.
Mirrors kafka.log.LogConfig.fromProps and the names, defaults and least values of
kafka.server.{KafkaConfig, LogConfig}.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

import msgspec

from brokers.bandwidth.throttled_replicas import (
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_REPLICAS,
    ThrottledReplicas,
)
from brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from brokers.logs.record_batch import COMPRESSIONS
from cluster.errors import InvalidConfig

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"

_NUMBER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000

ReadOverrides = Callable[[Iterable[str]], Mapping[str, Mapping[str, str]]]

logger = logging.getLogger(__name__)


class _Option(NamedTuple):
    """A field of LogConfig, the broker's config for it, and its least value."""

    field: str
    broker_name: str
    least: int


_OPTIONS: Final = {
    "segment.bytes": _Option("segment_bytes", "log.segment.bytes", 14),
    "segment.ms": _Option("segment_ms", "log.roll.ms", 1),
    "segment.index.bytes": _Option("segment_index_bytes", "log.index.size.max.bytes", 4),
    "index.interval.bytes": _Option("index_interval_bytes", "log.index.interval.bytes", 0),
    "max.message.bytes": _Option("max_message_bytes", "message.max.bytes", 0),
    "retention.ms": _Option("retention_ms", "log.retention.ms", -1),
    "retention.bytes": _Option("retention_bytes", "log.retention.bytes", -(2**63)),
    "file.delete.delay.ms": _Option("file_delete_delay_ms", "log.segment.delete.delay.ms", 0),
    "flush.messages": _Option("flush_messages", "log.flush.interval.messages", 0),
    "flush.ms": _Option("flush_ms", "log.flush.interval.ms", 0),
    "message.timestamp.difference.max.ms": _Option(
        "timestamp_difference_max_ms", "log.message.timestamp.difference.max.ms", 0
    ),
    MIN_INSYNC_REPLICAS: _Option("min_insync_replicas", MIN_INSYNC_REPLICAS, 1),
}


def _deletes(_: str, policy: str) -> bool:
    return "delete" in (word.strip() for word in policy.split(","))


def _is_log_append_time(name: str, word: str) -> bool:
    return _one_of(name, word, ("CreateTime", "LogAppendTime")) == "LogAppendTime"


def _compression_id(name: str, word: str) -> int | None:
    codecs = COMPRESSIONS[1:]
    codec = _one_of(name, word, ("uncompressed", *reversed(codecs), "producer"))
    if codec == "producer":
        return None
    return 0 if codec == "uncompressed" else COMPRESSIONS.index(codec)


def _one_of(name: str, word: str, words: tuple[str, ...]) -> str:
    if word not in words:
        raise InvalidConfig(
            f"Invalid value {word} for configuration {name}: String must be one of: "
            f"{', '.join(words)}"
        )
    return word


class _Choice(NamedTuple):
    """A field of LogConfig that is no number, the broker's config for it, and how it is read from
    a config's name and value."""

    field: str
    broker_name: str
    parse: Callable[[str, str], int | bool | None]


_CHOICES: Final = {
    "cleanup.policy": _Choice("delete", "log.cleanup.policy", _deletes),
    "message.timestamp.type": _Choice(
        "is_log_append_time", "log.message.timestamp.type", _is_log_append_time
    ),
    "compression.type": _Choice("compression_id", "compression.type", _compression_id),
}
_THROTTLED: Final = {
    LEADER_THROTTLED_REPLICAS: "leader_throttled",
    FOLLOWER_THROTTLED_REPLICAS: "follower_throttled",
}
_COARSER: Final = (
    ("log.roll.ms", "log.roll.hours", _HOUR_MS),
    ("log.retention.ms", "log.retention.minutes", _MINUTE_MS),
    ("log.retention.ms", "log.retention.hours", _HOUR_MS),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms", 1),
)
_PRODUCER_EXPIRATION: Final = "transactional.id.expiration.ms"


def broker_log_config(properties: Mapping[str, str]) -> LogConfig:
    """What a broker's own properties say of all logs. Raises InvalidConfig."""
    values: dict[str, int | bool | None] = {}
    properties = {**_from_coarser(properties), **properties}
    for option in _OPTIONS.values():
        if option.broker_name in properties:
            word = properties[option.broker_name]
            values[option.field] = _parse(option.broker_name, word, option.least)
    if _PRODUCER_EXPIRATION in properties:
        word = properties[_PRODUCER_EXPIRATION]
        values["producer_id_expiration_ms"] = _parse(_PRODUCER_EXPIRATION, word, 1)
    for choice in _CHOICES.values():
        if choice.broker_name in properties:
            word = properties[choice.broker_name]
            values[choice.field] = choice.parse(choice.broker_name, word)
    return msgspec.structs.replace(DEFAULT_LOG_CONFIG, **values)


def topic_log_config(topic: str, overrides: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """What a topic's overrides make of the broker's defaults; a value that does not fit is logged
    and passed over."""
    values: dict[str, int | bool | ThrottledReplicas | None] = {}
    for name, word in overrides.items():
        option = _OPTIONS.get(name)
        try:
            if name in _CHOICES:
                values[_CHOICES[name].field] = _CHOICES[name].parse(name, word)
            elif name in _THROTTLED:
                values[_THROTTLED[name]] = ThrottledReplicas.parse(name, word)
            elif option is not None:
                values[option.field] = _parse(name, word, option.least)
        except InvalidConfig as error:
            logger.warning("topic %s: %s", topic, error.message)
    return msgspec.structs.replace(defaults, **values) if values else defaults


class TopicLogConfigs:
    """The config of a topic's logs, read when one is made. ``read_overrides`` reads what many
    topics override in one wave."""

    def __init__(self, defaults: LogConfig, read_overrides: ReadOverrides) -> None:
        self._defaults = defaults
        self._read_overrides = read_overrides
        self._read: dict[str, LogConfig] = {}

    def __call__(self, topic: str) -> LogConfig:
        """Of one topic, read now unless it was read ahead."""
        config = self._read.get(topic)
        return self.parse(topic, self._read_overrides([topic])[topic]) if config is None else config

    def parse(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """What these overrides say."""
        return topic_log_config(topic, overrides, self._defaults)

    @contextmanager
    def read_ahead(self, topics: Iterable[str]) -> Iterator[None]:
        """Within, these topics are read already."""
        wanted = list(topics)
        if wanted:
            found = self._read_overrides(wanted)
            self._read = {topic: self.parse(topic, overrides) for topic, overrides in found.items()}
        try:
            yield
        finally:
            self._read = {}


def _from_coarser(properties: Mapping[str, str]) -> dict[str, str]:
    """Times that are given in minutes or hours; the finer unit counts."""
    found: dict[str, str] = {}
    for name, coarser, unit_ms in _COARSER:
        if coarser in properties and name not in found:
            number = _parse(coarser, properties[coarser], -1)
            found[name] = str(number * unit_ms if number >= 0 else number)
    return found


def _parse(name: str, word: str, least: int) -> int:
    number = int(word) if _NUMBER.fullmatch(word.strip()) else None
    if number is None:
        raise InvalidConfig(f"Invalid value {word} for configuration {name}: Not a number")
    if number < least:
        raise InvalidConfig(
            f"Invalid value {word} for configuration {name}: Value must be at least {least}"
        )
    return number
