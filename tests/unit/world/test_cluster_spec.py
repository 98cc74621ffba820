"""What a cluster is made of: racks, brokers that are added, and the log directories of segments."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import UsageError
from klamm.world.cluster_spec import ClusterSpec, rack_map
from klamm.world.log_stores import check_log_dirs


def test_a_broker_that_is_added_has_its_rack_and_is_no_candidate() -> None:
    spec = ClusterSpec(broker_ids=(1, 2), racks={1: "a"})
    added = spec.with_broker(3, "b")
    assert (added.broker_ids, added.racks) == ((1, 2, 3), {1: "a", 3: "b"})
    assert added.candidates == (1, 2)
    assert spec.with_broker(3, None).racks == {1: "a"}
    assert added.with_broker(4, None).candidates == (1, 2)
    changed = added.with_broker(1, None)
    assert (changed.broker_ids, changed.racks) == ((1, 2, 3), {3: "b"})


def test_racks_are_assigned_in_turn() -> None:
    assert rack_map((5, 6, 7), ["a", "b"]) == {5: "a", 6: "b", 7: "a"}
    assert rack_map((5, 6), []) == {}


@pytest.mark.parametrize("path", ["/d0", "//d0", "./d0", "a/../b", "/..", ".."])
def test_segments_stay_below_the_data_directory(path: str) -> None:
    with pytest.raises(UsageError, match=path):
        check_log_dirs(["d0", path])
    check_log_dirs(["d0", "a/b", "/a/c", "a..b"])
