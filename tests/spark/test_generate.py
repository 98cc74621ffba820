"""What was planted is found, with its places, and nothing else, in every format that can hold it;
codes that were made without Spark are Spark's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench import replay_duckdb
from klamm.cluster.journal import Kind
from klamm.cluster.types import ReplicaAssignment
from klamm.replay.encode import xxhash64
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.generate.generate import Truth, generate
from klamm.replay.generate.options import CANNOT_HOLD, Format, HistoryOptions, Planted
from klamm.replay.generate.planting import FLAPS
from klamm.replay.ingest import make_table
from klamm.replay.questions.availability import is_partition_state
from klamm.replay.questions.columns import OFFLINE, kind_code
from klamm.replay.questions.histories import histories
from klamm.replay.questions.timeline import differences, offline_timeline
from klamm.replay.run import Answers, answer
from klamm.replay.sources import SourceOptions

pytestmark = pytest.mark.spark

OPTIONS = HistoryOptions(partitions=80, events=12_000, failure_rate=0.0, seed=11)
COUNTS = {kind: 1 + n % 3 for n, kind in enumerate(Planted)}
Row = dict[str, Any]


class Made:
    """A history in one format, its table and all answers."""

    def __init__(self, spark: SparkSession, folder: Path, written_as: Format) -> None:
        cannot = CANNOT_HOLD[written_as]
        planted = {kind: count for kind, count in COUNTS.items() if kind not in cannot}
        self.logs = folder / "logs"
        self.truth: Truth = generate(replace(OPTIONS, planted=planted), written_as, self.logs)
        table = self.logs
        if written_as is not Format.PARQUET:
            table = folder / "table"
            options = SourceOptions(timezone="UTC")
            make_table(spark, [self.logs], table, options=options)
        self.table: EventTable = open_table(spark, table)
        self.answers: Answers = answer(self.table)

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
        problems = made.table.damaged.where("problem = 'lost transactions'").collect()
        found = {(Path(row.file).name, row.line) for row in problems}
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
    assert {key(row, "start_ms") for row in made.rows("leaderless_intervals")} == planted


def _stuck(made: Made) -> None:
    planted = {one["reassignment"] for one in made.planted(Planted.STUCK)}
    still_open = made.answers.tables["reassignments"].where("status = 'open'")
    rows = made.table.in_words(still_open.select("reassignment")).collect()
    assert sorted(row.reassignment for row in rows) == sorted(planted)


def _flapping(made: Made) -> None:
    names = ("topic", "partition", "replica", "shrinks", "expands", "start_ms", "end_ms")
    key, times = names[:3], ("begin_ms", "end_ms")
    planted = {
        (*(one[name] for name in key), FLAPS, FLAPS, *(one[name] for name in times))
        for one in made.planted(Planted.FLAPPING)
    }
    assert {tuple(row[name] for name in names) for row in made.rows("flapping")} == planted


def _damaged(made: Made) -> None:
    rows = made.table.damaged.where("problem != 'lost transactions'").collect()
    assert {(Path(row.file).name, row.line) for row in rows} == made.places(Planted.DAMAGED)


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
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Made]:
    folder = tmp_path_factory.mktemp("made")
    history = Made(spark, folder, request.param)
    yield history
    history.answers.close()


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", list(Planted))
def test_what_was_planted_is_found_where_it_is_and_nothing_else(made: Made, kind: Planted) -> None:
    if kind in made.truth.cannot_hold:
        assert made.truth.counts[kind] == 0
        if kind in LISTED:
            assert made.answers.counts[LISTED[kind]] == 0
        return
    assert made.truth.counts[kind] == COUNTS[kind]
    CHECKS[kind](made)


@pytest.mark.slow
def test_who_dies_with_the_controller_is_offline_whoever_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    options = HistoryOptions(partitions=40, events=8_000, failure_rate=0.5, seed=7)
    generate(options, Format.PARQUET, tmp_path / "table")
    events = open_table(spark, tmp_path / "table").events
    states: dict[tuple[int, int], int] = {}
    went = Counter[int]()
    found = Counter[int]()
    for row in events.where(is_partition_state()).orderBy("place").collect():
        key = (row.topic, row.partition)
        if row.to_state == OFFLINE and states.get(key) != OFFLINE:
            counter = found if row.kind == kind_code(Kind.PARTITION_SNAPSHOT) else went
            counter[row.t_ms // 60_000] += 1
        states[key] = row.to_state
    assert went and found
    told = offline_timeline(differences(events, 0, 60_000)).where("went_offline > 0").collect()
    assert {row.bucket_ms // 60_000: row.went_offline for row in told} == went + found
    assert histories(events).agg(F.sum("offlines")).collect()[0][0] == (went + found).total()
    if replay_duckdb.is_there():
        sums = replay_duckdb.ask(tmp_path / "table", 1, tmp_path).sums
        assert sums["offlines"] == (went + found).total()


def test_names_have_sparks_hashes(spark: SparkSession) -> None:
    words = ["", "t", "topic-00001", "straße-中", "x" * 31, "y" * 32, "z" * 97]
    words.append(str(ReplicaAssignment((1, 2, 3), (3,), (4,))))
    rows = spark.createDataFrame([(word,) for word in words], "word string")
    found = {
        row.word: row.code
        for row in rows.select("word", F.xxhash64("word").alias("code")).collect()
    }
    assert found == {word: xxhash64(word) for word in words}
