"""A compiled drill as a value: its cluster and its steps.

runtime/scenarios/steps.py has steps and checks. For later extensions: conditions over a whole drill
would be further fields of Drill, and triggers other than the end of the previous step further
fields of Step.
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
"""Directory of the brokers' files, below the directory of a drill."""


_SIMULATED_ONLY: Final = (DegradeNetwork, ProduceConstantly)


class DrillCluster(msgspec.Struct, frozen=True):
    """The cluster of a drill.

    ``controllers`` None: every broker is a controller candidate. ``config``: broker configs that
    override klamm's defaults. ``segments``: brokers keep segment files. ``zookeeper_servers``:
    size of the drill's private ensemble, if the drill acts on ZooKeeper servers.
    """

    broker_ids: tuple[int, ...] = (0, 1, 2)
    controllers: tuple[int, ...] | None = None
    racks: tuple[str, ...] = ()
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    config: Mapping[str, str] = {}
    segments: bool = False
    zookeeper_servers: int = 1


class Drill(msgspec.Struct, frozen=True):
    """One drill. ``source``: the file's name in messages. ``steps``: begin with broker startup.

    ``is_checked``: at the end controller and brokers must agree with ZooKeeper.
    """

    name: str
    about: str
    cluster: DrillCluster
    steps: tuple[Step, ...]
    is_checked: bool
    source: str

    @property
    def simulated_only(self) -> str | None:
        """Name of the first step that requires the simulated world; None without one."""
        return next(
            (step.name for step in self.steps if any(map(_is_simulated_only, step.actions))), None
        )

    @property
    def real_only(self) -> str | None:
        """Name of the first step that acts on ZooKeeper servers; None without one.

        ZooKeeper servers exist only in the real world.
        """
        return next((s.name for s in self.steps if any(map(_is_real_only, s.actions))), None)

    @property
    def worlds(self) -> str:
        """Worlds in which the drill can run: ``both``, ``real only`` or ``simulated only``."""
        if self.real_only is not None:
            return "real only"
        return "both" if self.simulated_only is None else "simulated only"

    def spec(self, quirks: Quirks, seed: int) -> ClusterSpec:
        """Return the specification of the drill's cluster.

        Automatic leader rebalancing is off unless the drill enables it, because its elections
        would interfere with the steps.
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
        """Return a simulated cluster for the drill, with files in memory."""
        return SimulatedWorld(self.spec(quirks, seed), has_memory_disk=True)


def _is_real_only(action: Action) -> bool:
    return isinstance(action, ActOnZooKeeper)


def _is_simulated_only(action: Action) -> bool:
    return isinstance(action, _SIMULATED_ONLY)
