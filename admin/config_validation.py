"""Whether the configs of a topic, or those of brokers that run, may be what is wanted.

Checks only; nothing is stored here. Mirrors kafka.log.LogConfig.validate, and the checks of
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
    """Raise InvalidConfiguration for a name that is no topic config."""
    for name in names:
        if name not in TOPIC_CONFIGS:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")


def validate_topic_configs(configs: Mapping[str, str]) -> None:
    """Raise InvalidConfig for a value that does not fit, InvalidConfiguration for a name that is no
    config and for values that conflict."""
    validate_topic_names(configs)
    values = {name: config.value(configs) for name, config in TOPIC_CONFIGS.items()}
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )


def validate_broker_configs(configs: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Check what a broker, or all of them, are to have, ``added`` being new.

    Raises InvalidConfig, and UsageError for a config that klamm leaves out.
    """
    dynamic = [one.name for one in BROKER_CONFIGS.values() if one.dynamic]
    # Kafka's brokers also take new defaults of topics while they run.
    in_kafka = {*dynamic, *(name for one in TOPIC_CONFIGS.values() for name in one.synonyms)}
    fixed = [name for name in added if name in BROKER_CONFIGS and name not in in_kafka]
    if fixed:
        raise InvalidConfig(
            f"Cannot update these configs dynamically: Set({', '.join(hash_map_order(fixed))})"
        )
    unknown = [name for name in added if name not in dynamic]
    if unknown:
        raise UsageError(
            f"klamm's brokers have no config {unknown[0]} that changes while they run",
            hint=f"they have {', '.join(dynamic)}",
        )
    for name in dynamic:
        BROKER_CONFIGS[name].value(configs)
