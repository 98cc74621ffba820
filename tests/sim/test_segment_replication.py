"""Simulated brokers with real files: what a failover cuts, what restarts find, disks that refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sim.replication import IDS, Cluster, replica_views

CONFIG = {
    "log.dirs": "d0,d1",
    "log.segment.bytes": "4000",
    "log.index.size.max.bytes": "1200",
    "log.index.interval.bytes": "400",
    "replica.lag.time.max.ms": "5000",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """t-0 on three brokers, led by 0; their log directories are ``tmp_path``/ID/d0 and d1."""
    cluster = Cluster(segments=tmp_path, config=CONFIG)
    yield cluster
    cluster.close()


def fail_over(cluster: Cluster) -> None:
    """Let the others go on without broker 0, which has written records that nobody else has."""
    world = cluster.world
    for count in (10, 30, 20):
        cluster.produce(0, count)
        world.run_for(500)
    world.transport.isolated = (0,)
    for count in (3, 25, 40):
        cluster.produce(0, count, acks=1)
    world.run_for(100)
    world.kill(0)
    world.run_for(10_000)
    leader = cluster.state().leader
    assert leader in (1, 2)
    for count in (5, 15):
        cluster.produce(leader, count)
        world.run_for(500)
    cluster.heal()


def epochs(cluster: Cluster) -> list[list[tuple[int, int, int]]]:
    """(leader epoch, start, end) of the log of each broker."""
    return [[interval[:3] for interval in view.intervals] for view in replica_views(cluster.world)]


def test_what_only_the_old_leader_has_is_cut(cluster: Cluster) -> None:
    fail_over(cluster)
    (one, *others) = epochs(cluster)
    assert others == [one, one]
    assert one[0] == (0, 0, 60) and one[-1][2] == 80
    logs = [view.intervals for view in replica_views(cluster.world)]
    assert len(logs) == len(IDS)
