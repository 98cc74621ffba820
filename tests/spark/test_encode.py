"""Raw events in whole numbers and back, and what a table says of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.cluster.errors import KlammError, UsageError
from klamm.replay.encode import encode
from klamm.replay.event_files import write_names
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    ELECTIONS,
    KINDS,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    STATE_CODES,
)
from klamm.replay.event_table import Manifest, open_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FULL: dict[str, Any] = {
    "kind": "partition_transition",
    "topic": "orders",
    "partition": 3,
    "from_state": "NewPartition",
    "to_state": "OnlinePartition",
    "since_ms": 5,
    "key_seq": 2,
    "leader": 1,
    "prev_leader": -1,
    "leader_epoch": 4,
    "isr": [1, 2],
    "prev_isr": [],
    "election": ELECTIONS[1],
    "reassignment": "orders-3->1,2",
    "zk_version": 7,
    "zxid": 8,
    "outcome": "why",
    "detail": "what",
}


@pytest.fixture
def stored(spark: SparkSession, tmp_path: Path) -> Callable[[DataFrame], Path]:
    """Store raw events as a table, by hand."""

    def store(raw: DataFrame) -> Path:
        events, names = encode(raw)
        events.write.parquet(str(tmp_path / "events"))
        names.write.parquet(str(tmp_path / "names"))
        spark.createDataFrame([], DAMAGED_SCHEMA).write.parquet(str(tmp_path / "damaged"))
        manifest = msgspec.json.encode(Manifest(SCHEMA_VERSION, []))
        (tmp_path / "manifest.json").write_bytes(manifest)
        return tmp_path

    return store


def test_every_word_has_its_published_code(raw_events: Callable[..., DataFrame]) -> None:
    rows = [
        {"kind": kind, "seq": n, "source": SOURCES[n % len(SOURCES)]}
        for n, kind in enumerate(KINDS)
    ]
    coded = encode(raw_events(*rows)).events.orderBy("seq").collect()
    assert [row.kind for row in coded] == list(range(1, len(KINDS) + 1))
    assert [row.source for row in coded] == [n % len(SOURCES) + 1 for n in range(len(KINDS))]
    words = [*STATE_CODES, "no state", None]
    of_states = [{"from_state": word, "to_state": word, "seq": n} for n, word in enumerate(words)]
    coded = encode(raw_events(*of_states)).events.orderBy("seq").collect()
    assert [row.from_state for row in coded] == [*STATE_CODES.values(), -1, 0]
    assert [row.to_state for row in coded] == [row.from_state for row in coded]


def test_a_table_tells_the_words_again(
    spark: SparkSession,
    raw_events: Callable[..., DataFrame],
    stored: Callable[[DataFrame], Path],
) -> None:
    raw = raw_events(FULL, {"seq": 2})
    table = open_table(spark, stored(raw))
    assert table.events.schema.simpleString() == CODED_SCHEMA.simpleString()
    told = table.in_words(table.events).orderBy("seq").collect()
    expected = raw.orderBy("seq").collect()
    assert [row.asDict() for row in told] == [
        {name: row[name] for name in CODED_SCHEMA.fieldNames()} for row in expected
    ]
    assert told[0].isr == [1, 2] and told[0].prev_isr == [] and told[1].isr is None


def test_a_word_is_named_once_in_each_column(raw_events: Callable[..., DataFrame]) -> None:
    names = encode(raw_events(FULL, FULL, {"topic": "r", "outcome": "r"})).names
    assert sorted((row.domain, row.name) for row in names.collect()) == [
        ("file", "f"),
        ("outcome", "r"),
        ("outcome", "why"),
        ("reassignment", "orders-3->1,2"),
        ("run", "r"),
        ("topic", "orders"),
        ("topic", "r"),
    ]


def test_two_words_of_one_code_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = [("topic", 1, "a"), ("run", 1, "a"), ("topic", 2, "a"), ("topic", 2, "a")]
    parts = tmp_path / "parts"
    spark.createDataFrame(rows, NAMES_SCHEMA).write.parquet(str(parts))
    write_names(spark, parts, tmp_path / "names")
    written = spark.read.parquet(str(tmp_path / "names")).collect()
    assert sorted(map(tuple, written)) == sorted(set(rows))
    spark.createDataFrame([("topic", 1, "b")], NAMES_SCHEMA).write.mode("append").parquet(
        str(parts)
    )
    with pytest.raises(KlammError, match="topic a and topic b have the same hash code"):
        write_names(spark, parts, tmp_path / "others")


def test_what_is_no_whole_table_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not an event table: it has no manifest\.json"):
        open_table(spark, tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema_version":1,')
    with pytest.raises(UsageError, match="is damaged"):
        open_table(spark, tmp_path)
    newer = msgspec.json.encode(Manifest(SCHEMA_VERSION + 1, []))
    (tmp_path / "manifest.json").write_bytes(newer)
    with pytest.raises(UsageError, match=f"schema version {SCHEMA_VERSION + 1}"):
        open_table(spark, tmp_path)
