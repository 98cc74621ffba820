"""The names of Kafka's server.properties that klamm's parts read, and which values they take.

It checks words; what they mean is the business of those that read them. Mirrors the validators of
kafka.server.KafkaConfig.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Final

from cluster.api_version import is_api_version
from cluster.errors import UsageError


def _whole_number(least: int) -> Callable[[str], bool]:
    return lambda word: word.isdecimal() and int(word) >= least


def _boolean(word: str) -> bool:
    return word in ("true", "false")


def _anything(word: str) -> bool:
    return bool(word.strip())


BROKER_CONFIGS: Final[Mapping[str, tuple[str, Callable[[str], bool]]]] = {
    "auto.leader.rebalance.enable": ("true or false", _boolean),
    "controlled.shutdown.enable": ("true or false", _boolean),
    "controlled.shutdown.max.retries": ("a whole number", _whole_number(0)),
    "controlled.shutdown.retry.backoff.ms": ("a whole number", _whole_number(0)),
    "controller.socket.timeout.ms": ("a whole number of at least 1", _whole_number(1)),
    "default.replication.factor": ("a whole number of at least 1", _whole_number(1)),
    "delete.topic.enable": ("true or false", _boolean),
    "inter.broker.protocol.version": ("a version of Kafka, at most 2.8", is_api_version),
    "leader.imbalance.check.interval.seconds": (
        "a whole number of at least 1",
        _whole_number(1),
    ),
    "leader.imbalance.per.broker.percentage": ("a whole number", _whole_number(0)),
    "log.dir": ("a path", _anything),
    "log.dirs": ("paths with commas between them", _anything),
    "min.insync.replicas": ("a whole number of at least 1", _whole_number(1)),
    "num.partitions": ("a whole number of at least 1", _whole_number(1)),
    "replica.fetch.backoff.ms": ("a whole number", _whole_number(0)),
    "replica.fetch.wait.max.ms": ("a whole number", _whole_number(0)),
    "replica.socket.timeout.ms": ("a whole number", _whole_number(0)),
    "request.timeout.ms": ("a whole number", _whole_number(0)),
    "unclean.leader.election.enable": ("true or false", _boolean),
    "zookeeper.connection.timeout.ms": ("a whole number of at least 1", _whole_number(1)),
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
