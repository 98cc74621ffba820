"""Aggregates all events by partition and replica.

One aggregation, without sorting, yields the last state of each partition and replica, and the
position (``place``) of the last row with the partition's leader and ISR. The result is much smaller
than the events.
"""

from __future__ import annotations

from klamm.replay.questions.columns import IS_DELETED, PARTITION


def by_replica(events: str) -> str:
    """Return a query with a row for each replica, and a row with replica -1 for each partition.

    - ``state``, ``state_place``: last state, and the position of the event that set it. Illegal
      transitions are ignored.
    - ``leadership_place``: position of the last row that contains the partition's leader and ISR,
      or of a later creation or deletion of the partition.

    Values are null if there is no such event.
    """
    sets_state = "(is_partition_state OR is_replica_state)"
    leads = f"is_leadership OR is_birth_or_death OR {IS_DELETED}"
    return f"""
SELECT {PARTITION}, key_replica AS replica,
  max(CASE WHEN {sets_state} THEN place END) AS state_place,
  arg_max(to_state, CASE WHEN {sets_state} THEN place END) AS state,
  max(CASE WHEN {leads} THEN place END) AS leadership_place
FROM {events} WHERE topic IS NOT NULL GROUP BY {PARTITION}, key_replica"""


def by_partition(found: str) -> str:
    """Return a query that aggregates the result of ``by_replica`` to one row per partition."""
    own = "CASE WHEN replica = -1 THEN state_place END"
    return f"""
SELECT {PARTITION}, arg_max(state, {own}) AS state, max({own}) AS state_place,
  max(leadership_place) AS leadership_place
FROM {found} GROUP BY {PARTITION}"""
