"""Checks that no step or condition comes at a time at which it is impossible.

Follows the states that each broker may have from step to step: running, paused or dead. Steps
inside ``parallel`` and steps with a trigger may act at any time from their turn on, so they only
add possible states. A step is refused only if its action is impossible in all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any, Final

from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.types import TopicPartition
from klamm.lab.actions import steps
from klamm.lab.actions.action import (
    DEAD,
    ENDED,
    PAUSED,
    RUNNING,
    Action,
    BrokerAction,
    BrokerRef,
    InRack,
)
from klamm.lab.actions.actions import Kill, PowerOff, Resume, Start, Stop
from klamm.lab.actions.network_actions import Isolate, LinkAction
from klamm.lab.conditions.condition import Condition, StepCheck, plain_text
from klamm.lab.conditions.conditions import MOVED
from klamm.lab.conditions.triggers import AtStep
from klamm.lab.drill import Drill, DrillCluster, Step, every_step
from klamm.lab.language.existence import created_replicas, edits_epoch
from klamm.world.cluster_spec import rack_map
from klamm.zk import ensemble
from klamm.zk.ensemble import SINGLE_SERVER, WHOLE_ENSEMBLE

Placed = Sequence[tuple[str, Action]]
"""Actions, each with its position in the drill's file."""
_ON_ZOOKEEPER: Final = {**SINGLE_SERVER, **WHOLE_ENSEMBLE}


class _States:
    """The states that each broker may have, and what steps may have done so far."""

    def __init__(self, cluster: DrillCluster) -> None:
        self._racks = rack_map(cluster.broker_ids, cluster.racks)
        self._candidates = cluster.controllers or cluster.broker_ids
        self.possible = {id_: {DEAD} for id_ in cluster.broker_ids}
        self.paused: set[int] = set()
        """Brokers that a step may have paused, even if they have been resumed."""
        self.may_halt = False
        self.of_zookeeper = {ensemble.RUNNING}
        """States that some ZooKeeper server may have."""

    def add(self, other: _States) -> None:
        """Add everything that is possible in ``other``."""
        for id_, states in other.possible.items():
            self.possible[id_] |= states
        self.paused |= other.paused
        self.of_zookeeper |= other.of_zookeeper
        self.may_halt = self.may_halt or other.may_halt

    def apply(self, action: Action, *, is_certain: bool = True) -> None:
        """Follow an action that is carried out now, or if not ``is_certain``, may be."""
        self.may_halt = self.may_halt or action.MAY_HALT
        if isinstance(action, steps.ActOnZooKeeper):
            self.of_zookeeper.add(_ON_ZOOKEEPER[action.action].leaves)
        if action.LEAVES is None:
            return
        left = DEAD if action.LEAVES in ENDED else action.LEAVES
        ids: Iterable[int] = self.possible
        if isinstance(action, BrokerAction):
            ids = self._ids(action.broker)
            # A controlled shutdown takes time, and a role is known only when the step is run.
            is_known = self.named(action.broker) is not None and not isinstance(action, Stop)
            is_certain = is_certain and is_known
        if left == PAUSED:
            self.paused.update(ids)
        for id_ in ids:
            self.possible[id_] = {left} if is_certain else self.possible[id_] | {left}

    def may_apply(self, placed: Placed) -> None:
        """Follow actions of which each may be carried out now, or not, in any order."""
        for _, action in placed:
            self.apply(action, is_certain=False)

    def named(self, ref: BrokerRef) -> list[int] | None:
        """Return the brokers that are named by their ids or their rack, or else None."""
        if isinstance(ref, InRack):
            return [id_ for id_, rack in self._racks.items() if rack == ref.rack]
        return [ref] if isinstance(ref, int) else None

    def _ids(self, ref: BrokerRef) -> list[int]:
        """Return all brokers that a reference may stand for."""
        named = self.named(ref)
        return list(self.possible) if named is None else named

    # -- what is refused

    def check(self, place: str, action: Action) -> None:
        """Raise UsageError if an action cannot be carried out in any possible state."""
        problem = self._problem_of(action)
        if problem is not None:
            raise UsageError(f"{place}: {problem[0]}", hint=problem[1])

    def _problem_of(self, action: Action) -> tuple[str, str] | None:
        """Return why an action is impossible, with a hint, or None."""
        refs = _refs(action)
        if DEAD in refs and not any(DEAD in states for states in self.possible.values()):
            return _never_before("kills, stops or powers off a broker", "kill: 1")
        if PAUSED in refs and not self.paused:
            return _never_before("pauses a broker", "pause: 1")
        match action:
            case Start(broker=ref):
                return self._problem_of_start(ref)
            case Resume(broker=ref) if not self.paused.intersection(self._ids(ref)):
                paused = f"broker {ref}" if isinstance(ref, int) else "a broker"
                return _never_before(f"pauses {paused}", "pause: 1")
            case steps.UpAgain():
                running = [id_ for id_, states in self.possible.items() if DEAD not in states]
                if running and not self.may_halt:
                    problem = (
                        f"broker {running[0]} is running: no earlier or concurrent step ends it"
                    )
                    return problem, "add a step kill_all before it"
            case steps.ActOnZooKeeper():
                needed = _ON_ZOOKEEPER[action.action].requires
                if self.of_zookeeper.isdisjoint(needed):
                    do = next(do for do, row in SINGLE_SERVER.items() if row.leaves == needed[0])
                    does = f"leaves a ZooKeeper server {' or '.join(needed)}"
                    return _never_before(does, f"{do}_zookeeper: leader")
        if isinstance(action, BrokerAction) and action.NEEDS_RUNNING:
            for id_ in self.named(action.broker) or ():
                if self.possible[id_] == {DEAD}:
                    hint = f"start it before, as in start: {id_}"
                    return f"broker {id_} is not running: an earlier step ended it", hint
        return None

    def check_branches(self, placed: Placed, armed: Iterable[Placed]) -> None:
        """Raise UsageError if the branches of a step kill a broker twice, and nothing starts any.

        ``armed``: the actions of steps that wait for their triggers."""
        concurrent = itertools.chain(placed, *armed)
        if any(one.LEAVES == RUNNING and not one.NEEDS_RUNNING for _, one in concurrent):
            return
        killed: set[int] = set()
        for place, action in placed:
            if isinstance(action, Kill | PowerOff):
                ids = self.named(action.broker) or []
                for id_ in killed.intersection(ids):
                    hint = "a broker that is killed twice must be started in between"
                    raise UsageError(f"{place}: another branch kills broker {id_}", hint=hint)
                killed.update(ids)

    def has_candidate(self) -> bool:
        """Return True if a controller candidate may be running."""
        return any(self.possible[id_] != {DEAD} for id_ in self._candidates)

    def _problem_of_start(self, ref: BrokerRef) -> tuple[str, str] | None:
        for id_ in self.named(ref) or ():
            if DEAD not in self.possible[id_] and not self.may_halt:
                problem = f"broker {id_} is already running: no earlier or concurrent step ends it"
                return problem, f"add a step such as kill: {id_} before it"
        return None


