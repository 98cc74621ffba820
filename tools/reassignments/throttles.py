"""Sets, clears, shows, saves and restores the replication throttles of a reassignment.

Kafka's tool overwrites throttles without saving them, and also removes throttles set by other
operators; klamm can save them to a file first and restore them afterwards. Mirrors
ReassignPartitionsCommand.clear*Throttles and modify*Throttle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from klamm.admin.configs.config_resource import BROKERS, TOPICS, ConfigResource
from klamm.admin.failures import ExecutionException
from klamm.cluster.configs import (
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    LOG_DIRS_THROTTLED_RATE,
    THROTTLED_RATES,
)
from klamm.cluster.counting import joined, parse_whole_number, plural
from klamm.cluster.errors import UnknownTopicOrPartition, UsageError
from klamm.cluster.jvm.java_hash import string_hash
from klamm.cluster.jvm.scala_sets import immutable_order, int_hash, mutable_order
from klamm.tools.reassignments.moves import (
    MoveMap,
    calculate_follower_throttles,
    calculate_leader_throttles,
    calculate_reassigning_brokers,
)
from klamm.tools.tool_output import ToolOutput

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin
    from klamm.admin.zookeeper_admin import ZooKeeperAdmin

_NAMES = {
    TOPICS: (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS),
    BROKERS: THROTTLED_RATES,
}


class SavedThrottles(msgspec.Struct):
    """Contents of a file written by ``--save-throttles``: throttle configs of brokers and topics.

    ``brokers`` is keyed by broker id and ``topics`` by topic name. A broker or topic without
    throttles is saved as {}.
    """

    brokers: dict[str, dict[str, str]] = {}
    topics: dict[str, dict[str, str]] = {}
    version: int = 1


class Throttles:
    """Throttle configs of one cluster's topics and brokers.

    If ``save_file`` is given, a ``set_*`` method saves throttles to it before overwriting them.
    """

    def __init__(
        self,
        configs: KafkaAdmin | ZooKeeperAdmin,
        output: ToolOutput,
        save_file: Path | None = None,
    ) -> None:
        self._configs = configs
        self._output = output
        self._save_file = save_file

    def set_inter_broker(self, moves: MoveMap, bytes_per_s: int) -> None:
        """Limit the replication of all moving replicas to ``bytes_per_s`` on each broker."""
        leaders = calculate_leader_throttles(moves)
        followers = calculate_follower_throttles(moves)
        topics: dict[ConfigResource, dict[str, str | None]] = {
            ConfigResource(TOPICS, topic): {
                LEADER_THROTTLED_REPLICAS: leaders[topic],
                FOLLOWER_THROTTLED_REPLICAS: followers[topic],
            }
            for topic in _kafka_order(moves)
        }
        rate = str(bytes_per_s)
        brokers: dict[ConfigResource, dict[str, str | None]] = {
            ConfigResource(BROKERS, str(broker)): {
                LEADER_THROTTLED_RATE: rate,
                FOLLOWER_THROTTLED_RATE: rate,
            }
            for broker in immutable_order(calculate_reassigning_brokers(moves), int_hash)
        }
        self._save([*topics, *brokers])
        self._alter(topics)
        self._alter(brokers)
        self._output.println(f"The inter-broker throttle limit was set to {bytes_per_s} B/s")

    def set_log_dir(self, brokers: Iterable[int], bytes_per_s: int) -> None:
        """Limit copying between log directories to ``bytes_per_s`` on each of ``brokers``."""
        changes: dict[ConfigResource, dict[str, str | None]] = {
            ConfigResource(BROKERS, str(broker)): {LOG_DIRS_THROTTLED_RATE: str(bytes_per_s)}
            for broker in brokers
        }
        self._save(changes)
        self._alter(changes)
        self._output.println(f"The replica-alter-dir throttle limit was set to {bytes_per_s} B/s")

    def clear(self, brokers: Collection[int], topics: Collection[str]) -> None:
        """Remove all throttles of these brokers and topics, including those set by other tools."""
        self._replace("Clearing", BROKERS, {str(broker): {} for broker in brokers})
        self._replace("Clearing", TOPICS, {topic: {} for topic in topics})

    def report(self, brokers: Iterable[int], topics: Iterable[str]) -> None:
        """Add the throttles of these brokers and topics to the report."""
        self._report(
            self._read(
                [
                    *(ConfigResource(BROKERS, str(broker)) for broker in sorted(set(brokers))),
                    *(ConfigResource(TOPICS, topic) for topic in sorted(set(topics))),
                ]
            )
        )

    def show(self) -> list[str]:
        """Add all throttles of the cluster to the report, and return lines that describe them."""
        throttled = self._report(self._read(None))
        if not throttled:
            return ["No throttles are set."]
        return [
            "Throttles:",
            *(
                f"  {resource.entity_type[:-1]} {resource.name}: "
                + ", ".join(f"{name}={value}" for name, value in configs.items())
                for resource, configs in throttled.items()
            ),
        ]

    def _report(
        self, found: Mapping[ConfigResource, Mapping[str, str]]
    ) -> Mapping[ConfigResource, Mapping[str, str]]:
        throttled = {resource: configs for resource, configs in found.items() if configs}
        self._output.report["throttles"] = {
            entity_type: {
                resource.name: configs
                for resource, configs in throttled.items()
                if resource.entity_type == entity_type
            }
            for entity_type in (BROKERS, TOPICS)
        }
        return throttled

    def restore(self, file: Path, live: Collection[int] | None) -> list[str]:
        """Restore the throttles saved in ``file``, then delete the file.

        ``live``: the brokers whose configs can be changed, or None for all. The throttles of other
        brokers stay in the file, and the ids of these brokers are returned. Topics that have been
        deleted meanwhile are printed. Raises UsageError if the file is malformed.
        """
        saved = read_saved(file)
        ids = sorted(saved.brokers, key=lambda id_: (len(id_), id_))
        skipped = [] if live is None else [id_ for id_ in ids if id_ not in set(map(str, live))]
        kept = SavedThrottles({id_: saved.brokers[id_] for id_ in skipped})
        ordered = {id_: saved.brokers[id_] for id_ in ids if id_ not in skipped}
        topics = dict(sorted(saved.topics.items()))
        if ordered:
            self._replace("Restoring", BROKERS, ordered)
        if topics:
            self._restore_topics(topics)
        self._output.report["restored"] = {"brokers": ordered, "topics": topics}
        if skipped:
            _write_saved(file, kept, hint="all other throttles of the file are restored")
        else:
            file.unlink()
        return skipped

    def _restore_topics(self, topics: dict[str, dict[str, str]]) -> None:
        """Restore the throttles of topics, and remove those that do not exist from ``topics``."""
        self._announce("Restoring", TOPICS, topics)
        if self._is_altered(_replacing(TOPICS, topics)):
            return
        gone = [
            name
            for name, configs in topics.items()
            if not self._is_altered(_replacing(TOPICS, {name: configs}))
        ]
        for name in gone:
            del topics[name]
        verb = "does" if len(gone) == 1 else "do"
        self._output.println(
            f"Skipped topic{plural(len(gone))} {joined(gone)}, which {verb} not exist any more"
        )

    def _is_altered(self, changes: Mapping[ConfigResource, Mapping[str, str | None]]) -> bool:
        """Change topics. Return False if one of them does not exist."""
        try:
            self._alter(changes)
        except (UnknownTopicOrPartition, ExecutionException) as error:
            cause = error.cause if isinstance(error, ExecutionException) else error
            if isinstance(cause, UnknownTopicOrPartition):
                return False
            raise
        return True

    def _alter(self, changes: Mapping[ConfigResource, Mapping[str, str | None]]) -> None:
        self._configs.incremental_alter_configs(changes)
        self._output.has_changed |= bool(changes)

    def _replace(
        self, doing: str, entity_type: str, entities: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Replace the throttles of brokers or topics, and print the message of Kafka's tool."""
        self._announce(doing, entity_type, entities)
        self._alter(_replacing(entity_type, entities))

    def _announce(self, doing: str, entity_type: str, names: Collection[str]) -> None:
        kind = entity_type[:-1]
        self._output.println(
            f"{doing} {kind}-level throttles on {kind}{plural(len(names))} {joined(names)}"
        )

    def _read(
        self, resources: Collection[ConfigResource] | None
    ) -> dict[ConfigResource, dict[str, str]]:
        found = self._configs.overrides(resources)
        if resources is None:
            resources = sorted(found, key=_brokers_first)
        return {
            resource: {
                name: configs[name]
                for name in _NAMES[resource.entity_type]
                if name in (configs := found.get(resource, {}))
            }
            for resource in resources
        }

    def _save(self, resources: Collection[ConfigResource]) -> None:
        """Save the throttles of the brokers and topics that the file does not contain yet.

        Throttles that the file already contains are not overwritten, because they were saved before
        the first change.
        """
        if self._save_file is None:
            return
        saved = read_saved(self._save_file) if self._save_file.exists() else SavedThrottles()
        for resource, configs in self._read(resources).items():
            entities = saved.brokers if resource.entity_type == BROKERS else saved.topics
            entities.setdefault(resource.name, configs)
        _write_saved(self._save_file, saved, hint="nothing was changed")


