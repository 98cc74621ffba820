"""A drill as a value: what the language compiles to.

Steps and checks are runtime/scenarios/steps.py's. Conditions that hold over the whole drill, or
that must come about once, are further fields here; a trigger other than "when the step before is
over" is a further field of Step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.quirks import Quirks
from klamm.runtime.actions import Action
from klamm.runtime.cluster_spec import ClusterSpec, rack_map
from klamm.runtime.scenarios.steps import (
    ActOnZooKeeper,
    DegradeNetwork,
    ProduceConstantly,
    Step,
)
from klamm.runtime.simulated.world import SimulatedWorld

SESSION_TIMEOUT_MS: Final = 3_000
AUTO_REBALANCE: Final = "auto.leader.rebalance.enable"
BROKERS_FOLDER: Final = Path("brokers")
"""Folder of the brokers' files, below the folder that a drill is run in."""


_SIMULATED_ONLY: Final = (DegradeNetwork, ProduceConstantly)


class DrillCluster(msgspec.Struct, frozen=True):
    """The brokers of a drill. ``controllers`` None: any may become the controller. ``config``:
    Kafka's names, over klamm's defaults. ``segments``: brokers keep logs in files.
    ``zookeeper_servers``: size of the drill's private ensemble, if it acts on servers."""

    broker_ids: tuple[int, ...] = (0, 1, 2)
    controllers: tuple[int, ...] | None = None
    racks: tuple[str, ...] = ()
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    config: Mapping[str, str] = {}
    segments: bool = False
    zookeeper_servers: int = 1


class Drill(msgspec.Struct, frozen=True):
    """One drill. ``source`` is the file's name, for messages; ``steps`` begin with the start of the
    brokers. ``is_checked``: at the end everybody must agree with ZooKeeper."""

    name: str
    about: str
    cluster: DrillCluster
    steps: tuple[Step, ...]
    is_checked: bool
    source: str

    @property
    def simulated_only(self) -> str | None:
        """The name of the first step that only the simulated world can do; None without one."""
        return next(
            (step.name for step in self.steps if any(map(_is_simulated_only, step.actions))), None
        )

    @property
    def real_only(self) -> str | None:
        """The name of the first step that acts on ZooKeeper servers, which exist only in the real
        world; None without one."""
        return next((s.name for s in self.steps if any(map(_is_real_only, s.actions))), None)

    @property
    def worlds(self) -> str:
        """Where it can run: ``both``, ``real only`` or ``simulated only``."""
        if self.real_only is not None:
            return "real only"
        return "both" if self.simulated_only is None else "simulated only"

    def spec(self, quirks: Quirks, seed: int) -> ClusterSpec:
        """The cluster to run it on.

        Leaders are not rebalanced by themselves unless the drill says so: it would come in between.
        """
        cluster = self.cluster
        return ClusterSpec(
            broker_ids=cluster.broker_ids,
            racks=rack_map(cluster.broker_ids, cluster.racks),
            candidates=cluster.controllers,
            session_timeout_ms=cluster.session_timeout_ms,
            quirks=quirks,
            config={AUTO_REBALANCE: "false", **cluster.config},
            run_id=self.name,
            seed=seed,
            segments=BROKERS_FOLDER if cluster.segments else None,
        )

    def simulated_world(self, quirks: Quirks, seed: int) -> SimulatedWorld:
        """A simulated cluster to run it on, whose files are in memory."""
        return SimulatedWorld(self.spec(quirks, seed), has_memory_disk=True)


def _is_real_only(action: Action) -> bool:
    return isinstance(action, ActOnZooKeeper)


def _is_simulated_only(action: Action) -> bool:
    return isinstance(action, _SIMULATED_ONLY)
