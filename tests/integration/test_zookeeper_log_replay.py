"""A run on a real ZooKeeper: its journal, and ZooKeeper's own log, say what ZooKeeper holds."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from klamm.admin.topics import TopicAdmin
from klamm.cluster.journal import JournalRow
from klamm.cluster.types import LeaderIsrAndControllerEpoch, TopicPartition
from klamm.lab.checks.agreement import StoredCluster
from klamm.placement.draws import JavaRandom
from klamm.replay.engines import Engine
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.spark.reading import At, Told
from tests.spark.zookeeper_logs import read_events
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

ASSIGNMENT = {n: tuple((n + k) % 4 for k in range(3)) for n in range(8)}
PARTITIONS = [TopicPartition("t", n) for n in ASSIGNMENT]
CHROOT = "/kafka"
Leadership = tuple[int | None, int | None, tuple[int, ...], int | None]


class Run(NamedTuple):
    """What is left of a run: ``files`` of ZooKeeper, what it held at the end, and the journal."""

    files: Path
    stored: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    live_broker_ids: set[int]
    journal: list[JournalRow]
    last_log: Path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two controllers die, ZooKeeper is restarted in between; brokers come back."""
    folder = tmp_path_factory.mktemp("run")
    journal = MemoryJournal()
    spec = ClusterSpec(broker_ids=(0, 1, 2, 3), candidates=(0, 1, 2))
    with ExitStack() as stack:
        server = stack.enter_context(EmbeddedZooKeeper(folder / "server"))
        make_chroot(server)
        connect_string = f"{server.connect_string}{CHROOT}"
        cluster = stack.enter_context(RealCluster(spec, connect_string, journal))
        for broker_id in spec.broker_ids:
            cluster.start(broker_id)
        admin = TopicAdmin(KafkaZkClient(cluster.store), JavaRandom(0))
        admin.create_topic_with_assignment("t", {}, ASSIGNMENT)
        wait_until(lambda: len(read_states(cluster)) == len(ASSIGNMENT) and cluster.is_idle)
        cluster.kill(0)
        wait_until(lambda: is_led_without(cluster, 0), 30)
        server.kill()
        server.start()
        cluster.start(0)
        wait_until(lambda: are_all_in_sync(cluster), 30)
        active = cluster.active_controller
        assert active is not None
        cluster.kill(active)
        wait_until(lambda: is_led_without(cluster, active), 30)
        stored = StoredCluster.read(cluster.store)
        shutil.copytree(server.data_dir / "version-2", folder / "version-2")
        rows = list(journal.rows)
    logs = sorted((folder / "version-2").glob("log.*"), key=lambda log: int(log.suffix[1:], 16))
    assert len(logs) > 1
    return Run(folder / "version-2", stored.states, set(stored.broker_epochs), rows, logs[-1])


def make_chroot(server: EmbeddedZooKeeper) -> None:
    client = KazooClient(hosts=server.connect_string)
    client.start()
    client.create(CHROOT)
    client.stop()
    client.close()


def read_states(cluster: RealCluster) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
    return StoredCluster.read(cluster.store).states


def is_led_without(cluster: RealCluster, broker_id: int) -> bool:
    """True when a controller other than that broker has taken it out of every ISR."""
    states = read_states(cluster).values()
    return cluster.active_controller not in (None, broker_id) and all(
        broker_id not in at.leader_and_isr.isr and at.leader_and_isr.leader >= 0 for at in states
    )


def are_all_in_sync(cluster: RealCluster) -> bool:
    return all(len(at.leader_and_isr.isr) == 3 for at in read_states(cluster).values())


@pytest.fixture(scope="module")
def told(duckdb: Engine, run: Run) -> Told:
    return read_events(duckdb, run.files)


def stored_leaderships(run: Run) -> dict[TopicPartition, Leadership]:
    found = {tp: at.leader_and_isr for tp, at in run.stored.items()}
    assert set(found) == set(PARTITIONS)
    return {tp: (at.leader, at.leader_epoch, at.isr, at.zk_version) for tp, at in found.items()}


