"""Dynamic configs: a broker watches /config/changes and applies changed configs.

Each config change adds a sequential notification znode below /config/changes. Every broker
processes the notifications that it has not seen, reads the config that each notification names, and
deletes notifications older than 15 minutes. This module keeps the broker's own config, and calls
callbacks when a topic config changes and when unclean leader election is enabled. A malformed
notification or config is logged and skipped. Mirrors kafka.common.ZkNodeChangeNotificationListener,
kafka.server.{DynamicConfigManager, ConfigHandler} and DynamicLogConfig in
kafka.server.DynamicBrokerConfig.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from klamm.cluster.configs import (
    BROKER_CONFIGS,
    UNCLEAN,
    effective_broker_configs,
    valid_dynamic_configs,
)
from klamm.cluster.errors import SessionExpired, StoreError
from klamm.cluster.protocols import Clock
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Delete, GetData
from klamm.zk.znodes import (
    DEFAULT_ENTITY,
    ConfigChange,
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityZNode,
    MalformedZNode,
)
from klamm.zk.znodes.json_values import parse_int

ConfigValues = Mapping[str, str]
CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
_PATH: Final = ConfigEntityChangeNotificationZNode.path
_PREFIX: Final = ConfigEntityChangeNotificationSequenceZNode.sequence_number_prefix
_NUMBERED: Final = re.compile(re.escape(_PREFIX) + r"\d+", re.ASCII)
_FOLLOWED: Final = ("topics", "brokers")

FOR_ALL: Final = "for_all"
"""Name of a LogRecord attribute: a text to be logged once if all brokers log the same message."""

logger = logging.getLogger(__name__)


class DynamicBrokerConfig:
    """A broker's effective config.

    A value comes from the first of these sources that sets it:

    - ``overrides``: the broker's own config, in /config/brokers/ID.
    - ``defaults``: the cluster-wide default config, in /config/brokers/<default>.
    - The static config with which the broker was started.
    """

    def __init__(self, unclean_leader_election_enable: bool) -> None:
        self.overrides: ConfigValues = {}
        self.defaults: ConfigValues = {}
        self._static = {UNCLEAN: str(unclean_leader_election_enable)}

    @property
    def unclean_leader_election_enable(self) -> bool:
        """Value of unclean.leader.election.enable for topics that do not override it."""
        configs = effective_broker_configs(self.overrides, self.defaults, self._static)
        return bool(BROKER_CONFIGS[UNCLEAN].value(configs))


def _ignored(*_: object) -> None:
    """Do nothing. A module's function, unlike a lambda, can be copied with a simulated world."""


