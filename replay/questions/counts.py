"""Counts all events: by controller epoch, for all events together, and by topic."""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.questions.columns import (
    EPOCH,
    IS_JOURNAL,
    IS_WRITE,
    IS_ZOOKEEPER,
    RUN,
    in_time,
    is_kind,
    total,
)

TIMES_OF_EPOCHS: Final = {
    "snapshot_ms": Kind.PARTITION_SNAPSHOT,
    "elected_ms": Kind.CONTROLLER_ELECTED,
    "ready_ms": Kind.CONTROLLER_READY,
    "resigned_ms": Kind.CONTROLLER_RESIGNED,
    "moved_ms": Kind.CONTROLLER_MOVED,
}
"""Columns with the time of the first event of this kind."""
ORDERED_AT: Final = f"CASE WHEN {IS_ZOOKEEPER} THEN place ELSE t_ms END"
"""Position by which events of different controllers are compared."""
_WORD: Final = "partition >> 5"
_BIT: Final = "CAST(1 AS BIGINT) << (partition & 31)"


def counted_rows(events: str, from_ms: int | None = None) -> str:
    """Return a query with a row for each controller epoch, for ``controllers.epochs``.

    - ``rows``: number of events at or after ``from_ms``; all other columns consider all events.
    - ``first_at``, ``last_write_at``: position of the first event and of the last write.
    - ``first_seq``, ``last_seq``, ``numbered``: row numbers of journals, and the number of rows
      that have one.
    """
    times = ", ".join(
        f"min(CASE WHEN {is_kind(kind)} THEN t_ms END) AS {name}"
        for name, kind in TIMES_OF_EPOCHS.items()
    )
    return f"""
SELECT {EPOCH}, count(*) FILTER (WHERE {in_time(from_ms)}) AS rows,
  min(t_ms) AS first_ms, max(t_ms) AS last_ms, min({ORDERED_AT}) AS first_at,
  max(CASE WHEN {IS_WRITE} THEN {ORDERED_AT} END) AS last_write_at, {times},
  min(CASE WHEN {IS_JOURNAL} THEN seq END) AS first_seq,
  max(CASE WHEN {IS_JOURNAL} THEN seq END) AS last_seq,
  count(*) FILTER (WHERE {IS_JOURNAL}) AS numbered
FROM {events} GROUP BY {EPOCH}"""


def rows_of_topics(events: str, from_ms: int | None) -> str:
    """Return a query with a row for each topic.

    ``rows``, ``leader_changes``: numbers of events at or after ``from_ms``. ``partitions``: number
    of partitions with events at any time. A refused reassignment may be of a partition that does
    not exist.
    """
    counted = in_time(from_ms)
    exists = f"partition >= 0 AND NOT ({is_kind(Kind.REASSIGNMENT_FAILED)})"
    # A set of 32 bits counts 32 partitions faster than count(DISTINCT partition).
    return f"""
SELECT {RUN}, topic, {total("rows")} AS rows, {total("leader_changes")} AS leader_changes,
  {total("bit_count(bits)")} AS partitions
FROM (
  SELECT {RUN}, topic, count(*) FILTER (WHERE {counted}) AS rows,
    count(*) FILTER (WHERE {counted} AND is_leadership AND leader <> prev_leader)
      AS leader_changes,
    bit_or(CASE WHEN {exists} THEN {_BIT} ELSE 0 END) AS bits
  FROM {events} WHERE topic IS NOT NULL GROUP BY {RUN}, topic, {_WORD})
GROUP BY {RUN}, topic"""
