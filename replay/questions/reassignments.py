"""Query for reassignments: their start, duration, last phase, and whether they finished.

They are derived from the phases that controllers log or, in ZooKeeper's logs, from topic znodes
with adding or removing replicas. Only these few rows are sorted.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import (
    ASSIGNMENT_WRITTEN,
    STATE_CODES,
)
from klamm.replay.questions.columns import IS_JOURNAL, PARTITION, is_kind
from klamm.statemachines.reassignment import Phase

DONE: Final = "done"
REPLACED: Final = "replaced"
CANCELLED: Final = "cancelled"
OPEN: Final = "open"
_FIRST: Final = STATE_CODES[Phase.U1.value]
_ENDS: Final = f"{STATE_CODES[Phase.B7.value]}, {STATE_CODES[Phase.B8.value]}"
_LAST_LOGGED: Final = STATE_CODES[Phase.B6.value]
"""The last phase that Kafka's controller.log has for reassignments requested through the API."""
_IS_PHASE: Final = is_kind(Kind.REASSIGNMENT_PHASE)
_HAS_ASSIGNMENT: Final = (
    f"(NOT {_IS_PHASE} OR to_state = {_FIRST}) AND detail LIKE 'ReplicaAssignment(%'"
)
"""SQL condition: the row stores an assignment. Rows of later phases only repeat the assignment."""
_REORDERS: Final = "detail LIKE '% addingReplicas=, removingReplicas=)'"
"""SQL condition: the reassignment only changes the order of the replicas, and is done as soon as it
is stored. Kafka does not log its end."""
IS_REASSIGNMENT: Final = (
    f"{is_kind(Kind.REASSIGNMENT_PHASE, ASSIGNMENT_WRITTEN)} AND topic IS NOT NULL"
)
"""SQL condition: the event is a phase of a reassignment, or a write of a partition's assignment."""


def reassignments(events: str) -> str:
    """Return a query with a row for each reassignment of each partition.

    - ``status``: done, open, cancelled, or replaced (by the partition's next reassignment). The
      result has no row for a cancellation itself, which controllers log like a reassignment back
      to the original replicas.
    - ``end_ms``: time of the event that ended the reassignment.
    - ``last_phase``: 0 if the log has no phases.
    - ``epochs``: number of controller epochs with events about the reassignment.
    """
    is_logged = f"NOT {IS_JOURNAL}"
    is_end = f"to_state IN ({_ENDS}) OR ({is_logged} AND to_state = {_LAST_LOGGED})"
    order = f"PARTITION BY {PARTITION} ORDER BY"
    # An assignment without adding and removing replicas ends the previous reassignment. It is done
    # if the replicas are its target, and cancelled if they are those from before it.
    return f"""
SELECT {PARTITION}, reassignment, start_ms, coalesce(ended_ms, next_ms) AS end_ms,
  CASE WHEN ended_ms IS NOT NULL THEN '{DONE}'
    WHEN next_ms IS NULL THEN '{OPEN}'
    WHEN next_reassignment IS NULL AND coalesce(next_target = target, true) THEN '{DONE}'
    WHEN coalesce(next_target = origin, false) THEN '{CANCELLED}'
    ELSE '{REPLACED}' END AS status,
  last_phase, last_ms, epochs
FROM (
  SELECT *, lead(start_ms) OVER ({order} number) AS next_ms,
    lead(reassignment) OVER ({order} number) AS next_reassignment,
    lead(target) OVER ({order} number) AS next_target,
    coalesce(lag(origin) OVER ({order} number) = target, false)
      AND lag(ended_ms) OVER ({order} number) IS NULL
      AND lag(reassignment) OVER ({order} number) IS NOT NULL AS is_cancellation
  FROM (
    SELECT {PARTITION}, number, max(reassignment) AS reassignment, min(t_ms) AS start_ms,
      max(t_ms) AS last_ms, coalesce(max(CASE WHEN {_IS_PHASE} AND ({is_end}) THEN t_ms END),
        max(CASE WHEN {is_logged} AND {_IS_PHASE} AND {_REORDERS} THEN t_ms END)) AS ended_ms,
      arg_max(to_state, place) AS last_phase, count(DISTINCT epoch) AS epochs,
      arg_max(target, CASE WHEN {_HAS_ASSIGNMENT} THEN place END) AS target,
      arg_min(origin, CASE WHEN {_HAS_ASSIGNMENT} THEN place END) AS origin
    FROM (
      SELECT *, CASE WHEN {_HAS_ASSIGNMENT} THEN {_without("removing")} END AS target,
        CASE WHEN {_HAS_ASSIGNMENT} THEN {_without("adding")} END AS origin,
        CAST(sum(CASE WHEN is_next OR ({_IS_PHASE} AND to_state = {_FIRST}) THEN 1 ELSE 0 END)
          OVER ({order} place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS BIGINT) AS number
      FROM (
        SELECT *, reassignment IS DISTINCT FROM lag(reassignment) OVER ({order} place) AS is_next
        FROM {events} WHERE {IS_REASSIGNMENT}))
    GROUP BY {PARTITION}, number))
WHERE reassignment IS NOT NULL AND NOT is_cancellation"""


def _without(kind: str) -> str:
    """Return SQL that extracts sorted replicas from the assignment in ``detail``.

    ``kind``: which replicas to leave out, "adding" or "removing".
    """
    replicas, left_out = (
        f"string_split(regexp_extract(detail, '\\b{name}=([0-9,]*)', 1), ',')"
        for name in ("replicas", f"{kind}Replicas")
    )
    kept = f"r <> '' AND NOT list_contains({left_out}, r)"
    left = f"list_filter({replicas}, lambda r: {kept})"
    return f"array_to_string(list_sort({left}), ',')"
