"""Known bugs of Kafka: each drill passes without the bug and fails with it."""

from __future__ import annotations

import pytest

from klamm.lab.drills.known_bugs import FIXED, MISDIRECTED_ALTER_ISR, OWN, Fixed, Present
from klamm.lab.drills.library import BUGS as DRILLS
from klamm.lab.run.drill_run import Outcome
from tests.bugs.mutants import MUTANTS
from tests.bugs.runs import BUGS, verdicts

FAILURES = (Outcome.FAILED, Outcome.UNSAFE, Outcome.STUCK)
MORE_SEEDS = range(1, 6)
NAMES = [bug.name for bug in BUGS]


@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_the_drill_of_a_bug_passes_without_the_bug_and_fails_with_it(
    bug: Present | Fixed,
) -> None:
    without, with_bug = verdicts(bug)
    assert (without.outcome, without.failures) == (Outcome.PASSED, ())
    assert with_bug.outcome in FAILURES


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=NAMES)
def test_the_drill_of_a_bug_does_not_depend_on_the_seed(bug: Present | Fixed) -> None:
    for seed in MORE_SEEDS:
        without, with_bug = verdicts(bug, seed)
        assert (seed, without.failures) == (seed, ())
        assert (seed, with_bug.outcome in FAILURES) == (seed, True)


def test_every_drill_and_every_mutant_belongs_to_a_bug() -> None:
    assert {bug.drill for bug in BUGS}.issuperset(DRILLS)
    assert {*MUTANTS} == {MISDIRECTED_ALTER_ISR, *(bug.name for bug in (*FIXED, *OWN))}
    assert len(set(NAMES)) == len(NAMES)
