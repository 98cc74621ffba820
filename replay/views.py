"""An event table as views with words, for questions in SQL.

Makes views, and refuses what is no query; computes nothing.
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
"""What changes nothing either, and is no query by Spark's grammar."""
_VIEW_NAMES: Final = ", ".join(VIEWS)
_HINT: Final = f'"DESCRIBE events" for the columns of events; views: {_VIEW_NAMES}'
_first_word = re.compile(r"(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL).match


def make_views(table: EventTable) -> None:
    """The views ``VIEWS`` in the table's session; their states are words already.

    What partitions and replicas end with is told for each source and run: they are not one cluster.
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
    """Raises UsageError for what is plainly no query. Needs no Spark, which takes long to start."""
    word = _word(query)
    if word not in (*_QUERIES, *_ABOUT_VIEWS):
        said = f"{word} is no query" if word else "there is no query in it"
        raise UsageError(f"this cannot be asked: {said}", hint=_HINT)


def check_query(spark: SparkSession, query: str) -> None:
    """Raises UsageError for what is no query, as a statement could write. Needs no view."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    with _wrong_query_told():
        if _word(query) in _ABOUT_VIEWS:
            parser.parsePlan(query)
        else:
            parser.parseQuery(query)


def ask(spark: SparkSession, query: str) -> DataFrame:
    """The query's result, not computed yet.

    Raises UsageError as ``check_query`` does, and for names that are not there.
    """
    check_query(spark, query)
    with _wrong_query_told():
        return spark.sql(query)


def _word(query: str) -> str:
    found = _first_word(query)
    return found[1].upper() if found else ""


@contextmanager
def _wrong_query_told() -> Iterator[None]:
    with _spark_untold():
        try:
            yield
        except PySparkException as error:
            words = " ".join(str(error).split("SQLSTATE")[0].split())
            raise UsageError(f"this cannot be asked: {words}", hint=_HINT) from error


@contextmanager
def _spark_untold() -> Iterator[None]:
    """Spark reports a wrong query on standard error, as JSON, and raises it too."""
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
