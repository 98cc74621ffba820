"""Which sources a table was made from, and the log levels of Kafka's logs among them.

Read from the ``log_level`` rows; the consequences are declared in replay/answers.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from klamm.replay.answers import Reading
from klamm.replay.event_schema import (
    CONTROLLER_LOG,
    JOURNAL,
    KINDS,
    LOG_LEVEL,
    SOURCES,
    STATE_CHANGE_LOG,
    ZOOKEEPER_LOG,
    code_of,
)


class FileReading(NamedTuple):
    """A Kafka log file and its level, as a Reading."""

    run: str
    file: str
    reading: Reading


_DETAILED: Final = {
    STATE_CHANGE_LOG: (("TRACE",), Reading.STATE_CHANGE_TRACE, Reading.STATE_CHANGE_INFO),
    CONTROLLER_LOG: (("TRACE", "DEBUG"), Reading.CONTROLLER_DEBUG, Reading.CONTROLLER_INFO),
}


def kafka_readings(events: DataFrame, names: DataFrame) -> list[FileReading]:
    """Return every Kafka log of a table, by run and file, with its most detailed level."""
    levels = events.where(F.col("kind") == code_of(LOG_LEVEL, KINDS)).groupBy(
        "source", "run", "file"
    )
    rows = levels.agg(F.collect_set("detail").alias("levels"))
    for column in ("run", "file"):
        words = names.where(F.col("domain") == column).select(
            F.col("code").alias(column), F.col("name").alias(f"{column}_name")
        )
        rows = rows.join(words, column)
    found = []
    for row in rows.orderBy("run_name", "file_name").collect():
        detailed, high, low = _DETAILED[SOURCES[row.source - 1]]
        reading = low if set(detailed).isdisjoint(row.levels) else high
        found.append(FileReading(row.run_name, row.file_name, reading))
    return found


def readings(events: DataFrame, names: DataFrame) -> set[Reading]:
    """Return the sources of a table, with the levels of Kafka's logs."""
    sources = {SOURCES[row.source - 1] for row in events.select("source").distinct().collect()}
    whole = {JOURNAL: Reading.JOURNAL, ZOOKEEPER_LOG: Reading.ZOOKEEPER}
    return {
        *(reading for source, reading in whole.items() if source in sources),
        *(at.reading for at in kafka_readings(events, names)),
    }
