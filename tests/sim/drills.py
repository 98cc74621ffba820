"""Runs drills in simulated worlds."""

from __future__ import annotations

from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.lab.drill import Drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.drill_run import Verdict, play, verdict_of


def run_drill(drill: Drill, quirks: Quirks = NO_QUIRKS, seed: int = 0) -> Verdict:
    """Run a drill in a new world; its verdict."""
    return verdict_of(play(drill, SimulatedDriver(drill.simulated_world(quirks, seed))))