def _replacing(
    entity_type: str, entities: Mapping[str, Mapping[str, str]]
) -> dict[ConfigResource, dict[str, str | None]]:
    """Return the changes that replace all throttles of brokers or topics."""
    return {
        ConfigResource(entity_type, name): {
            config: configs.get(config) for config in _NAMES[entity_type]
        }
        for name, configs in entities.items()
    }


def _write_saved(file: Path, saved: SavedThrottles, hint: str) -> None:
    try:
        file.write_bytes(msgspec.json.encode(saved))
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}", hint=hint) from error


def read_saved(file: Path) -> SavedThrottles:
    """Read a file written by ``--save-throttles``. Raises UsageError."""
    try:
        saved = msgspec.json.decode(file.read_bytes(), type=SavedThrottles)
    except OSError as error:
        raise UsageError(
            f"cannot read {file}: {error.strerror}",
            hint="--execute --save-throttles creates this file",
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{file} is not a file of saved throttles: {error}",
            hint="--execute --save-throttles creates such a file",
        ) from error
    unknown = [
        name
        for entity_type, entities in ((BROKERS, saved.brokers), (TOPICS, saved.topics))
        for configs in entities.values()
        for name in configs
        if name not in _NAMES[entity_type]
    ]
    if unknown or saved.version != 1:
        problem = f"unknown configs {joined(unknown)}" if unknown else f"version {saved.version}"
        raise UsageError(f"{file} is not a file of saved throttles: {problem}")
    return saved


def _brokers_first(resource: ConfigResource) -> tuple[bool, int, str]:
    broker_id = parse_whole_number(resource.name) if resource.entity_type == BROKERS else None
    return resource.entity_type == TOPICS, -1 if broker_id is None else broker_id, resource.name


def _kafka_order(moves: MoveMap) -> list[str]:
    """Return the topics in the order in which Kafka's tool changes their configs."""
    return immutable_order(mutable_order(moves, string_hash), string_hash)
