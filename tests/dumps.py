"""Dumps made of the trees that real Kafka 2.8.2 left, and what klamm may write when it goes on.

A recorded tree has no registrations' data, topic ids or paths outside of what was watched; here
they are filled in. ``unexplained`` judges: docs/rehearsal.md lists the same rules.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from klamm.cluster.types import Broker, EndPoint
from klamm.zk.dump import DumpedZNode
from klamm.zk.dump_text import data_of
from klamm.zk.znodes import PERSISTENT_ZK_PATHS, BrokerIdZNode, BrokerInfo
from tests.scenarios import SCENARIOS, read_scenario

SESSION = "0x100000000000001"
_ID = re.compile(r"<id-(\d+)>")

Tree = Mapping[str, bytes | None]


class RecordedTree(NamedTuple):
    """What ZooKeeper held after a step of a scenario."""

    scenario: str
    step: int
    config: dict[str, str]
    znodes: tuple[DumpedZNode, ...]

    def __str__(self) -> str:
        return f"{self.scenario}-{self.step}"


def recorded_trees() -> Iterator[RecordedTree]:
    """Every tree of every scenario."""
    for name in SCENARIOS:
        scenario = read_scenario(name)
        config = {"auto.leader.rebalance.enable": "false"}
        config |= {key: str(value) for key, value in scenario["props"].items()}
        for number, step in enumerate(scenario["steps"]):
            znodes = tuple(_znodes(step["tree"], bool(scenario["racks"])))
            yield RecordedTree(name, number, config, znodes)


def _znodes(tree: Mapping[str, Any], has_racks: bool) -> Iterator[DumpedZNode]:
    yield DumpedZNode("/", None)
    above = {parent for path in tree for parent in _parents(path)} - tree.keys()
    for path in sorted({*tree, *above}, key=lambda path: path.split("/")):
        found = tree.get(path, {"data": None})
        data = found["data"]
        if path.startswith("/brokers/ids/"):
            data = registration(int(path.rpartition("/")[2]), has_racks)
        elif data is not None and not isinstance(data, str):
            data = _ID.sub(lambda id_: _topic_id(int(id_[1])), json.dumps(data))
        owner = SESSION if found.get("ephemeral") else "0x0"
        yield DumpedZNode(path, data, ephemeral_owner=owner)


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def registration(broker_id: int, has_racks: bool) -> str:
    """What a broker's registration holds."""
    rack = f"rack{broker_id}" if has_racks else None
    broker = Broker(broker_id, (EndPoint("kafka", 9092 + broker_id),), rack)
    return BrokerIdZNode.encode(BrokerInfo(broker), 0).decode()


