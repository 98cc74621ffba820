"""Scenarios recorded on real Kafka brokers, run like drills and compared with the recording.

The comparison is in lab/recordings/diff.py.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec

from klamm.cluster.quirks import Quirks
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.recordings.diff import compare_scenario
from klamm.lab.recordings.recorded import (
    ScenarioRecorder,
    load_scenario,
    recorded_spec,
    recorded_steps,
)
from klamm.lab.recordings.rows import Json
from klamm.lab.run.drill_run import Failure, Outcome, Verdict, play_steps
from klamm.lab.run.runner import StepResult
from klamm.world.cluster_spec import ClusterSpec


class Recording(msgspec.Struct, frozen=True):
    """A scenario that was recorded on real Kafka brokers."""

    name: str
    about: str
    scenario: Json
    source: str

    def spec(self, quirks: Quirks, seed: int) -> ClusterSpec:
        """Return the specification of the cluster on which the scenario was recorded."""
        return recorded_spec(self.scenario, quirks, seed)


def is_recording(path: Path) -> bool:
    """Return True if a file is a recording (JSON) and not a drill (YAML)."""
    return path.suffix == ".json"


def read_recording(path: Path) -> Recording:
    """Read the recording in a file. Raises UsageError if the file is not a recording."""
    scenario = load_scenario(path)
    return Recording(path.stem, str(scenario.get("about", "")), scenario, str(path))


def play_recording(recording: Recording, driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Run a recording; yield each finished step, then the verdict.

    The verdict is the result of the comparison with Kafka."""
    recorder = ScenarioRecorder(driver)
    records = []
    for part in play_steps(recorded_steps(recording.scenario), driver):
        if isinstance(part, Verdict):
            yield part
            return
        records.append(recorder.record(part))
        # Whether conditions were met is part of the comparison, so it is not reported for each
        # step.
        yield msgspec.structs.replace(part, checks=())
    failures = tuple(
        Failure(recording.source, "the same as in Kafka 2.8.2", line)
        for line in compare_scenario(recording.scenario, records)
    )
    if failures:
        yield Verdict(Outcome.FAILED, driver.elapsed_ms, failures)
    else:
        yield Verdict(Outcome.PASSED, driver.elapsed_ms, agreement="identical to Kafka 2.8.2")
