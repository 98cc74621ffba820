"""A new fault, by the steps in CONTRIBUTING.md: an action with its effect, and a row for drills."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cluster.quirks import NO_QUIRKS
from drills import language
from drills.actions import ACTIONS, ActionKind, _on_brokers
from drills.language import parse_drill
from drills.run import Outcome, play
from runtime.scenarios.runner import ScenarioRunner
from runtime.scenarios.simulated_driver import SimulatedDriver
from runtime.scenarios.steps import BrokerAction
from runtime.simulated.world import SimulatedWorld

DRILL = """
drill: stumbles
about: a fault of this test
cluster: {brokers: 3, topics: {t: [[1, 2]]}}
steps:
  - stumble: 1
    until: {brokers: [0, 2]}
  - resume: 1
    until: {isr: {t-0: [1, 2]}}
"""


class Stumble(BrokerAction, frozen=True):
    """Step 1: freeze a broker whose session has just ended."""

    def act_on(self, run: ScenarioRunner, broker_id: int) -> None:
        run.cluster.pause(broker_id)
        assert isinstance(run.cluster, SimulatedWorld)
        run.cluster.expire_session(broker_id)


def test_a_fault_is_an_action_and_a_row_of_the_drills_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = ActionKind(_on_brokers(Stumble), "stumble: 1", "Freeze a broker and end its session.")
    grown: Mapping[str, ActionKind] = {**ACTIONS, "stumble": row}
    monkeypatch.setattr(language, "ACTIONS", grown)
    drill = parse_drill(DRILL, "d.yaml")
    *_, verdict = play(drill, SimulatedDriver(drill.simulated_world(NO_QUIRKS, 0)))
    assert (verdict.outcome, verdict.failures) == (Outcome.PASSED, ())
