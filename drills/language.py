"""Compiler of the drill language: a YAML file in, a Drill out.

Every error is a UsageError with FILE:LINE:COLUMN, and a suggestion for an unknown word. ``always``,
``sometimes``, ``eventually`` and ``when`` are reserved for later extensions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from klamm.cluster.configs import check_broker_configs
from klamm.cluster.errors import UsageError
from klamm.drills.actions import ACTIONS, ANSWERED
from klamm.drills.conditions import CONDITIONS
from klamm.drills.reading import DrillReader, Entry, is_null, read_text
from klamm.drills.values import Drill, DrillCluster
from klamm.runtime import actions
from klamm.runtime.actions import Action
from klamm.runtime.scenarios import steps
from klamm.runtime.scenarios.steps import STEP_TIMEOUT_MS, Check, Condition, Moment, Quiesce, Step
from klamm.zk.ensemble import SIZES

DRILL_WORDS: Final = ("drill", "about", "cluster", "steps", "checks")
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
STEP_WORDS: Final = ("name", "until", "within", "expect", "files")
TOPIC_WORDS: Final = ("replicas", "config")
MAX_BROKERS: Final = 100
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_FILE: Final = re.compile(r"\{file:([^}]*)\}")
_SESSION_TIMEOUTS_MS: Final = (1_000.0, 60_000.0)


class _Topic(NamedTuple):
    name: str
    replicas: list[list[int]]
    configs: dict[str, str]
    place: str


def read_drill(path: Path) -> Drill:
    """Read the drill in a file. Raises UsageError."""
    return parse_drill(read_text(path), str(path))


def parse_drill(text: str, source: str) -> Drill:
    """Parse a drill; ``source`` is the file's name in errors. Raises UsageError."""
    return _File(DrillReader(source)).read(text)