def _refs(action: Action) -> tuple[object, ...]:
    """Return the references to brokers in an action."""
    match action:
        case Isolate():
            return action.isolated
        case LinkAction():
            return (*action.sources, *action.destinations, *itertools.chain(*action.between))
    return (getattr(action, "broker", None),)


def _never_before(does: str, example: str) -> tuple[str, str]:
    hint = f"add a step such as {example} before it"
    return f"no earlier or concurrent step {does}", hint


def check_states(drill: Drill) -> None:
    """Check that every step comes when the brokers and ZooKeeper servers may allow its actions.

    Raises UsageError."""
    states = _States(drill.cluster)
    armed: list[tuple[Placed, _States]] = []
    sets_epoch = any(edits_epoch(action) for step in drill.steps for _, action in _placed(step))
    for step in drill.steps:
        placed = _placed(step)
        had_candidate = states.has_candidate()
        if step.trigger is not None:
            armed.append((placed, deepcopy(states)))
        elif step.branches:
            states.may_apply(placed)
            for place, action in placed:
                states.check(place, action)
            states.check_branches(placed, (background for background, _ in armed))
        else:
            for place, action in placed:
                states.check(place, action)
                states.apply(action)
        for background, seen in armed:
            states.may_apply(background)
            seen.add(states)
        if not (had_candidate or states.has_candidate() or sets_epoch):
            _check_no_election(step)
    for placed, seen in armed:
        for place, action in placed:
            seen.check(place, action)


def _check_no_election(step: Step) -> None:
    """Raise UsageError if a step without a possible controller expects an election."""
    for check in _checks([step]):
        if check.condition == Condition("controller", MOVED):
            problem = "no controller can be elected: earlier steps ended all that could become it"
            raise UsageError(f"{check.place}: {problem}", hint="add a step such as start: 0 before")


