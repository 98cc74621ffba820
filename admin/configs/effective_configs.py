"""Effective values of configs by precedence: topic, broker, all brokers, static, default.

Values in, entries out; reads nothing. Mirrors kafka.server.ConfigHelper and the precedence of
kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile

import msgspec

from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS, topic_default, with_synonyms


class BrokerConfigs(msgspec.Struct, frozen=True):
    """Configs set for a broker: for this broker, for all brokers, and static ones.

    As on a Kafka broker, a dynamic value is ignored if it is invalid or if the config is not
    dynamic.
    """

    own: Mapping[str, str] = {}
    of_all: Mapping[str, str] = {}
    static: Mapping[str, str] = {}

    @property
    def values(self) -> Mapping[str, str]:
        """All set values, by precedence."""
        return {**self.static, **_valid(self.of_all), **_valid(self.own)}

    def synonyms(self, name: str, default: str | None = None) -> tuple[ConfigSynonym, ...]:
        """Return the sources of ``name`` by precedence.

        ``default``: the default of a config that klamm supports only for topics.
        """
        names = with_synonyms(name)
        known = {one: BROKER_CONFIGS[one].default for one in names if one in BROKER_CONFIGS}
        levels: tuple[tuple[ConfigSource, Mapping[str, str | None]], ...] = (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, _valid(self.own)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, _valid(self.of_all)),
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


def topic_entries(overrides: Mapping[str, str], broker: BrokerConfigs) -> list[ConfigEntry]:
    """Return every config of a topic; its leader has the configs ``broker``.

    Raises InvalidConfig.
    """
    entries = []
    values = broker.values
    for name, config in TOPIC_CONFIGS.items():
        synonyms = broker.synonyms(config.synonyms[0], config.default) if config.synonyms else ()
        if name in overrides:
            text = config.text(config.parse(overrides[name]))
            synonyms = (ConfigSynonym(ConfigSource.DYNAMIC_TOPIC_CONFIG, name, text), *synonyms)
        else:
            text = config.text(topic_default(config, values))
        entries.append(ConfigEntry(name, text, synonyms))
    return entries


def static_topic_configs(static: Mapping[str, str]) -> dict[str, str]:
    """Return the topic defaults among the brokers' static configs, under their topic names."""
    return {
        name: config.text(topic_default(config, static))
        for name, config in TOPIC_CONFIGS.items()
        if config.synonyms and config.synonyms[0] in static
    }


def broker_entries(broker: BrokerConfigs) -> list[ConfigEntry]:
    """Return every config of one broker that klamm supports, sorted by name.

    Raises InvalidConfig.
    """
    values = broker.values
    known = {name for name, config in BROKER_CONFIGS.items() if config.at_start}
    entries = []
    for name in sorted(known | values.keys()):
        config = BROKER_CONFIGS.get(name)
        value = values.get(name) if config is None else config.value(values)
        text = value if config is None or value is None else config.text(value)
        entries.append(ConfigEntry(name, text, broker.synonyms(name)))
    return entries


def default_entries(of_all: Mapping[str, str]) -> list[ConfigEntry]:
    """Return the configs that are set for all brokers."""
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    return [
        ConfigEntry(name, value, (ConfigSynonym(source, name, value),))
        for name, value in of_all.items()
    ]


def _valid(configs: Mapping[str, str]) -> Mapping[str, str]:
    return {
        name: text
        for name, text in configs.items()
        if (config := BROKER_CONFIGS.get(name)) is None
        or (config.dynamic and config.is_valid(text))
    }
