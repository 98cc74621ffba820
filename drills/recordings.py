"""Recorded scenarios of real Kafka brokers, run like drills and compared with the recording.

What is compared, and how, is runtime/scenarios/diff.py's; nothing of it is judged here.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec

from klamm.cluster.quirks import Quirks
from klamm.drills.run import Failure, Outcome, Verdict, play_steps
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.scenarios.diff import compare_scenario
from klamm.runtime.scenarios.driver import ScenarioDriver
from klamm.runtime.scenarios.recorded import Recorder, load_scenario, recorded_spec, recorded_steps
from klamm.runtime.scenarios.rows import Json
from klamm.runtime.scenarios.runner import StepResult


class Recording(msgspec.Struct, frozen=True):
    """One recorded scenario."""

    name: str
    about: str
    scenario: Json
    source: str

    def spec(self, quirks: Quirks, seed: int) -> ClusterSpec:
        """The cluster that it was recorded on."""
        return recorded_spec(self.scenario, quirks, seed)


def is_recording(path: Path) -> bool:
    """True for the file of a recording; a drill is YAML."""
    return path.suffix == ".json"


def read_recording(path: Path) -> Recording:
    """The recording of a file. Raises UsageError."""
    scenario = load_scenario(path)
    return Recording(path.stem, str(scenario.get("about", "")), scenario, str(path))


def compare(recording: Recording, driver: ScenarioDriver) -> Generator[StepResult | Verdict]:
    """Each step as it is over, and at last whether all went as it did with Kafka."""
    recorder = Recorder(driver)
    records = []
    for part in play_steps(recorded_steps(recording.scenario), driver):
        if isinstance(part, Verdict):
            yield part
            return
        records.append(recorder.record(part))
        # Whether a condition came about is compared, like all else.
        yield msgspec.structs.replace(part, checks=())
    failures = tuple(
        Failure(recording.source, "what Kafka 2.8.2 did", line)
        for line in compare_scenario(recording.scenario, records)
    )
    if failures:
        yield Verdict(Outcome.FAILED, driver.elapsed_ms, failures)
    else:
        yield Verdict(Outcome.PASSED, driver.elapsed_ms, agreement="all as Kafka 2.8.2 did it")
