"""Validation of topic configs and of dynamic broker configs.

Writes nothing. Mirrors kafka.log.LogConfig.validate, and the checks of
kafka.server.DynamicConfig.Broker and DynamicBrokerConfig.validateConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.admin.failures import InvalidConfiguration
from klamm.admin.java_maps import hash_map_order
from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from klamm.cluster.errors import InvalidConfig, UsageError


def changed_configs(configs: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Return ``configs`` with the wanted values; None removes a config."""
    both = {**configs, **wanted}
    return {name: value for name, value in both.items() if value is not None}


def validate_topic_names(names: Iterable[str]) -> None:
    """Raise InvalidConfiguration for a name that is not a topic config."""
    for name in names:
        if name not in TOPIC_CONFIGS:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")


def validate_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise InvalidConfig for an invalid value, InvalidConfiguration for an unknown name or a
    conflict between values."""
    validate_topic_names(configs)
    values = {name: config.value(configs) for name, config in TOPIC_CONFIGS.items()}
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )


def validate_broker_configs(configs: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Validate the dynamic configs of a broker, or of all brokers; ``added`` are the new ones.

    Raises InvalidConfig, and UsageError for a dynamic config that klamm does not support.
    """
    dynamic = [one.name for one in BROKER_CONFIGS.values() if one.dynamic]
    # In Kafka the brokers' defaults of topic configs are dynamic, too.
    in_kafka = {*dynamic, *(name for one in TOPIC_CONFIGS.values() for name in one.synonyms)}
    fixed = [name for name in added if name in BROKER_CONFIGS and name not in in_kafka]
    if fixed:
        raise InvalidConfig(
            f"Cannot update these configs dynamically: Set({', '.join(hash_map_order(fixed))})"
        )
    unknown = [name for name in added if name not in dynamic]
    if unknown:
        raise UsageError(
            f"{unknown[0]} is not a dynamic config of klamm's brokers",
            hint=f"dynamic configs: {', '.join(dynamic)}",
        )
    for name in dynamic:
        BROKER_CONFIGS[name].value(configs)
