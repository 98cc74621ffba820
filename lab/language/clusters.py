"""Compiler of a drill's cluster: its brokers, configs and topics, and the steps to create it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import yaml

from klamm.admin.topics import validate_topic_create
from klamm.cluster.configs import TOPIC_CONFIGS, check_broker_configs
from klamm.cluster.errors import KlammError
from klamm.cluster.yaml_reader import YamlEntry
from klamm.lab.actions import actions, steps
from klamm.lab.conditions.condition import Condition, Moment, StepCheck
from klamm.lab.drill import DEFAULT_CLUSTER, Quiesce, Step
from klamm.lab.language.reading import DrillReader
from klamm.world.cluster_spec import (
    BROKERS_FOLDER,
    SESSION_TIMEOUTS_MS,
    ClusterSpec,
    check_rack_name,
    rack_map,
)
from klamm.world.log_stores import check_log_dirs
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
P = ParamSpec("P")
T = TypeVar("T")


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

    def read(self, node: yaml.Node) -> tuple[ClusterSpec, list[DrillTopic]]:
        """Return the cluster and its topics."""
        reader = self._reader
        fields = reader.fields(node, "a cluster", CLUSTER_WORDS)
        # The brokers come first, because the others may name them.
        readers: Mapping[str, tuple[str, Callable[[yaml.Node], Any]]] = {
            "brokers": ("broker_ids", self._broker_ids),
            "controllers": ("candidates", self._candidates),
            "racks": ("racks", self._racks),
            "session_timeout": ("session_timeout_ms", self._session_timeout_ms),
            "config": ("config", self._broker_configs),
            "segments": ("segments", self._segments),
            "zookeeper_servers": ("zookeeper_servers", self._zookeeper_servers),
        }
        for word, (name, read) in readers.items():
            if word in fields:
                reader.cluster = replace(reader.cluster, **{name: read(fields[word].value)})
        cluster = reader.cluster
        if cluster.segments is not None and "config" in fields:
            log_dirs = cluster.broker_config.log_dirs
            self._checked(fields["config"].value, check_log_dirs, log_dirs)
        if "topics" not in fields:
            return cluster, []
        topics = reader.entries(fields["topics"].value, "topics").values()
        return cluster, [self._topic(entry.key, entry.value) for entry in topics]

    def _checked(
        self, node: yaml.Node, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function that checks values; its error gets the place of ``node``."""
        try:
            return check(*args, **kwargs)
        except KlammError as error:
            raise self._reader.error(node, error.message, error.hint) from None

    def _broker_ids(self, node: yaml.Node) -> tuple[int, ...]:
        reader = self._reader
        if isinstance(node, yaml.SequenceNode):
            ids = tuple(reader.integer(item, "a broker", most=50_000) for item in node.value)
            if not ids or len(set(ids)) < len(ids):
                raise reader.error(node, "brokers must be a list of different ids")
            if len(ids) > MAX_BROKERS:
                raise reader.error(node, f"a drill has at most {MAX_BROKERS} brokers")
            return ids
        hint = "a number as in 3, or ids as in [0, 1, 2]"
        return tuple(range(reader.integer(node, "brokers", 1, MAX_BROKERS, hint)))

    def _candidates(self, node: yaml.Node) -> tuple[int, ...]:
        candidates = self._reader.brokers(node, "controllers")
        if not candidates:
            raise self._reader.error(node, "a cluster needs at least one controller")
        return tuple(candidates)

    def _racks(self, node: yaml.Node) -> dict[int, str]:
        reader, ids = self._reader, self._reader.cluster.broker_ids
        items = reader.items(node, "racks", 'as in ["a", "b", "c"]')
        racks = [reader.text(item, "a rack") for item in items]
        for rack, item in zip(racks, items, strict=True):
            self._checked(item, check_rack_name, rack)
        place = items[len(ids)] if len(items) > len(ids) else node
        return self._checked(place, rack_map, ids, racks)

    def _session_timeout_ms(self, node: yaml.Node) -> int:
        timeout_ms = int(self._reader.duration_ms(node, "session_timeout"))
        if timeout_ms not in SESSION_TIMEOUTS_MS:
            raise self._reader.error(node, "session_timeout must be from 1s to 60s")
        return timeout_ms

    def _broker_configs(self, node: yaml.Node) -> dict[str, str]:
        reader, configs = self._reader, dict(DEFAULT_CLUSTER.config)
        for name, entry in reader.entries(node, "config").items():
            configs[name] = reader.text(entry.value, f"the value of {name}")
            self._checked(entry.key, check_broker_configs, {name: configs[name]})
        return configs

    def _segments(self, node: yaml.Node) -> Path | None:
        hint = "without segments, brokers keep only the offsets of records"
        return BROKERS_FOLDER if self._reader.boolean(node, "segments", hint) else None

    def _zookeeper_servers(self, node: yaml.Node) -> int:
        servers = self._reader.integer(node, "zookeeper_servers", 1, max(SIZES))
        if servers not in SIZES:
            raise self._reader.error(node, "zookeeper_servers must be 1, 3 or 5")
        return servers

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
        assignment = dict(enumerate(replicas))
        self._checked(key, validate_topic_create, name, assignment, configs, self._names)
        self._names.append(name)
        return DrillTopic(name, replicas, configs, reader.place(key))

    def _topic_config(self, name: str, entry: YamlEntry) -> str:
        reader = self._reader
        value = reader.text(entry.value, name)
        if name not in TOPIC_CONFIGS:
            raise reader.unknown(entry.key, "topic config", name, TOPIC_CONFIGS)
        self._checked(entry.value, TOPIC_CONFIGS[name].value, {name: value})
        return value


def start_of(cluster: ClusterSpec, place: str) -> Step:
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