class DynamicConfigManager:
    """Keeps the dynamic ``config`` of one broker up to date.

    - ``on_unclean_election_enabled``: called with a topic whose changed config enables unclean
      leader election, or with None if the broker's own config enables it.
    - ``on_topic_config``: called with a topic and its config overrides when the overrides change.
    - ``on_own_config``: called with this broker's overrides and the cluster defaults when either
      changes.
    - ``malformed``: path of each malformed znode, with the reason why it is malformed.
    """

    def __init__(
        self,
        broker_id: int,
        zk: KafkaZkClient,
        clock: Clock,
        unclean_leader_election_enable: bool = False,
        quirks: Quirks = NO_QUIRKS,
    ) -> None:
        self.config = DynamicBrokerConfig(unclean_leader_election_enable)
        self.on_unclean_election_enabled: Callable[[str | None], None] = _ignored
        self.on_topic_config: Callable[[str, ConfigValues], None] = _ignored
        self.on_own_config: Callable[[ConfigValues, ConfigValues], None] = _ignored
        self.malformed: dict[str, str] = {}
        self._broker_id = broker_id
        self._zk = zk
        self._clock = clock
        self._quirks = quirks
        self._created_ms: dict[str, float] = {}
        self._unread_topics: set[str] = set()

    def initialize(self) -> None:
        """Read the broker's config and the cluster defaults before the broker registers.

        Raises SessionExpired.
        """
        entities = [
            ConfigChange("brokers", name) for name in (DEFAULT_ENTITY, str(self._broker_id))
        ]
        for entity, config in self._read_configs(entities).items():
            self._handle(entity, config)

    def process_notifications(self) -> None:
        """Apply all config changes since the last call, and watch /config/changes for more.

        Errors are only logged: the next notification or the next session triggers another attempt.
        """
        try:
            self._read_topics_again()
            names = self._zk.get_children(_PATH, watch=True)
            if names:
                logger.info("Processing notification(s) to %s", _PATH)
                self._process(names)
            else:
                self._forget_all_but(())
        except SessionExpired:
            logger.info("broker %d: session expired while reading %s", self._broker_id, _PATH)
        except (StoreError, MalformedZNode) as error:
            logger.error(
                "Error while processing notification change for path = %s: %s", _PATH, error
            )

    def topic_configs(self, topics: Iterable[str]) -> dict[str, ConfigValues]:
        """Return the config overrides of topics, read in one pipelined batch.

        The result for a topic with a malformed config is {}. If the session expires, the result for
        every topic is {}, and ``process_notifications`` reads the configs in the next session.
        """
        wanted = list(topics)
        try:
            return self._topic_configs(wanted)
        except SessionExpired:
            logger.info("broker %d: session expired while reading topic configs", self._broker_id)
            self._unread_topics.update(wanted)
            return {topic: {} for topic in wanted}

    def _topic_configs(self, topics: Sequence[str]) -> dict[str, ConfigValues]:
        entities = {topic: ConfigChange("topics", topic) for topic in topics}
        configs = self._read_configs(entities.values())
        return {topic: configs.get(entity, {}) for topic, entity in entities.items()}

    def _read_topics_again(self) -> None:
        """Read the topic configs that could not be read because the session expired."""
        if not self._unread_topics:
            return
        found = self._topic_configs(sorted(self._unread_topics))
        self._unread_topics.clear()
        for topic, config in found.items():
            self.on_topic_config(topic, config)

    # -- notifications

    def _process(self, names: Sequence[str]) -> None:
        """Handle new notifications in order, and delete obsolete notifications.

        With the quirk malformed_znode_fails_the_event, notifications after a znode without a
        sequence number are not processed as long as this znode exists.
        """
        odd = [name for name in names if _NUMBERED.fullmatch(name) is None]
        is_blocked = bool(odd) and self._quirks.malformed_znode_fails_the_event
        if is_blocked:
            names = names[: names.index(odd[0])]
        self._forget_all_but(names)
        unseen = [name for name in names if name not in self._created_ms]
        changes: dict[str, ConfigChange] = {}
        results = self._zk.read([GetData(f"{_PATH}/{name}") for name in unseen])
        for name, result in zip(unseen, results, strict=True):
            if result.stat is None:
                continue
            never = result.data is None and self._quirks.malformed_znode_fails_the_event
            self._created_ms[name] = math.inf if never else result.stat.ctime_ms
            change = None if name in odd else self._decode(name, result.data)
            if change is not None:
                changes[name] = change
            elif name in odd:
                self._quarantine(f"{_PATH}/{name}", "not a notification")
        configs = self._read_configs(changes.values())
        for name, change in changes.items():
            if change in configs:
                self._handle_notification(name, change, configs[change])
        if is_blocked:
            raise MalformedZNode(f'For input string: "{odd[0][len(_PREFIX) :]}"')
        self._purge_obsolete_notifications()

    def _forget_all_but(self, names: Sequence[str]) -> None:
        """Drop the state of all notifications that are not in ``names``: they were deleted."""
        self._created_ms = {n: self._created_ms[n] for n in names if n in self._created_ms}
        for path in list(self.malformed):
            parent, _, name = path.rpartition("/")
            if parent == _PATH and name not in self._created_ms:
                del self.malformed[path]

    def _decode(self, name: str, data: bytes | None) -> ConfigChange | None:
        """Return the topic or broker whose config changed.

        Return None if the notification is malformed or names an entity of another type.
        """
        path = f"{_PATH}/{name}"
        try:
            change = ConfigEntityChangeNotificationSequenceZNode.decode(data)
        except MalformedZNode as error:
            self._quarantine(path, error.reason)
            return None
        if change is None:
            self._quarantine(path, "not JSON")
        return change if change is not None and change.entity_type in _FOLLOWED else None

    def _handle_notification(self, name: str, change: ConfigChange, config: ConfigValues) -> None:
        logger.info(
            "Processing override for entityPath: %s/%s with config: Map(%s)",
            change.entity_type,
            change.entity_name,
            ", ".join(f"{key} -> {value}" for key, value in config.items()),
        )
        try:
            self._handle(change, config)
        except MalformedZNode as error:
            self._quarantine(f"{_PATH}/{name}", error.reason)

    def _purge_obsolete_notifications(self) -> None:
        """Delete the notifications that are older than CHANGE_EXPIRATION_MS."""
        before_ms = self._clock.now_ms() - CHANGE_EXPIRATION_MS
        obsolete = [
            f"{_PATH}/{name}" for name, created in self._created_ms.items() if created < before_ms
        ]
        if obsolete:
            logger.debug("Purging change notifications %s", ", ".join(obsolete))
            self._zk.store.write([[Delete(path)] for path in obsolete])

    # -- configs

    def _read_configs(self, entities: Iterable[ConfigChange]) -> dict[ConfigChange, ConfigValues]:
        """Return the config overrides of entities. Entities with a malformed config are omitted."""
        paths = {entity: ConfigEntityZNode.path(*entity) for entity in entities}
        results = self._zk.read([GetData(path) for path in paths.values()])
        configs: dict[ConfigChange, ConfigValues] = {}
        for (entity, path), result in zip(paths.items(), results, strict=True):
            try:
                configs[entity] = (
                    {} if result.stat is None else ConfigEntityZNode.decode(result.data)
                )
            except MalformedZNode as error:
                self._quarantine(path, error.reason)
            else:
                self.malformed.pop(path, None)
        return configs

    def _handle(self, entity: ConfigChange, config: ConfigValues) -> None:
        """Apply the current config of an entity.

        Raises MalformedZNode if the entity is a broker whose name is not a number.
        """
        name = entity.entity_name
        if entity.entity_type == "topics":
            self.on_topic_config(name, config)
            if config.get(UNCLEAN, "").lower() == "true":
                self.on_unclean_election_enabled(name)
            return
        was_enabled = self.config.unclean_leader_election_enable
        if name == DEFAULT_ENTITY:
            self.config.defaults = config
        elif parse_int(name.strip()) == self._broker_id:
            self.config.overrides = config
        else:
            return
        ignored = config.keys() - valid_dynamic_configs(config).keys()
        if ignored:
            logger.warning(
                "broker %d: ignoring configs of brokers/%s that are invalid or not dynamic: %s",
                self._broker_id,
                name,
                ", ".join(sorted(ignored)),
            )
        self.on_own_config(self.config.overrides, self.config.defaults)
        if self.config.unclean_leader_election_enable and not was_enabled:
            self.on_unclean_election_enabled(None)

    def _quarantine(self, path: str, reason: str) -> None:
        self.malformed[path] = reason
        logger.warning(
            "broker %d: ignoring the malformed znode %s: %s",
            self._broker_id,
            path,
            reason,
            # Every broker reads the same znodes. If all brokers log this, one line is enough.
            extra={FOR_ALL: f"brokers ignore the malformed znode {path}: {reason}"},
        )
