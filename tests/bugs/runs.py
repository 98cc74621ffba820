"""Runs the drill of a known bug without the bug and with it. Both runs have the same seed.

As in a hunt, an internal error outside brokers and controllers counts as a failure of the drill."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from typing import Final, NamedTuple

from klamm.cluster.quirks import NO_QUIRKS, Quirks, parse_quirks
from klamm.lab.drills.known_bugs import FIXED, OWN, PRESENT, Fixed, Present
from klamm.lab.drills.library import named_drill
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.lab.run.drill_run import Outcome, Verdict, internal_error, play
from tests.bugs import broker_mutants, identity_mutants, topic_mutants
from tests.bugs.mutants import planted

MUTANTS: Final = (broker_mutants, identity_mutants, topic_mutants)
"""The modules that register the mutants."""


class Verdicts(NamedTuple):
    """The verdicts of a drill without the bug and with it."""

    without: Verdict
    with_bug: Verdict


@cache
def verdicts(bug: Present | Fixed, seed: int = 0) -> Verdicts:
    """Run a bug's drill twice. The verdicts are cached for the tests and the docs."""
    given = () if bug.given is None else (bug.given,)
    without = _run(bug.drill, seed, NO_QUIRKS, given)
    if isinstance(bug, Present):
        return Verdicts(without, _run(bug.drill, seed, parse_quirks([bug.name]), given))
    return Verdicts(without, _run(bug.drill, seed, NO_QUIRKS, (*given, bug.name)))


def _run(name: str, seed: int, quirks: Quirks, mutants: Sequence[str]) -> Verdict:
    drill = named_drill(name)
    with ExitStack() as stack:
        for mutant in mutants:
            stack.enter_context(planted(mutant))
        driver = SimulatedDriver(drill.simulated_world(quirks, seed))
        try:
            *_, last = play(drill, driver)
        except Exception as error:
            failure = internal_error(drill.source, f"{type(error).__name__}: {error}")
            return Verdict(Outcome.UNSAFE, driver.elapsed_ms, (failure,))
    assert isinstance(last, Verdict)
    return last


BUGS: Final = (*PRESENT, *FIXED, *OWN)
