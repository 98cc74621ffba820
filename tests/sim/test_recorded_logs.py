"""The lines that klamm's controllers log in a scenario, and those that Kafka's logged in it.

Compared are the wordings: lines without their numbers, names and members of collections.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from klamm.cluster.protocols import Clock
from klamm.cluster.quirks import KAFKA_2_8_2
from klamm.controller.state_change_log import StateChangeLog
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.recordings.recorded import recorded_spec
from klamm.world.simulated.world import SimulatedWorld
from tests.scenarios import read_scenario, run_recorded

LOGS = Path(__file__).parents[1] / "data" / "kafka_logs" / "trace"
LINE = re.compile(
    r"\[[^]]*] INFO (\[(?!ControllerEventThread|RequestSendThread|Broker).*?)(?: \([\w.]+\))?"
)


class Lines:
    """A file of a controller's log that is kept in memory."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def open_log(self, broker_id: int, clock: Clock) -> StateChangeLog:
        return StateChangeLog(broker_id, clock, state_change=self, controller=self, is_trace=False)


def wordings(text: str) -> set[str]:
    """The different lines, with # for numbers, and () for the members of a collection."""
    lines = "\n".join(found[1] for found in map(LINE.fullmatch, text.splitlines()) if found)
    for pattern, short in (
        (r"\d+", "#"),
        (r"(Set|Map|List)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", r"\1()"),
        (r"((?:\w+-)?#)(?:,(?:\w+-)?#)+", r"\1"),
    ):
        lines = re.sub(pattern, short, lines)
    return set(lines.splitlines())


@pytest.mark.parametrize("name", ["controller_kill", "delete_one_down", "reassign_move_all"])
def test_the_controllers_log_in_kafkas_words(name: str) -> None:
    recorded = "".join(path.read_text() for path in sorted((LOGS / name).rglob("*.log")))
    scenario, lines = read_scenario(name), Lines()
    world = SimulatedWorld(recorded_spec(scenario, KAFKA_2_8_2), open_log=lines.open_log)
    run_recorded(scenario, SimulatedDriver(world))
    assert wordings(recorded) - wordings(lines.text) == set()
