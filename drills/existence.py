"""Checks that the topics, partitions, producers, brokers and replicas named in a drill can exist.

A topic can exist if the cluster or any step creates it, whatever the order of steps. A step that
expects its tool or the controller to refuse the request may name anything.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import yaml

from klamm.cluster.configs import BROKER_CONFIGS
from klamm.cluster.errors import UsageError
from klamm.cluster.suggestions import suggestion
from klamm.cluster.types import TopicPartition
from klamm.drills.values import DrillCluster
from klamm.runtime.action_target import BrokerRef
from klamm.runtime.actions import DEAD, ENDED, Action, BrokerAction, Pause, Resume, Start
from klamm.runtime.scenarios import steps
from klamm.runtime.scenarios.steps import Step, every_step
from klamm.runtime.scenarios.triggers import AtBreakpoint, AtStep
from klamm.zk.znodes import ControllerZNode, ReassignPartitionsZNode

_ASSIGNMENT: Final = re.compile(r"[0-9]+([:,][0-9]+)*")
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_TOPIC_ZNODE: Final = re.compile(r"/brokers/topics/([^/]+)(/.*)?")


class Noun(Enum):
    """Kinds of names in a drill, which are checked after all steps have been read."""

    TOPIC = "topic"
    TOPIC_PATTERN = "topic pattern"
    PARTITION = "partition"
    PRODUCER = "producer"
    BROKER = "broker"
    CONTROLLER = "controller"
    REPLICA = "replica"


class Mention(NamedTuple):
    """A place in the drill's file that names a topic, a partition, its producer, or a broker.

    ``number``: the number of the partition, or the id of the broker. ``replica``: the broker that
    the drill expects to have a replica of the partition.
    """

    node: yaml.Node
    noun: Noun
    topic: str = ""
    number: int = 0
    replica: int = 0


class Missing(NamedTuple):
    """A mention of something that cannot exist, with an error message and a hint."""

    node: yaml.Node
    problem: str
    hint: str


class Existing:
    """The brokers, partitions, replicas and producers that can exist in a drill."""

    def __init__(self, cluster: DrillCluster, compiled: Iterable[Step]) -> None:
        self._broker_ids = cluster.broker_ids
        self._candidates = cluster.controllers
        self._default_partitions: int = BROKER_CONFIGS["num.partitions"].value(cluster.config)
        self._partitions: dict[str, int | None] = {}
        """Number of partitions of each topic. None: unknown, so that any partition may exist."""
        self._producers: set[TopicPartition] = set()
        actions = [action for step in every_step(compiled) for action in step.actions]
        for action in actions:
            self._add(action)
        self._replicas = _possible_replicas(actions)
        if any(_path_of(action) == ControllerZNode.path for action in actions):
            self._candidates = None

    def first_missing(self, mentions: Iterable[Mention]) -> Missing | None:
        """Return the first mention of something that cannot exist, or None."""
        return next(filter(None, map(self._missing, mentions)), None)

    def _add(self, action: Action) -> None:
        match action:
            case steps.RunTool(tool="topics"):
                self._add_created(action.args)
            case steps.CreateZnode() | steps.SetZnode():
                self._add_znode(action.path, action.data)
            case steps.SetTopicPartitions() if action.topic in self._partitions:
                self._add_partitions(action.topic, max(map(int, action.partitions)) + 1)
            case steps.Produce():
                self._producers.update(action.records)
            case steps.ProduceConstantly():
                self._producers.update(action.records_per_s)

    def _add_created(self, args: Sequence[str]) -> None:
        topic = option(args, "--topic")
        if topic is None or not {"--create", "--alter"}.intersection(args):
            return
        if "--create" not in args and topic not in self._partitions:
            return
        count = option(args, "--partitions")
        assignment = option(args, "--replica-assignment")
        if count is not None:
            self._add_partitions(topic, int(count) if count.isdecimal() else None)
        elif assignment is not None:
            self._add_partitions(topic, assignment.count(",") + 1)
        elif "--create" in args:
            self._add_partitions(topic, self._default_partitions)

    def _add_znode(self, path: str, data: bytes | None) -> None:
        found = _TOPIC_ZNODE.fullmatch(path)
        if found is None:
            return
        try:
            value: Any = None if found[2] else json.loads(data or b"")
            self._add_partitions(found[1], max(map(int, value["partitions"])) + 1)
        except (ValueError, TypeError, KeyError):
            # Such a znode is incomplete or malformed on purpose, so the number of partitions is
            # unknown.
            self._add_partitions(found[1], None)

    def _add_partitions(self, topic: str, count: int | None) -> None:
        known = self._partitions.setdefault(topic, 0)
        self._partitions[topic] = None if None in (known, count) else max(known or 0, count or 0)

    def _missing(self, mention: Mention) -> Missing | None:
        node, noun, topic, number, replica = mention
        if noun is Noun.BROKER:
            return None if number in self._broker_ids else self._no_broker(node, number)
        if noun is Noun.CONTROLLER:
            return self._no_candidate(node, number)
        if noun is Noun.REPLICA:
            return self._no_replica(node, TopicPartition(topic, number), replica)
        if noun is Noun.TOPIC_PATTERN and self._matches(topic):
            return None
        if topic not in self._partitions:
            topics = ", ".join(self._partitions) or "none; declare it in the cluster's topics"
            close = suggestion(topic, self._partitions, "")
            hint = f"{close} " if close else ""
            return Missing(node, f"the drill has no topic {topic}", f"{hint}topics: {topics}")
        count = self._partitions[topic]
        if count is not None and number >= count:
            return Missing(
                node,
                f"topic {topic} has no partition {number}",
                f"partitions: {', '.join(f'{topic}-{n}' for n in range(count))}",
            )
        tp = TopicPartition(topic, number)
        if noun is Noun.PRODUCER and tp not in self._producers:
            produced = ", ".join(map(str, sorted(self._producers))) or "no partition"
            return Missing(
                node,
                f"no step produces to {tp}",
                f"add a step produce: {{{tp}: 100}}; the steps produce to: {produced}",
            )
        return None

    def _no_broker(self, node: yaml.Node, number: int) -> Missing:
        ids = ", ".join(map(str, self._broker_ids))
        return Missing(node, f"the cluster has no broker {number}", f"brokers: {ids}")

    def _no_candidate(self, node: yaml.Node, number: int) -> Missing | None:
        if self._candidates is None or number in self._candidates:
            return None
        ids = ", ".join(map(str, self._candidates))
        return Missing(node, f"broker {number} cannot become controller", f"controllers: {ids}")

    def _no_replica(self, node: yaml.Node, tp: TopicPartition, broker_id: int) -> Missing | None:
        replicas = self._replicas.get(tp)
        if replicas is None or broker_id in replicas:
            return None
        ids = ", ".join(map(str, sorted(replicas)))
        return Missing(
            node, f"broker {broker_id} never has a replica of {tp}", f"replicas of {tp}: {ids}"
        )

    def _matches(self, pattern: str) -> bool:
        try:
            return any(re.fullmatch(pattern, topic) for topic in self._partitions)
        except re.error:
            return True


def _possible_replicas(actions: Sequence[Action]) -> dict[TopicPartition, set[int]]:
    """Return the brokers that can have a replica of each partition.

    The result omits partitions whose replicas are not known in advance, for example because a step
    writes the topic znode or runs kafka-reassign-partitions.
    """
    found: dict[TopicPartition, set[int]] = {}
    for action in actions:
        for tp, ids in _created_replicas(action):
            found.setdefault(tp, set()).update(ids)
    for action in actions:
        for tp, ids in _moved_replicas(action):
            if tp in found:
                found[tp].update(ids)
    unknown = [pattern for action in actions if (pattern := _unknown_topics(action)) is not None]
    return {
        tp: ids
        for tp, ids in found.items()
        if not any(re.fullmatch(pattern, tp.topic) for pattern in unknown)
    }


def _created_replicas(action: Action) -> Iterator[tuple[TopicPartition, Iterable[int]]]:
    """Yield the partitions that an action creates with known replicas, and those replicas."""
    if isinstance(action, steps.RunTool) and action.tool == "topics":
        topic = option(action.args, "--topic")
        assignment = option(action.args, "--replica-assignment") or ""
        if topic is not None and _ASSIGNMENT.fullmatch(assignment):
            for number, ids in enumerate(assignment.split(",")):
                yield TopicPartition(topic, number), map(int, ids.split(":"))


def _moved_replicas(action: Action) -> Iterator[tuple[TopicPartition, Iterable[int]]]:
    """Yield the partitions that an action moves, and their new replicas."""
    if isinstance(action, steps.Reassign):
        yield from ((tp, ids) for tp, ids in action.targets.items() if ids is not None)
    elif isinstance(action, steps.SetTopicPartitions):
        for number, ids in action.partitions.items():
            yield TopicPartition(action.topic, int(number)), ids


def _unknown_topics(action: Action) -> str | None:
    """Return a regular expression for topics whose replicas an action may choose, or None."""
    if isinstance(action, steps.RunTool):
        if action.tool == "reassign-partitions":
            return ".*"
        chooses = {"--create", "--alter"}.intersection(action.args)
        if action.tool != "topics" or not chooses or any(_created_replicas(action)):
            return None
        topic = option(action.args, "--topic") or ""
        return topic if _NAME.fullmatch(topic) else ".*"
    path = _path_of(action)
    if path == ReassignPartitionsZNode.path:
        return ".*"
    edited = _TOPIC_ZNODE.fullmatch(path)
    return None if edited is None else re.escape(edited[1])


def _path_of(action: Action) -> str:
    """Return the path of the znode that an action writes directly, or an empty string."""
    return action.path if isinstance(action, (steps.CreateZnode, steps.SetZnode)) else ""


def check_producers(compiled: Iterable[Step]) -> None:
    """Check that constant-rate producers and preloading do not conflict with other producers.

    Every constant-rate producer must be the only producer of its partition, and no partition may be
    preloaded after a step has produced to it. Raises UsageError.
    """
    is_constant: dict[TopicPartition, bool] = {}
    for step in every_step(compiled):
        for action in step.actions:
            match action:
                case steps.Produce():
                    given = dict.fromkeys(action.records, False)
                case steps.ProduceConstantly():
                    given = dict.fromkeys(action.records_per_s, True)
                case steps.Preload(partition=tp) if tp in is_constant:
                    raise UsageError(
                        f"{step.place}: cannot preload {tp}: an earlier step produces to it",
                        hint="preload it first",
                    )
                case _:
                    continue
            for tp, constantly in given.items():
                if tp in is_constant and (constantly or is_constant[tp]):
                    raise UsageError(
                        f"{step.place}: {tp} already has a producer",
                        hint="produce_constantly must be the only producer of a partition",
                    )
            is_constant |= given


def check_triggers(compiled: Sequence[Step]) -> None:
    """Check that a step or a reassignment exists for each trigger that requires it.

    ``compiled``: the steps of the drill's file. Raises UsageError.
    """
    in_turn = sum(step.trigger is None for step in compiled)
    for step in compiled:
        if isinstance(step.trigger, AtStep) and step.trigger.step > in_turn + 1:
            raise UsageError(
                f"{step.place}: there is no step {step.trigger.step}",
                hint=f"the steps without a trigger are 1 to {in_turn}; {in_turn + 1} is their end",
            )
    listed = list(every_step(compiled))
    if any(_reassigns(action) for step in listed for action in step.actions):
        return
    for step in listed:
        if isinstance(step.trigger, AtBreakpoint) and step.trigger.point.phase is not None:
            raise UsageError(
                f"{step.place}: {step.trigger.point.phase} never happens: no step reassigns",
                hint="add a step such as reassign: {t-0: [1, 2]}",
            )


def check_states(compiled: Sequence[Step]) -> None:
    """Check that no step starts dead brokers or resumes brokers if none can be dead or paused then.

    Raises UsageError. Steps that follow count only for a step with a trigger, which may act later.
    """
    for number, step in enumerate(compiled):
        possible = compiled if step.trigger is not None else compiled[: number + 1]
        before = [action for at in every_step(possible) for action in at.actions]
        for inner in every_step([step]):
            for action in inner.actions:
                _check_state(action, inner.place, before)


def _check_state(action: Action, place: str, before: Iterable[Action]) -> None:
    match action:
        case Start(broker=broker) if broker == DEAD and not any(map(_ends_brokers, before)):
            does, example = "kills, stops or powers off a broker", "kill: 1"
        case Resume(broker=broker) if not any(_pauses(other, broker) for other in before):
            paused = f"broker {broker}" if isinstance(broker, int) else "a broker"
            does, example = f"pauses {paused}", "pause: 1"
        case _:
            return
    raise UsageError(
        f"{place}: no earlier or concurrent step {does}",
        hint=f"add a step such as {example} before it",
    )


def _ends_brokers(action: Action) -> bool:
    """Return True if a broker may be dead after an action."""
    return isinstance(action, steps.KillAll) or (
        isinstance(action, BrokerAction) and action.LEAVES in ENDED
    )


def _pauses(action: Action, broker: BrokerRef) -> bool:
    """Return True if an action may pause a broker."""
    return isinstance(action, Pause) and (
        action.broker == broker or not (isinstance(action.broker, int) and isinstance(broker, int))
    )


def _reassigns(action: Action) -> bool:
    """Return True if an action may start a reassignment."""
    if isinstance(action, steps.RunTool):
        return action.tool == "reassign-partitions"
    return isinstance(action, steps.Reassign) or _path_of(action) == ReassignPartitionsZNode.path


def option(args: Sequence[str], name: str) -> str | None:
    """Return the value of a tool's option, given as ``--name value`` or ``--name=value``."""
    for word, following in itertools.zip_longest(args, args[1:]):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None