class _File:
    """Compiler of one file."""

    def __init__(self, reader: DrillReader) -> None:
        self._reader = reader

    def read(self, text: str) -> Drill:
        reader = self._reader
        root = reader.compose(text)
        fields = reader.fields(root, "a drill", DRILL_WORDS)
        for needed in ("drill", "about", "steps"):
            if needed not in fields:
                raise reader.error(root, f"a drill requires '{needed}'")
        name = reader.text(fields["drill"].value, "the drill's name")
        if not _NAME.fullmatch(name):
            raise reader.error(
                fields["drill"].value,
                f"the name '{name}' must be lower case",
                "as in leader-loss",
            )
        about = " ".join(reader.text(fields["about"].value, "about").split())
        if "cluster" in fields:
            cluster, topics = self._cluster(fields["cluster"].value)
        else:
            cluster, topics = DrillCluster(), []
        reader.broker_ids = cluster.broker_ids
        items = reader.items(fields["steps"].value, "steps")
        if not items:
            raise reader.error(fields["steps"].value, "a drill requires a step")
        place = reader.place(fields["cluster"].key) if "cluster" in fields else reader.place(root)
        return Drill(
            name=name,
            about=about,
            cluster=cluster,
            steps=(
                _start_of(cluster, place),
                *map(_creation_of, topics),
                *(self._step(item) for item in items),
            ),
            is_checked="checks" not in fields or reader.boolean(fields["checks"].value, "checks"),
            source=reader.name,
        )

    # -- the cluster

    def _cluster(self, node: yaml.Node) -> tuple[DrillCluster, list[_Topic]]:
        reader = self._reader
        fields = reader.fields(node, "a cluster", CLUSTER_WORDS)
        values: dict[str, Any] = {}
        reader.broker_ids = DrillCluster().broker_ids
        if "brokers" in fields:
            values["broker_ids"] = self._broker_ids(fields["brokers"].value)
            reader.broker_ids = values["broker_ids"]
        if "controllers" in fields:
            values["controllers"] = tuple(reader.brokers(fields["controllers"].value))
            if not values["controllers"]:
                raise reader.error(fields["controllers"].value, "a cluster requires a controller")
        if "racks" in fields:
            racks = reader.items(fields["racks"].value, "racks")
            values["racks"] = tuple(reader.text(item, "a rack") for item in racks)
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

    def _topic(self, key: yaml.Node, node: yaml.Node) -> _Topic:
        """Read a topic: the replicas of its partitions, and optionally its configs."""
        reader = self._reader
        configs = {}
        if isinstance(node, yaml.MappingNode):
            fields = reader.fields(node, "a topic", TOPIC_WORDS)
            if "replicas" not in fields:
                raise reader.error(node, "a topic requires 'replicas'")
            if "config" in fields:
                entries = reader.entries(fields["config"].value, "config")
                configs = {name: reader.text(e.value, name) for name, e in entries.items()}
            node = fields["replicas"].value
        partitions = reader.items(node, "the replicas of a topic's partitions")
        replicas = [reader.brokers(item) for item in partitions]
        if not replicas or not all(replicas):
            raise reader.error(
                node, "each partition requires a replica", "as in t: [[0, 1], [1, 2]]"
            )
        return _Topic(reader.text(key, "a topic"), replicas, configs, reader.place(key))

    # -- steps

    def _step(self, node: yaml.Node) -> Step:
        reader = self._reader
        if isinstance(node, yaml.ScalarNode):
            # An action without a value may stand alone.
            kind = self._action_kind(node, reader.text(node, "a step"))
            nothing = yaml.ScalarNode("", "", node.start_mark)
            return Step(kind, ACTIONS[kind].read(reader, nothing), (), reader.place(node))
        fields = reader.fields(node, "a step", (*ACTIONS, *STEP_WORDS))
        words = [word for word in fields if word in ACTIONS]
        if len(words) > 1:
            raise reader.error(
                fields[words[1]].key,
                f"a step has at most one action: give either {words[0]} or {words[1]}",
            )
        if "files" in fields and "run" not in words:
            raise reader.error(fields["files"].key, "'files' requires 'run' in the same step")
        actions: tuple[Action, ...] = ()
        if words:
            value = fields[words[0]].value
            actions = self._with_files(ACTIONS[words[0]].read(reader, value), value, fields)
        if not words and not fields.keys() & {"until", "expect"}:
            raise reader.error(node, "a step requires an action, 'until' or 'expect'")
        if "within" in fields and "until" not in fields:
            raise reader.error(fields["within"].key, "'within' is the timeout of 'until': add one")
        checks = self._checks(fields, is_answered=_answers(actions))
        place = reader.place(fields[words[0]].key if words else node)
        return Step(self._step_name(fields, words), actions, checks, place)

    def _action_kind(self, node: yaml.Node, word: str) -> str:
        if word not in ACTIONS:
            raise self._reader.unknown(node, "step", word, ACTIONS)
        return word

    def _step_name(self, fields: dict[str, Entry], words: list[str]) -> str:
        reader = self._reader
        if "name" in fields:
            return reader.text(fields["name"].value, "a name")
        if not words:
            return "wait" if "until" in fields else "look"
        value = fields[words[0]].value
        if is_null(value):
            return words[0]
        return f"{words[0]}: {steps.plain_text(reader.plain(value))}"

    def _with_files(
        self, actions: tuple[Action, ...], value: yaml.Node, fields: dict[str, Entry]
    ) -> tuple[Action, ...]:
        """Return the actions with the contents of the step's ``files``.

        Raises UsageError if an argument refers to a missing file, or if a file is unused.
        """
        reader = self._reader
        files: dict[str, str] = {}
        if "files" in fields:
            for name, entry in reader.entries(fields["files"].value, "files").items():
                if "/" in name or name in (".", ".."):
                    raise reader.error(entry.key, f"'{name}' is not a file name")
                data = reader.znode_data(entry.value)
                files[name] = "" if data is None else data.decode()
        tools = [action for action in actions if isinstance(action, steps.RunTool)]
        named = {name for tool in tools for arg in tool.args for name in _FILE.findall(arg)}
        for name in files:
            if name not in named:
                raise reader.error(
                    fields["files"].key,
                    f"no argument of 'run' uses the file '{name}'",
                    "write {file:NAME} in the command",
                )
        for name in sorted(named - files.keys()):
            raise reader.error(value, f"file '{name}' is missing", "add it to the step's 'files'")
        return tuple(
            msgspec.structs.replace(action, files=files)
            if isinstance(action, steps.RunTool)
            else action
            for action in actions
        )

    # -- checks

    def _checks(
        self, fields: dict[str, Entry], *, is_answered: bool
    ) -> tuple[Check | Quiesce, ...]:
        """Return the checks of a step: on the tool's result, ``until``, then ``expect``.

        The conditions of ``expect`` on the cluster are checked after it has quiesced.
        """
        reader = self._reader
        timeout_ms = STEP_TIMEOUT_MS
        if "within" in fields:
            timeout_ms = reader.duration_ms(fields["within"].value, "within")
        until = self._conditions(fields, Moment.UNTIL, timeout_ms)
        expect = self._conditions(fields, Moment.EXPECT, timeout_ms)
        of_tool = [
            msgspec.structs.replace(check, is_required=True)
            for check in expect
            if CONDITIONS[check.condition.kind].is_of_tool
        ]
        of_cluster = [c for c in expect if not CONDITIONS[c.condition.kind].is_of_tool]
        if of_tool and not is_answered:
            raise UsageError(
                f"{of_tool[0].place}: the step has no action with an exit code and an output",
                hint="exit_code and output require run, reassign, cancel_reassignment or elect_*",
            )
        if is_answered and all(c.condition.kind != "exit_code" for c in of_tool):
            of_tool.insert(0, _succeeded(fields, reader))
        quiesce = [Quiesce()] if of_cluster else []
        return (*of_tool, *until, *quiesce, *of_cluster)

    def _conditions(
        self, fields: dict[str, Entry], moment: Moment, timeout_ms: float
    ) -> list[Check]:
        reader = self._reader
        if moment.value not in fields:
            return []
        node = fields[moment.value].value
        checks = []
        for group in reader.one_or_more(node):
            entries = reader.fields(group, moment.value, CONDITIONS)
            for kind, entry in entries.items():
                if moment is Moment.UNTIL and CONDITIONS[kind].is_of_tool:
                    raise reader.error(
                        entry.key, f"{kind} is never waited for", "put it under 'expect'"
                    )
                condition = Condition(kind, CONDITIONS[kind].read(reader, entry.value))
                place = reader.place(entry.key)
                is_required = moment is Moment.UNTIL
                checks.append(Check(moment, condition, timeout_ms, place, is_required))
        if not checks:
            raise reader.error(node, f"{moment.value} has no condition")
        return checks


