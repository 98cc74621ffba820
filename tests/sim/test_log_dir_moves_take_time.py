"""Moves between log directories take disks, and the throttle that reassign-partitions sets."""

from __future__ import annotations

import pytest

from klamm.cluster.configs import (
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
)
from klamm.cluster.types import TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from tests.bandwidth import in_progress
from tests.sim.log_dirs import alter_dirs, described, dir_of
from tests.sim.test_config_changes import alter
from tests.sim.test_copies import DISK, GB, MB, T0, T1, TB, cluster, fill

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
DIRS = "d0,d1,d2"


def with_disks(*assignment: tuple[int, ...], mb_per_s: int = 100, **spec: int) -> SimulatedWorld:
    """Four brokers with three log directories, each of which has a disk of its own."""
    config = {"log.dirs": DIRS, DISK: str(mb_per_s * MB)}
    return cluster(*assignment, config=config, **spec)


def moved_s(world: SimulatedWorld, path: str, *partitions: TopicPartition) -> float:
    """How long it takes from now on until broker 0 has all of these replicas in a directory."""
    began_ms = world.clock.monotonic_ms()
    assert world.run_until(
        lambda: all(dir_of(world, 0, tp) == path for tp in partitions), timeout_ms=1e9
    )
    assert not world.errors
    return (world.clock.monotonic_ms() - began_ms) / 1_000


def test_a_move_takes_as_long_as_its_disks() -> None:
    world = with_disks((0,))
    alter_dirs(world, 0, p0="d1")
    assert moved_s(world, "d1", T0) == pytest.approx(100, abs=1)


def test_throttles_of_replication_do_not_hold_a_move_back() -> None:
    world = with_disks((0, 1))
    alter(world, "brokers", "0", {LEADER_THROTTLED_RATE: "1", FOLLOWER_THROTTLED_RATE: "1"})
    alter_dirs(world, 0, p0="d1")
    world.run_for(50_000)
    throttled = dict.fromkeys((LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS), "*")
    alter(world, "topics", "t", throttled)
    assert moved_s(world, "d1", T0) == pytest.approx(50, abs=1)


def test_a_terabyte_is_moved_in_few_steps() -> None:
    world = with_disks((0,), size_bytes=TB)
    alter_dirs(world, 0, p0="d1")
    before = world.steps_run
    assert moved_s(world, "d1", T0) == pytest.approx(10_000, rel=0.01)
    assert world.steps_run - before < 200


def test_a_throttle_holds_a_move_back_and_lets_it_go() -> None:
    world = with_disks((0,), mb_per_s=1_000)
    alter(world, "brokers", "0", {THROTTLE: str(10 * MB)})
    world.run_for(1_000)
    alter_dirs(world, 0, p0="d1")
    world.run_for(500_000)
    assert dir_of(world, 0, T0) == "d0"
    (future,) = described(world, 0).log_dirs[1].logs.values()
    assert future.is_future and future.size_bytes == pytest.approx(5 * GB, rel=0.01)
    alter(world, "brokers", "0", {})
    assert moved_s(world, "d1", T0) < 10


def test_two_threads_share_a_disk() -> None:
    world = with_disks((0,), (0,))
    alter_dirs(world, 0, p0="d2", p1="d2")
    assert moved_s(world, "d2", T0, T1) == pytest.approx(200, abs=2)


def test_a_move_that_is_called_off_takes_no_disk_any_more() -> None:
    world = with_disks((0,), (0,))
    alter_dirs(world, 0, p0="d2", p1="d2")
    world.run_for(50_000)
    alter_dirs(world, 0, p0="d0")
    assert moved_s(world, "d2", T1) == pytest.approx(75, abs=2)
    assert (dir_of(world, 0, T0), in_progress(world.copying)) == ("d0", [])


def test_what_is_appended_meanwhile_takes_the_disk_too() -> None:
    world = with_disks((0,))
    alter_dirs(world, 0, p0="d1")
    world.run_for(50_000)
    sizes = [log.size_bytes for dir_ in described(world, 0).log_dirs for log in dir_.logs.values()]
    assert sizes == pytest.approx([10 * GB, 5 * GB], rel=0.01)
    fill(world, T0, 10 * GB)
    assert moved_s(world, "d1", T0) == pytest.approx(150, abs=1)


def test_a_broker_that_dies_in_the_middle_goes_on_where_it_was() -> None:
    world = with_disks((0, 1))
    alter_dirs(world, 0, p0="d1")
    world.run_for(50_000)
    world.kill(0)
    world.run_for(20_000)
    assert in_progress(world.copying) == []
    world.start(0)
    assert moved_s(world, "d1", T0) == pytest.approx(50, abs=5)
