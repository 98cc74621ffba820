"""SQL views of an event table, with names instead of codes (`klamm replay sql`).

Creates views and accepts queries only; computes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from klamm.cluster.errors import UsageError
from klamm.replay.event_table import EventTable
from klamm.replay.questions.columns import RUN
from klamm.replay.questions.final_states import final_tables

VIEWS: Final = ("events", "partitions", "replicas", "names", "damaged")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_ABOUT_VIEWS: Final = ("DESCRIBE", "DESC", "SHOW", "EXPLAIN")
"""Read-only statements that Spark's grammar does not call queries."""
_VIEW_NAMES: Final = ", ".join(VIEWS)
_HINT: Final = f'"DESCRIBE events" lists the columns of events; views: {_VIEW_NAMES}'
_first_word = re.compile(r"(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL).match


def make_views(table: EventTable) -> None:
    """Create the views ``VIEWS`` in the Spark session of the table.

    Final states of partitions and replicas are per source and run, since these may be different
    clusters.
    """
    at = F.timestamp_millis("t_ms")
    partitions, replicas = map(table.in_words, final_tables(table.events, *RUN))
    views = {
        "events": table.in_words(table.events).withColumn("at", at),
        "partitions": partitions,
        "replicas": replicas,
        "names": table.names,
        "damaged": table.damaged,
    }
    for name in VIEWS:
        views[name].createOrReplaceTempView(name)


def check_first_word(query: str) -> None:
    """Check that the first word starts a query, before the slow start of Spark. Raises UsageError.

    ``check_query`` does the full check.
    """
    word = _word(query)
    if word not in (*_QUERIES, *_ABOUT_VIEWS):
        said = f"{word} does not start a query" if word else "the query is empty"
        raise UsageError(f"invalid query: {said}", hint=_HINT)


def check_query(spark: SparkSession, query: str) -> None:
    """Check that Spark parses a query and not a statement, which could write. Raises UsageError.

    Needs no view.
    """
    parser = spark._jsparkSession.sessionState().sqlParser()
    with _query_errors():
        if _word(query) in _ABOUT_VIEWS:
            parser.parsePlan(query)
        else:
            parser.parseQuery(query)


def ask(spark: SparkSession, query: str) -> DataFrame:
    """Return the result of a query, not computed yet.

    Raises UsageError like ``check_query``, and for unknown views or columns.
    """
    check_query(spark, query)
    with _query_errors():
        return spark.sql(query)


def _word(query: str) -> str:
    found = _first_word(query)
    return found[1].upper() if found else ""


@contextmanager
def _query_errors() -> Iterator[None]:
    """Raise Spark's errors about a query as UsageError."""
    with _query_logs_disabled():
        try:
            yield
        except PySparkException as error:
            words = " ".join(str(error).split("SQLSTATE")[0].split())
            raise UsageError(f"invalid query: {words}", hint=_HINT) from error


@contextmanager
def _query_logs_disabled() -> Iterator[None]:
    """Disable Spark's report of an invalid query on standard error (JSON); it also raises it."""
    loggers = [
        PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")
    ]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False
