"""What a drill may do to brokers of Kafka, checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from klamm.cluster.errors import UsageError
from klamm.lab.actions.action import CONTROLLER, Action, BrokerAction
from klamm.lab.actions.actions import MoveController
from klamm.lab.actions.target import ScenarioTarget
from klamm.lab.conditions.triggers import AtBreakpoint, AtStep, OnRow
from klamm.lab.drill import Drill, Step, every_step


class MoveKlammsController(Action, frozen=True):
    """Let another controller of klamm take over."""

    def act(self, run: ScenarioTarget) -> None:
        # kio, for Kafka's protocol, takes 0.3 s to import.
        from klamm.world.kafka.cluster import KafkaCluster

        assert isinstance(run.cluster, KafkaCluster)
        run.cluster.move_controller()


def prepare(drill: Drill, *, has_klamm: bool) -> Drill:
    """Return the drill as brokers of Kafka run it: they have started when its steps begin.

    ``has_klamm``: klamm's controller drives the brokers. Raises UsageError, which names the first
    step that is not possible."""
    reason = why_impossible(drill, has_klamm=has_klamm)
    if reason is not None:
        raise UsageError(f"{drill.name}: {reason}", hint="run it without --on")
    steps = drill.steps[1:]
    if has_klamm:
        steps = tuple(map(_with_klamms_controllers, steps))
    return msgspec.structs.replace(drill, steps=steps, preparations=drill.preparations - 1)


def _with_klamms_controllers(step: Step) -> Step:
    """Return a step that moves the controller from klamm to klamm, not to a broker of Kafka."""
    return msgspec.structs.replace(
        step,
        actions=tuple(
            MoveKlammsController() if isinstance(one, MoveController) else one
            for one in step.actions
        ),
        branches=tuple(tuple(map(_with_klamms_controllers, one)) for one in step.branches),
    )


def why_impossible(drill: Drill, *, has_klamm: bool) -> str | None:
    """Return why brokers of Kafka cannot run a drill, or None if they can."""
    for step in every_step((*drill.steps, *drill.recovery)):
        for reason in _reasons(step, has_klamm=has_klamm):
            return f"the step '{step.name}' {reason}"
    return None


def _reasons(step: Step, *, has_klamm: bool) -> Iterator[str]:
    if isinstance(step.trigger, AtStep | AtBreakpoint):
        yield "requires the simulated world"
    if isinstance(step.trigger, OnRow) and not has_klamm:
        yield "waits for a row of klamm's journal"
    for action in step.actions:
        if action.is_simulated_only or not action.ON_KAFKA:
            yield "is not possible with brokers of Kafka"
        if has_klamm and isinstance(action, BrokerAction) and action.broker == CONTROLLER:
            yield "acts on the controller, which is no broker of the drill"
