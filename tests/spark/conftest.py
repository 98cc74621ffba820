"""Raw events to try things on. The Spark session is that of all tests: tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from klamm.replay.event_schema import EPOCH_SHIFT, RAW_SCHEMA

_DEFAULTS: dict[str, Any] = {
    "source": "journal",
    "run": "r",
    "file": "f",
    "line": 1,
    "t_ms": 0,
    "seq": 1,
    "controller": 0,
    "epoch": 1,
    "kind": "event",
    "partition": -1,
    "replica": -1,
    "event_id": 0,
    "cause_id": 0,
    "has_predecessors": True,
}


@pytest.fixture(scope="module")
def raw_events(spark: SparkSession) -> Callable[..., DataFrame]:
    """Raw events of the fields that are given; place is that of epoch and seq unless given."""

    def make(*rows: dict[str, Any]) -> DataFrame:
        full = [{**_DEFAULTS, **row} for row in rows]
        for row in full:
            row.setdefault("place", row["epoch"] << EPOCH_SHIFT | row["seq"])
        values = [tuple(row.get(name) for name in RAW_SCHEMA.fieldNames()) for row in full]
        return spark.createDataFrame(values, RAW_SCHEMA)

    return make
