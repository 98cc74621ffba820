"""klamm's own state-change.log, of a simulated run, tells what its journal tells."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.replay.engines import Engine
from klamm.replay.sources.kafka_logs import STATE_CHANGES
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.reassignments import reassign
from tests.sim.worlds import create_topic
from tests.spark.reading import At, read_source

pytestmark = pytest.mark.slow


class LoggedWorld(SimulatedWorld):
    """A simulated cluster whose controllers write Kafka's logs."""

    def __init__(self, spec: ClusterSpec, folder: Path, level: str) -> None:
        super().__init__(spec)
        self.logs = KafkaLogs(folder, self.clock, level)

    def start(self, broker_id: int, *, holds_controller: bool = False) -> None:
        super().start(broker_id, holds_controller=holds_controller)
        controller = self.nodes[broker_id].node.controller
        assert controller is not None
        controller.log = self.logs.open(broker_id)


TRANSITIONS = (
    Kind.PARTITION_TRANSITION,
    Kind.PARTITION_FAILED,
    Kind.REPLICA_TRANSITION,
    Kind.REPLICA_FAILED,
    Kind.ISR_REMOVED,
    Kind.LEADER_EPOCH_BUMPED,
)
AT_TRACE = {
    (Kind.PARTITION_TRANSITION, "OfflinePartition"),
    (Kind.PARTITION_TRANSITION, "NonExistentPartition"),
    *((Kind.REPLICA_TRANSITION, state.value) for state in ReplicaState),
}
Facts = tuple[Any, ...]


def facts_of(row: At) -> Facts:
    isr = None if row.isr is None else tuple(row.isr)
    state = (row.from_state, row.to_state, row.leader, row.leader_epoch, isr, row.zk_version)
    place = (row.t_ms, row.controller, row.epoch, row.kind, row.topic, row.partition, row.replica)
    return *place, *state, row.outcome, row.reassignment


def facts_of_journal(row: JournalRow) -> Facts:
    leadership = (row.leader, row.leader_epoch, row.isr, row.zk_version)
    if row.kind == Kind.PARTITION_TRANSITION and row.to != PartitionState.ONLINE.value:
        # Kafka's line names none.
        leadership = (None, None, None, None)
    state = (row.from_, row.to, *leadership)
    place = (row.t_ms, row.controller, row.epoch, row.kind, row.topic, row.partition, row.replica)
    return *place, *state, row.outcome, row.reassignment_id


def eventful_run(folder: Path, level: str) -> list[JournalRow]:
    """A failover, brokers that die, a partition that nobody can lead, a reassignment; a topic whose
    name has dashes and dots."""
    world = LoggedWorld(ClusterSpec(broker_ids=(0, 1, 2, 3)), folder, level)
    with contextlib.closing(world.logs):
        for broker_id in world.spec.broker_ids:
            world.start(broker_id)
            world.run_for(1_000)
        create_topic(world, "a-1.b_c", {0: (0, 1, 2), 1: (3, 1, 0)})
        create_topic(world, "t", {0: (1, 2)})
        create_topic(world, "alone", {0: (3,)})
        world.run_for(3_000)
        reassign(world, {TopicPartition("t", 0): (2, 1, 3)})
        world.run_for(3_000)
        world.kill(3)
        world.run_for(30_000)
        world.kill(0)
        world.run_for(30_000)
        world.start(3)
        world.start(0)
        world.run_for(30_000)
    assert not world.errors
    return world.journal.rows


@pytest.mark.parametrize("level", ["TRACE", "INFO"])
def test_klamms_own_log_shows_what_its_journal_shows(
    duckdb: Engine, tmp_path: Path, level: str
) -> None:
    journal = eventful_run(tmp_path, level)
    expected = [facts_of_journal(row) for row in journal if row.kind in TRANSITIONS]
    if level == "INFO":
        expected = [fact for fact in expected if (fact[3], fact[8]) not in AT_TRACE]
    told = read_source(duckdb, STATE_CHANGES, sorted(tmp_path.rglob("state-change.log")))
    assert told.damaged == []
    found = [facts_of(row) for row in told.events if row.kind in TRANSITIONS]
    assert {fact[3] for fact in expected} >= {Kind.PARTITION_FAILED, Kind.LEADER_EPOCH_BUMPED}
    by_epoch = sorted(expected, key=lambda fact: fact[2])
    assert sorted(found, key=lambda fact: fact[2]) == by_epoch
