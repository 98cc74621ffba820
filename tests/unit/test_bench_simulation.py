"""The benchmark of simulated clusters, at a small size: every figure is taken and judged."""

from __future__ import annotations

import pytest

from bench.simulation import idle, replica_bytes


def test_an_idle_cluster_is_timed_apart_from_its_setting_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    [goal] = idle(brokers=4, partitions=100, minutes=10)
    assert goal.what == "an idle cluster at 1,000 times real time"
    assert goal.is_met
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "4 brokers, 100 partitions, RF 3, idle"
    assert printed[1].startswith("  set up in ")
    assert printed[2].endswith(" times real time (10 minutes)")


def test_a_replica_takes_at_most_its_bytes() -> None:
    # As many as fill the dictionaries about as well as the benchmark's.
    goals = replica_bytes(325)
    assert [goal.what for goal in goals] == [
        "a replica, empty, in 400 bytes",
        "a replica, a leader with two followers, in 400 bytes",
        "a replica, a follower, in 400 bytes",
    ]
    assert all(goal.is_met for goal in goals)
