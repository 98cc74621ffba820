"""Which value a config has, and why: the topic's, the broker's, all brokers', the file's, Kafka's.

Values in, entries out; nothing is read here. Mirrors kafka.server.ConfigHelper and the precedence
of kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import dropwhile

import msgspec

from klamm.admin.configs.configs_admin import ConfigEntry, ConfigSource, ConfigSynonym
from klamm.cluster.configs import BROKER_CONFIGS, TOPIC_CONFIGS, topic_default, with_synonyms


class BrokerConfigs(msgspec.Struct, frozen=True):
    """What is set for a broker: for it alone, for all brokers, and at its start.

    As on a broker of Kafka, a dynamic value that is not valid, or of a config that does not change
    while a broker runs, does not count.
    """

    own: Mapping[str, str] = {}
    of_all: Mapping[str, str] = {}
    static: Mapping[str, str] = {}

    @property
    def values(self) -> Mapping[str, str]:
        """Everything that is set."""
        return {**self.static, **_valid(self.of_all), **_valid(self.own)}

    def synonyms(self, name: str, default: str | None = None) -> tuple[ConfigSynonym, ...]:
        """Everything that says what ``name`` is, the strongest first.

        ``default``: of a config that klamm has for topics alone.
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
    """Every config of a topic whose leader has the configs ``broker``. Raises InvalidConfig."""
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
    """The configs of every topic that brokers were started with, under their names for topics."""
    return {
        name: config.text(topic_default(config, static))
        for name, config in TOPIC_CONFIGS.items()
        if config.synonyms and config.synonyms[0] in static
    }


def broker_entries(broker: BrokerConfigs) -> list[ConfigEntry]:
    """Every config of one broker that klamm knows, sorted by name. Raises InvalidConfig."""
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
    """The configs that are set for all brokers."""
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
