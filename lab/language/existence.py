"""Checks that what a drill names can exist or happen: topics, replicas, records, deletions.

A topic can exist if the cluster or any step creates it, whatever the order of steps. A step that
expects its tool or the controller to refuse the request may name anything. possible_states.py
checks the order of steps.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

import yaml

from klamm.cluster.configs import BROKER_CONFIGS
from klamm.cluster.counting import counted, parse_whole_number
from klamm.cluster.jvm.java_strings import compiled
from klamm.cluster.suggestions import suggestion
from klamm.cluster.types import TopicPartition
from klamm.lab.actions import steps
from klamm.lab.actions.action import Action
from klamm.lab.checks.admin_history import DELETION_PATH
from klamm.lab.drill import DrillCluster, Step, every_step
from klamm.zk.znodes import (
    PERSISTENT_ZK_PATHS,
    AclZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DelegationTokenAuthZNode,
    ExtendedAclZNode,
    FeatureZNode,
    ReassignPartitionsZNode,
)

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
    ACKNOWLEDGED = "acknowledged records"
    CONSUMED = "consumed records"
    OFFLINE = "offline partitions"
    REASSIGNMENT = "reassignment"
    DELETION = "deletion of a topic"
    FACTOR = "replication factor"
    ZNODE = "znode"
    NO_EPOCH = "controller epoch 0"


OCCURRENCES: Final = (Noun.REASSIGNMENT, Noun.DELETION, Noun.FACTOR, Noun.ZNODE)
"""What need not happen in a tolerant drill, whose triggers may be left over and whose steps may
fail."""
_ROOTS: Final = frozenset(
    path.split("/")[1]
    for path in (
        *PERSISTENT_ZK_PATHS,
        AclZNode.path,
        ClusterIdZNode.path,
        ControllerEpochZNode.path,
        ControllerZNode.path,
        DelegationTokenAuthZNode.path,
        ExtendedAclZNode.path,
        FeatureZNode.path,
        "/zookeeper",
    )
)
"""First names of the paths of znodes that the cluster or ZooKeeper may create."""


class Mention(NamedTuple):
    """A place in the drill's file that names a topic, a partition, its producer, or a broker.

    ``topic``: for a deletion, empty if any topic is meant; for a znode, its path. ``number``: the
    number of the partition, or the id of the broker. ``wanted``: the broker that the drill expects
    to have a replica of the partition, or how many of its records must be acknowledged or consumed,
    or how many partitions offline, or a replication factor.
    """

    node: yaml.Node
    noun: Noun
    topic: str = ""
    number: int = 0
    wanted: int = 0

    @property
    def partition(self) -> TopicPartition:
        """The partition that is named."""
        return TopicPartition(self.topic, self.number)


Problem = tuple[str, str]
"""An error message and a hint."""


class Existing:
    """The brokers, partitions, replicas, records and operations that can exist in a drill."""

    def __init__(self, cluster: DrillCluster, compiled: Collection[Step]) -> None:
        self._broker_ids = cluster.broker_ids
        self._candidates = cluster.controllers
        self._default_partitions: int = BROKER_CONFIGS["num.partitions"].value(cluster.config)
        self._partitions: dict[str, int | None] = {}
        """Number of partitions of each topic. None: unknown, so that any partition may exist."""
        self._records: dict[TopicPartition, float] = {}
        """How many records are produced to each partition; infinite for constant rates."""
        self._actions = [action for step in every_step(compiled) for action in step.actions]
        for action in self._actions:
            self._add(action)
        for step in every_step(one for one in compiled if one.trigger and one.trigger.repeats):
            for action in step.actions:
                if isinstance(action, steps.Produce):
                    self._records.update(dict.fromkeys(action.records, math.inf))
        self._replicas = _possible_replicas(self._actions)
        if any(_path_of(action) == ControllerZNode.path for action in self._actions):
            self._candidates = None

    def first_missing(self, mentions: Iterable[Mention]) -> tuple[yaml.Node, str, str] | None:
        """Return the place of the first mention of something that cannot exist, or None.

        The place comes with an error message and a hint."""
        for mention in mentions:
            problem = _CHECKS.get(mention.noun, Existing.no_partition)(self, mention)
            if problem is not None:
                return mention.node, *problem
        return None

    def _add(self, action: Action) -> None:
        match action:
            case steps.RunTool(tool="topics"):
                self._add_created(action.args)
            case steps.CreateZnode() | steps.SetZnode():
                self._add_znode(action.path, action.data)
            case steps.SetTopicPartitions() if action.topic in self._partitions:
                self._add_partitions(action.topic, max(map(int, action.partitions)) + 1)
            case steps.Produce():
                for tp, count in action.records.items():
                    self._records[tp] = self._records.get(tp, 0) + count
            case steps.ProduceConstantly():
                self._records.update(dict.fromkeys(action.records_per_s, math.inf))

    def _add_created(self, args: Sequence[str]) -> None:
        topic = option(args, "--topic")
        if topic is None or ("--create" not in args and topic not in self._partitions):
            return
        assignment = option(args, "--replica-assignment")
        partitions = option(args, "--partitions")
        if partitions is not None:
            self._add_partitions(topic, parse_whole_number(partitions))
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
        except (ValueError, TypeError, KeyError, RecursionError):
            # Such a znode is incomplete or malformed on purpose, so the number of partitions is
            # unknown.
            self._add_partitions(found[1], None)

    def _add_partitions(self, topic: str, count: int | None) -> None:
        known = self._partitions.setdefault(topic, 0)
        self._partitions[topic] = None if None in (known, count) else max(known or 0, count or 0)

    # -- what cannot exist: each returns a problem, or None

    def no_topic_like(self, mention: Mention) -> Problem | None:
        if any(_matches(mention.topic, topic) for topic in self._partitions):
            return None
        return self.no_partition(mention)

    def no_partition(self, mention: Mention) -> Problem | None:
        tp, (topic, number) = mention.partition, mention.partition
        if topic not in self._partitions:
            topics = ", ".join(self._partitions) or "none; declare it in the cluster's topics"
            close = suggestion(topic, self._partitions, "")
            hint = f"{close} " if close else ""
            return f"the drill has no topic {topic}", f"{hint}topics: {topics}"
        count = self._partitions[topic]
        if count is not None and number >= count:
            existing = ", ".join(f"{topic}-{n}" for n in range(count))
            return f"topic {topic} has no partition {number}", f"partitions: {existing}"
        if mention.noun is Noun.PRODUCER and tp not in self._records:
            produced = ", ".join(map(str, sorted(self._records))) or "no partition"
            hint = f"add a step produce: {{{tp}: 100}}; the steps produce to: {produced}"
            return f"no step produces to {tp}", hint
        return None

    def no_broker(self, mention: Mention) -> Problem | None:
        if mention.number in self._broker_ids:
            return None
        ids = ", ".join(map(str, self._broker_ids))
        return f"the cluster has no broker {mention.number}", f"brokers: {ids}"

    def no_candidate(self, mention: Mention) -> Problem | None:
        if self._candidates is None or mention.number in self._candidates:
            return None
        ids = ", ".join(map(str, self._candidates))
        return f"broker {mention.number} cannot become controller", f"controllers: {ids}"

    def no_replica(self, mention: Mention) -> Problem | None:
        tp, broker_id = mention.partition, mention.wanted
        replicas = self._replicas.get(tp)
        if replicas is None or broker_id in replicas:
            return None
        ids = ", ".join(map(str, sorted(replicas)))
        return f"broker {broker_id} never has a replica of {tp}", f"replicas of {tp}: {ids}"

    def too_many_records(self, mention: Mention) -> Problem | None:
        tp, wanted, word = mention.partition, mention.wanted, mention.noun.value.partition(" ")[0]
        produced = self._records.get(tp, 0)
        if wanted <= produced:
            return None
        problem = f"{wanted} records of {tp} can never be {word}: the steps produce {produced}"
        return problem, f"add a step produce: {{{tp}: {wanted - int(produced)}}}"

    def too_many_partitions(self, mention: Mention) -> Problem | None:
        counts = [count for count in self._partitions.values() if count is not None]
        total = sum(counts)
        if len(counts) < len(self._partitions) or mention.wanted <= total:
            return None
        has = counted(total, "partition")
        problem = f"{mention.wanted} partitions can never be offline: the drill has {has}"
        return problem, f"offline_partitions: {total} means all of them"

    def no_reassignment(self, _: Mention) -> Problem | None:
        if any(map(_may_reassign, self._actions)):
            return None
        hint = "add a step such as reassign: {t-0: [1, 2]}"
        return "this never happens: no step reassigns a partition", hint

    def no_deletion(self, mention: Mention) -> Problem | None:
        topic = mention.topic
        if any(_may_delete(action, topic) for action in self._actions):
            return None
        what = f"topic {topic}" if topic else "a topic"
        step = f"run: topics --zookeeper {{zk}} --delete --topic {topic or 't'}"
        return f"this never happens: no step deletes {what}", f"add a step such as {step}"

    def too_few_brokers(self, mention: Mention) -> Problem | None:
        count = len(self._broker_ids)
        if mention.wanted <= count:
            return None
        has = f"the cluster has {counted(count, 'broker')}"
        hint = "add expect: {exit_code: 1} if that is the purpose of the step"
        return f"Kafka refuses the replication factor {mention.wanted}: {has}", hint

    def no_znode(self, mention: Mention) -> Problem | None:
        path = mention.topic
        is_created = any(isinstance(a, steps.CreateZnode) and a.path == path for a in self._actions)
        if is_created or path.split("/")[1] in _ROOTS:
            return None
        hint = f"add a step create_znode: {{{path}: null}} before it"
        return f"znode {path} never exists: no step creates it", hint

    def has_epoch(self, _: Mention) -> Problem | None:
        if any(map(edits_epoch, self._actions)):
            return None
        return "the controller epoch is never 0", "the first controller's epoch is 1"


_CHECKS: Final[Mapping[Noun, Callable[[Existing, Mention], Problem | None]]] = {
    Noun.TOPIC_PATTERN: Existing.no_topic_like,
    Noun.BROKER: Existing.no_broker,
    Noun.CONTROLLER: Existing.no_candidate,
    Noun.REPLICA: Existing.no_replica,
    Noun.ACKNOWLEDGED: Existing.too_many_records,
    Noun.CONSUMED: Existing.too_many_records,
    Noun.OFFLINE: Existing.too_many_partitions,
    Noun.REASSIGNMENT: Existing.no_reassignment,
    Noun.DELETION: Existing.no_deletion,
    Noun.FACTOR: Existing.too_few_brokers,
    Noun.ZNODE: Existing.no_znode,
    Noun.NO_EPOCH: Existing.has_epoch,
}
"""The check of each noun; all others name a partition or a topic."""


def _possible_replicas(actions: Sequence[Action]) -> dict[TopicPartition, set[int]]:
    """Return the brokers that can have a replica of each partition.

    The result omits partitions whose replicas are not known in advance, for example because a step
    writes the topic znode or runs kafka-reassign-partitions.
    """
    found: dict[TopicPartition, set[int]] = {}
    for action in actions:
        for tp, ids in created_replicas(action):
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


def created_replicas(action: Action) -> Iterator[tuple[TopicPartition, Iterable[int]]]:
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
        if action.tool != "topics" or not chooses or any(created_replicas(action)):
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


def _may_reassign(action: Action) -> bool:
    """Return True if an action may start a reassignment."""
    if isinstance(action, steps.RunTool):
        return action.tool == "reassign-partitions"
    if isinstance(action, steps.Reassign):
        return any(target is not None for target in action.targets.values())
    # Other replicas in a topic znode may become a reassignment (KAFKA-12493).
    path = _path_of(action)
    is_edit = path == ReassignPartitionsZNode.path or _TOPIC_ZNODE.fullmatch(path) is not None
    return is_edit or isinstance(action, steps.SetTopicPartitions)


def edits_epoch(action: Action) -> bool:
    """Return True if an action writes or deletes the znode with the controller epoch."""
    path = action.path if isinstance(action, steps.DeleteZnode) else _path_of(action)
    return path == ControllerEpochZNode.path


def _may_delete(action: Action, topic: str) -> bool:
    """Return True if an action may delete a topic, or any topic if ``topic`` is empty."""
    if isinstance(action, steps.RunTool):
        named = option(action.args, "--topic") or ""
        is_deletion = action.tool == "topics" and "--delete" in action.args
        return is_deletion and (not topic or _matches(named, topic))
    path = action.path if isinstance(action, steps.DeleteZnode) else _path_of(action)
    pattern = _TOPIC_ZNODE if isinstance(action, steps.DeleteZnode) else DELETION_PATH
    found = pattern.fullmatch(path)
    return found is not None and topic in ("", found[1])


def _matches(pattern: str, topic: str) -> bool:
    """Return True if a topic matches a tool's ``--topic``, or if that is no regular expression."""
    try:
        return compiled(pattern).fullmatch(topic) is not None
    except ValueError:
        return True


def option(args: Sequence[str], name: str) -> str | None:
    """Return the value of a tool's option, given as ``--name value`` or ``--name=value``."""
    for word, following in itertools.zip_longest(args, args[1:]):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None
