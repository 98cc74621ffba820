"""The views of an event table: what may be asked of them, and that clusters are kept apart."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from pyspark.logger import PySparkLogger

from klamm.cluster.errors import UsageError
from klamm.cluster.journal import Kind
from klamm.replay.engines import Engine, QueryResult
from klamm.replay.engines.duckdb_engine import duckdb_engine
from klamm.replay.views import VIEWS, ask, check_first_word, make_views
from tests.spark.conftest import table_in

ONLINE: dict[str, Any] = {
    "kind": str(Kind.PARTITION_TRANSITION),
    "topic": "t",
    "partition": 0,
    "to_state": "OnlinePartition",
    "leader": 1,
    "leader_epoch": 0,
    "isr": [1],
    "zk_version": 0,
}
REPLICA: dict[str, Any] = {
    "kind": str(Kind.REPLICA_TRANSITION),
    "topic": "t",
    "partition": 0,
    "replica": 1,
    "to_state": "OnlineReplica",
}


Asked = Callable[[str], QueryResult]


@pytest.fixture(scope="module")
def asked(engine: Engine) -> Asked:
    """Query the views of two runs; two sources describe the second run."""
    second = {**ONLINE, "run": "s", "leader": 2, "seq": 2}
    other = {**second, "source": "state-change.log", "leader": 3, "seq": 3}
    rows = (ONLINE, REPLICA, second, other, {**REPLICA, "run": "s", "to_state": "OfflineReplica"})
    table = table_in(engine, *rows)
    make_views(table, " ".join(VIEWS))
    return lambda query: ask(engine, query, 100)


def test_each_source_and_run_ends_with_its_own_states(asked: Asked) -> None:
    found = asked("SELECT source, run, topic, partition, leader FROM partitions ORDER BY 5;")
    assert found.rows == [
        ("journal", "r", "t", 0, 1),
        ("journal", "s", "t", 0, 2),
        ("state-change.log", "s", "t", 0, 3),
    ]
    found = asked("SELECT source, run, replica, state FROM replicas ORDER BY run -- by run")
    assert found.rows == [
        ("journal", "r", 1, "OnlineReplica"),
        ("journal", "s", 1, "OfflineReplica"),
    ]


def test_views_tell_their_columns_and_nothing_is_written(engine: Engine, asked: Asked) -> None:
    described = {row[0]: row[1].lower() for row in asked("DESCRIBE events").rows}
    lists = {"duckdb": "integer[]", "spark": "array<int>"}
    assert described["time"] == "timestamp" and described["isr"] == lists[engine.name]
    (time,) = asked("SELECT time FROM events ORDER BY seq LIMIT 1").rows[0]
    assert time == datetime(1970, 1, 1)
    columns = asked("SELECT * FROM replicas").columns
    assert columns == ["source", "run", "topic", "partition", "replica", "state"]
    for words in (
        "DROP VIEW events",
        "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a",
        "SELECT 1; DROP VIEW events",
        "SELECT nothing FROM events",
        "SELECT",
        "",
    ):
        with pytest.raises(UsageError, match="invalid query") as caught:
            asked(words)
        assert caught.value.hint and caught.value.hint.startswith('"DESCRIBE events" lists')
    assert len(asked("SELECT * FROM events").rows) == 5


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("query", ["SELECT nothing", "SELECT 1 // 0"])
def test_spark_does_not_print_the_error_of_a_query(
    spark_engine: Engine, caplog: pytest.LogCaptureFixture, query: str
) -> None:
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    logger.addHandler(caplog.handler)
    try:
        with pytest.raises(UsageError):
            ask(spark_engine, query, 1)
    finally:
        logger.removeHandler(caplog.handler)
    assert not caplog.records and not logger.disabled


@pytest.mark.parametrize("value", ["'x'::INT", "9223372036854775807 + seq", "'x'::DATE"])
def test_a_query_that_cannot_be_computed_is_refused(asked: Asked, value: str) -> None:
    with pytest.raises(UsageError, match="invalid query: "):
        asked(f"SELECT {value} FROM events")


def test_times_with_a_zone_are_in_utc(duckdb: Engine) -> None:
    at = "to_timestamp(1.5) AS at, [{'inner': to_timestamp(0)}] AS nested"
    found = ask(duckdb, f"SELECT {at}, TIMESTAMPTZ '2021-09-01 10:00:00' AS fixed", 1)
    begin = datetime(1970, 1, 1)
    assert found.columns == ["at", "nested", "fixed"]
    assert found.rows == [
        (begin.replace(second=1, microsecond=500_000), [{"inner": begin}], datetime(2021, 9, 1, 10))
    ]


def test_only_views_that_a_query_names_are_made() -> None:
    with duckdb_engine(1, 256) as engine:
        make_views(table_in(engine, ONLINE), "SELECT Events.file FROM EVENTS AS renames")
        assert len(ask(engine, "SELECT * FROM events", 1).rows) == 1
        with pytest.raises(UsageError, match=r"Table with name names does not exist!$") as caught:
            ask(engine, "SELECT * FROM names", 1)
        assert caught.value.hint and "views: events, partitions, replicas" in caught.value.hint


def test_one_row_more_than_the_limit_is_fetched(duckdb: Engine) -> None:
    make_views(table_in(duckdb, *[ONLINE] * 5), "events")
    assert [len(ask(duckdb, "SELECT * FROM events", limit).rows) for limit in (3, 4, 5)] == [
        *(4, 5, 5),
    ]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select 1", None),
        ("  (WITH a AS (SELECT 1) FROM a)", None),
        ("-- a note\n/* and\nmore */ describe events", None),
        ("DROP VIEW events", "a query cannot begin with DROP"),
        ("/* SELECT */ delete from events", "a query cannot begin with DELETE"),
        ("", "the query is empty"),
        (" -- SELECT 1", "invalid query: ' -- SELECT 1' is not one"),
        ("/x/journal.jsonl", "invalid query: '/x/journal.jsonl' is not one"),
    ],
)
def test_the_first_word_of_a_query(query: str, said: str | None) -> None:
    if said is None:
        check_first_word(query)
        return
    with pytest.raises(UsageError, match=said) as refused:
        check_first_word(query)
    assert refused.value.hint is not None and refused.value.hint.startswith("the query comes first")
