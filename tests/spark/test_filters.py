"""Filters that name what a table does not have: nothing found there would read like good news."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klamm.cluster.errors import UsageError
from klamm.replay.engines import Engine
from klamm.replay.event_schema import SCHEMA_VERSION
from klamm.replay.event_table import EventTable, Manifest, RunCoverage, SourceSummary
from klamm.replay.filters import Filters, check, narrow
from klamm.replay.run import answering
from tests.spark.conftest import rows_of, table_in

RUN = RunCoverage("r", 3, 4, 6, first_ms=10, last_ms=60, missing=0, repeated=0)


@pytest.fixture(scope="module")
def table(duckdb: Engine) -> EventTable:
    """Topic t of broker 1 and topic u of broker 2."""
    of_t = {"topic": "t", "partition": 0, "leader": 1, "isr": [1]}
    of_u = {"topic": "u", "partition": 0, "replica": 2, "zxid": 0x20}
    source = SourceSummary("journal", [], 3, {}, {}, [RUN], 0.0)
    made = table_in(duckdb, of_t, of_u, {"replica": 3})
    return replace(made, manifest=Manifest(SCHEMA_VERSION, [source]))


def test_what_is_there_is_taken(table: EventTable) -> None:
    asked = Filters(topics=("t",), brokers=(1,), from_ms=60, to_ms=10, as_of_epoch=4)
    check(table, asked)
    check(table, Filters(as_of_zxid=0x20, as_of_ms=10, as_of_epoch=6))
    check(table, Filters(as_of_zxid=0x999, as_of_ms=999, from_ms=0))


@pytest.mark.parametrize("column", ["replica", "leader", "prev_leader", "isr", "prev_isr"])
def test_a_partition_is_about_every_broker_that_a_row_names(duckdb: Engine, column: str) -> None:
    of_t = {"topic": "t", "partition": 0, column: [2, 1] if "isr" in column else 1}
    of_u = {"topic": "u", "partition": 0, "leader": 3}
    made = table_in(duckdb, of_t, of_u)
    found = narrow(duckdb, made.events, Filters(brokers=(1,)))
    assert rows_of(duckdb, found, "leader") == [(1 if column == "leader" else -1,)]


@pytest.mark.parametrize(
    ("asked", "words", "hint"),
    [
        ({"topics": ("t", "v")}, "no events of topic v", "exact topic name"),
        (
            {"brokers": (1, 9)},
            "no events about partitions of broker 9",
            "--broker selects the partitions",
        ),
        (
            {"brokers": (3,)},
            "no events about partitions of broker 3",
            "--broker selects the partitions",
        ),
        (
            {"brokers": (2,), "topics": ("t",)},
            "partitions of broker 2",
            "--broker selects the partitions",
        ),
        ({"as_of_ms": 9}, r"up to 1970-01-01 00:00:00\.009", "the first event is at 1970-01-01"),
        ({"to_ms": 8}, r"up to 1970-01-01 00:00:00\.008", "the first event is at 1970-01-01"),
        ({"from_ms": 61}, r"from 1970-01-01 00:00:00\.061 UTC on", "the last event is at 1970"),
        ({"as_of_epoch": 7}, "no events of controller epoch 7", "epochs: 4 to 6"),
        ({"as_of_epoch": 3}, "no events of controller epoch 3", "epochs: 4 to 6"),
        ({"as_of_zxid": 0x1F}, "no events up to zxid 0x1f", "the first event has zxid 0x20"),
    ],
)
def test_what_is_not_there_is_refused(
    table: EventTable, asked: dict[str, Any], words: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        check(table, Filters(**asked))
    assert caught.value.hint is not None and hint in caught.value.hint
    with pytest.raises(UsageError, match=words), answering(table, Filters(**asked)):
        pass


def test_logs_without_zxids_and_epochs_say_so(table: EventTable) -> None:
    run = RunCoverage("r", 3, 0, 0, first_ms=10, last_ms=60, missing=None, repeated=None)
    source = SourceSummary("state-change.log", [], 3, {}, {}, [run], 0.0)
    events = f"(SELECT * FROM {table.events} WHERE zxid IS NULL)"
    told = replace(table, events=events, manifest=Manifest(SCHEMA_VERSION, [source]))
    for asked, hint in (
        (Filters(as_of_zxid=5), "only ZooKeeper's logs have zxids"),
        (Filters(as_of_epoch=1), "these logs have no controller epochs"),
    ):
        with pytest.raises(UsageError) as caught:
            check(told, asked)
        assert caught.value.hint == hint
