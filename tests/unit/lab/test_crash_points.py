"""Which end of a run with a crash of the controller is compared with that of the run without."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.quirks import NO_QUIRKS
from klamm.lab.crash_points import SAME_END, Crashing, PointResult, run_point, run_undisturbed
from klamm.lab.run.drill_run import Failure, Outcome

DRILL = """\
drill: kill
about: A topic is created on the brokers that are left.
steps:
  - kill: {}
    until: {{controller: moved}}
  - run: topics --zookeeper {{zk}} --create --topic t --partitions 3 --replication-factor 1
"""


@pytest.mark.parametrize(
    ("killed", "outcome"),
    [
        pytest.param("controller", Outcome.PASSED, id="another broker is the controller"),
        pytest.param("2", Outcome.UNSAFE, id="the same broker"),
    ],
)
def test_the_ends_are_compared_if_the_steps_do_the_same(killed: str, outcome: Outcome) -> None:
    crashing = Crashing(DRILL.format(killed), "d.yaml", 0, NO_QUIRKS)
    undisturbed = run_undisturbed(crashing)
    assert undisturbed.operations[0].broker_id == 2
    znodes = undisturbed.znodes | {"/x": b"data"}
    same, other = (
        run_point(2, crashing, one)
        for one in (undisturbed, msgspec.structs.replace(undisturbed, znodes=znodes))
    )
    assert same.outcome is Outcome.PASSED
    assert other.outcome is outcome
    failure = Failure("d.yaml", SAME_END, "/x: b'none', expected b'data'")
    assert other == PointResult(2, outcome, None if outcome is Outcome.PASSED else failure)
