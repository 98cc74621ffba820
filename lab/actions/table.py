"""The table of all actions: a row for each word of drills.

The class of an action has its arguments, limits, texts and effect. Drills and their JSON Schema,
the methods of clusters in Python, the docs and the HTTP API are derived from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from klamm.cluster.types import ElectionType
from klamm.lab.actions import actions, network_actions, steps
from klamm.lab.actions.action import Action, BrokerAction, BrokerRef, about
from klamm.lab.actions.tools import TOOLS
from klamm.lab.value_types import Form, mark
from klamm.world.simulated.world import SESSION_FAULTS
from klamm.zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE

Brokers = Annotated[tuple[BrokerRef, ...], mark(Form.BROKERS)]
Command = Annotated[tuple[str, tuple[str, ...]], mark(Form.COMMAND)]


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


def kind_of(action: type[Action], example: str, text: str = "", /, **fixed: Any) -> ActionKind:
    """Return the row of an action whose arguments determine what drills give it.

    That is nothing, one or more brokers, the value of the only argument, or named arguments.
    ``fixed``: arguments that the word stands for. ``text``: replaces that of the class.
    """
    arguments = [one for one in msgspec.structs.fields(action) if one.name not in fixed]
    needed = [one.name for one in arguments if one.required]
    row = partial(ActionKind, action, example, about=text or about(action))
    if not arguments:
        return row(value=None, make=lambda _: [action(**fixed)], parameter="")
    if issubclass(action, BrokerAction) and needed == ["broker"]:

        def on_each(brokers: Iterable[BrokerRef]) -> list[Action]:
            return [action(broker=broker, **fixed) for broker in brokers]

        return row(value=Brokers, make=on_each, parameter="brokers")
    if len(arguments) > 1:
        return row(value=action, make=lambda value: [value], parameter="")
    (only,) = arguments
    return row(
        value=only.type,
        make=lambda value: [action(**{only.name: value}, **fixed)],
        parameter=only.encode_name,
    )


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
    "isolate": kind_of(network_actions.Isolate, "isolate: [2]"),
    "heal_network": kind_of(network_actions.HealNetwork, "heal_network"),
    "move_controller": kind_of(actions.MoveController, "move_controller"),
    "kill_all": kind_of(steps.KillAll, "kill_all"),
    "up_again": kind_of(steps.UpAgain, "up_again"),
    **{
        f"{do}_zookeeper": kind_of(
            steps.ActOnZooKeeper, f"{do}_zookeeper: leader", f"{row.about} Real only.", action=do
        )
        for do, row in SINGLE_SERVER.items()
    },
    **{
        do: kind_of(steps.ActOnZooKeeper, do, f"{row.about} Real only.", action=do, server="")
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
    "cancel_reassignment": kind_of(steps.CancelReassignment, "cancel_reassignment: [t-0]"),
    "elect_preferred": kind_of(
        steps.ElectLeaders,
        "elect_preferred: all",
        "Ask the controller to elect the preferred (first) replicas of partitions as leaders.",
        election_type=ElectionType.PREFERRED,
    ),
    "elect_unclean": kind_of(
        steps.ElectLeaders,
        "elect_unclean: [t-0]",
        "Ask the controller to elect any live replica of partitions that have no leader.",
        election_type=ElectionType.UNCLEAN,
    ),
    "produce": kind_of(steps.Produce, "produce: {t-0: 500}"),
    "produce_constantly": kind_of(steps.ProduceConstantly, "produce_constantly: {t-0: 100}"),
    "create_znode": kind_of(
        steps.CreateZnode,
        "create_znode: {/admin/delete_topics/t: null}",
        is_sequential=False,
    ),
    "set_znode": kind_of(steps.SetZnode, "set_znode: {/admin/reassign_partitions: 'not JSON'}"),
    "delete_znode": kind_of(steps.DeleteZnode, "delete_znode: /controller"),
    "set_topic_partitions": kind_of(
        steps.SetTopicPartitions, "set_topic_partitions: {t-1: [0, 2]}"
    ),
    "preload": kind_of(steps.Preload, "preload: {t-0: 500GB}"),
    **{
        how: kind_of(
            steps.BreakSession, f"{how}: controller", f"{fault.about} Simulated only.", how=how
        )
        for how, fault in SESSION_FAULTS.items()
    },
    "heal_all": kind_of(steps.HealAll, "heal_all"),
    "advance": kind_of(steps.Advance, "advance: 40"),
    "wait": kind_of(steps.Wait, "wait: 5s"),
}
"""All actions, keyed by their names in drills."""
