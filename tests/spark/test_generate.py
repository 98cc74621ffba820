"""What was planted is found, with its places, and nothing else, in every format that can hold it;
codes that were made without Spark are Spark's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as replace_
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import ReplicaAssignment
from klamm.replay.diff import compare, side_of
from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, rows
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.generate.generate import TRUTH, Truth, generate
from klamm.replay.generate.options import (
    CANNOT_HOLD,
    Format,
    HistoryOptions,
    Planted,
    parse_planted,
)
from klamm.replay.generate.recording import FLAPS
from klamm.replay.ingest import make_table
from klamm.replay.questions.columns import OFFLINE, judged, kind_code
from klamm.replay.questions.lives import lives, offline_changes, offline_intervals, offline_timeline
from klamm.replay.run import Answers, answering
from klamm.replay.sources import SourceOptions
from tests.spark.invariants import check_invariants

OPTIONS = HistoryOptions(partitions=30, events=3_000, failure_rate=0.0, seed=13)
COUNTS = {kind: 1 + n % 3 for n, kind in enumerate(Planted)}
TWO_GROUPS = HistoryOptions(
    partitions=52,
    events=3_900,
    failure_rate=0.3,
    seed=4,
    brokers=13,
    partitions_per_topic=4,
    restarts=1,
)
"""Twelve of its brokers are two copies of six; the last one has no replicas."""
ONE_OF_EACH = replace(TWO_GROUPS, planted=dict.fromkeys(Planted, 1))
SOUND = replace(TWO_GROUPS, events=2_400)
Row = dict[str, Any]


class Made:
    """A history in one format, its table and all answers."""

    def __init__(self, engine: Engine, folder: Path, written_as: Format, stack: ExitStack) -> None:
        cannot = CANNOT_HOLD[written_as]
        planted = {kind: count for kind, count in COUNTS.items() if kind not in cannot}
        self.logs = folder / "logs"
        self.truth: Truth = generate(replace(OPTIONS, planted=planted), written_as, self.logs)
        table = self.logs
        if written_as is not Format.PARQUET:
            table = folder / "table"
            options = SourceOptions(timezone="UTC")
            make_table(engine, [self.logs], table, options=options)
        self.table: EventTable = open_table(engine, table)
        self.answers: Answers = stack.enter_context(answering(self.table))

    def planted(self, kind: Planted) -> list[Row]:
        return [one for one in self.truth.anomalies if one["kind"] == kind]

    def places(self, kind: Planted) -> set[tuple[str, int]]:
        """Of the first row of each anomaly."""
        return {_place(one["places"][0]) for one in self.planted(kind)}

    def rows(self, name: str) -> tuple[Row, ...]:
        listing = self.answers.listings[name]
        assert listing.is_whole
        return listing.rows

    def found(self, name: str, prefix: str = "") -> set[tuple[str, int]]:
        """The places of an answer's rows."""
        return {(Path(row[f"{prefix}file"]).name, row[f"{prefix}line"]) for row in self.rows(name)}


def _place(place: Row) -> tuple[str, int]:
    return Path(place["file"]).name, place["line"]


def _illegal(made: Made) -> None:
    assert made.found("illegal") == made.places(Planted.ILLEGAL)


def _gap(made: Made) -> None:
    if made.truth.written_as == Format.ZOOKEEPER:
        lost = f"SELECT * FROM {made.table.damaged} WHERE problem = 'lost transactions'"
        problems = rows(made.table.engine, lost)
        found = {(Path(row["file"]).name, row["line"]) for row in problems}
        assert made.answers.violations["lost_transactions"] == len(problems)
        # ZooKeeper's numbers miss what is damaged too.
        assert len(found) == len(problems) >= COUNTS[Planted.GAP]
        return
    assert made.found("gaps", "before_") == made.places(Planted.GAP)


def _duplicate(made: Made) -> None:
    places = {(file, line - 1) for file, line in made.places(Planted.DUPLICATE)}
    assert made.found("duplicates") == places
    assert {row["copies"] for row in made.rows("duplicates")} == {2}


def _unclean(made: Made) -> None:
    assert made.found("unclean") == made.places(Planted.UNCLEAN)


def _two_controllers(made: Made) -> None:
    planted = {one["epoch"] for one in made.planted(Planted.TWO_CONTROLLERS)}
    assert {row["epoch"] for row in made.rows("shared_epochs")} == planted