def check_unchanged(drill: Drill) -> None:
    """Check the conditions of a drill in which nothing changes once its topics are created.

    Raises UsageError."""
    own = (*drill.steps[drill.preparations :], *drill.recovery[1:])
    idle = steps.Wait | steps.Advance
    if not all(isinstance(action, idle) for _, action in itertools.chain(*map(_placed, own))):
        return
    replicas = {
        str(tp): list(ids)
        for step in drill.steps
        for action in step.actions
        for tp, ids in created_replicas(action)
    }
    states: dict[str, dict[str, Any]] = {
        "leader": {tp: ids[0] for tp, ids in replicas.items()},
        "isr": {tp: sorted(ids) for tp, ids in replicas.items()},
        "replicas": replicas,
    }
    for check in (*_checks(own), *drill.sometimes):
        kind, wanted = check.condition.kind, check.condition.wanted
        if kind == "brokers" and wanted != sorted(drill.cluster.broker_ids):
            raise _unchanged(check, "all brokers run")
        for tp, state in states.get(kind, {}).items():
            expected = wanted.get(tp, state)
            if (sorted(expected) if kind == "isr" else expected) != state:
                raise _unchanged(check, f"{kind} of {tp} is {plain_text(state)}")


def _unchanged(check: StepCheck, state: str) -> UsageError:
    hint = "add a step that changes it, such as kill: 0"
    return UsageError(f"{check.place}: {state}, and no step changes anything", hint=hint)


def _checks(compiled: Iterable[Step]) -> Iterator[StepCheck]:
    return (
        check
        for step in every_step(compiled)
        for check in step.checks
        if isinstance(check, StepCheck)
    )


def _placed(step: Step) -> Placed:
    return [(inner.place, action) for inner in every_step([step]) for action in inner.actions]


def check_logs_survive(drill: Drill) -> None:
    """Check that no step kills the process that has the only copies of the records.

    Their loss would be reported as a violation. Raises UsageError."""
    if drill.cluster.segments:
        return
    for number, step in enumerate(drill.steps):
        killers = [place for place, action in _placed(step) if isinstance(action, steps.KillAll)]
        if not killers:
            continue
        before = drill.steps if step.trigger is not None else drill.steps[: number + 1]
        produced = [tp for one in before for _, action in _placed(one) for tp in _records(action)]
        if produced:
            raise UsageError(
                f"{killers[0]}: kill_all loses the records of {produced[0]}: the logs of this"
                " cluster are in memory",
                hint="cluster: {segments: true} keeps them in files",
            )


def _records(action: Action) -> Iterable[TopicPartition]:
    """Return the partitions to which an action produces records."""
    match action:
        case steps.Produce():
            return action.records
        case steps.ProduceConstantly():
            return action.records_per_s
    return ()


def check_producers(compiled: Iterable[Step]) -> None:
    """Check that constant-rate producers and preloading do not conflict with other producers.

    Every constant-rate producer must be the only producer of its partition, and no partition may be
    preloaded after a step has produced to it. Raises UsageError.
    """
    is_constant: dict[TopicPartition, bool] = {}
    for step in every_step(compiled):
        for action in step.actions:
            if isinstance(action, steps.Preload) and action.partition in is_constant:
                raise UsageError(
                    f"{step.place}: cannot preload {action.partition}: an earlier step produces"
                    " to it",
                    hint="preload it first",
                )
            constantly = isinstance(action, steps.ProduceConstantly)
            for tp in _records(action):
                if tp in is_constant and (constantly or is_constant[tp]):
                    raise UsageError(
                        f"{step.place}: {tp} already has a producer",
                        hint="produce_constantly must be the only producer of a partition",
                    )
            is_constant |= dict.fromkeys(_records(action), constantly)


def check_triggers(compiled: Sequence[Step]) -> None:
    """Check that the drill has each step at which another one is to run. Raises UsageError.

    ``compiled``: the steps of the drill's file."""
    in_turn = sum(step.trigger is None for step in compiled)
    for step in compiled:
        if isinstance(step.trigger, AtStep) and step.trigger.step > in_turn + 1:
            raise UsageError(
                f"{step.place}: there is no step {step.trigger.step}",
                hint=f"{counted(in_turn, 'step')} without a trigger; {in_turn + 1} is their end",
            )
