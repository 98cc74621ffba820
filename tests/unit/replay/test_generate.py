"""Generated histories: the same seed gives the same bytes; what is planted is there, and nothing
else is wrong, by a plain count that shares nothing with the generator."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import JOURNAL_FILE, JournalRow, Kind
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.replay.generate import tiling
from klamm.replay.generate.generate import TRUTH, Truth, generate
from klamm.replay.generate.history import GeneratedHistory
from klamm.replay.generate.kafka_log_writer import parse_assignment
from klamm.replay.generate.layout import DELETED, Layout, topic_name
from klamm.replay.generate.options import (
    CANNOT_HOLD,
    Format,
    HistoryOptions,
    Planted,
    parse_planted,
)
from klamm.replay.generate.rows import in_words
from klamm.replay.generate.tiling import Player, Tile, new_row
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.reassignment import reassignment_id
from klamm.zk.txn_log import Txn, TxnType, read_txn_log

LEGAL = {
    (source.value, target.value)
    for table in (partition_state.PREVIOUS, replica_state.PREVIOUS)
    for target, sources in table.items()
    for source in sources
}
SMALL = HistoryOptions(
    partitions=120,
    events=30_000,
    failure_rate=0.04,
    seed=5,
    planted={kind: 1 + n % 4 for n, kind in enumerate(Planted)},
    partitions_per_topic=30,
)
QUIET = HistoryOptions(60, 4_000, failure_rate=0.0, seed=9, partitions_per_topic=6)
SOUND = HistoryOptions(300, 40_000, 0.2, seed=2, skew=0.5, partitions_per_topic=15)
TWO_GROUPS = HistoryOptions(52, 5_000, 0.3, seed=4, brokers=13, partitions_per_topic=4)


class Line(NamedTuple):
    """A line of a journal, None for one that is no row."""

    number: int
    row: JournalRow | None


Place = tuple[str | None, int, int]


class Count:
    """What a journal shows, line by line."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.found: dict[Planted, set[int]] = defaultdict(set)
        self.wrong: list[str] = []
        self.rows = self.skipped = 0
        self.runs: list[str] = []
        self._state: dict[Place, tuple[str, int]] = {}
        self._key_seq: dict[tuple[int, Place], int] = {}
        self._seq: dict[tuple[int, int], int] = {}
        self._leaderships: dict[Place, tuple[int | None, Any, int | None]] = {}
        self._controllers: dict[int, int] = {}
        self._replicas: dict[TopicPartition, set[int | None]] = defaultdict(set)
        self._epoch = self._t_ms = 0
        self._events: dict[tuple[int, int], int] = {}
        self._first_events: dict[tuple[int, int], int] = {}
        self._leader_epochs: dict[Place, int] = {}
        for line in lines:
            self.rows += 1
            if line.row is None:
                self.found[Planted.DAMAGED].add(line.number)
            else:
                self._take(line.number, line.row)

    def _take(self, number: int, row: JournalRow) -> None:
        if row.t_ms < self._t_ms:
            self.wrong.append(f"{number}: time {row.t_ms} after {self._t_ms}")
        self._t_ms = row.t_ms
        if row.kind == Kind.RUN_START:
            self.runs.append(row.run_id)
            return
        if row.run_id != self.runs[-1]:
            self.wrong.append(f"{number}: run {row.run_id} in {self.runs[-1]}")
        before = self._seq.get((row.epoch, row.controller), 0)
        if row.seq == before:
            self.found[Planted.DUPLICATE].add(number)
            return
        self._seq[row.epoch, row.controller] = row.seq
        self.skipped += row.seq - before - 1
        if row.seq < before:
            self.wrong.append(f"{number}: seq {row.seq} after {before}")
        if self._controllers.setdefault(row.epoch, row.controller) != row.controller:
            self.found[Planted.TWO_CONTROLLERS].add(number)
            return
        is_late = row.epoch < self._epoch
        if is_late:
            self.found[Planted.LATE_WRITE].add(number)
        else:
            self._epoch = row.epoch
            self._take_event(number, row)
        if row.kind == Kind.TOPIC_DELETED:
            for place in [place for place in self._leaderships if place[0] == row.topic]:
                del self._leaderships[place]
                self._leader_epochs.pop(place, None)
        if row.topic is not None and row.partition >= 0:
            self._take_names(number, row, TopicPartition(row.topic, row.partition))
            self._take_key(number, row, (row.topic, row.partition, row.replica), is_late)

    def _take_event(self, number: int, row: JournalRow) -> None:
        """Check that event ids ascend, and that a cause has a lower id of the same controller."""
        by = (row.epoch, row.controller)
        event = self._events.get(by, 0)
        if row.event_id < event or (row.kind == Kind.EVENT and row.event_id == event):
            self.wrong.append(f"{number}: event {row.event_id} after {event}")
        self._events[by] = row.event_id
        first = self._first_events.setdefault(by, row.event_id)
        if row.cause_id and not first <= row.cause_id < row.event_id:
            self.wrong.append(f"{number}: event {row.event_id} because of {row.cause_id}")

    def _take_names(self, number: int, row: JournalRow, tp: TopicPartition) -> None:
        """The partition and its brokers are the same wherever a row names them."""
        replicas = self._replicas[tp]
        replicas.update([row.replica] * (row.replica >= 0))
        if row.reassignment_id is not None:
            assignment = parse_assignment(row.detail)
            replicas.update(assignment.replicas)
            if row.reassignment_id != reassignment_id(tp, assignment):
                self.wrong.append(f"{number}: {row.reassignment_id} with {row.detail}")
        named = {row.leader, row.prev_leader, *(row.isr or ()), *(row.prev_isr or ())}
        is_snapshot = row.kind == Kind.PARTITION_SNAPSHOT
        if not is_snapshot and not named - {None, NO_LEADER} <= replicas:
            self.wrong.append(f"{number}: {named} of {replicas}")
        is_refused = row.kind == Kind.ALTER_ISR_REFUSED
        if row.outcome is not None and not is_refused and f" {tp} " not in row.outcome:
            self.wrong.append(f"{number}: {row.outcome} about {tp}")
        if is_refused and "_" not in str(row.outcome):
            self.wrong.append(f"{number}: {row.outcome} is no error")

    def _take_key(self, number: int, row: JournalRow, key: Place, is_late: bool) -> None:
        key_seq = self._key_seq.get((row.epoch, key), 0)
        self._key_seq[row.epoch, key] = row.key_seq
        if row.key_seq > key_seq + 1:
            self.found[Planted.GAP].add(number)
        elif row.key_seq <= key_seq:
            self.wrong.append(f"{number}: key_seq {row.key_seq} after {key_seq}")
        if row.kind in (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION):
            self._take_transition(number, row, key)
        elif row.kind == Kind.PARTITION_FAILED:
            if self._state.get(key) != (row.from_, row.since_ms):
                self.wrong.append(f"{number}: failed in {row.from_} since {row.since_ms}")
        elif row.kind == Kind.PARTITION_SNAPSHOT:
            self._state[key] = (str(row.to), row.t_ms)
        if row.leader is not None and row.kind != Kind.ALTER_ISR_REFUSED:
            self._take_leadership(number, row, (row.topic, row.partition, -1), is_late)

    def _take_transition(self, number: int, row: JournalRow, key: Place) -> None:
        if (row.from_, row.to) not in LEGAL:
            self.found[Planted.ILLEGAL].add(number)
            return
        state, since_ms = self._state.get(key, (row.from_, 0))
        # A new controller puts replicas into a state without a row, and knows of no deleted topic.
        is_first = (row.replica >= 0 and row.key_seq <= 2) or "NonExistent" in str(row.from_)
        if not is_first and (row.from_, row.since_ms) != (state, since_ms):
            self.wrong.append(f"{number}: from {row.from_} since {row.since_ms}, was {state}")
        self._state[key] = (str(row.to), row.t_ms)

    def _take_leadership(self, number: int, row: JournalRow, key: Place, is_late: bool) -> None:
        before = self._leaderships.get(key)
        if row.leader_epoch is not None:
            last = self._leader_epochs.get(key, row.leader_epoch)
            self._leader_epochs[key] = row.leader_epoch
            is_elected = is_late or (before is not None and before[0] != row.leader)
            if row.leader_epoch - last not in ((1, 2) if is_elected else (0, 1)):
                self.wrong.append(f"{number}: leader epoch {row.leader_epoch} after {last}")
        self._leaderships[key] = (row.leader, row.isr, row.zk_version)
        if is_late or before is None or row.zk_version is None:
            return
        leader, isr, version = before
        if row.prev_leader is not None and version == row.zk_version - 1:
            if (row.prev_leader, row.prev_isr) != (leader, isr):
                self.wrong.append(f"{number}: before it was {leader} {isr}")
        elif row.zk_version not in (version, (version or 0) + 1, (version or 0) + 2):
            self.wrong.append(f"{number}: version {row.zk_version} after {version}")
        outside = row.prev_isr is not None and row.leader not in row.prev_isr
        if row.kind == Kind.PARTITION_TRANSITION and outside:
            self.found[Planted.UNCLEAN].add(number)


