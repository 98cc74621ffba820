"""Journal rows: numbers, predecessors, causes, and their cost at the size of a big failover."""

from __future__ import annotations

import io
import sys
from collections import Counter
from pathlib import Path

from klamm.cluster.configs import broker_fields
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.jvm.scala_sets import scala_hash_set, scala_set
from klamm.cluster.types import TopicPartition
from klamm.controller.config import ControllerConfig
from klamm.controller.event_manager import EventManager, QueuedEvent
from klamm.controller.events import ControllerEvent, TopicChange
from klamm.controller.recorder import JournalRecorder
from klamm.controller.state_change_log import StateChangeLog
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.partition_transitions import PartitionChange
from klamm.statemachines.replica_state import ReplicaState
from klamm.statemachines.replica_transitions import ReplicaMoves
from klamm.world.clock import VirtualClock
from klamm.world.journal.journal import FileJournal, MemoryJournal, read_journal
from tests.journal_bytes import journal_bytes
from tests.unit.controller.cluster import Cluster

T0 = TopicPartition("t", 0)
S = ReplicaState
ROWS = 40_000
CALLS_OF_A_ROW = 5


class Idle:
    """Processes nothing."""

    def process(self, queued: QueuedEvent) -> None:
        raise AssertionError(queued)

    def preempt(self, event: ControllerEvent) -> None:
        raise AssertionError(event)


def made() -> tuple[JournalRecorder, MemoryJournal, VirtualClock]:
    """A recorder amid event 12, which event 11 caused."""
    clock, journal = VirtualClock(), MemoryJournal()
    values = broker_fields(ControllerConfig.__struct_fields__, {})
    config = ControllerConfig(broker_id=3, run_id="run", cluster_id="c", **values)
    events = EventManager(clock, Idle())
    events.current = QueuedEvent(TopicChange(), 12, 11, 0.0)
    return JournalRecorder(config, clock, journal, events), journal, clock


def test_rows_are_numbered_within_an_epoch_and_within_a_key() -> None:
    recorder, journal, clock = made()
    recorder.begin_epoch(4)
    recorder.replicas_initialized({1: [T0]})
    since_ms = clock.now_ms()
    clock.advance_to(50)
    recorder.replica_changes(1, [ReplicaMoves(S.ONLINE, S.OFFLINE, [T0])])
    clock.advance_to(70)
    recorder.replica_changes(1, [ReplicaMoves(S.OFFLINE, S.ONLINE, [T0])])
    recorder.replica_changes(2, [ReplicaMoves(S.NON_EXISTENT, S.NEW, [T0])])
    first, second, other = journal.rows
    assert first == JournalRow(
        v=1,
        run_id="run",
        cluster_id="c",
        t_ms=since_ms + 50,
        seq=1,
        controller=3,
        epoch=4,
        kind="replica_transition",
        event_id=12,
        cause_id=11,
        topic="t",
        partition=0,
        replica=1,
        from_="OnlineReplica",
        to="OfflineReplica",
        since_ms=since_ms,
        key_seq=1,
    )
    assert (second.seq, second.key_seq, second.since_ms) == (2, 2, since_ms + 50)
    assert (other.seq, other.key_seq, other.since_ms) == (3, 1, 0)
    recorder.begin_epoch(5)
    recorder.replica_changes(1, [ReplicaMoves(S.ONLINE, S.ONLINE, [T0])])
    assert (journal.rows[-1].seq, journal.rows[-1].key_seq) == (1, 1)


def test_rows_outside_an_epoch_are_not_recorded() -> None:
    recorder, journal, _ = made()
    recorder.occurrence(Kind.EVENT, detail="Startup")
    recorder.begin_epoch(1)
    recorder.occurrence(Kind.EVENT, detail="TopicChange")
    recorder.end_epoch()
    recorder.occurrence(Kind.EVENT, detail="Reelect")
    assert [row.detail for row in journal.rows] == ["TopicChange"]


def test_a_partition_row_without_a_write_has_no_predecessor() -> None:
    recorder, journal, _ = made()
    recorder.begin_epoch(1)
    recorder.partition_changes(
        [PartitionChange(T0, PartitionState.NON_EXISTENT, PartitionState.NEW, None, None)]
    )
    (row,) = journal.rows
    assert (row.from_, row.to, row.leader) == ("NonExistentPartition", "NewPartition", None)
    assert row.election is None


