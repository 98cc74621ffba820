"""Adds the previous state, leader and ISR to rows from logs that do not contain them.

The rows of each partition and replica are sorted once. Only values that are certain are added:

- The previous ISR is taken from the row whose znode version is lower by one. If that row is missing
  from the log, the previous ISR is unknown.
- An ISR change by the leader does not change the leader, which controller.log does not name. The
  leader is known if the znode versions show that all writes since then were such ISR changes.
- The leader epoch rises by one with each election. So the previous leader is known if the last row
  has the same leader epoch or the one before, even if rows with ISR changes are missing in between.
- A controller that removes a replica from an ISR logs a line and bumps the leader epoch. The same
  line with an unchanged leader epoch means that the replica was not in the ISR, and that nothing
  was written.
- The previous state is taken only from rows of the same controller epoch, because a new controller
  resets states without logging it.

Mirrors doRemoveReplicasFromIsr of kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import CODED_SCHEMA, LEADERSHIP_WRITTEN
from klamm.replay.questions.columns import LEADERSHIPS, is_kind

_OF_REPLICAS: Final = is_kind(Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED)
_IS_STATE: Final = is_kind(
    Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION
)
_LEAVES: Final = is_kind(
    *(Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION),
    *(Kind.PARTITION_FAILED, Kind.REPLICA_FAILED),
)
_IS_LEADERSHIP: Final = f"{is_kind(*LEADERSHIPS)} AND leader IS NOT NULL"
_NAMES_NO_LEADER: Final = f"{is_kind(Kind.ISR_CHANGED)} AND leader IS NULL"
_LAST: Final = {
    "state": (_IS_STATE, ("to_state", "t_ms", "epoch")),
    "stored": (
        f"{is_kind(*LEADERSHIPS)} AND isr IS NOT NULL AND zk_version IS NOT NULL",
        ("leader", "isr", "zk_version", "t_ms"),
    ),
    "led": (
        f"{_IS_LEADERSHIP} AND leader_epoch IS NOT NULL",
        ("leader", "leader_epoch", "zk_version", "isr_changes"),
    ),
}
"""The kinds of earlier rows whose values are used: SQL condition, and columns to take. The latest
row that meets the condition is used."""
_REMOVES: Final = is_kind(Kind.ISR_REMOVED)
_IS_REMOVED: Final = f"{_REMOVES} AND leader_epoch <> last_led.leader_epoch"
"""SQL condition: the controller removed a replica from the ISR, and wrote the new ISR.

False if the previous leader epoch is unknown.
"""
_FOLLOWS: Final = (
    f"{is_kind(*LEADERSHIPS)} AND isr IS NOT NULL AND zk_version IS NOT NULL "
    "AND zk_version = last_stored.zk_version + 1"
)
_IS_STILL_LED: Final = (
    f"{_NAMES_NO_LEADER} AND zk_version - last_led.zk_version = isr_changes - last_led.isr_changes"
)
"""SQL condition: every write since the last known leader was an ISR change by the leader."""
_PREVIOUS: Final = {
    "leader": f"CASE WHEN {_IS_STILL_LED} THEN last_led.leader ELSE leader END",
    "leader_epoch": f"CASE WHEN {_IS_STILL_LED} THEN last_led.leader_epoch ELSE leader_epoch END",
    "from_state": "known_from_state",
    "since_ms": f"""coalesce(since_ms,
      CASE WHEN leaves AND known_from_state = last_state.to_state THEN last_state.t_ms END,
      CASE WHEN {is_kind(LEADERSHIP_WRITTEN)} AND {_FOLLOWS} THEN last_stored.t_ms END)""",
    # The last replica in an ISR is not removed. The leader changes only if it is removed itself.
    "prev_leader": f"""coalesce(prev_leader, CASE
      WHEN {_IS_REMOVED} AND leader <> {NO_LEADER} THEN leader
      WHEN {_IS_REMOVED} AND leader_epoch = last_led.leader_epoch + 1 THEN last_led.leader
      WHEN {_IS_STILL_LED} THEN last_led.leader
      WHEN NOT {_REMOVES} AND {_FOLLOWS} AND last_stored.leader IS NOT NULL THEN last_stored.leader
      WHEN NOT {_REMOVES} AND {_IS_LEADERSHIP}
        AND leader_epoch BETWEEN last_led.leader_epoch AND last_led.leader_epoch + 1
        THEN last_led.leader END)""",
    "prev_isr": f"""coalesce(prev_isr, CASE
      WHEN {_IS_REMOVED} AND list_contains(isr, replica) THEN isr
      WHEN {_IS_REMOVED} THEN list_concat(isr, [replica])
      WHEN NOT {_REMOVES} AND {_FOLLOWS} THEN last_stored.isr END)""",
    "has_predecessors": "true",
}


def add_predecessors(events: str) -> str:
    """Return SQL that adds ``from_state``, ``since_ms``, ``prev_leader`` and ``prev_isr``.

    The values come from earlier rows of the same run and partition; a replica's state comes from
    rows about the same replica. Values that a row already has are kept, unknown values stay null.
    """
    replica = f"CASE WHEN {_OF_REPLICAS} THEN replica END"
    key = f"run, coalesce(topic, place), partition, {replica}"
    last = ", ".join(
        f"lag(CASE WHEN {condition} THEN {_struct(names)} END IGNORE NULLS) "
        f"OVER (PARTITION BY {key} ORDER BY place) AS last_{name}"
        for name, (condition, names) in _LAST.items()
    )
    columns = ", ".join(
        f"{_PREVIOUS[name]} AS {name}" if name in _PREVIOUS else name for name in CODED_SCHEMA.names
    )
    return f"""
SELECT {columns}
FROM (
  SELECT *, CASE WHEN leaves AND from_state = 0 THEN last_state.to_state ELSE from_state END
    AS known_from_state
  FROM (
    SELECT *, {_LEAVES} AND coalesce(last_state.epoch = epoch, false) AS leaves
    FROM (
      SELECT *, {last}
      FROM (
        SELECT *, count(CASE WHEN {_NAMES_NO_LEADER} THEN 1 END) OVER (
          PARTITION BY {key} ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
          AS isr_changes
        FROM {events}))))"""


def _struct(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(f"'{name}': {name}" for name in names) + "}"