def lines(path: Path) -> Iterator[Line]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            yield Line(number, msgspec.json.decode(line, type=JournalRow))
        except msgspec.DecodeError:
            yield Line(number, None)


def planted_lines(truth: Truth, kind: Planted) -> set[int]:
    return {
        place["line"]
        for anomaly in truth.anomalies
        if anomaly["kind"] == kind
        for place in anomaly["places"]
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("generated") / "small"
    return folder, generate(SMALL, Format.JOURNAL, folder)


def test_the_same_seed_gives_the_same_bytes(small: tuple[Path, Truth], tmp_path: Path) -> None:
    folder, _ = small
    generate(SMALL, Format.JOURNAL, tmp_path / "again")
    for name in (JOURNAL_FILE, TRUTH):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_another_seed_gives_other_rows(tmp_path: Path) -> None:
    written = set()
    for seed in (1, 2):
        options = HistoryOptions(60, 2_000, seed=seed)
        generate(options, Format.JOURNAL, tmp_path / str(seed))
        rows = [line.row for line in lines(tmp_path / str(seed) / JOURNAL_FILE)]
        written.add(tuple((row.t_ms, row.kind) for row in rows if row is not None))
    assert len(written) == 2


def test_as_many_are_planted_as_were_asked_for(small: tuple[Path, Truth]) -> None:
    folder, truth = small
    assert truth.counts == {str(kind): count for kind, count in SMALL.planted.items()}
    assert Counter(anomaly["kind"] for anomaly in truth.anomalies) == truth.counts
    assert all(anomaly["places"] for anomaly in truth.anomalies)
    assert msgspec.json.decode((folder / TRUTH).read_bytes(), type=Truth) == truth


def test_a_plain_count_finds_exactly_the_planted_anomalies(small: tuple[Path, Truth]) -> None:
    folder, truth = small
    count = Count(lines(folder / JOURNAL_FILE))
    assert count.rows == SMALL.events == truth.rows
    assert count.wrong == []
    assert count.skipped == SMALL.planted[Planted.GAP]
    for kind in (
        Planted.ILLEGAL,
        Planted.GAP,
        Planted.DUPLICATE,
        Planted.UNCLEAN,
        Planted.TWO_CONTROLLERS,
        Planted.LATE_WRITE,
        Planted.DAMAGED,
    ):
        assert count.found[kind] == planted_lines(truth, kind), kind


def test_an_anomaly_names_the_subject_of_its_rows(small: tuple[Path, Truth]) -> None:
    folder, truth = small
    rows = {line.number: line.row for line in lines(folder / JOURNAL_FILE)}
    names = ("epoch", "topic", "partition", "replica", "key_seq", "controller")
    for anomaly in truth.anomalies:
        if anomaly["kind"] == Planted.DAMAGED:
            continue
        row = rows[anomaly["places"][0]["line"]]
        assert row is not None
        told = {name: anomaly[name] for name in names if name in anomaly}
        if anomaly["kind"] == Planted.FLAPPING:
            assert {told.pop("replica")} == {*(row.prev_isr or ())} - {*(row.isr or ())}
        assert told == {name: getattr(row, name) for name in told}, anomaly
        assert anomaly.get("reassignment") == row.reassignment_id


@pytest.mark.parametrize(
    "options", [QUIET, SOUND, TWO_GROUPS], ids=["quiet", "with failures", "two groups of brokers"]
)
def test_a_history_without_planted_anomalies_has_none(
    options: HistoryOptions, tmp_path: Path
) -> None:
    truth = generate(options, Format.JOURNAL, tmp_path / "sound")
    count = Count(lines(tmp_path / "sound" / JOURNAL_FILE))
    assert (count.wrong, dict(count.found), truth.anomalies) == ([], {}, [])
    assert count.skipped == 0
    assert count.rows == options.events
    kinds = {line.row.kind for line in lines(tmp_path / "sound" / JOURNAL_FILE) if line.row}
    assert (Kind.BROKER_OFFLINE in kinds) == (options.failure_rate > 0)
    assert kinds >= {Kind.ISR_CHANGED, Kind.REASSIGNMENT_PHASE, Kind.TOPIC_DELETED}


def test_a_cluster_is_killed_and_started_again_as_often_as_was_asked_for(tmp_path: Path) -> None:
    options = replace(SOUND, restarts=2)
    generate(options, Format.JOURNAL, tmp_path / "restarted")
    count = Count(lines(tmp_path / "restarted" / JOURNAL_FILE))
    assert (count.wrong, dict(count.found), count.rows) == ([], {}, options.events)
    assert count.runs == ["generated-2-0", "generated-2-1", "generated-2-2"]
    rows = [line.row for line in lines(tmp_path / "restarted" / JOURNAL_FILE) if line.row]
    assert {row.cluster_id for row in rows} == {"generated-2"}
    # The first controller after a restart is alone, and finds leaders dead.
    starts = [n for n, row in enumerate(rows) if row.kind == Kind.RUN_START]
    first, second = starts[1:]
    assert first < options.events / 2 < second
    for start in starts[1:]:
        told = {row.to for row in rows[start : start + 1_000] if row.epoch == rows[start + 1].epoch}
        assert {"OfflinePartition", "OnlinePartition"} <= told


def planted(
    generated: tuple[Path, Truth], kind: Planted
) -> tuple[dict[int, JournalRow | None], list[dict[str, Any]]]:
    """The rows of a journal by line number, and the anomalies of a kind in it."""
    folder, truth = generated
    rows = {line.number: line.row for line in lines(folder / JOURNAL_FILE)}
    return rows, [one for one in truth.anomalies if one["kind"] == kind]


def test_a_partition_has_no_leader_from_its_first_place_to_its_last(
    small: tuple[Path, Truth],
) -> None:
    rows, found = planted(small, Planted.LEADERLESS)
    for anomaly in found:
        places = [rows[place["line"]] for place in anomaly["places"]]
        first, last = places[0], places[-1]
        assert first is not None and last is not None
        assert (first.to, first.t_ms) == ("OfflinePartition", anomaly["begin_ms"])
        assert (last.from_, last.to) == ("OfflinePartition", "OnlinePartition")
        assert (last.since_ms, last.t_ms) == (anomaly["begin_ms"], anomaly["end_ms"])
        assert last.prev_leader == -1


def test_flapping_lasts_from_its_first_shrink_to_its_last_expansion(
    small: tuple[Path, Truth],
) -> None:
    rows, found = planted(small, Planted.FLAPPING)
    assert found
    for anomaly in found:
        times = [row.t_ms for place in anomaly["places"] if (row := rows[place["line"]])]
        assert (len(times), times[0], times[-1]) == (24, anomaly["begin_ms"], anomaly["end_ms"])


@pytest.mark.parametrize("kind", [Planted.UNCLEAN, Planted.LEADERLESS])
def test_a_leader_that_was_lost_comes_back_and_leads_again(
    kind: Planted, small: tuple[Path, Truth]
) -> None:
    folder, truth = small
    rows = [line.row for line in lines(folder / JOURNAL_FILE)]
    for anomaly in (one for one in truth.anomalies if one["kind"] == kind):
        begin = anomaly["places"][0]["line"] - 1
        of_partition = (
            row
            for row in rows[begin:]
            if row and (row.topic, row.partition) == (anomaly["topic"], anomaly["partition"])
        )
        story = list(takewhile(lambda row: row.kind != Kind.PARTITION_SNAPSHOT, of_partition))
        moved = [(row.replica, row.to) for row in story if row.kind == Kind.REPLICA_TRANSITION]
        leader, state = moved[0]
        assert (state, moved[1:]) == ("OfflineReplica", [(leader, "OnlineReplica")])
        led = [row for row in story if row.leader is not None]
        assert {row.leader for row in led} == {leader} | {
            -1 if kind is Planted.LEADERLESS else led[0].leader
        }
        assert (led[-1].leader, len(led[-1].isr or ())) == (leader, 3)


def test_an_outcome_about_a_replica_names_the_copy() -> None:
    layout = Layout(TWO_GROUPS)
    p = int(np.nonzero(layout.group == 1)[0][0])
    recorded, name = layout.recorded_name(int(layout.base[p])), layout.names[p]
    outcome = "Replica [Topic={0.topic},Partition={0.partition},Replica={1}] is offline".format
    row = new_row(Kind.REPLICA_FAILED)
    about = {"topic": recorded.topic, "partition": recorded.partition, "replica": 2}
    rows = [msgspec.structs.replace(row, outcome=outcome(recorded, 2), **about)]
    (found,) = in_words(layout, Player(layout).insert(rows, p))
    assert found.row.outcome == outcome(name, 2 + layout.brokers)


def test_texts_about_a_topic_are_kept_and_count_its_partitions() -> None:
    layout = Layout(TWO_GROUPS)
    created, halted = new_row(Kind.TOPIC_CREATED, 1), new_row(Kind.TOPIC_DELETION_HALTED, 1)
    rows = [
        msgspec.structs.replace(created, topic=DELETED, detail="6 partitions"),
        msgspec.structs.replace(halted, topic=DELETED, outcome="offline replicas"),
    ]
    played = Player(layout).play(Tile(rows, layout))
    told = [found.row for block in played for found in in_words(layout, block)]
    assert [(row.topic, row.detail, row.outcome) for row in told] == [
        ("topic-00009", "4 partitions", None),
        ("topic-00009", None, "offline replicas"),
    ]


def test_every_episode_has_a_failure_however_low_the_rate(tmp_path: Path) -> None:
    options = replace(QUIET, events=8_000, failure_rate=1e-9)
    generate(options, Format.JOURNAL, tmp_path / "rare")
    rows = [line.row for line in lines(tmp_path / "rare" / JOURNAL_FILE) if line.row]
    assert Kind.BROKER_OFFLINE in {row.kind for row in rows}


def test_every_other_illegal_transition_is_of_a_replica(tmp_path: Path) -> None:
    options = replace(QUIET, events=6_000, planted={Planted.ILLEGAL: 4})
    truth = generate(options, Format.JOURNAL, tmp_path / "illegal")
    assert ["replica" in one for one in truth.anomalies] == [False, True, False, True]
    count = Count(lines(tmp_path / "illegal" / JOURNAL_FILE))
    assert count.found == {Planted.ILLEGAL: planted_lines(truth, Planted.ILLEGAL)}


def test_an_epoch_has_at_most_two_controllers(tmp_path: Path) -> None:
    options = replace(QUIET, events=8_000, planted={Planted.TWO_CONTROLLERS: 4})
    truth = generate(options, Format.JOURNAL, tmp_path / "shared")
    assert len({one["epoch"] for one in truth.anomalies}) == 4


def test_a_late_write_is_that_of_the_controller_before(tmp_path: Path) -> None:
    # The second controllers of one epoch need failovers in between.
    planted = {Planted.TWO_CONTROLLERS: 6, Planted.LATE_WRITE: 12}
    options = replace(QUIET, events=7_100, planted=planted)
    truth = generate(options, Format.JOURNAL, tmp_path / "late")
    count = Count(lines(tmp_path / "late" / JOURNAL_FILE))
    assert count.wrong == []
    assert count.found == {kind: planted_lines(truth, kind) for kind in planted}


def test_a_stuck_move_begins_and_never_ends(small: tuple[Path, Truth]) -> None:
    folder, truth = small
    phases = defaultdict(list)
    bumped = set()
    for line in lines(folder / JOURNAL_FILE):
        if line.row is not None and line.row.kind == Kind.REASSIGNMENT_PHASE:
            phases[line.row.reassignment_id].append(line.row.to)
        elif line.row is not None and line.row.kind == Kind.LEADER_EPOCH_BUMPED:
            bumped.add(line.row.reassignment_id)
    stuck = {one["reassignment"] for one in truth.anomalies if one["kind"] == Planted.STUCK}
    assert len(stuck) == SMALL.planted[Planted.STUCK]
    for name, seen in phases.items():
        assert ("B8" in seen) == (name not in stuck), name
        assert name not in stuck or (seen, name in bumped) == (["U1", "U2", "A1", "A2"], True)


@pytest.mark.parametrize("restarts", [0, 1])
def test_reassignments_deletions_and_failures_end_wherever_the_history_ends(restarts: int) -> None:
    for seed in range(4):
        options = HistoryOptions(
            20, 1_300, 0.3, seed=seed, partitions_per_topic=2, restarts=restarts
        )
        unended: set[Any] = set()
        blocks = list(GeneratedHistory(options).blocks())
        assert sum(block.count for block in blocks) == options.events
        for block in blocks:
            for row in (words.row for words in in_words(Layout(options), block)):
                _take_ends(unended, row)
        assert unended == set(), seed


def _take_ends(unended: set[Any], row: JournalRow) -> None:
    """Add what begins with a row, and remove what ends with it."""
    if row.kind == Kind.REASSIGNMENT_PHASE:
        begins, key = row.to != "B8", row.reassignment_id
    elif row.kind in (Kind.TOPIC_DELETION_STARTED, Kind.TOPIC_DELETED):
        begins, key = row.kind == Kind.TOPIC_DELETION_STARTED, row.topic
    elif row.kind in (Kind.BROKER_OFFLINE, Kind.BROKER_ONLINE):
        begins, key = row.kind == Kind.BROKER_OFFLINE, row.replica
    elif row.leader is not None:
        begins, key = row.leader == NO_LEADER, (row.topic, row.partition)
    else:
        return
    (unended.add if begins else unended.discard)(key)


@pytest.mark.parametrize(
    ("written_as", "log"),
    [
        (Format.JOURNAL, JOURNAL_FILE),
        (Format.STATE_CHANGE_LOG, "broker-{controller}/state-change.log"),
        (Format.CONTROLLER_LOG, "broker-{controller}/controller.log"),
    ],
)
def test_a_damaged_line_is_a_line_of_its_time_and_controller(
    written_as: Format, log: str, tmp_path: Path
) -> None:
    options = replace(QUIET, planted={Planted.DAMAGED: 3})
    truth = generate(options, written_as, tmp_path / "logs")
    for anomaly in truth.anomalies:
        (place,) = anomaly["places"]
        assert place["file"] == log.format(**anomaly)
        lines = (tmp_path / "logs" / place["file"]).read_text().splitlines()
        line = lines[place["line"] - 1]
        t_ms, controller = anomaly["begin_ms"], anomaly["controller"]
        time = datetime.fromtimestamp(t_ms // 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        if written_as is Format.JOURNAL:
            assert line.startswith('{"v":1,') and line.endswith(f',"epoch":{anomaly["epoch"]}')
            assert f',"t_ms":{t_ms},' in line and f',"controller":{controller},' in line
        else:
            assert line.startswith(f"[{time},{t_ms % 1_000:03}] ")
            assert f" [Controller id={controller}" in line and not line.endswith(")")
    assert len({anomaly["begin_ms"] for anomaly in truth.anomalies}) == 3


@pytest.mark.parametrize("brokers", [5, 200])
def test_the_fewest_events_are_enough_for_restarts(brokers: int) -> None:
    options = HistoryOptions(1, 1, 1.0, brokers=brokers, restarts=3)
    with pytest.raises(UsageError) as refused:
        options.check(Format.JOURNAL)
    found = re.search("at least ([0-9,]+) events", str(refused.value))
    assert found is not None
    options = replace(options, events=int(found[1].replace(",", "")))
    options.check(Format.JOURNAL)
    assert sum(block.count for block in GeneratedHistory(options).blocks()) == options.events


def test_one_topic_has_the_share_that_was_asked_for(tmp_path: Path) -> None:
    generate(SOUND, Format.JOURNAL, tmp_path / "skewed")
    created = {
        (line.row.topic, line.row.partition)
        for line in lines(tmp_path / "skewed" / JOURNAL_FILE)
        if line.row is not None and line.row.to == "NewPartition"
    }
    sizes = Counter(topic for topic, _ in created)
    assert sizes["topic-00000"] == 150
    assert sizes.total() == 300


def test_a_failed_generation_leaves_nothing_and_overwrites_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    with pytest.raises(UsageError, match="already exists"):
        generate(QUIET, Format.JOURNAL, folder)
    with pytest.raises(UsageError, match="need at least"):
        generate(HistoryOptions(1_000, 10), Format.JOURNAL, tmp_path / "few")
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("written_as", list(Format))
def test_a_format_refuses_values_that_it_cannot_hold(written_as: Format) -> None:
    for kind in Planted:
        options = HistoryOptions(100, 20_000, planted={kind: 1})
        if kind in CANNOT_HOLD[written_as]:
            with pytest.raises(UsageError, match=f"cannot contain these anomalies: {kind}: "):
                options.check(written_as)
        else:
            options.check(written_as)


def test_planted_are_named_with_their_counts() -> None:
    assert parse_planted("illegal=5,late-write=1") == {Planted.ILLEGAL: 5, Planted.LATE_WRITE: 1}
    with pytest.raises(UsageError, match=r"expected KIND=N, not gap, gap=x$"):
        parse_planted("gap,illegal=1,gap=x")
    with pytest.raises(UsageError, match=r"illegal is given twice$"):
        parse_planted("illegal=1,gap=1,illegal=2")


def test_versions_of_generated_znodes_count_their_writes(tmp_path: Path) -> None:
    generate(QUIET, Format.ZOOKEEPER, tmp_path / "logs")
    versions: dict[str, int] = {}
    written: set[str] = set()
    for path in sorted(tmp_path.rglob("log.*"), key=lambda path: int(path.suffix[1:], 16)):
        for txn in read_txn_log(path):
            assert isinstance(txn, Txn)
            for op in txn.ops:
                if op.type is TxnType.CREATE:
                    assert op.path not in versions
                    versions[op.path] = 0
                elif op.type is TxnType.DELETE:
                    del versions[op.path]
                elif op.type is TxnType.SET_DATA:
                    versions[op.path] += 1
                    assert op.version == versions[op.path], op.path
                    written.add(op.path.rpartition("/")[2])
                elif op.type is TxnType.CHECK:
                    assert op.version == versions[op.path] + 1
    assert written >= {"controller_epoch", "state", topic_name(0)}


def test_rows_are_made_in_blocks_of_a_limited_size(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(GeneratedHistory(QUIET).blocks())
    monkeypatch.setattr(tiling, "BLOCK_ROWS", 40)
    blocks = list(GeneratedHistory(QUIET).blocks())
    counts = [block.count for block in blocks]
    assert max(counts) == 40 and len(counts) > len(whole)
    for name in ("t_ms", "seq", "event_id", "p", "leader_epoch"):
        parts, expected = (
            np.concatenate([block.columns[name] for block in some]) for some in (blocks, whole)
        )
        assert np.array_equal(parts, expected), name