def _late_write(made: Made) -> None:
    assert made.found("late_writes") == made.places(Planted.LATE_WRITE)


def _leaderless(made: Made) -> None:
    def key(row: Row, begin: str) -> tuple[Any, ...]:
        return row["topic"], row["partition"], row[begin], row["end_ms"]

    planted = {key(one, "begin_ms") for one in made.planted(Planted.LEADERLESS)}
    # An unclean election passes through OfflinePartition in no time.
    found = [row for row in made.rows("leaderless_intervals") if row["took_ms"] != 0]
    assert {key(row, "start_ms") for row in found} == planted


def _stuck(made: Made) -> None:
    planted = {one["reassignment"] for one in made.planted(Planted.STUCK)}
    found = made.answers.tables["reassignments"]()
    still_open = f"SELECT reassignment FROM ({found}) WHERE status = 'open'"
    names = rows(made.table.engine, made.table.in_words(still_open))
    assert sorted(row["reassignment"] for row in names) == sorted(planted)


def _flapping(made: Made) -> None:
    names = ("topic", "partition", "replica", "shrinks", "expands", "start_ms", "end_ms")
    key, times = names[:3], ("begin_ms", "end_ms")
    planted = {
        (*(one[name] for name in key), FLAPS, FLAPS, *(one[name] for name in times))
        for one in made.planted(Planted.FLAPPING)
    }
    assert {tuple(row[name] for name in names) for row in made.rows("flapping")} == planted


def _damaged(made: Made) -> None:
    damaged = f"SELECT * FROM {made.table.damaged} WHERE problem <> 'lost transactions'"
    found = {(Path(row["file"]).name, row["line"]) for row in rows(made.table.engine, damaged)}
    assert found == made.places(Planted.DAMAGED)


CHECKS: dict[Planted, Callable[[Made], None]] = {
    Planted.ILLEGAL: _illegal,
    Planted.GAP: _gap,
    Planted.DUPLICATE: _duplicate,
    Planted.UNCLEAN: _unclean,
    Planted.TWO_CONTROLLERS: _two_controllers,
    Planted.LATE_WRITE: _late_write,
    Planted.LEADERLESS: _leaderless,
    Planted.STUCK: _stuck,
    Planted.FLAPPING: _flapping,
    Planted.DAMAGED: _damaged,
}
LISTED = {
    Planted.ILLEGAL: "illegal",
    Planted.DUPLICATE: "repeated",
    Planted.UNCLEAN: "unclean",
    Planted.TWO_CONTROLLERS: "shared_epochs",
    Planted.LATE_WRITE: "late_writes",
}
"""The counts of violations that say how many there are."""


