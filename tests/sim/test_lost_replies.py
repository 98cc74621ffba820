"""Every request of the controller to ZooKeeper, and every reply, is lost once: nothing comes of it,
not even another leader epoch.
"""

from __future__ import annotations

import pytest

from tests.sim.crash_points import GROUP_SIZES, Case, Record, lose_everywhere
from tests.sim.test_deletion_crash_points import CASES as DELETIONS
from tests.sim.test_election_crash_points import CASES as ELECTIONS
from tests.sim.test_reassignment_crashes import CASES as REASSIGNMENTS

CASES: dict[str, Case] = {**REASSIGNMENTS, **DELETIONS, **ELECTIONS}


@pytest.mark.slow
@pytest.mark.parametrize("before", [True, False], ids=["request", "reply"])
@pytest.mark.parametrize("group_size", GROUP_SIZES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.with_broker])
def test_a_lost_connection_changes_nothing(
    name: str, group_size: int | None, before: bool, record_property: Record
) -> None:
    count = lose_everywhere(CASES[name], group_size, before)
    assert count > 0
    record_property(f"lost connections: {name}", count)
