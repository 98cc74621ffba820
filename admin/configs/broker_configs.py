"""The configs that a broker takes while it runs: names, types and which values are taken.

klamm's brokers have fewer than Kafka's; another name is refused in klamm's own words. Mirrors the
checks of kafka.server.DynamicConfig.Broker and DynamicBrokerConfig.validateConfigs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admin.configs.config_resource import BROKER_THROTTLES
from admin.configs.effective_configs import (
    BROKER_CAPACITIES,
    BROKER_DEFAULTS,
    DYNAMIC_BROKER_CONFIGS,
    UNCLEAN,
)
from admin.java_maps import hash_map_order
from cluster.errors import InvalidConfig, UsageError

_LONG_MAX: Final = 2**63 - 1
_DYNAMIC_IN_KAFKA: Final = (
    "log.cleanup.policy",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.retention.bytes",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "message.max.bytes",
    "min.insync.replicas",
)
_AT_START: Final = frozenset(
    {
        *BROKER_DEFAULTS,
        "broker.rack",
        "log.dir",
        "log.dirs",
        "zookeeper.connect",
        "zookeeper.connection.timeout.ms",
        "zookeeper.session.timeout.ms",
    }
).difference(DYNAMIC_BROKER_CONFIGS, _DYNAMIC_IN_KAFKA)


def validate_broker_configs(configs: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Check what a broker, or all of them, are to have, ``added`` being new.

    Raises InvalidConfig, and UsageError for a config that klamm leaves out.
    """
    fixed = [name for name in added if name in _AT_START]
    if fixed:
        raise InvalidConfig(
            f"Cannot update these configs dynamically: Set({', '.join(hash_map_order(fixed))})"
        )
    unknown = [name for name in added if name not in DYNAMIC_BROKER_CONFIGS]
    if unknown:
        raise UsageError(
            f"klamm's brokers have no config {unknown[0]} that changes while they run",
            hint=f"they have {', '.join(DYNAMIC_BROKER_CONFIGS)}",
        )
    for name in (*BROKER_THROTTLES, *BROKER_CAPACITIES):
        if name in configs:
            _validate_rate(name, configs[name].strip())
    word = configs.get(UNCLEAN, "true").strip()
    if word.lower() not in ("true", "false"):
        raise InvalidConfig(
            f"Invalid value {word} for configuration {UNCLEAN}: Expected value to be either true "
            "or false"
        )


def _validate_rate(name: str, word: str) -> None:
    digits = word[1:] if word[:1] in ("+", "-") else word
    if not (digits.isascii() and digits.isdigit()) or abs(int(word)) > _LONG_MAX:
        raise InvalidConfig(
            f"Invalid value {word} for configuration {name}: Not a number of type LONG"
        )
    if int(word) < 0:
        raise InvalidConfig(
            f"Invalid value {int(word)} for configuration {name}: Value must be at least 0"
        )
