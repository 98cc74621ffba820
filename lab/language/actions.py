"""Actions of drill steps: one entry for each action, with its text for the docs.

Each entry converts the YAML value of an action to an action class of lab/actions/actions.py or of
lab/actions/steps.py.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import yaml
from msgspec import inspect

from klamm.cluster.integers import INT32_MAX
from klamm.cluster.types import ElectionType
from klamm.lab.actions import actions, network_actions, steps
from klamm.lab.actions.action import Action, BrokerAction, BrokerRef, about, arguments_of
from klamm.lab.actions.tools import TOOLS
from klamm.lab.language.reading import DrillReader, is_null
from klamm.tools.jopt import UncaughtException, UsageExit, VersionExit
from klamm.world.simulated.world import SESSION_FAULTS
from klamm.zk.ensemble import FOLLOWER, LEADER, SINGLE_SERVER, WHOLE_ENSEMBLE

Actions = tuple[Action, ...]
Read = Callable[[DrillReader, yaml.Node], Actions]
_PLACEHOLDER: Final = re.compile(r"\{[A-Za-z_]+\}")
_PLACEHOLDERS: Final = ("{zk}", "{bootstrap}")
ANSWERED: Final = (steps.RunTool, steps.Reassign, steps.ElectLeaders)
"""Actions with an exit code and an output."""


class DrillAction(NamedTuple):
    """Parser and documentation of one kind of action."""

    read: Read
    example: str
    about: str


def _on_brokers(action: Callable[[BrokerRef], Action]) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        refs = reader.at_least_one(node, "broker", reader.broker_ref)
        for ref in refs:
            if isinstance(ref, int) and refs.count(ref) > 1:
                raise reader.error(node, f"broker {ref} is listed twice")
        return tuple(map(action, refs))

    return read


def _isolate(reader: DrillReader, node: yaml.Node) -> Actions:
    hint = "heal_network ends an isolation"
    refs = tuple(reader.at_least_one(node, "broker", reader.broker_ref, hint))
    if set(refs).issuperset(reader.cluster.broker_ids):
        raise reader.error(
            node, "cannot isolate all brokers of the cluster", "leave at least one broker out"
        )
    return (network_actions.Isolate(refs),)


def _on_zookeeper(action: str) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        server = reader.text(node, "a ZooKeeper server")
        count = reader.cluster.zookeeper_servers or 1
        if server not in (LEADER, FOLLOWER) and not server.isdecimal():
            raise reader.error(node, f"'{server}' is not a server", "use an id, leader or follower")
        ids = [str(number) for number in range(1, count + 1)]
        if server in (LEADER, *ids) or (server == FOLLOWER and count > 1):
            return (steps.ActOnZooKeeper(action, server),)
        raise reader.error(
            node,
            f"the drill has no ZooKeeper server {server}",
            f"servers: {', '.join(ids)}; cluster: {{zookeeper_servers: 3}} starts three",
        )

    return read


def _with_arguments(word: str, action: type[Action]) -> Read:
    """Return the parser of an action whose YAML value is a mapping of named arguments."""
    arguments = arguments_of(action)

    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        given = reader.fields(node, word, arguments)
        for name, field in arguments.items():
            if field.required and name not in given:
                words = _words(field.type)
                hint = f"one of {', '.join(words)}" if words else None
                raise reader.error(node, f"{word} requires '{name}'", hint)
        values = {
            arguments[name].name: _argument(reader, entry.value, name, arguments[name].type)
            for name, entry in given.items()
        }
        try:
            return (action(**values),)
        except ValueError as error:
            raise reader.error(node, f"{word}: {error}") from None

    return read


def takes_brokers(action: type[Action]) -> bool:
    """Return True if drills give an action one or more brokers instead of named arguments."""
    needed = [field.name for field in arguments_of(action).values() if field.required]
    return issubclass(action, BrokerAction) and needed == ["broker"]


def _words(kind: inspect.Type) -> list[str]:
    return [one.value for one in kind.cls] if isinstance(kind, inspect.EnumType) else []


def _argument(reader: DrillReader, node: yaml.Node, name: str, kind: inspect.Type) -> Any:
    """Parse one argument according to its declared type."""
    if name == "broker":
        return reader.broker_ref(node)
    if name in ("from", "to"):
        return reader.parties(node)
    if name == "between":
        return tuple(reader.parties(group) for group in reader.items(node, name))
    if name == "log_dir":
        return reader.log_dir(node)
    match kind:
        case inspect.IntType():
            least, most = kind.ge or 0, kind.le if kind.le is not None else INT32_MAX
            return reader.integer(node, name, least, most)
        case inspect.FloatType(le=float(most)):
            return reader.number(node, name, most)
        case inspect.BoolType():
            return reader.boolean(node, name)
        case inspect.EnumType():
            word = reader.text(node, name)
            if word not in _words(kind):
                raise reader.unknown(node, name, word, _words(kind))
            return kind.cls(word)
    return reader.text(node, name)


def _read_of(word: str, action: type[Action]) -> Read:
    """Return the parser of an action's YAML value.

    The action's required arguments determine whether the value must be empty, must be one or more
    brokers, or must be a mapping of named arguments.
    """
    if action is network_actions.Isolate:
        return _isolate
    if not arguments_of(action):
        return _without_value(word, action())
    if takes_brokers(action):
        return _on_brokers(action)
    return _with_arguments(word, action)


def _without_value(word: str, action: Action) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        if not is_null(node):
            raise reader.error(node, f"{word} takes no value")
        return (action,)

    return read


def kind_of(word: str, action: type[Action], example: str) -> DrillAction:
    """Return the parser and documentation of an action whose class determines both."""
    return DrillAction(_read_of(word, action), example, about(action))


def _run(reader: DrillReader, node: yaml.Node) -> Actions:
    if isinstance(node, yaml.SequenceNode):
        words = [reader.text(item, "a word of the command") for item in node.value]
    else:
        try:
            words = shlex.split(reader.text(node, "a command"))
        except ValueError as error:
            raise reader.error(node, f"not a command: {error}") from None
    if not words:
        raise reader.error(node, "name a tool")
    name, *args = words
    tool = TOOLS.get(name)
    if tool is None:
        raise reader.unknown(node, "tool", name, TOOLS)
    try:
        with suppress(UsageExit, VersionExit):  # the tool prints its usage or its version
            options = tool.parser.parse(args)
            if not (options.has("bootstrap-server") or options.has("zookeeper")):
                hint = "add --bootstrap-server {bootstrap}"
                raise reader.error(node, f"{name} requires the address of the cluster", hint)
    except UncaughtException as error:
        raise reader.error(node, f"{name}: {error.message}", f"klamm {name} --help") from None
    for placeholder in _PLACEHOLDER.findall(" ".join(args)):
        if placeholder not in _PLACEHOLDERS:
            raise reader.unknown(node, "placeholder", placeholder, _PLACEHOLDERS)
    return (steps.RunTool(name, tuple(args)),)


def _reassign(reader: DrillReader, node: yaml.Node) -> Actions:
    targets = reader.by_partition(node, reader.replicas)
    return (steps.Reassign({tp: tuple(replicas) for tp, replicas in targets.items()}),)


def _cancel(reader: DrillReader, node: yaml.Node) -> Actions:
    partitions = reader.at_least_one(node, "partition", reader.partition)
    return (steps.Reassign(dict.fromkeys(partitions)),)


def _elect(election_type: ElectionType) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        if isinstance(node, yaml.ScalarNode) and node.value == "all":
            return (steps.ElectLeaders(election_type, None),)
        hint = "use partitions, or all"
        partitions = reader.at_least_one(node, "partition", reader.partition, hint)
        return (steps.ElectLeaders(election_type, tuple(partitions)),)

    return read


def _znodes(make: Callable[[str, bytes | None], Action]) -> Read:
    def read(reader: DrillReader, node: yaml.Node) -> Actions:
        made: list[Action] = []
        for key, value in reader.entries(node, "znodes with their data").values():
            made.append(make(reader.path(key, "a key"), reader.znode_data(value)))
        return tuple(made)

    return read


def _delete(reader: DrillReader, node: yaml.Node) -> Actions:
    return tuple(map(steps.DeleteZnode, reader.paths(node)))


def _set_topic_partitions(reader: DrillReader, node: yaml.Node) -> Actions:
    added: dict[str, dict[str, list[int]]] = {}
    for tp, replicas in reader.by_partition(node, reader.replicas).items():
        added.setdefault(tp.topic, {})[str(tp.partition)] = replicas
    return tuple(steps.SetTopicPartitions(topic, values) for topic, values in added.items())


def _produce(reader: DrillReader, node: yaml.Node) -> Actions:
    def count(item: yaml.Node) -> int:
        return reader.integer(item, "a number of records", 1, 1_000_000)

    return (steps.Produce(reader.by_partition(node, count)),)


def _produce_constantly(reader: DrillReader, node: yaml.Node) -> Actions:
    def rate(item: yaml.Node) -> float:
        return reader.number(item, "a rate in records per second", 1_000_000.0)

    return (steps.ProduceConstantly(reader.by_partition(node, rate)),)


def _advance(reader: DrillReader, node: yaml.Node) -> Actions:
    return (steps.Advance(reader.integer(node, "a number of steps", 1, 1_000_000)),)


def _wait(reader: DrillReader, node: yaml.Node) -> Actions:
    return (steps.Wait(reader.duration_ms(node, "a wait")),)


def _preload(reader: DrillReader, node: yaml.Node) -> Actions:
    sizes = reader.by_partition(node, lambda item: reader.size_bytes(item, "a preloaded size"))
    return tuple(steps.Preload(tp, size_bytes) for tp, size_bytes in sizes.items())


DRILL_ACTIONS: Final[Mapping[str, DrillAction]] = {
    **{word: kind_of(word, row.action, row.example) for word, row in actions.ACTIONS.items()},
    "kill_all": kind_of("kill_all", steps.KillAll, "kill_all"),
    "up_again": kind_of("up_again", steps.UpAgain, "up_again"),
    **{
        f"{do}_zookeeper": DrillAction(
            _on_zookeeper(do), f"{do}_zookeeper: leader", f"{row.about} Real only."
        )
        for do, row in SINGLE_SERVER.items()
    },
    **{
        do: DrillAction(_without_value(do, steps.ActOnZooKeeper(do)), do, f"{row.about} Real only.")
        for do, row in WHOLE_ENSEMBLE.items()
    },
    "run": DrillAction(
        _run,
        "run: topics --zookeeper {zk} --delete --topic t",
        f"{about(steps.RunTool)} The tools: {', '.join(TOOLS)}.",
    ),
    "reassign": DrillAction(_reassign, "reassign: {t-0: [2, 3]}", about(steps.Reassign)),
    "cancel_reassignment": DrillAction(
        _cancel,
        "cancel_reassignment: [t-0]",
        "Ask the controller to cancel reassignments of partitions.",
    ),
    "elect_preferred": DrillAction(
        _elect(ElectionType.PREFERRED),
        "elect_preferred: all",
        "Ask the controller to elect the preferred (first) replicas of partitions as leaders.",
    ),
    "elect_unclean": DrillAction(
        _elect(ElectionType.UNCLEAN),
        "elect_unclean: [t-0]",
        "Ask the controller to elect any live replica of partitions that have no leader.",
    ),
    "produce": DrillAction(_produce, "produce: {t-0: 500}", about(steps.Produce)),
    "produce_constantly": DrillAction(
        _produce_constantly, "produce_constantly: {t-0: 100}", about(steps.ProduceConstantly)
    ),
    "create_znode": DrillAction(
        _znodes(steps.CreateZnode),
        "create_znode: {/admin/delete_topics/t: null}",
        about(steps.CreateZnode),
    ),
    "set_znode": DrillAction(
        _znodes(steps.SetZnode),
        "set_znode: {/admin/reassign_partitions: 'not JSON'}",
        about(steps.SetZnode),
    ),
    "delete_znode": DrillAction(_delete, "delete_znode: /controller", about(steps.DeleteZnode)),
    "set_topic_partitions": DrillAction(
        _set_topic_partitions,
        "set_topic_partitions: {t-1: [0, 2]}",
        about(steps.SetTopicPartitions),
    ),
    "preload": DrillAction(_preload, "preload: {t-0: 500GB}", about(steps.Preload)),
    **{
        how: DrillAction(
            _on_brokers(partial(steps.BreakSession, how=how)),
            f"{how}: controller",
            f"{fault.about} Simulated only.",
        )
        for how, fault in SESSION_FAULTS.items()
    },
    "heal_all": kind_of("heal_all", steps.HealAll, "heal_all"),
    "advance": DrillAction(_advance, "advance: 40", about(steps.Advance)),
    "wait": DrillAction(_wait, "wait: 5s", about(steps.Wait)),
}
"""All actions, keyed by their names in drills."""
