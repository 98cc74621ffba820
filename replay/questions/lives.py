"""Queries for the changes of each partition's state and leader, in order, and for intervals.

``lives`` sorts the rows of each partition and keeps only those at which the state or the leader
changes. The other queries work on its result: intervals in OfflinePartition or, in outages.py,
without a live leader, and the numbers of leaders and of offline partitions over time.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import LEADERSHIP_WRITTEN
from klamm.replay.questions.columns import (
    IS_DELETED,
    IS_SNAPSHOT,
    IS_TRANSITION,
    NO_PARTITION,
    OFFLINE,
    PARTITION,
    RUN,
    is_kind,
    summed,
    total,
)

BUCKETS: Final = 120
BY_TRANSITION: Final = "transition"
BY_SNAPSHOT: Final = "snapshot"
_GONE: Final = -9
UNDATED: Final = "CASE WHEN start_ms IS NULL THEN 1 ELSE 0 END"
"""SQL that is 1 for an interval in OfflinePartition whose start, and so its length, is unknown."""
IS_THERE: Final = (
    f"CASE WHEN is_partition_state THEN to_state <> {NO_PARTITION} WHEN {IS_DELETED} THEN false "
    f"WHEN {is_kind(LEADERSHIP_WRITTEN)} THEN true END"
)
"""Whether the partition exists after this event; null if the row does not show it."""
ORDER: Final = f"PARTITION BY {PARTITION} ORDER BY place, controller"


def lives(events: str, gaps: str | None = None) -> str:
    """Return a query for the events at which a partition's state or leader changes.

    - ``state``, ``leader``: values after the event; null if unknown or if the partition does not
      exist. Leader -1 means no leader.
    - ``prev_state``, ``prev_leader``: values before the event.
    - ``said_leader``: the previous leader from earlier rows. If no earlier row has a leader, it is
      the previous leader that the row itself contains.
    - ``since_ms``: time at which the partition went Offline, if the row contains it.
    - ``ends_next``: the partition is deleted by its next event.
    - ``t_ms``: time, corrected so that it never decreases within a partition. The event of a
      deposed controller may have a later time than the events after it.

    Events about a partition that does not exist are ignored. Rows whose leader equals their
    ``prev_leader`` are skipped. They are kept in partitions with lost rows (``gaps``; None: no rows
    are lost), because the leader may have changed in a lost row.
    """
    in_gaps = f"SELECT DISTINCT {PARTITION}, true AS has_gap FROM {gaps}"
    beside = "" if gaps is None else f"LEFT JOIN ({in_gaps}) USING ({PARTITION})"
    has_gap = "false" if gaps is None else "has_gap"
    is_gone = f"{IS_DELETED} OR is_birth_or_death"
    led = f"CASE WHEN leader < {NO_LEADER} THEN {_GONE} ELSE leader END"
    return f"""
