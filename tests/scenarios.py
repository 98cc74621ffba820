"""Recorded scenarios of real Kafka 2.8.2 brokers, and how klamm runs them again.

Each is a JSON file of tests/data/scenarios; lab/recordings/recorded.py repeats its steps and
lab/recordings/diff.py compares. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from klamm.cluster.quirks import Quirks
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.real_driver import RealDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.recordings.diff import compare_scenario
from klamm.lab.recordings.recorded import (
    ScenarioRecorder,
    load_scenario,
    recorded_spec,
    recorded_steps,
)
from klamm.lab.recordings.rows import Json, StepRecord
from klamm.lab.run.runner import ScenarioRunner
from klamm.tools.command_result import CommandResult
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.world.simulated.world import SimulatedWorld

_DATA = Path(__file__).parent / "data" / "scenarios"
SCENARIOS = tuple(sorted(path.stem for path in _DATA.glob("*.json")))


def read_scenario(name: str) -> Json:
    """A recorded scenario."""
    return load_scenario(_DATA / f"{name}.json")


Tools = Callable[[str, Sequence[str], ScenarioDriver], CommandResult]
"""Runs a tool, by its name on klamm's command line, on a scenario's cluster."""


def run_recorded(
    scenario: Json, driver: ScenarioDriver, tools: Tools | None = None
) -> list[StepRecord]:
    """Run the steps of a scenario, and record what klamm does in each.

    ``tools`` runs the tools, instead of klamm's own.
    """
    recorder, runner = ScenarioRecorder(driver), ScenarioRunner(driver)
    if tools is not None:
        runner.target.tools = tools
    return [recorder.record(runner.run_step(step)) for step in recorded_steps(scenario)]


def simulated_differences(name: str, quirks: Quirks, seed: int = 0) -> list[str]:
    """How klamm in the simulated world differs from Kafka, a line each."""
    scenario = read_scenario(name)
    world = SimulatedWorld(recorded_spec(scenario, quirks, seed))
    records = run_recorded(scenario, SimulatedDriver(world))
    return [*world.errors, *compare_scenario(scenario, records)]


def real_differences(name: str, quirks: Quirks, connect_string: str) -> list[str]:
    """How klamm on a real ZooKeeper differs from Kafka, a line each."""
    scenario = read_scenario(name)
    journal = MemoryJournal()
    with RealCluster(recorded_spec(scenario, quirks), connect_string, journal) as cluster:
        records = run_recorded(scenario, RealDriver(cluster, journal))
    return compare_scenario(scenario, records)
