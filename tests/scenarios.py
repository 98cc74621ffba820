"""Recorded scenarios of real Kafka 2.8.2 brokers, and how klamm runs them again.

Each is a JSON file of tests/data/scenarios; runtime/scenarios/recorded.py repeats its steps and
runtime/scenarios/diff.py compares. Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from klamm.admin.command_result import CommandResult
from klamm.cluster.quirks import Quirks
from klamm.runtime.journal import MemoryJournal
from klamm.runtime.real.cluster import RealCluster
from klamm.runtime.scenarios.diff import compare_scenario
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.real_driver import RealDriver
from klamm.runtime.scenarios.recorded import (
    ScenarioRecorder,
    load_scenario,
    recorded_spec,
    recorded_steps,
)
from klamm.runtime.scenarios.rows import Json, StepRecord
from klamm.runtime.scenarios.runner import ScenarioRunner
from klamm.runtime.scenarios.simulated_driver import SimulatedDriver
from klamm.runtime.simulated.world import SimulatedWorld

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
        runner.tools = tools
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