def _topic_id(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


class _Before(NamedTuple):
    """The dump, as far as the rules ask."""

    tree: Tree
    live: frozenset[int]

    def json(self, path: str) -> dict[str, Any]:
        data = self.tree.get(path)
        return dict(json.loads(data)) if data else {}

    def replicas(self, topic: str, partition: str) -> list[int]:
        return list(self.json(f"/brokers/topics/{topic}")["partitions"].get(partition, ()))

    def is_reassigned(self, topic: str) -> bool:
        node = self.json(f"/brokers/topics/{topic}")
        asked = self.json("/admin/reassign_partitions").get("partitions", ())
        return bool(
            any((node.get("adding_replicas") or {}).values())
            or any((node.get("removing_replicas") or {}).values())
            or any(entry["topic"] == topic for entry in asked)
        )

    def is_deleted(self, topic: str) -> bool:
        return f"/admin/delete_topics/{topic}" in self.tree

    def may_change_state(self, topic: str, partition: str) -> bool:
        state = self.json(f"/brokers/topics/{topic}/partitions/{partition}/state")
        replicas = set(self.replicas(topic, partition))
        members = {*state["isr"], state["leader"]}
        elections = self.json("/admin/preferred_replica_election").get("partitions", ())
        return bool(
            members - self.live
            or (replicas & self.live) - members
            or any(e == {"topic": topic, "partition": int(partition)} for e in elections)
        )


class Rule(NamedTuple):
    """A write that may be: which paths, which change, the words of the docs, and when."""

    pattern: str
    change: str
    reason: str
    applies: Callable[[_Before, re.Match[str]], bool]


def _always(_: _Before, __: re.Match[str]) -> bool:
    return True


TOPIC = r"/brokers/topics/(?P<topic>[^/]+)"
STATE = rf"{TOPIC}/partitions/(?P<partition>\d+)/state"
_PATHS = {parent for path in PERSISTENT_ZK_PATHS for parent in (path, *_parents(path))}

RULES = (
    Rule(r"/klamm", "created", "klamm's mark", _always),
    Rule(
        r"/brokers/ids/(?P<id>\d+)",
        "created",
        "the registration of a live broker",
        lambda before, m: int(m["id"]) in before.live,
    ),
    Rule(r"/controller", "created", "the new controller", _always),
    Rule(r"/controller_epoch", "created or changed", "raised by each election", _always),
    Rule(
        r"/.*",
        "created",
        "a path that every starting broker creates if it is missing",
        lambda _, m: m[0] in _PATHS,
    ),
    Rule(r"/cluster(/id)?", "created", "the cluster id, if it is missing", _always),
    Rule(r"/feature", "created or changed", "written at failover, as in 2.8", _always),
    Rule(
        rf"{TOPIC}",
        "changed",
        "a topic id, if the topic has none",
        lambda before, m: "topic_id" not in before.json(m[0]),
    ),
    Rule(
        rf"{TOPIC}/partitions(/\d+(/state)?)?",
        "created",
        "a partition without a state is created",
        lambda before, m: not before.is_deleted(m["topic"]),
    ),
    Rule(
        STATE,
        "changed",
        "the leader or a member of the ISR is dead, a live replica is outside the ISR, or a "
        "preferred election was requested",
        lambda before, m: before.may_change_state(m["topic"], m["partition"]),
    ),
    Rule(
        rf"(/admin/reassign_partitions|{TOPIC}|{STATE.replace('topic>', 'of>')})",
        "changed or deleted",
        "a reassignment continues",
        lambda before, m: m[0].startswith("/admin") or before.is_reassigned(m["topic"] or m["of"]),
    ),
    Rule(
        rf"({TOPIC}|/config/topics/(?P<configured>[^/]+)|/admin/delete_topics/(?P<deleted>[^/]+))"
        r"(/.*)?",
        "deleted",
        "a topic deletion continues",
        lambda before, m: before.is_deleted(m["topic"] or m["configured"] or m["deleted"]),
    ),
    Rule(
        r"/admin/preferred_replica_election", "deleted", "the requested elections are done", _always
    ),
    Rule(
        r"/(isr_change|log_dir_event)_notification/.*",
        "deleted",
        "a notification is processed",
        _always,
    ),
)
"""What the controller and the brokers may write after a dump was loaded."""


def tree_of(znodes: Iterator[DumpedZNode] | list[DumpedZNode] | tuple[DumpedZNode, ...]) -> Tree:
    """Paths and data, without ZooKeeper's own znodes."""
    return {z.path: data_of(z) for z in znodes if not z.path.startswith("/zookeeper")}


def unexplained(dumped: Tree, live: frozenset[int], after: Tree) -> list[str]:
    """What was written since the dump and no rule allows, a line each; ephemerals are anew."""
    own = ("/brokers/ids/", "/controller")
    tree = {p: d for p, d in dumped.items() if not p.startswith(own[0]) and p != own[1]}
    before = _Before(tree, live)
    changes = {path: "deleted" for path in tree.keys() - after.keys()}
    changes |= {path: "created" for path in after.keys() - tree.keys()}
    changes |= {path: "changed" for path in tree.keys() & after.keys() if tree[path] != after[path]}
    return [
        f"{path} was {change}: {tree.get(path)!r} -> {after.get(path)!r}"
        for path, change in sorted(changes.items())
        if not any(
            change in rule.change
            and (found := re.fullmatch(rule.pattern, path)) is not None
            and rule.applies(before, found)
            for rule in RULES
        )
    ]
