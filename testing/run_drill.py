"""Runs the text of a drill in simulation, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import parse_quirks
from klamm.drills.language import parse_drill
from klamm.drills.library import check_simulated
from klamm.drills.run import Outcome, Verdict, play
from klamm.runtime.scenarios.simulated_driver import SimulatedDriver
from klamm.testing.cluster import ClusterError

__tracebackhide__ = True
_NAME = "drill"


def run_drill(text: str, *, seed: int = 0, quirks: Sequence[str] = ()) -> None:
    """Run a drill, given as the text of a drill file, in a simulated cluster.

    Raises ClusterError if the drill is invalid or does not pass. ``quirks``: known bugs of Kafka
    2.8.2 to reproduce, such as KAFKA-13972.
    """
    options = f"seed={seed}" + (f", quirks={list(quirks)}" if quirks else "")
    replay = f"klamm.run_drill(..., {options})"
    try:
        drill = parse_drill(text, _NAME)
        check_simulated(drill, "run it with klamm drill run --real")
        driver = SimulatedDriver(drill.simulated_world(parse_quirks(quirks), seed))
    except UsageError as error:
        raise ClusterError(error.message, replay=replay, hint=error.hint) from None
    *_, verdict = play(drill, driver)
    assert isinstance(verdict, Verdict), "a drill ends with a verdict"
    if verdict.outcome is not Outcome.PASSED:
        found = [f"{one.place}: {one.expected}: {one.seen}" for one in verdict.failures]
        raise ClusterError("\n".join(found), replay=replay)
