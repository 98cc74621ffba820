"""What a step of a drill may do: one entry an action, with its words for the docs.

An entry reads the action's value into a step of runtime/scenarios/steps.py; it does nothing itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import yaml

from brokers.storage.faults import DiskFault, FaultKind
from cluster.types import ElectionType
from drills.reading import Entry, is_null
from drills.shapes import DrillReader
from runtime.scenarios import steps
from runtime.scenarios.steps import Action, BrokerRef
from runtime.scenarios.tools import TOOL_NAMES
from zk.ensemble import FOLLOWER, LEADER

Actions = tuple[Action, ...]
Read = Callable[[DrillReader, yaml.Node], Actions]
ANSWERED: Final = (steps.RunTool, steps.Reassign, steps.ElectLeaders)
"""Actions with an exit code and an output."""


class ActionKind(NamedTuple):
    """How an action is read, and how it is explained."""

    read: Read
    example: str
    about: str


def _on_brokers(make: Callable[[BrokerRef], Action]) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        refs = [reader.broker_ref(item) for item in reader.one_or_more(node)]
        if not refs:
            raise reader.error(node, "no broker is named")
        return tuple(make(ref) for ref in refs)

    return read


def _isolate(reader: DrillReader, node: yaml.Node) -> Actions:
    refs = tuple(reader.broker_ref(item) for item in reader.one_or_more(node))
    if not refs:
        raise reader.error(node, "no broker is named", "heal_network ends an isolation")
    return (steps.Isolate(refs),)


def _degrade_network(reader: DrillReader, node: yaml.Node) -> Actions:
    fields = reader.fields(node, "a network", steps.DegradeNetwork.__struct_fields__)
    shares = {name: reader.number(entry.value, name, 1.0) for name, entry in fields.items()}
    return (steps.DegradeNetwork(**shares),)


_ON_ZOOKEEPER: Final = {
    "kill": "Kill one of the drill's ZooKeeper servers (leader, follower or an id). Real only.",
    "start": "Start a ZooKeeper server that was killed, on its data. Real only.",
    "pause": "Freeze a ZooKeeper server: connections stay open, requests get no answer. Real only.",
    "resume": "Let a frozen ZooKeeper server continue. Real only.",
}

_ON_QUORUM: Final = {
    "lose_quorum": "Kill ZooKeeper servers, leader first, until the quorum is lost. Real only.",
    "regain_quorum": "Start or resume all ZooKeeper servers; wait until one leads. Real only.",
}


def _on_zookeeper(action: str) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        server = reader.text(node, "a ZooKeeper server")
        if server in (LEADER, FOLLOWER) or server.isdecimal():
            return (steps.ActOnZooKeeper(action, server),)
        raise reader.error(node, f"'{server}' is not a server", "use an id, leader or follower")

    return read


def _fail_log_dir(reader: DrillReader, node: yaml.Node) -> Actions:
    fields = reader.fields(node, "fail_log_dir", ("broker", "dir"))
    for needed in ("broker", "dir"):
        if needed not in fields:
            raise reader.error(node, f"fail_log_dir needs '{needed}'")
    broker = reader.broker_ref(fields["broker"].value)
    return (steps.FailLogDir(broker, reader.text(fields["dir"].value, "a directory")),)


def _fail_disk(reader: DrillReader, node: yaml.Node) -> Actions:
    fields = reader.fields(
        node, "fail_disk", ("broker", "dir", "journal", "kind", "after_bytes", "times")
    )
    if ("broker" in fields) == ("journal" in fields):
        raise reader.error(node, "fail_disk needs 'broker', or 'journal: true'")
    if "kind" not in fields:
        raise reader.error(node, "fail_disk needs 'kind'", f"one of {', '.join(FaultKind)}")
    word = reader.text(fields["kind"].value, "kind")
    if word not in list(FaultKind):
        raise reader.unknown(fields["kind"].value, "kind of fault", word, list(FaultKind))
    numbers = {
        name: reader.integer(fields[name].value, name, least)
        for name, least in (("after_bytes", 0), ("times", 1))
        if name in fields
    }
    fault = DiskFault(FaultKind(word), **numbers)
    if "journal" in fields:
        return (steps.FailJournal(fault),)
    broker, log_dir = _log_dir(reader, fields)
    return (steps.FailDisk(broker, fault, log_dir),)


def _slow_disk(reader: DrillReader, node: yaml.Node) -> Actions:
    fields = reader.fields(node, "slow_disk", ("broker", "dir", "bytes_per_s"))
    for needed in ("broker", "bytes_per_s"):
        if needed not in fields:
            raise reader.error(node, f"slow_disk needs '{needed}'")
    bytes_per_s = reader.integer(fields["bytes_per_s"].value, "bytes_per_s", 1)
    broker, log_dir = _log_dir(reader, fields)
    return (steps.SlowDisk(broker, bytes_per_s, log_dir),)


def _log_dir(reader: DrillReader, fields: Mapping[str, Entry]) -> tuple[BrokerRef, str | None]:
    broker = reader.broker_ref(fields["broker"].value)
    has_dir = "dir" in fields
    return broker, reader.text(fields["dir"].value, "a directory") if has_dir else None


def _without_value(word: str, action: Action) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        if not is_null(node):
            raise reader.error(node, f"{word} takes no value")
        return (action,)

    return read


def _run(reader: DrillReader, node: yaml.Node) -> Actions:
    if isinstance(node, yaml.SequenceNode):
        words = [reader.text(item, "a word of the command") for item in node.value]
    else:
        try:
            words = shlex.split(reader.text(node, "a command"))
        except ValueError as error:
            raise reader.error(node, f"not a command: {error}") from None
    if not words:
        raise reader.error(node, "no tool is named")
    name, *args = words
    if name not in TOOL_NAMES:
        raise reader.unknown(node, "tool", name, TOOL_NAMES)
    return (steps.RunTool(name, tuple(args)),)


def _reassign(reader: DrillReader, node: yaml.Node) -> Actions:
    targets = reader.by_partition(node, reader.replicas)
    return (steps.Reassign({tp: tuple(replicas) for tp, replicas in targets.items()}),)


def _cancel(reader: DrillReader, node: yaml.Node) -> Actions:
    partitions = reader.partitions(node)
    if not partitions:
        raise reader.error(node, "no partition is named")
    return (steps.Reassign(dict.fromkeys(partitions)),)


def _elect(election_type: ElectionType) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        if isinstance(node, yaml.ScalarNode) and node.value == "all":
            return (steps.ElectLeaders(election_type, None),)
        partitions = reader.partitions(node)
        if not partitions:
            raise reader.error(node, "no partition is named", "use partitions, or all")
        return (steps.ElectLeaders(election_type, tuple(partitions)),)

    return read


def _znodes(make: Callable[[str, bytes | None], Action]) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        return tuple(
            make(reader.path(entry.key, "a key"), reader.znode_data(entry.value))
            for entry in reader.entries(node, "znodes with their data").values()
        )

    return read


def _delete(reader: DrillReader, node: yaml.Node) -> Actions:
    paths = [reader.path(item, "a znode") for item in reader.one_or_more(node)]
    if not paths:
        raise reader.error(node, "no znode is named")
    return tuple(steps.DeleteZnode(path) for path in paths)


def _set_topic_partitions(reader: DrillReader, node: yaml.Node) -> Actions:
    added: dict[str, dict[str, list[int]]] = {}
    for tp, replicas in reader.by_partition(node, reader.replicas).items():
        added.setdefault(tp.topic, {})[str(tp.partition)] = replicas
    return tuple(steps.SetTopicPartitions(topic, values) for topic, values in added.items())


def _produce(reader: DrillReader, node: yaml.Node) -> Actions:
    def count(item: yaml.Node) -> int:
        return reader.integer(item, "a count of records", 1, 1_000_000)

    return (steps.Produce(reader.by_partition(node, count)),)


def _produce_constantly(reader: DrillReader, node: yaml.Node) -> Actions:
    def rate(item: yaml.Node) -> float:
        return reader.number(item, "records a second", 1_000_000.0)

    return (steps.ProduceConstantly(reader.by_partition(node, rate)),)


def _wait(reader: DrillReader, node: yaml.Node) -> Actions:
    return (steps.Wait(reader.duration_ms(node, "a wait")),)


def _preload(reader: DrillReader, node: yaml.Node) -> Actions:
    sizes = reader.by_partition(node, lambda item: reader.size_bytes(item, "what is preloaded"))
    return tuple(steps.Preload(tp, size_bytes) for tp, size_bytes in sizes.items())


ACTIONS: Final[Mapping[str, ActionKind]] = {
    "kill": ActionKind(
        _on_brokers(steps.Kill),
        "kill: 1",
        "Kill brokers. ZooKeeper removes their registrations when their sessions expire.",
    ),
    "start": ActionKind(
        _on_brokers(steps.Start),
        "start: [1, 2]",
        "Start brokers. Each registers as soon as its former session has expired.",
    ),
    "stop": ActionKind(
        _on_brokers(steps.Stop),
        "stop: leader of t-0",
        "Shut brokers down in a controlled way: the controller moves their leaderships first.",
    ),
    "power_off": ActionKind(
        _on_brokers(steps.PowerOff),
        "power_off: leader of t-0",
        "Kill brokers and cut the power of their machines: data that their logs had not flushed is "
        "lost from a randomly chosen offset onward.",
    ),
    "pause": ActionKind(
        _on_brokers(steps.Pause),
        "pause: controller",
        "Freeze brokers and their controllers as a long garbage collection does; no heartbeat "
        "leaves them.",
    ),
    "resume": ActionKind(_on_brokers(steps.Resume), "resume: 0", "Let paused brokers continue."),
    "bounce_registration": ActionKind(
        _on_brokers(steps.BounceRegistration),
        "bounce_registration: 2",
        "Delete a broker's znode and create it again with the same data, in one transaction. The "
        "drill's session, which does not end, then owns the znode.",
    ),
    "fail_log_dir": ActionKind(
        _fail_log_dir,
        "fail_log_dir: {broker: 1, dir: d1}",
        "Make a log directory of a broker fail: one of log.dirs in the cluster's config.",
    ),
    "fail_disk": ActionKind(
        _fail_disk,
        "fail_disk: {broker: 1, dir: d1, kind: enospc}",
        "Inject a disk fault into a broker's log directory, or without `dir` into all of them, or "
        "with `journal: true` into the journal. `kind`: `enospc`, the disk is full; `eio`, every "
        "operation fails; `short-write`, only part of a write reaches the file; `fsync`, fsync "
        "fails and part of the unsynced data is lost. `after_bytes`: bytes written before the "
        "fault starts. `times`: failures before the disk works again. Logs in memory (no "
        "`segments`) fail at once.",
    ),
    "slow_disk": ActionKind(
        _slow_disk,
        "slow_disk: {broker: 1, bytes_per_s: 1000}",
        "Limit the rate of replica copies to and from a broker's log directory `dir`, or all "
        "of them.",
    ),
    "heal_disks": ActionKind(
        _without_value("heal_disks", steps.HealDisks()),
        "heal_disks",
        "End all disk faults. A failed log directory stays offline until its broker is restarted.",
    ),
    "kill_all": ActionKind(
        _without_value("kill_all", steps.KillAll()),
        "kill_all",
        "Kill the process of the whole cluster, as kill -9 of `klamm up` does. ZooKeeper, files "
        "and the drill's clients survive; logs in memory are lost.",
    ),
    "up_again": ActionKind(
        _without_value("up_again", steps.UpAgain()),
        "up_again",
        "Restart the whole cluster with the same data and seed: first all brokers, then, once "
        "they are registered, the controllers.",
    ),
    "isolate": ActionKind(
        _isolate,
        "isolate: [2]",
        "Cut these brokers off from the others: records are replicated inside both groups, not "
        "between them. ZooKeeper, the controller and clients reach all brokers. Replaces any "
        "earlier isolation.",
    ),
    "degrade_network": ActionKind(
        _degrade_network,
        "degrade_network: {loss: 0.1, repetition: 0.1, reordering: 0.3}",
        "Lose, repeat and reorder these shares of the messages that carry records, until the next "
        "`degrade_network` or `heal_network`. Simulated only.",
    ),
    "heal_network": ActionKind(
        _without_value("heal_network", steps.HealNetwork()),
        "heal_network",
        "End every isolation, loss, repetition and reordering.",
    ),
    "move_controller": ActionKind(
        _without_value("move_controller", steps.MoveController()),
        "move_controller",
        "Delete /controller, so that another controller is elected.",
    ),
    **{
        f"{do}_zookeeper": ActionKind(_on_zookeeper(do), f"{do}_zookeeper: leader", about)
        for do, about in _ON_ZOOKEEPER.items()
    },
    **{
        do: ActionKind(_without_value(do, steps.ActOnZooKeeper(do)), do, about)
        for do, about in _ON_QUORUM.items()
    },
    "run": ActionKind(
        _run,
        "run: topics --zookeeper {zk} --delete --topic t",
        "Run a tool with the arguments of klamm's command line: "
        + ", ".join(TOOL_NAMES)
        + ". `{zk}` and `{bootstrap}` stand for the drill's cluster, `{file:NAME}` for a file of "
        "the step's `files`.",
    ),
    "reassign": ActionKind(
        _reassign,
        "reassign: {t-0: [2, 3]}",
        "Ask the controller to move partitions to other replicas.",
    ),
    "cancel_reassignment": ActionKind(
        _cancel,
        "cancel_reassignment: [t-0]",
        "Ask the controller to cancel reassignments of partitions.",
    ),
    "elect_preferred": ActionKind(
        _elect(ElectionType.PREFERRED),
        "elect_preferred: all",
        "Ask the controller to make the first replicas of partitions their leaders.",
    ),
    "elect_unclean": ActionKind(
        _elect(ElectionType.UNCLEAN),
        "elect_unclean: [t-0]",
        "Ask the controller to make any live replica the leader of partitions without one.",
    ),
    "produce": ActionKind(
        _produce,
        "produce: {t-0: 500}",
        "Give the drill's producer (idempotent, acks=all) this number of records. It sends them "
        "while the next steps run, and a consumer reads them. At the end of the drill the consumer "
        "must have read every acknowledged record once and in order.",
    ),
    "produce_constantly": ActionKind(
        _produce_constantly,
        "produce_constantly: {t-0: 100}",
        "Produce to partitions (acks=all) at this constant rate in records per second until the "
        "drill ends. While nothing changes this takes no messages, so that simulated hours are "
        "cheap. At the end no acknowledged record may be lost. Simulated only.",
    ),
    "create_znode": ActionKind(
        _znodes(steps.CreateZnode),
        "create_znode: {/admin/delete_topics/t: null}",
        "Create znodes manually: text as it is, null as no data, other values as JSON.",
    ),
    "set_znode": ActionKind(
        _znodes(steps.SetZnode),
        "set_znode: {/admin/reassign_partitions: 'not JSON'}",
        "Overwrite znodes manually, whatever their versions.",
    ),
    "delete_znode": ActionKind(
        _delete, "delete_znode: /controller", "Delete znodes manually, whatever their versions."
    ),
    "set_topic_partitions": ActionKind(
        _set_topic_partitions,
        "set_topic_partitions: {t-1: [0, 2]}",
        "Add partitions to a topic's znode manually.",
    ),
    "preload": ActionKind(
        _preload,
        "preload: {t-0: 500GB}",
        "Add this amount of data to all replicas of partitions, in records of 1000 bytes, as if "
        "it had been produced long ago. Not possible after the drill has produced to them.",
    ),
    "wait": ActionKind(_wait, "wait: 5s", "Let time pass, in ms, s or min."),
}
"""Every action by its word."""
