"""Compiler of a drill's cluster: its brokers, configs and topics, and the steps to create it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import yaml

from klamm.admin.topics import validate_topic_create
from klamm.cluster.configs import TOPIC_CONFIGS, check_broker_configs
from klamm.cluster.errors import KlammError, UsageError
from klamm.cluster.yaml_reader import YamlEntry
from klamm.lab.actions import actions, steps
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.drill import DrillCluster, Quiesce, Step
from klamm.lab.language.reading import DrillReader
from klamm.zk.ensemble import SIZES
from klamm.zk.znodes import ControllerZNode

CLUSTER_WORDS: Final = (
    "brokers",
    "controllers",
    "racks",
    "session_timeout",
    "config",
    "segments",
    "topics",
    "zookeeper_servers",
)
TOPIC_WORDS: Final = ("replicas", "config")
MAX_BROKERS: Final = 100
_SESSION_TIMEOUTS_MS: Final = (1_000.0, 60_000.0)


class DrillTopic(NamedTuple):
    """A topic of a drill's cluster: the replicas of its partitions, its configs, its position."""

    name: str
    replicas: list[list[int]]
    configs: dict[str, str]
    place: str


class ClusterCompiler:
    """Compiler of the ``cluster`` section of one drill."""

    def __init__(self, reader: DrillReader) -> None:
        self._reader = reader
        self._names: list[str] = []

    def read(self, node: yaml.Node) -> tuple[DrillCluster, list[DrillTopic]]:
        """Return the cluster and its topics."""
        reader = self._reader
        fields = reader.fields(node, "a cluster", CLUSTER_WORDS)
        values: dict[str, Any] = {}
        if "brokers" in fields:
            values["broker_ids"] = self._broker_ids(fields["brokers"].value)
            reader.cluster = DrillCluster(broker_ids=values["broker_ids"])
        if "controllers" in fields:
            values["controllers"] = tuple(
                reader.brokers(fields["controllers"].value, "controllers")
            )
            if not values["controllers"]:
                raise reader.error(
                    fields["controllers"].value, "a cluster needs at least one controller"
                )
        if "racks" in fields:
            values["racks"] = self._racks(fields["racks"].value)
        if "session_timeout" in fields:
            entry = fields["session_timeout"].value
            timeout_ms = reader.duration_ms(entry, "session_timeout")
            least, most = _SESSION_TIMEOUTS_MS
            if not least <= timeout_ms <= most:
                raise reader.error(entry, "session_timeout must be from 1s to 60s")
            values["session_timeout_ms"] = int(timeout_ms)
        if "config" in fields:
            values["config"] = self._broker_configs(fields["config"].value)
        if "segments" in fields:
            values["segments"] = reader.boolean(fields["segments"].value, "segments")
        if "zookeeper_servers" in fields:
            entry = fields["zookeeper_servers"].value
            values["zookeeper_servers"] = reader.integer(entry, "zookeeper_servers", 1, max(SIZES))
            if values["zookeeper_servers"] not in SIZES:
                raise reader.error(entry, "zookeeper_servers must be 1, 3 or 5")
        cluster = DrillCluster(**values)
        if "topics" not in fields:
            return cluster, []
        topics = reader.entries(fields["topics"].value, "topics").values()
        return cluster, [self._topic(entry.key, entry.value) for entry in topics]

    def _broker_ids(self, node: yaml.Node) -> tuple[int, ...]:
        reader = self._reader
        if isinstance(node, yaml.SequenceNode):
            ids = tuple(reader.integer(item, "a broker", most=50_000) for item in node.value)
            if not ids or len(set(ids)) < len(ids):
                raise reader.error(node, "brokers must be a list of different ids")
            if len(ids) > MAX_BROKERS:
                raise reader.error(node, f"a drill has at most {MAX_BROKERS} brokers")
            return ids
        return tuple(range(reader.integer(node, "brokers", 1, MAX_BROKERS)))

    def _racks(self, node: yaml.Node) -> tuple[str, ...]:
        reader = self._reader
        racks, count = reader.items(node, "racks"), len(reader.cluster.broker_ids)
        if len(racks) > count:
            raise reader.error(
                racks[count],
                f"{len(racks)} racks for {count} brokers",
                "racks are assigned to brokers round-robin: give at most one per broker",
            )
        return tuple(reader.text(rack, "a rack") for rack in racks)

    def _broker_configs(self, node: yaml.Node) -> dict[str, str]:
        reader = self._reader
        configs = {}
        for name, entry in reader.entries(node, "config").items():
            configs[name] = reader.text(entry.value, f"the value of {name}")
            try:
                check_broker_configs({name: configs[name]})
            except UsageError as error:
                raise reader.error(entry.key, error.message, error.hint) from None
        return configs

    def _topic(self, key: yaml.Node, node: yaml.Node) -> DrillTopic:
        """Read a topic: the replicas of its partitions, and optionally its configs."""
        reader = self._reader
        configs = {}
        if isinstance(node, yaml.MappingNode):
            fields = reader.fields(node, "a topic", TOPIC_WORDS)
            if "replicas" not in fields:
                raise reader.error(node, "a topic requires 'replicas'")
            if "config" in fields:
                entries = reader.entries(fields["config"].value, "config")
                configs = {name: self._topic_config(name, e) for name, e in entries.items()}
            node = fields["replicas"].value
        partitions = reader.items(node, "the replicas of a topic's partitions")
        replicas = [reader.brokers(item) for item in partitions]
        if not replicas or not all(replicas):
            raise reader.error(
                node, "each partition needs at least one replica", "as in t: [[0, 1], [1, 2]]"
            )
        name = reader.text(key, "a topic")
        try:
            validate_topic_create(name, dict(enumerate(replicas)), configs, self._names)
        except KlammError as error:
            raise reader.error(key, error.message, error.hint) from None
        self._names.append(name)
        return DrillTopic(name, replicas, configs, reader.place(key))

    def _topic_config(self, name: str, entry: YamlEntry) -> str:
        reader = self._reader
        value = reader.text(entry.value, name)
        if name not in TOPIC_CONFIGS:
            raise reader.unknown(entry.key, "topic config", name, TOPIC_CONFIGS)
        try:
            TOPIC_CONFIGS[name].value({name: value})
        except KlammError as error:
            raise reader.error(entry.value, error.message, error.hint) from None
        return value


