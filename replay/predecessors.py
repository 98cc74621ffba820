"""Adds the previous state, leader and ISR to rows of sources that do not log them.

One sort per partition or replica. Only proven values are added:

- The predecessor of a leadership has the previous znode version. If a write is missing between two
  rows, its content is unknown.
- A controller that removes a replica from an ISR logs it and bumps the leader epoch. The same log
  line with an unchanged leader epoch means that the replica was not in the ISR, and that nothing
  was written.
- The predecessor of a state is in the same controller epoch, because a new controller resets
  states without logging it.

Mirrors doRemoveReplicasFromIsr of kafka/controller/ReplicaStateMachine.scala.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import CODED_SCHEMA, LEADERSHIP_WRITTEN
from klamm.replay.questions.columns import (
    FAILURES,
    STATE_KINDS,
    TRANSITIONS,
    is_kind,
    is_leadership,
)

_REPLICA_STATES: Final = (Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED)


def add_predecessors(events: DataFrame) -> DataFrame:
    """Add ``from_state``, ``since_ms``, ``prev_leader`` and ``prev_isr`` to coded events if known.

    The predecessor of a row is searched in the same source, run and partition (for the state of a
    replica: the same replica). Values that a row already has are kept.
    """
    key = (
        "source",
        "run",
        F.coalesce("topic", "place"),
        "partition",
        F.when(is_kind(*_REPLICA_STATES), F.col("replica")).otherwise(-1),
    )
    ordered = Window.partitionBy(*key).orderBy("place")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)

    def last(condition: Column, *columns: str) -> Column:
        return F.last(F.when(condition, F.struct(*columns)), ignorenulls=True).over(before)

    is_stored = is_leadership() & F.col("zk_version").isNotNull()
    has_leader_epoch = is_leadership() & F.col("leader_epoch").isNotNull()
    beside = events.withColumns(
        {
            "_state": last(is_kind(*STATE_KINDS), "to_state", "t_ms", "epoch"),
            "_leadership": last(is_stored, "leader", "isr", "zk_version", "t_ms"),
            "_led": last(has_leader_epoch, "leader", "leader_epoch"),
        }
    )
    leaves = is_kind(*TRANSITIONS, *FAILURES) & (F.col("_state.epoch") == F.col("epoch"))
    from_state = F.when(leaves & (F.col("from_state") == 0), F.col("_state.to_state")).otherwise(
        F.col("from_state")
    )
    follows = is_stored & (F.col("zk_version") == F.col("_leadership.zk_version") + 1)
    since_ms = F.coalesce(
        "since_ms",
        F.when(leaves & (from_state == F.col("_state.to_state")), F.col("_state.t_ms")),
        F.when(is_kind(LEADERSHIP_WRITTEN) & follows, F.col("_leadership.t_ms")),
    )
    removes = is_kind(Kind.ISR_REMOVED)
    prev_leader, prev_isr = _before_removal()
    found = {
        "from_state": from_state,
        "since_ms": since_ms,
        "prev_leader": F.coalesce(
            "prev_leader",
            F.when(removes, prev_leader).when(follows, F.col("_leadership.leader")),
        ),
        "prev_isr": F.coalesce(
            "prev_isr", F.when(removes, prev_isr).when(follows, F.col("_leadership.isr"))
        ),
        "has_predecessors": F.lit(True),
    }
    return beside.select(
        *(found.get(name, F.col(name)).alias(name) for name in CODED_SCHEMA.fieldNames())
    )


def _before_removal() -> tuple[Column, Column]:
    """Return leader and ISR before a controller removed a replica from the ISR.

    Null if nothing was written, or if the previous leader epoch is unknown. The last replica stays
    in the ISR, and the leader changes only if it is the removed replica.
    """
    is_written = F.col("leader_epoch") != F.col("_led.leader_epoch")
    is_next = F.col("leader_epoch") == F.col("_led.leader_epoch") + 1
    leader = F.when(F.col("leader") != NO_LEADER, F.col("leader")).when(
        is_next, F.col("_led.leader")
    )
    stays = F.array_contains("isr", F.col("replica"))
    isr = F.when(stays, F.col("isr")).otherwise(F.array_append("isr", F.col("replica")))
    return F.when(is_written, leader), F.when(is_written, isr)
