"""What a drill showed in each world, and where the worlds differ. It runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from klamm.lab.checks.agreement import StoredCluster
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.run.drill_run import Verdict
from klamm.lab.run.text import OUTCOME_WORDS
from klamm.lab.run.worlds import World

OF_WORLDS: Final = (World.SIMULATION, World.KAFKA_WITH_KLAMM, World.KAFKA)
"""The worlds that are compared."""


class PartitionEnd(NamedTuple):
    """Leader, leader epoch and ISR of a partition at the end of a drill."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]

    def __str__(self) -> str:
        return f"leader {self.leader}, epoch {self.leader_epoch}, ISR {list(self.isr)}"


class WorldResult(msgspec.Struct, frozen=True):
    """Result of a drill in one world.

    ``verdict`` is None if the world cannot run the drill, for the ``reason``. ``states``: the
    partitions in ZooKeeper at the end, by name."""

    verdict: Verdict | None
    reason: str = ""
    states: Mapping[str, PartitionEnd] = {}

    @classmethod
    def of(cls, verdict: Verdict, driver: ScenarioDriver) -> WorldResult:
        """Return the result of a run that has just ended."""
        states = {}
        for tp, state in StoredCluster.read(driver.store).states.items():
            one = state.leader_and_isr
            states[str(tp)] = PartitionEnd(one.leader, one.leader_epoch, tuple(sorted(one.isr)))
        return cls(verdict, states=states)

    def __str__(self) -> str:
        """The outcome with its first failure, in one line."""
        if self.verdict is None:
            return f"cannot run: {self.reason}"
        words = OUTCOME_WORDS[self.verdict.outcome]
        if self.verdict.unobserved:
            words += f" ({self.verdict.unobserved} not observable)"
        if self.verdict.failures:
            first = self.verdict.failures[0]
            words += f": {first.expected}; seen {first.seen}"
        return words

    def values(self) -> dict[str, Any]:
        """Return the result as plain values."""
        if self.verdict is None:
            return {"outcome": None, "reason": self.reason}
        failures = self.verdict.failures
        return {
            "outcome": self.verdict.outcome.name.lower(),
            "not_observable": self.verdict.unobserved,
            "failure": f"{failures[0].expected}; seen {failures[0].seen}" if failures else None,
            "partitions": {tp: str(state) for tp, state in self.states.items()},
        }


def worlds_that_ran(results: Mapping[World, WorldResult]) -> dict[World, WorldResult]:
    """Return the results of the worlds that ran a drill. Two of them can be compared."""
    return {world: one for world, one in results.items() if one.verdict is not None}


def differences(results: Mapping[World, WorldResult]) -> list[str]:
    """Return in which respects the worlds that ran a drill differ, one line each."""
    ran = worlds_that_ran(results)
    found = []
    if len({one.verdict.outcome for one in ran.values() if one.verdict is not None}) > 1:
        found.append("outcome")
    for tp in sorted({tp for one in ran.values() for tp in one.states}):
        states = {world: one.states.get(tp) for world, one in ran.items()}
        if len({*states.values()}) > 1:
            seen = (f"{world}: {state or 'deleted'}" for world, state in states.items())
            found.append(f"{tp}: {'; '.join(seen)}")
    return found


def summary(name: str, results: Mapping[World, WorldResult]) -> Iterator[str]:
    """Describe the results of one drill: a line for each world, then what the comparison found."""
    yield name
    for world, result in results.items():
        yield f"  {world:18}{result}"
    for line in differences(results):
        if line != "outcome":
            yield f"  differs: {line}"
    if len(worlds_that_ran(results)) < 2:
        yield "  not compared: fewer than two worlds ran the drill"
