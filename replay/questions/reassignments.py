"""Reassignments: duration, last phase, and whether they ended.

Found by the phases that controllers record, or by topic znodes with adding or removing replicas.
Only these rows are sorted; they are few.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import (
    ASSIGNMENT_WRITTEN,
    CONTROLLER_LOG,
    SOURCES,
    STATE_CODES,
    code_of,
)
from klamm.replay.questions.columns import PARTITION, is_kind
from klamm.statemachines.reassignment import Phase

DONE: Final = "done"
REPLACED: Final = "replaced"
OPEN: Final = "open"
_FIRST: Final = STATE_CODES[Phase.U1.value]
_ENDS: Final = (STATE_CODES[Phase.B7.value], STATE_CODES[Phase.B8.value])
_LAST_LOGGED: Final = STATE_CODES[Phase.B6.value]
"""The last phase that Kafka's controller.log has for reassignments requested through the API."""


def reassignments(events: DataFrame) -> DataFrame:
    """Return a row for each reassignment of each partition.

    ``status``: done, replaced (by the partition's next one: overridden or cancelled) or open.
    ``took_ms``: from its first row to the row that ends it. ``last_phase``: 0 if the source has no
    phases. ``epochs``: number of controller epochs that worked on it.
    """
    marks = events.where(is_reassignment_row()).select(
        *PARTITION, "place", "t_ms", "epoch", "reassignment", "to_state", "kind", "detail"
    )
    order = Window.partitionBy(*PARTITION).orderBy("place")
    is_phase = is_kind(Kind.REASSIGNMENT_PHASE)
    is_logged = F.col("source") == code_of(CONTROLLER_LOG, SOURCES)
    is_end = F.col("to_state").isin(*_ENDS) | (is_logged & (F.col("to_state") == _LAST_LOGGED))
    is_next = ~F.col("reassignment").eqNullSafe(F.lag("reassignment").over(order))
    numbered = marks.withColumn("_is_next", is_next).withColumn(
        "number",
        F.count_if(F.col("_is_next") | (is_phase & (F.col("to_state") == _FIRST))).over(order),
    )
    found = numbered.groupBy(*PARTITION, "number").agg(
        F.max("reassignment").alias("reassignment"),
        F.min("t_ms").alias("start_ms"),
        F.max("t_ms").alias("last_ms"),
        F.max(F.when(is_phase & is_end, F.col("t_ms"))).alias("_ended_ms"),
        F.max_by("to_state", "place").alias("last_phase"),
        F.count_distinct("epoch").alias("epochs"),
        F.max_by(F.when(~is_phase, _target()), F.when(~is_phase, F.col("place"))).alias("_target"),
    )
    following = Window.partitionBy(*PARTITION).orderBy("number")
    beside = found.withColumns(
        {
            "_next_ms": F.lead("start_ms").over(following),
            "_next": F.lead("reassignment").over(following),
            "_left": F.lead("_target").over(following),
        }
    ).where("reassignment IS NOT NULL")
    # An assignment without adding and removing replicas ends the previous reassignment. It is done
    # if the replicas are its target, else it was cancelled.
    is_meant = F.coalesce(F.col("_left") == F.col("_target"), F.lit(True))
    is_over = F.col("_next_ms").isNotNull() & F.col("_next").isNull() & is_meant
    end_ms = F.coalesce("_ended_ms", "_next_ms")
    status = (
        F.when(F.col("_ended_ms").isNotNull() | is_over, DONE)
        .when(F.col("_next_ms").isNotNull(), REPLACED)
        .otherwise(OPEN)
    )
    return beside.select(
        *PARTITION,
        "reassignment",
        "start_ms",
        end_ms.alias("end_ms"),
        (end_ms - F.col("start_ms")).alias("took_ms"),
        status.alias("status"),
        "last_phase",
        "last_ms",
        "epochs",
    )


def is_reassignment_row() -> Column:
    """Condition: the row is a step of a reassignment or a written assignment."""
    return is_kind(Kind.REASSIGNMENT_PHASE, ASSIGNMENT_WRITTEN) & F.col("topic").isNotNull()


def _target() -> Column:
    """Return the target replicas of the assignment in ``detail``, sorted."""
    replicas, removing = (
        F.split(F.regexp_extract("detail", rf"\b{name}=([\d,]*)", 1), ",")
        for name in ("replicas", "removingReplicas")
    )
    no_replica = F.array(F.lit(""))
    left = F.array_except(F.array_except(replicas, removing), no_replica)
    return F.when(F.col("detail").isNotNull(), F.sort_array(left))
