"""The next controller crashes too, after any of its operations, its failover's included: the third
one still comes to the same end.
"""

from __future__ import annotations

import pytest

from tests.sim.crash_points import Case, Record, crash_twice_everywhere
from tests.sim.test_deletion_crash_points import CASES as DELETIONS
from tests.sim.test_election_crash_points import CASES as ELECTIONS
from tests.sim.test_reassignment_crashes import CASES as REASSIGNMENTS

# The others leave nobody to become the third controller.
ELECTIONS_OF_ALL = (
    "preferred election by znode",
    "preferred election by request",
    "automatic rebalance",
)
CASES: dict[str, Case] = {
    **REASSIGNMENTS,
    **{name: case for name, case in DELETIONS.items() if not case.with_broker},
    **{name: ELECTIONS[name] for name in ELECTIONS_OF_ALL},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_third_controller_comes_to_the_same_end(name: str, record_property: Record) -> None:
    count = crash_twice_everywhere(CASES[name])
    assert count > 0
    record_property(f"crash points: {name}, again", count)
