"""bench/steady_client.py and bench/chaos.py: what they judge and draw, without a cluster."""

from __future__ import annotations

import pytest

from bench.chaos import draw_real_drill
from bench.steady_client import ReadRecord, judge
from klamm.lab.language.language import parse_drill

ACKNOWLEDGED = {(0, 0): 0, (0, 1): 2, (1, 0): 1}
READS = {0: [ReadRecord(0, 0, 0), ReadRecord(1, 0, 2)], 1: [ReadRecord(0, 0, 1)]}


def test_records_that_were_all_read_once_are_right() -> None:
    assert judge(3, ACKNOWLEDGED, READS) == []


@pytest.mark.parametrize(
    ("partition", "reads", "finding"),
    [
        pytest.param(0, [], "t-0: unseen: offsets 0 to 0", id="a lost partition"),
        pytest.param(0, [ReadRecord(1, 0, 2)], "t-0: lost-write: offsets 0 to 0", id="a gap"),
        pytest.param(0, READS[0][::-1], "t-0: nonmonotonic-poll", id="out of order"),
        pytest.param(1, [ReadRecord(0, 0, 3)], "t-1: offset 0 has record 3, not 1", id="replaced"),
        pytest.param(
            1, [*READS[1], ReadRecord(1, 0, 1)], "record 1 is stored 2 times", id="a duplicate"
        ),
    ],
)
def test_lost_and_repeated_records_are_found(
    partition: int, reads: list[ReadRecord], finding: str
) -> None:
    found = judge(3, ACKNOWLEDGED, {**READS, partition: reads})
    assert any(one.startswith(finding) for one in found), found


def test_records_in_doubt_may_be_stored() -> None:
    reads = {**READS, 1: [*READS[1], ReadRecord(1, 0, 3)]}
    assert judge(4, ACKNOWLEDGED, reads) == []
    assert "t-1: duplicate: 2 records were read, but at most 1 were sent" in judge(
        3, ACKNOWLEDGED, reads
    )


def test_drills_of_chaos_run_on_a_real_zookeeper() -> None:
    drills = [parse_drill(draw_real_drill(seed), "chaos.yaml") for seed in range(50)]
    assert [drill.simulated_only for drill in drills] == [None] * len(drills)
    assert any(drill.real_only for drill in drills)
