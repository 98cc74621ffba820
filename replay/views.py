"""An event table as views with words, for questions in SQL.

Makes views and judges a query's text; asks nothing.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
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
    """Raises UsageError for what is no query: a statement could write."""
    parser = spark._jsparkSession.sessionState().sqlParser()
    try:
        parser.parseQuery(query)
    except (ParseException, Py4JJavaError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "no query")
        raise UsageError(
            f"this is no query: {first.strip()}", hint='"SELECT .. FROM events"'
        ) from error
