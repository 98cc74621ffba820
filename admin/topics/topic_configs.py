"""The topic configs of Kafka 2.8.2: names, types and which values are taken, as one table.

Checks only; nothing here is stored, and values keep the text they were given as. Mirrors
kafka.log.LogConfig and org.apache.kafka.common.config.ConfigDef's texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from admin.failures import InvalidConfiguration
from cluster.errors import InvalidConfig

_INT: Final = (-(2**31), 2**31 - 1)
_LONG: Final = (-(2**63), 2**63 - 1)
_MESSAGE_FORMATS: Final = re.compile(r"(0\.(8\.[0-2]|9\.0|10\.[0-2]|11\.0)|1\.[01]|2\.[0-8])\b.*")
_THROTTLED: Final = re.compile(r"([0-9]+:[0-9]+)?")
_RECORD_OVERHEAD_V0: Final = 14
_COMPRESSION: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

Check = Callable[[str, Any], None]


class TopicConfig(NamedTuple):
    """One config: how its text is parsed, its default as text, what its value must be."""

    parse: Callable[[str, str], Any]
    default: str
    check: Check | None = None

    def text_of(self, name: str, text: str) -> str:
        """``text`` as Kafka writes the value that it stands for. Raises InvalidConfig."""
        value = self.parse(name, text)
        if isinstance(value, list):
            return ",".join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)


def _invalid(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


def _integer(kind: str, limits: tuple[int, int]) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        word = text.strip()
        if not re.fullmatch(r"[+-]?[0-9]+", word) or not limits[0] <= int(word) <= limits[1]:
            raise _invalid(name, word, f"Not a number of type {kind}")
        return int(word)

    return parse


def _double(name: str, text: str) -> float:
    try:
        return float(text.strip())
    except ValueError:
        raise _invalid(name, text.strip(), "Not a number of type DOUBLE") from None


def _boolean(name: str, text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise _invalid(name, text.strip(), "Expected value to be either true or false")
    return word == "true"


def _string(name: str, text: str) -> str:
    return text.strip()


def _list(name: str, text: str) -> list[str]:
    word = text.strip()
    return re.split(r"\s*,\s*", word) if word else []


def _at_least(least: int) -> Check:
    def check(name: str, value: float) -> None:
        if value < least:
            raise _invalid(name, value, f"Value must be at least {least}")

    return check


def _between(least: int, most: int) -> Check:
    def check(name: str, value: float) -> None:
        _at_least(least)(name, value)
        if value > most:
            raise _invalid(name, value, f"Value must be no more than {most}")

    return check


def _one_of(*words: str) -> Check:
    def check(name: str, value: str) -> None:
        if value not in words:
            raise _invalid(name, value, f"String must be one of: {', '.join(words)}")

    return check


def _all_of(*words: str) -> Check:
    def check(name: str, values: list[str]) -> None:
        for value in values:
            _one_of(*words)(name, value)

    return check


def _throttled_replicas(name: str, values: list[str]) -> None:
    if not all(_THROTTLED.fullmatch(value) for value in values) and values != ["*"]:
        raise _invalid(
            name,
            f"[{', '.join(values)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


def _message_format(name: str, value: str) -> None:
    if not _MESSAGE_FORMATS.fullmatch(value):
        raise _invalid(name, value, f"Version `{value}` is not a valid version")


_int = _integer("INT", _INT)
_long = _integer("LONG", _LONG)
_WEEK_MS: Final = "604800000"
_DAY_MS: Final = "86400000"
_LONG_MAX: Final = str(_LONG[1])

TOPIC_CONFIGS: Final[Mapping[str, TopicConfig]] = {
    "cleanup.policy": TopicConfig(_list, "delete", _all_of("compact", "delete")),
    "compression.type": TopicConfig(_string, "producer", _one_of(*_COMPRESSION)),
    "delete.retention.ms": TopicConfig(_long, _DAY_MS, _at_least(0)),
    "file.delete.delay.ms": TopicConfig(_long, "60000", _at_least(0)),
    "flush.messages": TopicConfig(_long, _LONG_MAX, _at_least(0)),
    "flush.ms": TopicConfig(_long, _LONG_MAX, _at_least(0)),
    "follower.replication.throttled.replicas": TopicConfig(_list, "", _throttled_replicas),
    "index.interval.bytes": TopicConfig(_int, "4096", _at_least(0)),
    "leader.replication.throttled.replicas": TopicConfig(_list, "", _throttled_replicas),
    "max.compaction.lag.ms": TopicConfig(_long, _LONG_MAX, _at_least(1)),
    "max.message.bytes": TopicConfig(_int, "1048588", _at_least(0)),
    "message.downconversion.enable": TopicConfig(_boolean, "true"),
    "message.format.version": TopicConfig(_string, "2.8-IV1", _message_format),
    "message.timestamp.difference.max.ms": TopicConfig(_long, _LONG_MAX, _at_least(0)),
    "message.timestamp.type": TopicConfig(
        _string, "CreateTime", _one_of("CreateTime", "LogAppendTime")
    ),
    "min.cleanable.dirty.ratio": TopicConfig(_double, "0.5", _between(0, 1)),
    "min.compaction.lag.ms": TopicConfig(_long, "0", _at_least(0)),
    "min.insync.replicas": TopicConfig(_int, "1", _at_least(1)),
    "preallocate": TopicConfig(_boolean, "false"),
    "retention.bytes": TopicConfig(_long, "-1"),
    "retention.ms": TopicConfig(_long, _WEEK_MS, _at_least(-1)),
    "segment.bytes": TopicConfig(_int, "1073741824", _at_least(_RECORD_OVERHEAD_V0)),
    "segment.index.bytes": TopicConfig(_int, "10485760", _at_least(0)),
    "segment.jitter.ms": TopicConfig(_long, "0", _at_least(0)),
    "segment.ms": TopicConfig(_long, _WEEK_MS, _at_least(1)),
    "unclean.leader.election.enable": TopicConfig(_boolean, "false"),
}
"""Every topic config, sorted by name."""


def validate_names(names: Iterable[str]) -> None:
    """Raise InvalidConfiguration for a name that is no topic config."""
    for name in names:
        if name not in TOPIC_CONFIGS:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")


def validate_configs(configs: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a value that does not fit, InvalidConfiguration for a name that is no
    config and for values that conflict."""
    validate_names(configs)
    values = {}
    for name, config in TOPIC_CONFIGS.items():
        values[name] = config.parse(name, configs.get(name, config.default))
        if name in configs and config.check is not None:
            config.check(name, values[name])
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )
