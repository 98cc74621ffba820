"""Computes the effective configs of topics and brokers.

The value of a config is taken from the first of these sources that sets the config: the topic's
overrides, the broker's dynamic configs, the dynamic defaults of all brokers, the broker's
properties file, Kafka's default. The functions are pure. Mirrors kafka.server.ConfigHelper and the
precedence of kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import dropwhile

import msgspec

from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.cluster.configs import (
    BROKER_CONFIGS,
    TOPIC_CONFIGS,
    effective_broker_configs,
    topic_default,
    valid_dynamic_configs,
    value_text,
    with_synonyms,
)


class BrokerConfigs(msgspec.Struct, frozen=True):
    """Config overrides that apply to one broker.

    - ``own``: dynamic configs of this broker.
    - ``of_all``: dynamic defaults of all brokers.
    - ``static``: configs in the broker's properties file.

    As on a Kafka broker, a dynamic value is ignored if it is invalid or if the config is not
    dynamic.
    """

    own: Mapping[str, str] = {}
    of_all: Mapping[str, str] = {}
    static: Mapping[str, str] = {}

    @property
    def values(self) -> Mapping[str, str]:
        """Effective values of the configs that are set for this broker."""
        return effective_broker_configs(self.own, self.of_all, self.static)

    def synonyms(self, name: str, default: str | None = None) -> tuple[ConfigSynonym, ...]:
        """Return the settings that can determine the config ``name``, highest precedence first.

        ``default`` is the default value; it is used only if ``name`` and its synonyms are not among
        the broker configs that klamm supports.
        """
        names = with_synonyms(name)
        known = {one: BROKER_CONFIGS[one].default for one in names if one in BROKER_CONFIGS}
        levels: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...] = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, valid_dynamic_configs(self.own)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, valid_dynamic_configs(self.of_all)),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static),
            (ConfigSource.DEFAULT_CONFIG, known or {name: default}),
        )
        found = (
            ConfigSynonym(source, one, text)
            for source, configs in levels
            for one in names
            if (text := configs.get(one)) is not None
        )
        return tuple(dropwhile(lambda synonym: synonym.name != name, found))


def topic_entries(overrides: Mapping[str, str], broker: BrokerConfigs) -> Iterator[ConfigEntry]:
    """Yield every config of a topic. Raises InvalidConfig if a value is invalid.

    ``broker`` holds the configs of the broker that handles the request.
    """
    values = broker.values
    for name, config in TOPIC_CONFIGS.items():
        synonyms = broker.synonyms(config.synonyms[0], config.default) if config.synonyms else ()
        if name in overrides:
            text = value_text(config.parse(overrides[name]))
            synonyms = (ConfigSynonym(ConfigSource.DYNAMIC_TOPIC_CONFIG, name, text), *synonyms)
        else:
            text = value_text(topic_default(config, values))
        yield ConfigEntry(name, text, synonyms)


def static_topic_configs(static: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of topic configs that static broker configs set, keyed by config name."""
    return {
        name: value_text(topic_default(config, static))
        for name, config in TOPIC_CONFIGS.items()
        if config.synonyms and config.synonyms[0] in static
    }


def shown_overrides(overrides: Mapping[str, str]) -> dict[str, str]:
    """Return a topic's overrides as Kafka describes them: parsed, and formatted again.

    Unknown configs and invalid values, which brokers ignore, are returned unchanged.
    """
    return {
        name: value_text(config.parse(text))
        if (config := TOPIC_CONFIGS.get(name)) and config.is_valid(text)
        else text
        for name, text in overrides.items()
    }


def broker_entries(broker: BrokerConfigs) -> Iterator[ConfigEntry]:
    """Yield the configs of one broker, sorted by name. Raises InvalidConfig if one is invalid.

    These are the configs that ``klamm up`` accepts and all configs that are set.
    """
    values = broker.values
    known = {name for name, config in BROKER_CONFIGS.items() if config.at_start}
    for name in sorted(known | values.keys()):
        config = BROKER_CONFIGS.get(name)
        value = values.get(name) if config is None else config.value(values)
        text = value if config is None or value is None else value_text(value)
        yield ConfigEntry(name, text, broker.synonyms(name))


def default_entries(of_all: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the dynamic defaults of all brokers as config entries."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        ConfigEntry(name, value, (ConfigSynonym(source, name, value),))
        for name, value in of_all.items()
    ]
