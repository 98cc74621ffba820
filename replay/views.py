"""An event table as views with words, for questions in SQL.

Makes views, and refuses what is no query; computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cluster.errors import UsageError
from replay.diff import final_partitions, final_replicas
from replay.event_table import EventTable

VIEWS = ("events", "partitions", "replicas", "names", "damaged")


def make_views(table: EventTable) -> None:
    """The views ``VIEWS`` in the table's session; their states are words already."""
    at = F.timestamp_millis("t_ms")
    views = {
        "events": table.in_words(table.events).withColumn("at", at),
        "partitions": table.in_words(final_partitions(table.events)),
        "replicas": table.in_words(final_replicas(table.events)),
        "names": table.names,
        "damaged": table.damaged,
    }
    for name in VIEWS:
        views[name].createOrReplaceTempView(name)


def check_query(spark: SparkSession, query: str) -> None:
    """Raises UsageError for what is no query, as a statement could write. Needs no view."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    with _wrong_query_told():
        parser.parseQuery(query)


def ask(spark: SparkSession, query: str) -> DataFrame:
    """The query's result, not computed yet.

    Raises UsageError as ``check_query`` does, and for names that are not there.
    """
    check_query(spark, query)
    with _wrong_query_told():
        return spark.sql(query)


@contextmanager
def _wrong_query_told() -> Iterator[None]:
    with _spark_untold():
        try:
            yield
        except PySparkException as error:
            words = " ".join(str(error).split("SQLSTATE")[0].split())
            raise UsageError(
                f"this cannot be asked: {words}",
                hint=f'"SELECT .. FROM events"; views: {", ".join(VIEWS)}',
            ) from error


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
