"""The simulated world itself: the same seed gives the same run, and a snapshot goes on alike."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.world.cluster_spec import ClusterSpec
from klamm.world.simulated.world import SimulatedWorld
from tests.journal_bytes import journal_bytes
from tests.sim.snapshots import Snapshot, fingerprint, inside_an_event, server_fingerprint
from tests.sim.worlds import create_topic, state_of, three_brokers

ROOT = Path(__file__).parent.parent.parent
RUN = """
from tests.journal_bytes import journal_bytes
from tests.sim.worlds import create_topic, three_brokers
import hashlib
world = three_brokers(seed={seed})
create_topic(world, "t", {{0: (1, 2, 0), 1: (2, 0, 1)}})
world.run_for(3000)
world.kill(1)
world.run_for(10000)
world.start(1)
world.run_for(10000)
print(hashlib.sha256(journal_bytes(world.journal.rows)).hexdigest())
"""


def journal_hash(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(seed=seed)],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_seed_gives_the_same_journal_in_a_fresh_process(seed: int) -> None:
    assert journal_hash(seed, "1") == journal_hash(seed, "2")


def test_another_seed_gives_another_journal() -> None:
    journals = {journal_bytes(three_brokers(seed=seed).journal.rows) for seed in range(5)}
    assert len(journals) > 1


def test_a_restored_world_goes_on_as_the_original_does() -> None:
    world = three_brokers()
    create_topic(world, "t", {0: (1, 2, 0)})
    world.run_for(3_000)
    snapshot = Snapshot(world)
    world.kill(1)
    world.run_for(10_000)
    again = snapshot.restore()
    assert fingerprint(again) != fingerprint(world)
    again.kill(1)
    again.run_for(10_000)
    assert fingerprint(again) == fingerprint(world)
    for each in (world, again):
        each.start(1)
        each.run_for(10_000)
    assert fingerprint(again) == fingerprint(world)
    state = state_of(world, "t", 0)
    assert (state.leader, set(state.isr)) == (2, {0, 1, 2})


def test_a_snapshot_inside_an_event_is_refused() -> None:
    world = SimulatedWorld(ClusterSpec(broker_ids=(0,)))
    world.start(0)
    assert world.run_until(lambda: bool(inside_an_event(world)))
    with pytest.raises(AssertionError, match="in the middle of an event"):
        Snapshot(world)


def test_a_state_inside_an_event_is_reached_by_the_same_number_of_steps() -> None:
    world = three_brokers()
    snapshot = Snapshot(world)
    before = world.steps_run
    create_topic(world, "t", {0: (1, 2, 0)})
    assert world.run_until(lambda: world.steps_run > before + 7 and bool(inside_an_event(world)))
    again = snapshot.restore()
    create_topic(again, "t", {0: (1, 2, 0)})
    assert again.run_until(lambda: again.steps_run == world.steps_run)
    assert inside_an_event(again) == inside_an_event(world)
    assert server_fingerprint(again.server) == server_fingerprint(world.server)


def test_a_broker_whose_session_expires_before_it_is_registered_ends_and_can_be_started() -> None:
    world = three_brokers()
    world.kill(2)
    world.start(2)
    starting = world.nodes[2].node.broker
    assert world.run_until(lambda: bool(inside_an_event(world)))
    world.expire_session(2)
    assert world.run_until(lambda: 2 not in world.nodes)
    assert starting.broker_epoch < 0
    assert world.errors == []
    world.start(2)
    assert world.run_until(lambda: world.nodes[2].node.broker.broker_epoch >= 0)
