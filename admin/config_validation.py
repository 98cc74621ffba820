"""Validation of topic configs and of dynamic broker configs.

The functions write nothing. Mirrors kafka.log.LogConfig.validate, and the checks of
kafka.server.DynamicConfig.Broker and DynamicBrokerConfig.validateConfigs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from klamm.admin.failures import InvalidConfiguration
from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from klamm.cluster.errors import InvalidConfig, UsageError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.java_maps import hash_map_order
from klamm.cluster.jvm.scala_sets import immutable_order, scala_set


def changed_configs(configs: Mapping[str, str], wanted: Mapping[str, str | None]) -> dict[str, str]:
    """Return ``configs`` with the changes ``wanted``, where the value None removes a config."""
    both = {**configs, **wanted}
    return {name: value for name, value in both.items() if value is not None}


def validate_topic_names(names: Iterable[str]) -> None:
    """Raise InvalidConfiguration if one of ``names`` is not a topic config."""
    for name in hash_map_order(list(names)):
        if name not in TOPIC_CONFIGS:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")


def validate_topic_configs(configs: Mapping[str, str]) -> None:
    """Validate the config overrides of a topic.

    Raises InvalidConfig for an invalid value, and InvalidConfiguration for an unknown name or for
    values that conflict.
    """
    validate_topic_names(configs)
    values = {name: config.value(configs) for name, config in TOPIC_CONFIGS.items()}
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})"
        )


def validate_broker_configs(configs: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Validate a change to the dynamic configs of one broker, or to the defaults of all brokers.

    ``configs`` are all dynamic configs after the change; ``added`` are those that the change sets.
    Raises InvalidConfig for an invalid value or a config that is not dynamic, and UsageError for a
    config that klamm does not support.
    """
    dynamic = [one.name for one in BROKER_CONFIGS.values() if one.dynamic]
    in_kafka = {*dynamic, *(name for one in TOPIC_CONFIGS.values() for name in one.synonyms)}
    in_kafka |= {one.name for one in BROKER_CONFIGS.values() if one.is_dynamic_in_kafka}
    fixed = [name for name in added if name in BROKER_CONFIGS and name not in in_kafka]
    if fixed:
        names = immutable_order(hash_map_order(fixed), string_hash)
        raise InvalidConfig(f"Cannot update these configs dynamically: {scala_set(names)}")
    unknown = [name for name in added if name not in dynamic]
    if unknown:
        raise UsageError(
            f"{unknown[0]} is not a dynamic config of klamm's brokers",
            hint=f"dynamic configs: {', '.join(dynamic)}",
        )
    for name in dynamic:
        BROKER_CONFIGS[name].value(configs)
