"""Queries for ISR changes, flapping replicas, and unclean leader elections.

They use only rows that contain the previous ISR.
"""

from __future__ import annotations

from typing import Final

from klamm.replay.questions.columns import AT, PARTITION, REPLICA, RUN, in_time, total

FLAPS: Final = 5
FLAP_WINDOW_MS: Final = 300_000
"""A replica is flapping if it left and rejoined an ISR FLAPS times within this time.

Five minutes is long enough to detect a broker that repeatedly falls behind for 30 s
(replica.lag.time.max.ms). A broker that is restarted once is not detected.
"""


def unclean_elections(events: str) -> str:
    """Return a query for elections of leaders that were not in the previous ISR."""
    return f"""
SELECT {PARTITION}, prev_leader, leader, leader_epoch, prev_isr, isr, election, {AT}
FROM {events} WHERE is_unclean"""


def moves(events: str, from_ms: int | None = None) -> str:
    """Return a query with a row for each time a replica left (``has_left``) or joined an ISR."""

    left = "list_filter(prev_isr, lambda r: NOT list_contains(isr, r))"
    joined = "list_filter(isr, lambda r: NOT list_contains(prev_isr, r))"
    # Replicas that left are encoded as negative numbers.
    codes = f"list_concat(list_transform({left}, lambda r: -1 - r), {joined})"
    return f"""
SELECT {PARTITION}, place, t_ms, CASE WHEN code < 0 THEN -1 - code ELSE code END AS replica,
  code < 0 AS has_left
FROM (
  SELECT {PARTITION}, place, t_ms, unnest({codes}) AS code
  FROM {events} WHERE moves_isr AND {in_time(from_ms)})"""


_SHRINKS: Final = "count(*) FILTER (WHERE has_left)"
_EXPANDS: Final = "count(*) FILTER (WHERE NOT has_left)"


def isr_churn(moved: str, first_ms: int, width_ms: int) -> str:
    """Return a query that counts how often replicas left or joined an ISR.

    The result has a row for each broker and time bucket.
    """
    return f"""
SELECT {RUN}, {first_ms} + {width_ms} * CAST(floor((t_ms - {first_ms}) / {width_ms}) AS BIGINT)
    AS bucket_ms, replica AS broker, {_SHRINKS} AS shrinks, {_EXPANDS} AS expands
FROM {moved} GROUP BY ALL"""


def flapping_replicas(moved: str, flaps: int = FLAPS, window_ms: int = FLAP_WINDOW_MS) -> str:
    """Return a query for the replicas that left and joined an ISR ``flaps`` times in a window.

    Windows are ``window_ms`` long and overlap: a new one begins every ``window_ms`` / 2. The result
    has one row for each flapping replica, about the window with the most changes: ``shrinks`` and
    ``expands`` count its changes, ``start_ms`` and ``end_ms`` are their first and last time.
    """
    return f"""
SELECT {REPLICA}, shrinks, expands, start_ms, end_ms
FROM (
  SELECT *, row_number() OVER (PARTITION BY {REPLICA}
    ORDER BY shrinks + expands DESC, beginning) AS number
  FROM (
    SELECT {REPLICA}, beginning, {total("shrinks")} AS shrinks, {total("expands")} AS expands,
      min(start_ms) AS start_ms, max(end_ms) AS end_ms
    FROM (
      SELECT *, unnest([half - 1, half]) AS beginning
      FROM (
        SELECT {REPLICA}, CAST(floor(t_ms / {window_ms // 2}) AS BIGINT) AS half,
          {_SHRINKS} AS shrinks, {_EXPANDS} AS expands,
          min(t_ms) AS start_ms, max(t_ms) AS end_ms
        FROM {moved} GROUP BY ALL))
    GROUP BY {REPLICA}, beginning)
  WHERE shrinks >= {flaps} AND expands >= {flaps})
WHERE number = 1"""