@pytest.fixture(scope="module", params=list(Format))
def made(
    request: pytest.FixtureRequest, duckdb: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("made")
    with ExitStack() as stack:
        history = Made(duckdb, folder, request.param, stack)
        check_invariants(history.table, history.answers)
        yield history


@pytest.mark.parametrize("kind", list(Planted))
def test_what_was_planted_is_found_where_it_is_and_nothing_else(made: Made, kind: Planted) -> None:
    if kind in made.truth.cannot_hold:
        assert made.truth.counts[kind] == 0
        if kind in LISTED:
            assert made.answers.counts[LISTED[kind]] == 0
        return
    assert made.truth.counts[kind] == COUNTS[kind]
    CHECKS[kind](made)


class Histories:
    """Histories and their tables: each is made once, although several tests compare it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._made: dict[str, tuple[Path, EventTable]] = {}

    def logs(self, options: HistoryOptions, written_as: Format) -> Path:
        return self._get(options, written_as)[0]

    def table(self, options: HistoryOptions, written_as: Format) -> EventTable:
        return self._get(options, written_as)[1]

    def _get(self, options: HistoryOptions, written_as: Format) -> tuple[Path, EventTable]:
        key = f"{options} {written_as}"
        if key not in self._made:
            logs = table = self._folder / f"{len(self._made)}"
            generate(options, written_as, logs)
            if written_as is not Format.PARQUET:
                table = self._folder / f"{logs.name}-table"
                make_table(self._engine, [logs], table, options=SourceOptions(timezone="UTC"))
            self._made[key] = logs, open_table(self._engine, table)
        return self._made[key]


@pytest.fixture(scope="module")
def histories(duckdb: Engine, tmp_path_factory: pytest.TempPathFactory) -> Histories:
    return Histories(duckdb, tmp_path_factory.mktemp("histories"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written_as", "planted", "options"),
    [
        (
            Format.JOURNAL,
            "illegal=2,unclean=1,flapping=2",
            HistoryOptions(7, 3_280, seed=358501, brokers=40, partitions_per_topic=1, restarts=5),
        ),
        (
            Format.CONTROLLER_LOG,
            "two-controllers=1,stuck=2,damaged=1",
            HistoryOptions(50, 4_000, seed=918019, brokers=5, skew=1, restarts=1),
        ),
        (
            Format.ZOOKEEPER,
            "two-controllers=5,leaderless=2",
            HistoryOptions(20, 2_000, 0, seed=384957, brokers=40),
        ),
        (Format.PARQUET, "", HistoryOptions(7, 3_000, 0, restarts=3)),
    ],
)
def test_only_stuck_reassignments_are_unfinished_at_the_end(
    written_as: Format, planted: str, options: HistoryOptions, histories: Histories
) -> None:
    options = replace(options, planted=parse_planted(planted))
    with answering(histories.table(options, written_as)) as answers:
        unfinished = answers.counts["open_reassignments"]
        assert unfinished == options.planted.get(Planted.STUCK, 0)


@pytest.mark.parametrize("options", [ONE_OF_EACH, SOUND], ids=["with anomalies", "sound"])
def test_a_table_is_that_of_the_journal(
    options: HistoryOptions, duckdb: Engine, histories: Histories
) -> None:
    journal, table = (histories.table(options, one) for one in (Format.JOURNAL, Format.PARQUET))
    for relation, condition in (("events", ""), ("damaged", ""), ("names", "domain <> 'file'")):
        read, written = (
            sorted(map(repr, rows(duckdb, _without_file(getattr(one, relation), condition))))
            for one in (journal, table)
        )
        assert written == read, relation
    read_from, written_from = (one.manifest.sources for one in (journal, table))
    assert [replace_(one, files=[], read_s=0.0) for one in read_from] == written_from
    truths = [
        msgspec.json.decode((histories.logs(options, one) / TRUTH).read_bytes())
        for one in (Format.JOURNAL, Format.PARQUET)
    ]
    assert truths[0] | {"written_as": "parquet"} == truths[1]


def _without_file(relation: str, condition: str) -> str:
    columns = "*" if condition else "* EXCLUDE (file)"
    return f"SELECT {columns} FROM {relation}" + (f" WHERE {condition}" if condition else "")


@pytest.mark.parametrize("written_as", [Format.STATE_CHANGE_LOG, Format.ZOOKEEPER])
def test_other_logs_end_as_the_journal_ends(
    written_as: Format, duckdb: Engine, histories: Histories
) -> None:
    planted = {Planted.UNCLEAN: 2, Planted.LEADERLESS: 2, Planted.TWO_CONTROLLERS: 1}
    options = replace(TWO_GROUPS, planted=planted)
    a = side_of(histories.table(options, Format.JOURNAL), "A")
    b = side_of(histories.table(options, written_as), "B")
    has_replicas = written_as is Format.STATE_CHANGE_LOG
    found = compare(duckdb, a, b, versions=not has_replicas)
    assert (found.total, found.divergence) == (0, None)
    # One topic in ten may be deleted at the end.
    assert found.partitions in (options.partitions, options.partitions - 4)
    assert found.replicas == (3 * found.partitions if has_replicas else None)


_LOGGED: dict[Format, tuple[str, ...]] = {
    Format.STATE_CHANGE_LOG: (
        *(Kind.PARTITION_TRANSITION, Kind.PARTITION_FAILED, Kind.REPLICA_TRANSITION),
        *(Kind.ISR_REMOVED, Kind.LEADER_EPOCH_BUMPED),
    ),
    Format.CONTROLLER_LOG: (
        *(Kind.CONTROLLER_ELECTED, Kind.CONTROLLER_READY, Kind.CONTROLLER_RESIGNED),
        *(Kind.BROKER_ONLINE, Kind.BROKER_OFFLINE, Kind.TOPIC_CREATED),
        *(Kind.ISR_CHANGED, Kind.LEADER_EPOCH_BUMPED, Kind.REASSIGNMENT_PHASE),
    ),
}
"""The kinds of rows that each of Kafka's logs has, of the phases of a reassignment only some."""
_KEY = ("kind", "t_ms", "controller", "epoch", "topic", "partition", "replica", "to_state")
_TOLD = ("leader", "leader_epoch", "isr", "zk_version", "from_state", "reassignment", "election")


@pytest.mark.parametrize("written_as", _LOGGED)
def test_a_log_of_kafka_has_the_rows_of_the_journal(
    written_as: Format, duckdb: Engine, histories: Histories
) -> None:
    columns = ", ".join((*_KEY, *_TOLD, "outcome"))
    journal, logged = (
        [
            row
            for row in rows(duckdb, made.in_words(f"SELECT {columns} FROM {made.events}"))
            if row["kind"] in _LOGGED[written_as]
            and (row["kind"] != Kind.REASSIGNMENT_PHASE or row["to_state"] in ("U1", "B6", "B7"))
        ]
        for made in (histories.table(SOUND, one) for one in (Format.JOURNAL, written_as))
    )
    by_key = {tuple(row[name] for name in _KEY): row for row in journal}
    assert Counter(row["kind"] for row in logged) == Counter(row["kind"] for row in journal)
    for row in logged:
        written = by_key[tuple(row[name] for name in _KEY)]
        told = {name: row[name] for name in _TOLD if row[name] is not None}
        if row["kind"] != Kind.REASSIGNMENT_PHASE:
            assert told == {name: written[name] for name in told}
        elif row["to_state"] == "U1":
            assert row["reassignment"] == written["reassignment"]
        assert row["outcome"] is None or row["outcome"].endswith(written["outcome"])


@pytest.mark.slow
@pytest.mark.parametrize("written_as", list(Format))
def test_the_invariants_hold_over_restarts_failures_and_deletions(
    histories: Histories, written_as: Format
) -> None:
    options = HistoryOptions(20, 4_000, 0.4, seed=4, partitions_per_topic=4, restarts=2)
    opened = histories.table(options, written_as)
    with answering(opened) as answers:
        check_invariants(opened, answers)
        assert answers.violations == {}
        assert len(answers.logs) == 1
        starts = [row["detail"].split()[0] for row in answers.listings["starts"].rows]
    is_journal = written_as in (Format.JOURNAL, Format.PARQUET)
    assert starts == [f"generated-4-{n}" for n in range(3)] * is_journal


@pytest.mark.slow
def test_a_broker_that_dies_with_the_controller_is_offline_for_the_next_one(
    duckdb: Engine, histories: Histories
) -> None:
    options = HistoryOptions(partitions=40, events=8_000, failure_rate=0.5, seed=7)
    events = histories.table(options, Format.PARQUET).events
    states: dict[tuple[int, int], int] = {}
    went = Counter[int]()
    found = Counter[int]()
    of_states = f"SELECT * FROM ({judged(events)}) WHERE is_partition_state ORDER BY place"
    for row in rows(duckdb, of_states):
        key = (row["topic"], row["partition"])
        if row["to_state"] == OFFLINE and states.get(key) != OFFLINE:
            counter = found if row["kind"] == kind_code(Kind.PARTITION_SNAPSHOT) else went
            counter[row["t_ms"] // 60_000] += 1
        states[key] = row["to_state"]
    assert went and found
    intervals = offline_intervals(duckdb.keep(lives(f"({judged(events)})")))
    told = rows(duckdb, offline_timeline(f"({offline_changes(f'({intervals})', 0)})", 0, 60_000))
    found_by_minute = {row["bucket_ms"] // 60_000: row["went_offline"] for row in told}
    assert Counter(found_by_minute) == went + found


@pytest.mark.spark
@pytest.mark.slow
def test_names_have_sparks_hashes(spark: SparkSession) -> None:
    words = ["", "t", "topic-00001", "straße-中", "x" * 31, "y" * 32, "z" * 97]
    words.append(str(ReplicaAssignment((1, 2, 3), (3,), (4,))))
    given = spark.createDataFrame([(word,) for word in words], "word string")
    found = {
        row.word: row.code
        for row in given.select("word", F.xxhash64("word").alias("code")).collect()
    }
    assert found == {word: xxhash64(word) for word in words}