SELECT * EXCLUDE (t_ms), max(t_ms) OVER (
  {ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS t_ms
FROM (
  SELECT {PARTITION}, place, controller, epoch, t_ms, is_snapshot, was_offline, since_ms,
    coalesce(state, last_state) AS state, last_state AS prev_state,
    coalesce(next_state = {NO_PARTITION}, false) AS ends_next,
    CASE WHEN coalesce(is_there, was_there, true)
      THEN nullif(coalesce(led, last_led), {_GONE}) END AS leader,
    CASE WHEN coalesce(was_there, true) THEN nullif(last_led, {_GONE}) END AS prev_leader,
    nullif(coalesce(last_led, prev_leader), {_GONE}) AS said_leader
  FROM (
    SELECT *, lead(state) OVER ({ORDER}) AS next_state,
      lag(state IGNORE NULLS) OVER ({ORDER}) AS last_state,
      lag(is_there IGNORE NULLS) OVER ({ORDER}) AS was_there,
      lag(led IGNORE NULLS) OVER ({ORDER}) AS last_led
    FROM (
      SELECT {PARTITION}, place, controller, epoch, t_ms, prev_leader,
        {IS_SNAPSHOT} AS is_snapshot,
        {IS_TRANSITION} AND NOT is_illegal AND from_state = {OFFLINE} AS was_offline,
        CASE WHEN {IS_TRANSITION} AND from_state = {OFFLINE} THEN since_ms END AS since_ms,
        CASE WHEN is_partition_state THEN to_state END AS state,
        {IS_THERE} AS is_there,
        CASE WHEN {is_gone} THEN {_GONE} WHEN is_leadership THEN {led} END AS led
      FROM {events} {beside}
      WHERE topic IS NOT NULL AND (is_partition_state OR {IS_DELETED} OR (is_leadership
        AND ({has_gap} OR leader IS DISTINCT FROM prev_leader))))))
WHERE state IS DISTINCT FROM prev_state OR leader IS DISTINCT FROM prev_leader
  OR (was_offline AND prev_state IS DISTINCT FROM {OFFLINE})"""


def offline_intervals(found: str) -> str:
    """Return a query for the intervals that partitions spent in OfflinePartition.

    - ``start_ms``: null if unknown. ``end_ms``: null if the interval has not ended.
    - ``ended_by``: ``transition``, ``snapshot`` (a new controller found the partition in another
      state) or null.
    - ``is_new``: false if the partition was already Offline when a new controller read its state.

    A deletion, in which a partition goes Offline and then ceases to exist, is not an interval.
    """
    is_offline, was_known = (f"coalesce({name} = {OFFLINE}, false)" for name in _STATES)
    return f"""
SELECT {PARTITION}, epoch, is_new,
  CASE WHEN is_offline AND NOT was_told THEN t_ms
    WHEN since_ms > t_ms THEN t_ms ELSE since_ms END AS start_ms,
  CASE WHEN is_offline THEN next_ms ELSE t_ms END AS end_ms,
  CASE WHEN NOT is_offline THEN '{BY_TRANSITION}'
    WHEN next_is_snapshot THEN '{BY_SNAPSHOT}'
    WHEN next_ms IS NOT NULL THEN '{BY_TRANSITION}' END AS ended_by
FROM (
  SELECT *, lead(t_ms) OVER ({ORDER}) AS next_ms,
    lead(is_snapshot) OVER ({ORDER}) AS next_is_snapshot
  FROM (
    SELECT {PARTITION}, place, controller, epoch, t_ms, since_ms, is_snapshot, ends_next,
      {is_offline} AS is_offline, {was_known} AS was_known, was_offline AS was_told,
      NOT is_snapshot OR coalesce(leader > {NO_LEADER}, false) AS is_new
    FROM {found} WHERE {is_offline} <> {was_known} OR (was_offline AND NOT {was_known})))
WHERE NOT was_known AND CASE WHEN is_offline THEN was_told OR NOT ends_next ELSE was_told END"""


_STATES: Final = ("state", "prev_state")


def width_of(first_ms: int, last_ms: int, buckets: int = BUCKETS) -> int:
    """Return the width in ms that divides the time from first to last into ``buckets`` buckets."""
    return max(1, -(-(last_ms - first_ms + 1) // buckets))


def bucket(column: str, first_ms: int, width_ms: int) -> str:
    """Return SQL for the start of the time bucket that contains the time in ``column``.

    All times before ``first_ms`` are in the same bucket, which yields the initial values.
    """
    number = f"floor(({column} - {first_ms}) / {width_ms})"
    return f"{first_ms} + {width_ms} * CAST(greatest({number}, -1) AS BIGINT)"


def offline_changes(intervals: str, first_ms: int) -> str:
    """Return a query that counts the beginnings and ends of some ``offline_intervals`` by time."""
    return f"""
SELECT {RUN}, t_ms, {total("begun")} AS begun, {total("ended")} AS ended, {total("went")} AS went
FROM (
  SELECT {RUN}, coalesce(start_ms, {first_ms} - 1) AS t_ms, 1 AS begun, 0 AS ended,
    CASE WHEN is_new AND start_ms IS NOT NULL THEN 1 ELSE 0 END AS went
  FROM {intervals}
  UNION ALL
  SELECT {RUN}, end_ms AS t_ms, 0 AS begun, 1 AS ended, 0 AS went
  FROM {intervals} WHERE end_ms IS NOT NULL)
GROUP BY {RUN}, t_ms"""


def offline_timeline(changes: str, first_ms: int, width_ms: int) -> str:
    """Return a query for the number of offline partitions over time, in time buckets.

    ``changes``: results of ``offline_changes``. Buckets without a change have no row.

    - ``offline``: number at the end of the bucket. ``most``: largest number within the bucket.
    - ``went_offline``, ``came_back``: number of changes in the bucket. Partitions whose leader died
      together with the controller count when the next controller reads their states.
    """
    return f"""
SELECT {RUN}, bucket_ms, arg_max(offline, t_ms) AS offline,
  max(offline + ended) AS most, CAST(sum(went) AS BIGINT) AS went_offline,
  CAST(sum(ended) AS BIGINT) AS came_back
FROM (
  SELECT {RUN}, t_ms, {bucket("t_ms", first_ms, width_ms)} AS bucket_ms, went, ended,
    CAST(sum(begun - ended) OVER (PARTITION BY {RUN} ORDER BY t_ms) AS BIGINT) AS offline
  FROM (
    {summed(changes, f"{RUN}, t_ms", ("begun", "ended", "went"))}))
GROUP BY {RUN}, bucket_ms"""


def leaders_over_time(changes: str) -> str:
    """Return a query that counts the partitions led by each broker at the end of a time bucket.

    ``changes``: results of ``leader_changes``. Buckets without a change have no row.
    """
    return f"""
SELECT {RUN}, bucket_ms, broker,
  CAST(sum(change) OVER (PARTITION BY {RUN}, broker ORDER BY bucket_ms) AS BIGINT) AS leaders
FROM ({summed(changes, f"{RUN}, bucket_ms, broker", ("change",))})"""


def leader_changes(found: str, first_ms: int, width_ms: int) -> str:
    """Return a query for the changes in the number of partitions that each broker leads.

    ``found`` is the result of ``lives``. There is a row for each broker and time bucket. Broker -1
    stands for partitions without a leader.
    """
    at = bucket("t_ms", first_ms, width_ms)
    changed = "leader IS DISTINCT FROM prev_leader"
    return f"""
SELECT {RUN}, bucket_ms, broker, {total("change")} AS change
FROM (
  SELECT {RUN}, {at} AS bucket_ms, leader AS broker, 1 AS change
  FROM {found} WHERE leader IS NOT NULL AND {changed}
  UNION ALL
  SELECT {RUN}, {at} AS bucket_ms, prev_leader AS broker, -1 AS change
  FROM {found} WHERE prev_leader IS NOT NULL AND {changed})
GROUP BY {RUN}, bucket_ms, broker"""
