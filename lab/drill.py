"""A drill as a value: its cluster and its steps, which run one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from klamm.cluster.quirks import Quirks
from klamm.lab.actions.action import Action
from klamm.lab.actions.steps import ActOnZooKeeper
from klamm.lab.conditions.condition import StepCheck
from klamm.lab.conditions.triggers import AtBreakpoint, AtStep, Trigger
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld

DEFAULT_CLUSTER: Final = ClusterSpec(
    broker_ids=(0, 1, 2),
    session_timeout_ms=3_000,
    config={"auto.leader.rebalance.enable": "false"},
    zookeeper_servers=1,
)
"""The cluster of a drill that says nothing else. With automatic leader rebalancing, elections would
interfere with the steps."""


class Quiesce(msgspec.Struct, frozen=True):
    """Wait until the cluster is idle before the next checks of the same step."""


class Step(msgspec.Struct, frozen=True):
    """A step of a scenario: its actions, followed by its checks.

    ``branches``: sequences of steps that run at the same time, instead of actions and checks.
    ``trigger``: what the branch of such a step waits for while the following steps run."""

    name: str
    actions: tuple[Action, ...] = ()
    checks: tuple[StepCheck | Quiesce, ...] = ()
    place: str = ""
    branches: tuple[tuple[Step, ...], ...] = ()
    trigger: Trigger | None = None


def every_step(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps and all steps in their branches."""
    for step in steps:
        yield step
        for branch in step.branches:
            yield from every_step(branch)


class Drill(msgspec.Struct, frozen=True):
    """A compiled drill.

    ``cluster``: has a ZooKeeper ensemble of its own only if the drill acts on its servers.
    ``steps`` begins with the start of the brokers and the creation of the topics, which together
    are ``preparations`` steps. ``recovery``: the steps that end every fault and wait for the
    conditions of ``eventually``. ``sometimes``: conditions that must hold at least once after the
    preparations; otherwise the drill is inconclusive. ``is_checked``: at the end the controller and
    the brokers must agree with ZooKeeper. ``source``: the name of the drill's file, for messages.
    ``is_tolerant``: a step whose action is refused is skipped and does not fail the drill.
    ``always``: names of the invariants that must hold after every event; only the simulated world
    checks them.
    """

    name: str
    about: str
    cluster: ClusterSpec
    steps: tuple[Step, ...]
    is_checked: bool
    source: str
    is_tolerant: bool = False
    always: tuple[str, ...] = ()
    preparations: int = 1
    sometimes: tuple[StepCheck, ...] = ()
    recovery: tuple[Step, ...] = ()

    @property
    def simulated_only(self) -> str | None:
        """Name of the first step that requires the simulated world, or None."""
        return self._first_with(
            lambda step: (
                isinstance(step.trigger, AtStep | AtBreakpoint)
                or any(action.is_simulated_only for action in step.actions)
            )
        )

    @property
    def real_only(self) -> str | None:
        """Name of the first step that acts on ZooKeeper servers, or None.

        ZooKeeper servers exist only in the real world.
        """
        return self._first_with(
            lambda step: any(isinstance(action, ActOnZooKeeper) for action in step.actions)
        )

    def _first_with(self, is_meant: Callable[[Step], bool]) -> str | None:
        return next((step.name for step in every_step(self.steps) if is_meant(step)), None)

    @property
    def worlds(self) -> str:
        """Worlds in which the drill can run: ``both``, ``real only`` or ``simulated only``."""
        if self.real_only is not None:
            return "real only"
        return "both" if self.simulated_only is None else "simulated only"

    def spec(self, quirks: Quirks, seed: int) -> ClusterSpec:
        """Return the specification of the drill's cluster for one run."""
        servers = 0 if self.real_only is None else self.cluster.zookeeper_servers
        return replace(
            self.cluster, quirks=quirks, seed=seed, run_id=self.name, zookeeper_servers=servers
        )

    def simulated_world(self, quirks: Quirks, seed: int) -> SimulatedWorld:
        """Return a simulated cluster for the drill. Its files are in memory."""
        return SimulatedWorld(self.spec(quirks, seed), has_memory_disk=True)
