"""Queries for plots over time: marks of important events, and timelines of partitions.

A timeline shows a partition's state, leader and ISR size over time. The queries work on the
results of other questions; only the events of the shown partitions are read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.questions.columns import (
    IS_DELETED,
    PARTITION,
    RUN,
    is_kind,
    known_state,
    total,
)
from klamm.replay.questions.lives import IS_THERE, ORDER

MARKS: Final = 240
"""Number of time intervals in a plot. Events of the same kind in one interval share a mark."""
IS_BROKER_FAILURE: Final = is_kind(Kind.BROKER_OFFLINE)
BROKER_FAILURE: Final = "broker failure"
CONTROLLER_ELECTION: Final = "controller election"
REASSIGNMENT: Final = "reassignment"
LEADER_ELECTION: Final = "leader election"
MOST_CHANGES: Final = 200
"""Maximum number of changes shown in a partition's timeline; older changes are left out."""
_CHANGES_OF_ALL: Final = 150_000
"""Maximum number of changes in all timelines together, to limit the size of the page."""


def marks(rare: str, elected: str, others: str, at: tuple[int, int]) -> str:
    """Return a query with a mark for each kind of event and time interval in which it occurred.

    A mark has the time of the first event, the number of events, and the brokers if known.
    ``others``: results of ``marks_of_partitions``. ``at``: start of the first interval and width of
    all intervals, in ms.
    """
    kinds = (
        f"'{BROKER_FAILURE}' AS what, t_ms, 1 AS times, replica AS broker FROM {rare} "
        f"WHERE {IS_BROKER_FAILURE}",
        f"'{CONTROLLER_ELECTION}' AS what, elected_ms AS t_ms, 1 AS times, controller AS broker "
        f"FROM {elected}",
        f"what, t_ms, times, NULL AS broker FROM {others}",
    )
    return f"""
SELECT {RUN}, what, min(t_ms) AS t_ms, {total("times")} AS times,
  CASE WHEN max(broker) >= 0
    THEN list_sort(list(DISTINCT broker) FILTER (WHERE broker >= 0)) END AS brokers
{_by_interval(kinds, at)}"""


def marks_of_partitions(reassigned: str, lived: str, at: tuple[int, int]) -> str:
    """Return a query that counts reassignments and leader elections in each time interval."""
    kinds = (
        f"'{REASSIGNMENT}' AS what, start_ms AS t_ms FROM {reassigned}",
        f"'{LEADER_ELECTION}' AS what, t_ms FROM {lived} WHERE leader > {NO_LEADER}"
        " AND prev_leader <> leader",
    )
    return f"SELECT {RUN}, what, min(t_ms) AS t_ms, count(*) AS times {_by_interval(kinds, at)}"


def _by_interval(kinds: Iterable[str], at: tuple[int, int]) -> str:
    first_ms, width_ms = at
    return f"""
FROM ({" UNION ALL ".join(f"SELECT {RUN}, {kind}" for kind in kinds)})
WHERE t_ms >= {first_ms}
GROUP BY {RUN}, what, CAST(floor((t_ms - {first_ms}) / {width_ms}) AS BIGINT)"""


def life_lines(events: str, chosen: str) -> str:
    """Return a query for the last changes of state, leader and ISR size of some partitions.

    ``chosen``: result of ``chosen_partitions``. ``leader`` is null if unknown, and below -1 if the
    partition does not exist. ``changes``: total number of the partition's changes. ``number`` is 1
    for the last change.
    """
    is_gone = f"{IS_DELETED} OR is_birth_or_death"
    gone = NO_LEADER - 1
    return f"""
SELECT {PARTITION}, t_ms, state, leader, in_sync, changes, number
FROM (
  SELECT *, row_number() OVER ({ORDER.replace("place, controller", "place DESC, controller DESC")})
    AS number, count(*) OVER (PARTITION BY {PARTITION}) AS changes
  FROM (
    SELECT *, lag(place) OVER ({ORDER}) AS before, lag(state) OVER ({ORDER}) AS last_state,
      lag(leader) OVER ({ORDER}) AS last_leader, lag(in_sync) OVER ({ORDER}) AS last_in_sync
    FROM (
      SELECT * EXCLUDE (filled), {known_state("filled")} AS state
      FROM (SELECT {PARTITION}, place, controller, t_ms,
        coalesce(state, lag(state IGNORE NULLS) OVER ({ORDER})) AS filled,
        CASE WHEN coalesce(is_there, lag(is_there IGNORE NULLS) OVER ({ORDER}), true)
          THEN coalesce(leader, lag(leader IGNORE NULLS) OVER ({ORDER})) ELSE {gone} END AS leader,
        CASE WHEN coalesce(is_there, lag(is_there IGNORE NULLS) OVER ({ORDER}), true)
          THEN coalesce(in_sync, lag(in_sync IGNORE NULLS) OVER ({ORDER})) ELSE 0 END AS in_sync
      FROM (
        SELECT {PARTITION}, place, controller, t_ms, {IS_THERE} AS is_there,
          CASE WHEN is_partition_state THEN to_state END AS state,
          CASE WHEN {is_gone} THEN {gone} WHEN is_leadership THEN leader END AS leader,
          CASE WHEN {is_gone} THEN 0 WHEN is_leadership AND isr IS NOT NULL
            THEN array_length(isr) END AS in_sync
        FROM {events} JOIN {chosen} USING ({PARTITION})
        WHERE is_partition_state OR is_leadership OR {IS_DELETED}))))
  WHERE before IS NULL OR state IS DISTINCT FROM last_state
    OR leader IS DISTINCT FROM last_leader OR in_sync IS DISTINCT FROM last_in_sync)
WHERE number <= {MOST_CHANGES}"""


def named_partitions(first: Iterable[str]) -> str:
    """Return a query for the partitions in the results of some queries."""
    return " UNION ".join(f"SELECT {PARTITION} FROM ({sql})" for sql in first)


def most_changed(lived: str, moved: str, named: str) -> str:
    """Return a query for partitions whose timelines may be shown, with their numbers of changes.

    These are the partitions ``named`` (column ``is_named``) and those with the most changes, up to
    the maximum size of the page.
    """
    return _up_to_maximum(f"""
SELECT {PARTITION}, changes, coalesce(is_named, false) AS is_named
FROM (
  SELECT {PARTITION}, count(*) AS changes
  FROM (SELECT {PARTITION} FROM {lived} UNION ALL SELECT {PARTITION} FROM {moved})
  GROUP BY {PARTITION})
LEFT JOIN (SELECT *, true AS is_named FROM {named}) USING ({PARTITION})""")


def chosen_partitions(found: str) -> str:
    """Return a query for the partitions to show, of all results of ``most_changed``."""
    return f"SELECT {PARTITION} FROM ({_up_to_maximum(f'SELECT * FROM {found}')})"


def _up_to_maximum(found: str) -> str:
    return f"""
SELECT {PARTITION}, changes, is_named
FROM (
  SELECT *, sum(least(changes, {MOST_CHANGES})) OVER (
    ORDER BY is_named DESC, changes DESC, {PARTITION}
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS so_far
  FROM ({found}))
WHERE so_far <= {_CHANGES_OF_ALL}"""
