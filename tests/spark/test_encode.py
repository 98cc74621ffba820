"""Raw events in whole numbers and back, and what a table says of itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from upath import UPath

from klamm.cluster.errors import KlammError, UsageError
from klamm.replay.encode import Encoder
from klamm.replay.engines import Engine, rows
from klamm.replay.event_files import write_batches, write_names
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    ELECTIONS,
    KINDS,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    STATE_CODES,
)
from klamm.replay.event_table import Manifest, open_table
from tests.spark.conftest import raw_batch, table_in

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


def test_every_word_has_its_published_code() -> None:
    given = [
        {"kind": kind, "seq": n, "source": SOURCES[n % len(SOURCES)]}
        for n, kind in enumerate(KINDS)
    ]
    coded = Encoder().code(raw_batch(*given)).to_pylist()
    assert [row["kind"] for row in coded] == list(range(1, len(KINDS) + 1))
    assert [row["source"] for row in coded] == [n % len(SOURCES) + 1 for n in range(len(KINDS))]
    words = [*STATE_CODES, "no state", None]
    of_states = [{"from_state": word, "to_state": word, "seq": n} for n, word in enumerate(words)]
    coded = Encoder().code(raw_batch(*of_states)).to_pylist()
    assert [row["from_state"] for row in coded] == [*STATE_CODES.values(), -1, 0]
    assert [row["to_state"] for row in coded] == [row["from_state"] for row in coded]


def test_a_table_gives_the_words_back(engine: Engine) -> None:
    given = (FULL, {"seq": 2})
    table = table_in(engine, *given)
    told = rows(
        engine, f"SELECT * FROM ({table.in_words(f'SELECT * FROM {table.events}')}) ORDER BY seq"
    )
    assert list(told[0]) == CODED_SCHEMA.names
    assert told == raw_batch(*given).to_pylist()
    assert told[0]["isr"] == [1, 2] and told[0]["prev_isr"] == [] and told[1]["isr"] is None


def test_a_word_is_named_once_in_each_column() -> None:
    encoder = Encoder()
    encoder.code(raw_batch(FULL, FULL, {"topic": "r", "outcome": "r"}))
    names = encoder.names().to_pylist()
    assert sorted((row["domain"], row["name"]) for row in names if row["name"] is not None) == [
        ("file", "f"),
        ("outcome", "r"),
        ("outcome", "why"),
        ("reassignment", "orders-3->1,2"),
        ("run", "r"),
        ("topic", "orders"),
        ("topic", "r"),
    ]


def test_an_encoder_of_nothing_has_no_names() -> None:
    names = Encoder().names()
    assert names.schema == NAMES_SCHEMA and len(names) == 0
    nothing = Encoder().code(raw_batch(FULL).slice(0, 0))
    assert nothing.schema == CODED_SCHEMA and nothing.num_rows == 0


def test_two_words_of_one_code_are_refused(engine: Engine, tmp_path: Path) -> None:
    given = [("topic", 1, "a"), ("run", 1, "a"), ("topic", 2, "a"), ("topic", 2, "a")]
    parts = tmp_path / "parts"
    parts.mkdir()
    store(parts / "one.parquet", given)
    write_names(engine, parts, tmp_path / "names")
    written = engine.fetch(f"SELECT * FROM {engine.files(tmp_path / 'names', NAMES_SCHEMA)}").rows
    assert sorted(written) == sorted(set(given))
    store(parts / "other.parquet", [("topic", 1, "b")])
    with pytest.raises(KlammError, match="topic a and topic b have the same hash code"):
        write_names(engine, parts, tmp_path / "others")


def store(path: Path, names: list[tuple[str, int, str]]) -> None:
    pq.write_table(pa.table(list(map(list, zip(*names, strict=True))), schema=NAMES_SCHEMA), path)


def test_what_is_no_whole_table_is_refused(duckdb: Engine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not an event table: it has no manifest\.json"):
        open_table(duckdb, tmp_path)
    (tmp_path / "manifest.json").write_text('{"schema_version":1,')
    with pytest.raises(UsageError, match="is damaged"):
        open_table(duckdb, tmp_path)
    newer = msgspec.json.encode(Manifest(SCHEMA_VERSION + 1, []))
    (tmp_path / "manifest.json").write_bytes(newer)
    with pytest.raises(UsageError, match=f"schema version {SCHEMA_VERSION + 1}"):
        open_table(duckdb, tmp_path)


@pytest.mark.parametrize("is_remote", [True, False])
def test_a_file_that_is_not_completed_is_removed(is_remote: bool, tmp_path: Path) -> None:
    folder = cast(Path, UPath(f"memory://{tmp_path.name}")) if is_remote else tmp_path
    schema = pa.schema([("n", pa.int8())])
    whole = pa.RecordBatch.from_pydict({"n": np.zeros(1 << 17, np.int8)}, schema)
    (folder / "x").mkdir(parents=True)

    def broken() -> Iterator[pa.RecordBatch]:
        yield whole
        raise KlammError("no more")

    with pytest.raises(KlammError, match="no more"):
        write_batches(broken(), folder / "x" / "a", schema)
    write_batches([whole], folder / "x" / "b", schema)
    write_batches([], folder / "x" / "c", schema)
    assert [path.name for path in (folder / "x").iterdir()] == ["b"]
    with (folder / "x" / "b").open("rb") as file:
        assert pq.read_table(file).num_rows == 1 << 17