def _answers(actions: Iterable[Action]) -> bool:
    return any(isinstance(action, ANSWERED) for action in actions)


def _succeeded(fields: dict[str, Entry], reader: DrillReader) -> Check:
    word = next(word for word in fields if word in ACTIONS)
    condition = Condition("exit_code", 0)
    return Check(Moment.EXPECT, condition, place=reader.place(fields[word].key))


def _start_of(cluster: DrillCluster, place: str) -> Step:
    ids = list(cluster.broker_ids)
    return Step(
        f"start brokers {', '.join(map(str, ids))}",
        tuple(actions.Start(broker_id) for broker_id in ids),
        (
            Check(Moment.UNTIL, Condition("brokers", sorted(ids)), place=place),
            Check(Moment.UNTIL, Condition("exists", ["/controller"]), place=place),
            Quiesce(),
        ),
        place,
    )


def _creation_of(topic: _Topic) -> Step:
    assignment = ",".join(":".join(map(str, replicas)) for replicas in topic.replicas)
    configs = [
        word for name, value in topic.configs.items() for word in ("--config", f"{name}={value}")
    ]
    args = ("--create", "--topic", topic.name, "--replica-assignment", assignment, *configs)
    leaders = {f"{topic.name}-{n}": replicas[0] for n, replicas in enumerate(topic.replicas)}
    return Step(
        f"create topic {topic.name}",
        (steps.RunTool("topics", ("--zookeeper", "{zk}", *args)),),
        (
            Check(Moment.EXPECT, Condition("exit_code", 0), place=topic.place),
            Check(Moment.UNTIL, Condition("leader", leaders), place=topic.place),
            Quiesce(),
        ),
        topic.place,
    )