def last_leaderships(rows: list[At]) -> dict[TopicPartition, Leadership]:
    return {
        TopicPartition(row.topic, row.partition): (
            row.leader,
            row.leader_epoch,
            tuple(row.isr),
            row.zk_version,
        )
        for row in rows
        if row.kind == "leadership_written"
    }


def test_zookeepers_log_says_what_it_holds(run: Run, told: Told) -> None:
    assert told.damaged == []
    assert {row.run for row in told.events} == {CHROOT}
    assert last_leaderships(told.events) == stored_leaderships(run)
    epochs = {
        TopicPartition(row.topic, row.partition): row.epoch
        for row in told.of(CHROOT, "leadership_written")
    }
    assert epochs == {tp: at.controller_epoch for tp, at in run.stored.items()}


def test_the_journal_says_the_same(run: Run) -> None:
    found: dict[TopicPartition, Leadership] = {}
    for row in run.journal:
        if row.leader is not None and row.zk_version is not None and row.outcome is None:
            assert row.topic is not None
            assert row.isr is not None
            tp = TopicPartition(row.topic, row.partition)
            found[tp] = (row.leader, row.leader_epoch, row.isr, row.zk_version)
    assert found == stored_leaderships(run)


def test_journal_and_log_agree_on_every_version(run: Run, told: Told) -> None:
    by_journal = {
        (row.topic, row.partition, row.zk_version): (row.leader, row.leader_epoch, row.isr)
        for row in run.journal
        if row.leader is not None and row.zk_version is not None and row.outcome is None
    }
    by_log = {
        (row.topic, row.partition, row.zk_version): (row.leader, row.leader_epoch, tuple(row.isr))
        for row in told.of(CHROOT, "leadership_written")
    }
    # A controller journals the leaderships that it finds, and so not those which it never saw.
    assert by_journal.items() <= by_log.items()
    assert len(by_journal) > 3 * len(ASSIGNMENT)


def test_both_tell_of_the_same_controllers_and_brokers(run: Run, told: Told) -> None:
    elected = [(row.controller, row.epoch) for row in told.of(CHROOT, "controller_elected")]
    assert elected == [
        (row.controller, row.epoch) for row in run.journal if row.kind == "controller_elected"
    ]
    assert len(elected) == 3
    live: set[int] = set()
    for row in told.of(CHROOT, "broker_online", "broker_offline"):
        (live.add if row.kind == "broker_online" else live.remove)(row.replica)
    assert live == run.live_broker_ids


def test_a_snapshot_is_a_start_where_older_logs_are_gone(
    duckdb: Engine, run: Run, told: Told
) -> None:
    snapshots = list(run.files.glob("snapshot.*"))
    rest = read_events(duckdb, run.last_log, *snapshots)
    assert rest.damaged == []
    assert last_leaderships(rest.events) == stored_leaderships(run)

    # The last write of each znode before the log is the snapshot's, with its own zxid and time.
    def written(of: Told) -> set[tuple[object, ...]]:
        return {
            (row.zxid, row.t_ms, row.topic, row.partition, row.leader, tuple(row.isr), row.epoch)
            for row in of.of(CHROOT, "leadership_written")
        }

    assert written(rest) < written(told)
    before = {row.kind for row in rest.events if row.file != str(run.last_log)}
    assert before >= {"leadership_written", "broker_online", "topic_created"}
    (start,) = {row.file for row in rest.events} - {str(run.last_log)}
    alone = read_events(duckdb, Path(start))
    assert alone.damaged == [] and {row.file for row in alone.events} == {start}
    assert written(alone) >= written(rest) - written(read_events(duckdb, run.last_log))
    first, *_ = rest.of(CHROOT, "controller_elected")
    assert first.controller in (1, 2)
