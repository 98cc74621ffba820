"""The names of Kafka's server.properties that klamm's parts read, and which values they take.

It checks words; what they mean is the business of those that read them. Mirrors the validators of
kafka.server.KafkaConfig.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Final

from brokers.bandwidth.replication_quotas import BANDWIDTH_CONFIGS
from cluster.api_version import is_api_version
from cluster.errors import UsageError

_NUMBER: Final = re.compile(r"-?\d+", re.ASCII)


def _whole_number(least: int) -> Callable[[str], bool]:
    return lambda word: _NUMBER.fullmatch(word) is not None and int(word) >= least


def _boolean(word: str) -> bool:
    return word in ("true", "false")


def _anything(word: str) -> bool:
    return bool(word.strip())


_COUNT: Final = ("a whole number, not negative", _whole_number(0))
_POSITIVE: Final = ("a whole number of at least 1", _whole_number(1))
_LIMIT: Final = ("a whole number, -1 for no limit", _whole_number(-1))

BROKER_CONFIGS: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "auto.leader.rebalance.enable": ("true or false", _boolean),
    "compression.type": (
        "uncompressed, gzip, snappy, lz4, zstd or producer",
        ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer").__contains__,
    ),
    "controlled.shutdown.enable": ("true or false", _boolean),
    "controlled.shutdown.max.retries": _COUNT,
    "controlled.shutdown.retry.backoff.ms": _COUNT,
    "controller.socket.timeout.ms": _POSITIVE,
    "default.replication.factor": _POSITIVE,
    "delete.topic.enable": ("true or false", _boolean),
    "inter.broker.protocol.version": ("a version of Kafka, at most 2.8", is_api_version),
    **dict.fromkeys(BANDWIDTH_CONFIGS, _COUNT),
    "leader.imbalance.check.interval.seconds": _POSITIVE,
    "leader.imbalance.per.broker.percentage": _COUNT,
    "log.dir": ("a path", _anything),
    "log.dirs": ("paths with commas between them", _anything),
    "log.cleanup.policy": ("delete, compact or both", _anything),
    "log.flush.interval.messages": _POSITIVE,
    "log.flush.interval.ms": _COUNT,
    "log.flush.offset.checkpoint.interval.ms": _COUNT,
    "log.flush.scheduler.interval.ms": _POSITIVE,
    "log.flush.start.offset.checkpoint.interval.ms": _COUNT,
    "log.index.interval.bytes": _COUNT,
    "log.index.size.max.bytes": ("a whole number of at least 4", _whole_number(4)),
    "log.message.timestamp.difference.max.ms": _COUNT,
    "log.message.timestamp.type": (
        "CreateTime or LogAppendTime",
        ("CreateTime", "LogAppendTime").__contains__,
    ),
    "log.retention.bytes": _LIMIT,
    "log.retention.check.interval.ms": _POSITIVE,
    "log.retention.hours": _LIMIT,
    "log.retention.minutes": _LIMIT,
    "log.retention.ms": _LIMIT,
    "log.roll.hours": _POSITIVE,
    "log.roll.ms": _POSITIVE,
    "log.segment.bytes": ("a whole number of at least 14", _whole_number(14)),
    "log.segment.delete.delay.ms": _COUNT,
    "message.max.bytes": _COUNT,
    "min.insync.replicas": _POSITIVE,
    "num.partitions": _POSITIVE,
    "num.replica.alter.log.dirs.threads": _POSITIVE,
    "replica.fetch.backoff.ms": _COUNT,
    "replica.fetch.max.bytes": _COUNT,
    "replica.fetch.wait.max.ms": _COUNT,
    "replica.high.watermark.checkpoint.interval.ms": _COUNT,
    "replica.lag.time.max.ms": _COUNT,
    "replica.socket.timeout.ms": _COUNT,
    "request.timeout.ms": _COUNT,
    "transactional.id.expiration.ms": _POSITIVE,
    "unclean.leader.election.enable": ("true or false", _boolean),
    "zookeeper.connection.timeout.ms": _POSITIVE,
    "zookeeper.set.acl": ("true or false", _boolean),
}
"""Kafka's names that klamm knows: what a value must be, and whether one is."""


def check_broker_configs(config: Mapping[str, str]) -> None:
    """Raise UsageError for a name that klamm does not know or a value that does not fit."""
    for name, value in config.items():
        if name not in BROKER_CONFIGS:
            close = difflib.get_close_matches(name, BROKER_CONFIGS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(BROKER_CONFIGS)}"
            raise UsageError(f"unknown config {name}", hint=hint)
        wanted, fits = BROKER_CONFIGS[name]
        if not fits(value):
            raise UsageError(f"invalid value {value!r} for config {name}", hint=wanted)