def start_of(cluster: DrillCluster, place: str) -> Step:
    """Return the step that starts the brokers of a cluster."""
    ids = list(cluster.broker_ids)
    return Step(
        f"start brokers {', '.join(map(str, ids))}",
        tuple(actions.Start(broker_id) for broker_id in ids),
        (
            StepCheck(Moment.UNTIL, Condition("brokers", sorted(ids)), place=place),
            StepCheck(Moment.UNTIL, Condition("exists", [ControllerZNode.path]), place=place),
            Quiesce(),
        ),
        place,
    )


def assignment_text(replicas: Iterable[Iterable[int]]) -> str:
    """Return the replicas of a topic's partitions as ``--replica-assignment`` takes them."""
    return ",".join(":".join(map(str, ids)) for ids in replicas)


def creation_of(topic: DrillTopic) -> Step:
    """Return the step that creates a topic."""
    assignment = assignment_text(topic.replicas)
    configs = [
        word for name, value in topic.configs.items() for word in ("--config", f"{name}={value}")
    ]
    args = ("--create", "--topic", topic.name, "--replica-assignment", assignment, *configs)
    leaders = {f"{topic.name}-{n}": replicas[0] for n, replicas in enumerate(topic.replicas)}
    return Step(
        f"create topic {topic.name}",
        (steps.RunTool("topics", ("--zookeeper", "{zk}", *args)),),
        (
            StepCheck(Moment.EXPECT, Condition("exit_code", 0), place=topic.place),
            StepCheck(Moment.UNTIL, Condition("leader", leaders), place=topic.place),
            Quiesce(),
        ),
        topic.place,
    )
