"""The table of all actions: a row for each word of drills.

The class of an action has its arguments, limits, texts and effect. Drills and their JSON Schema,
the methods of clusters in Python, the docs and the HTTP API are derived from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from klamm.cluster.types import ElectionType, TopicPartition
from klamm.lab.actions import actions, network_actions, steps
from klamm.lab.actions.action import Action, BrokerAction, BrokerRef, about
from klamm.lab.actions.tools import TOOLS
from klamm.lab.value_types import (
    Form,
    Partition,
    Partitions,
    Path,
    Paths,
    Replicas,
    Size,
    ZnodeData,
    form,
)
from klamm.world.simulated.world import SESSION_FAULTS
from klamm.zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE

Brokers = Annotated[tuple[BrokerRef, ...], form(Form.BROKERS)]
Command = Annotated[tuple[str, tuple[str, ...]], form(Form.COMMAND)]


class ActionKind(NamedTuple):
    """How an action is written in drills and in Python.

    - ``example``: the action as a step of a drill.
    - ``value``: type of the value in drills. ``make`` returns the actions that it stands for.
    - ``parameter``: name of the value in Python; empty if there is none, or if the value is a
      mapping of named arguments.
    - ``about``: text of the docs.
    """

    action: type[Action]
    example: str
    value: Any
    make: Callable[[Any], Iterable[Action]]
    parameter: str
    about: str


def kind_of(
    action: type[Action],
    example: str,
    fixed: Mapping[str, Any] = {},
    parameter: str = "",
    text: str = "",
) -> ActionKind:
    """Return the row of an action whose arguments determine what drills give it.

    That is nothing, one or more brokers, the value of the only argument, or named arguments.
    ``fixed``: arguments that the word stands for. ``text``: instead of that of the class.
    """
    arguments = [one for one in msgspec.structs.fields(action) if one.name not in fixed]
    needed = [one.name for one in arguments if one.required]
    text = text or about(action)
    if not arguments:
        return ActionKind(action, example, None, lambda _: [action(**fixed)], "", text)
    if issubclass(action, BrokerAction) and needed == ["broker"]:

        def on_each(brokers: Iterable[BrokerRef]) -> list[Action]:
            return [action(broker=broker, **fixed) for broker in brokers]

        return ActionKind(action, example, Brokers, on_each, "brokers", text)
    if len(arguments) > 1:
        return ActionKind(action, example, action, lambda value: [value], "", text)
    (only,) = arguments
    return ActionKind(
        action,
        example,
        only.type,
        lambda value: [action(**{only.name: value}, **fixed)],
        parameter or only.encode_name,
        text,
    )


def kind_of_entries(action: type[Action], example: str, value: Any, parameter: str) -> ActionKind:
    """Return the row of an action that is executed for each entry of a mapping."""

    def on_each(entries: Mapping[Any, Any]) -> list[Action]:
        return [action(*entry) for entry in entries.items()]

    return ActionKind(action, example, value, on_each, parameter, about(action))


def _topics_of(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> list[Action]:
    """Return one action for each topic."""
    topics: dict[str, dict[str, list[int]]] = {}
    for tp, ids in replicas.items():
        topics.setdefault(tp.topic, {})[str(tp.partition)] = [*ids]
    return [steps.SetTopicPartitions(topic, partitions) for topic, partitions in topics.items()]


ACTIONS: Final[Mapping[str, ActionKind]] = {
    "kill": kind_of(actions.Kill, "kill: 1"),
    "start": kind_of(actions.Start, "start: [1, 2]"),
    "stop": kind_of(actions.Stop, "stop: leader of t-0"),
    "power_off": kind_of(actions.PowerOff, "power_off: leader of t-0"),
    "pause": kind_of(actions.Pause, "pause: controller"),
    "resume": kind_of(actions.Resume, "resume: 0"),
    "bounce_registration": kind_of(actions.BounceRegistration, "bounce_registration: 2"),
    "fail_log_dir": kind_of(actions.FailLogDir, "fail_log_dir: {broker: 1, log_dir: d1}"),
    "fail_disk": kind_of(actions.FailDisk, "fail_disk: {broker: 1, log_dir: d1, kind: enospc}"),
    "slow_disk": kind_of(actions.SlowDisk, "slow_disk: {broker: 1, bytes_per_s: 1000}"),
    "heal_disks": kind_of(actions.HealDisks, "heal_disks"),
    "cut": kind_of(network_actions.Cut, "cut: {from: 1, to: zookeeper}"),
    "clog": kind_of(network_actions.Clog, "clog: {from: controller, to: 2}"),
    "delay": kind_of(network_actions.Delay, "delay: {from: zookeeper, to: 1, ms: 200}"),
    "fail_requests": kind_of(
        network_actions.FailRequests,
        "fail_requests: {api: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 3}",
    ),
    "lag_zookeeper": kind_of(network_actions.LagZookeeper, "lag_zookeeper: {broker: 1, ms: 500}"),
    "skew_clock": kind_of(actions.SkewClock, "skew_clock: {broker: 1, ms: 60000}"),
    "degrade_network": kind_of(
        network_actions.DegradeNetwork,
        "degrade_network: {loss: 0.1, repetition: 0.1, reordering: 0.3}",
    ),
    "isolate": kind_of(network_actions.Isolate, "isolate: [2]", parameter="brokers"),
    "heal_network": kind_of(network_actions.HealNetwork, "heal_network"),
    "move_controller": kind_of(actions.MoveController, "move_controller"),
    "kill_all": kind_of(steps.KillAll, "kill_all"),
    "up_again": kind_of(steps.UpAgain, "up_again"),
    **{
        f"{do}_zookeeper": kind_of(
            steps.ActOnZooKeeper,
            f"{do}_zookeeper: leader",
            {"action": do},
            text=f"{row.about} Real only.",
        )
        for do, row in SINGLE_SERVER.items()
    },
    **{
        do: kind_of(
            steps.ActOnZooKeeper,
            do,
            {"action": do, "server": ""},
            text=f"{row.about} Real only.",
        )
        for do, row in WHOLE_ENSEMBLE.items()
    },
    "run": ActionKind(
        steps.RunTool,
        "run: topics --zookeeper {zk} --delete --topic t",
        Command,
        lambda command: [steps.RunTool(*command)],
        "command",
        f"{about(steps.RunTool)} The tools: {', '.join(TOOLS)}.",
    ),
    "reassign": kind_of(steps.Reassign, "reassign: {t-0: [2, 3]}"),
    "cancel_reassignment": ActionKind(
        steps.Reassign,
        "cancel_reassignment: [t-0]",
        Partitions,
        lambda partitions: [steps.Reassign(dict.fromkeys(partitions))],
        "partitions",
        "Ask the controller to cancel reassignments of partitions.",
    ),
    "elect_preferred": kind_of(
        steps.ElectLeaders,
        "elect_preferred: all",
        {"election_type": ElectionType.PREFERRED},
        text="Ask the controller to elect the preferred (first) replicas of partitions as leaders.",
    ),
    "elect_unclean": kind_of(
        steps.ElectLeaders,
        "elect_unclean: [t-0]",
        {"election_type": ElectionType.UNCLEAN},
        text="Ask the controller to elect any live replica of partitions that have no leader.",
    ),
    "produce": kind_of(steps.Produce, "produce: {t-0: 500}"),
    "produce_constantly": kind_of(steps.ProduceConstantly, "produce_constantly: {t-0: 100}"),
    "create_znode": kind_of_entries(
        steps.CreateZnode,
        "create_znode: {/admin/delete_topics/t: null}",
        dict[Path, ZnodeData],
        "znodes",
    ),
    "set_znode": kind_of_entries(
        steps.SetZnode,
        "set_znode: {/admin/reassign_partitions: 'not JSON'}",
        dict[Path, ZnodeData],
        "znodes",
    ),
    "delete_znode": ActionKind(
        steps.DeleteZnode,
        "delete_znode: /controller",
        Paths,
        lambda paths: [steps.DeleteZnode(path) for path in paths],
        "paths",
        about(steps.DeleteZnode),
    ),
    "set_topic_partitions": ActionKind(
        steps.SetTopicPartitions,
        "set_topic_partitions: {t-1: [0, 2]}",
        dict[Partition, Replicas],
        _topics_of,
        "replicas",
        about(steps.SetTopicPartitions),
    ),
    "preload": kind_of_entries(
        steps.Preload, "preload: {t-0: 500GB}", dict[Partition, Size], "sizes"
    ),
    **{
        how: kind_of(
            steps.BreakSession,
            f"{how}: controller",
            {"how": how},
            text=f"{fault.about} Simulated only.",
        )
        for how, fault in SESSION_FAULTS.items()
    },
    "heal_all": kind_of(steps.HealAll, "heal_all"),
    "advance": kind_of(steps.Advance, "advance: 40"),
    "wait": kind_of(steps.Wait, "wait: 5s"),
}
"""All actions, keyed by their names in drills."""