def test_every_key_of_a_whole_run_is_without_gaps() -> None:
    cluster = Cluster().start(0, 1, 2, candidates=(0, 1))
    cluster.create_topic("t", (0, 1, 2), (1, 2, 0))
    cluster.stop(2)
    cluster.start(2)
    cluster.stop(0)
    keys: dict[tuple[object, ...], list[int]] = {}
    rows: dict[tuple[int, int], list[int]] = {}
    for row in cluster.journal.rows:
        rows.setdefault((row.controller, row.epoch), []).append(row.seq)
        if row.topic is not None and row.kind != Kind.TOPIC_CREATED:
            key = (row.epoch, row.topic, row.partition, row.replica)
            keys.setdefault(key, []).append(row.key_seq)
    for numbers in (*keys.values(), *rows.values()):
        assert numbers == list(range(1, len(numbers) + 1))
    assert sorted(rows) == [(0, 1), (1, 2)]


def test_the_rows_of_an_event_are_in_the_file_when_it_ends(tmp_path: Path) -> None:
    cluster, path = Cluster(), tmp_path / "journal.jsonl"
    journal = cluster.journal = FileJournal(path)  # type: ignore[assignment]
    cluster.start(0)
    cluster.admin.create("/brokers/topics/t", b'{"version":3,"partitions":{"0":[0]}}')
    assert cluster.active.step()
    assert read_journal(path)[-1].to == "OnlineReplica"
    journal.close()


def test_messages_are_journalled_on_request() -> None:
    cluster = Cluster(journal_messages=True).start(0)
    cluster.forget()
    cluster.create_topic("t", (0,))
    sent, received = cluster.rows(Kind.REQUEST_SENT), cluster.rows(Kind.RESPONSE_RECEIVED)
    assert [(r.replica, r.detail) for r in sent] == [
        (0, "LEADER_AND_ISR for 1"),
        (0, "UPDATE_METADATA for 1"),
    ]
    assert [(r.detail, r.outcome) for r in received] == [
        ("LEADER_AND_ISR", "NONE"),
        ("UPDATE_METADATA", "NONE"),
    ]
    # An answer is caused by the event that sent the request.
    assert {r.cause_id for r in received} == {r.event_id for r in sent}


def test_the_rows_of_a_big_failover_are_cheap() -> None:
    """Counted in function calls, which are the same on every machine."""
    recorder, journal, clock = made()
    text = io.StringIO()
    log = StateChangeLog(3, clock, state_change=text, is_trace=False)
    tps = [TopicPartition(f"topic-{n // 100}", n % 100) for n in range(ROWS // 4)]
    changes = [
        PartitionChange(tp, PartitionState.NEW, PartitionState.NEW, None, None) for tp in tps
    ]
    recorder.begin_epoch(1)
    calls: Counter[str] = Counter()
    sys.setprofile(lambda _frame, event, _arg: calls.update((event,)))
    try:
        recorder.partition_changes(changes)
        for replica_id in range(3):
            recorder.replicas_initialized({replica_id: tps})
            recorder.replica_changes(replica_id, [ReplicaMoves(S.ONLINE, S.ONLINE, tps)])
            if log.is_trace:
                raise AssertionError("no line about a replica is formatted at INFO")
        journal_bytes(journal.rows)
    finally:
        sys.setprofile(None)
    assert len(journal.rows) == ROWS
    assert not text.getvalue()
    assert (calls["call"] + calls["c_call"]) / ROWS < CALLS_OF_A_ROW


def test_info_leaves_out_rows_about_single_replicas() -> None:
    clock, text = VirtualClock(), io.StringIO()
    log = StateChangeLog(1, clock, state_change=text, is_trace=False)
    log.epoch = 2
    log.state_change("INFO", ["one", "two"])
    log.state_change("INFO", [])
    assert not log.is_trace
    assert text.getvalue() == (
        "[2020-09-13 12:26:40,000] INFO [Controller id=1 epoch=2] one (state.change.logger)\n"
        "[2020-09-13 12:26:40,000] INFO [Controller id=1 epoch=2] two (state.change.logger)\n"
    )


def test_sets_print_as_in_scala() -> None:
    assert (scala_set([]), scala_hash_set([])) == ("Set()", "HashSet()")
    assert scala_hash_set([1, 2]) == "HashSet(1, 2)"
    assert scala_set([1, 2]) == "Set(1, 2)"
    assert scala_set(range(5)) == "HashSet(0, 1, 2, 3, 4)"


def test_the_event_after_the_last_reassignment_names_its_cause() -> None:
    """The controller deletes /admin/reassign_partitions and looks at it again."""
    cluster = Cluster().start(0, 1, candidates=(0,))
    cluster.create_topic("t", (0, 1))
    cluster.forget()
    cluster.reassign({T0: (1, 0)})
    events = cluster.rows(Kind.EVENT)
    created, deleted, again = [r for r in events if r.detail == "ZkPartitionReassignment"]
    assert (created.cause_id, deleted.cause_id, again.cause_id) == (0, 0, created.event_id)
