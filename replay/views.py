"""Runs the user's SQL queries on an event table (`klamm replay sql`).

Views show the table with strings instead of codes. Statements that are not queries are rejected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from klamm.cluster.errors import UsageError
from klamm.replay.engines import Engine, QueryResult
from klamm.replay.event_table import EventTable
from klamm.replay.kafka_order import as_one_log
from klamm.replay.questions.columns import RUN
from klamm.replay.questions.final_states import final_tables

VIEWS: Final = ("events", "partitions", "replicas", "names", "damaged")
_QUERIES: Final = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_ABOUT_VIEWS: Final = ("DESCRIBE", "DESC")
_HINT: Final = f'"DESCRIBE events" lists the columns of events; views: {", ".join(VIEWS)}'
_first_word = re.compile(r"(?:[\s(]|--[^\n]*\n|/\*.*?\*/)*(\w*)", re.DOTALL).match


def make_views(table: EventTable, query: str) -> None:
    """Create those views (``VIEWS``) whose names occur in a query.

    Final states of partitions and replicas are computed separately for each log and run, because
    different runs may be different clusters.
    """
    engine = table.engine
    named = {name for name in VIEWS if re.search(rf"\b{name}\b", query, re.IGNORECASE)}
    events = table.in_words(f"SELECT *, epoch_ms(t_ms) AS time FROM {table.events}")
    queries = {
        "events": events,
        "names": f"SELECT * FROM {table.names}",
        "damaged": f"SELECT * FROM {table.damaged}",
    }
    if named & {"partitions", "replicas"}:
        partitions, replicas = final_tables(engine, as_one_log(table), RUN)
        for name, found in (("partitions", partitions), ("replicas", replicas)):
            queries[name] = table.in_words(f"SELECT * FROM {found}")
    for name in named:
        engine.name_view(engine.view(queries[name]), name)


def check_first_word(query: str) -> None:
    """Raise UsageError if the first word of a text cannot begin an SQL query.

    This quick check needs no query engine; ``ask`` does the full check.
    """
    found = _first_word(query)
    word = found[1].upper() if found else ""
    if word not in (*_QUERIES, *_ABOUT_VIEWS):
        empty = f"'{query}' is not one" if query.strip() else "the query is empty"
        said = f"a query cannot begin with {word}" if word else empty
        raise UsageError(f"invalid query: {said}", hint=f"the query comes first; {_HINT}")


def check_query(engine: Engine, query: str) -> None:
    """Raise UsageError unless a text is a single query. Needs no views."""
    with _hinted():
        engine.check(query)


def ask(engine: Engine, query: str, limit: int) -> QueryResult:
    """Run a query. Return up to ``limit`` + 1 rows of its result.

    The additional row tells the caller that the result is longer than ``limit``. Raises UsageError
    if the text is not a single query, or names an unknown view or column.
    """
    check_query(engine, query)
    with _hinted():
        word = _first_word(query)
        if word and word[1].upper() in _ABOUT_VIEWS:
            return engine.fetch(query)
        return engine.fetch(f"SELECT * FROM ({query.strip().rstrip(';')}\n) LIMIT {limit + 1}")


@contextmanager
def _hinted() -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        error.hint = error.hint or _HINT
        raise
