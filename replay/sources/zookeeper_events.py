"""Derivation of raw events from the changes in ZooKeeper's logs.

Adds what needs more than one transaction: the controller of a fence, the broker of a session, the
ephemeral znodes of a closed session (which logs before ZooKeeper 3.6 do not list), and the
controller epoch. The few rows about controllers and brokers are sorted; rows about partitions are
only joined with them. Unknown values are null, or -1 for a controller and an epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import (
    LEADERSHIP_WRITTEN,
    RAW_SCHEMA,
    WRITE_REFUSED,
    ZK_COUNTER_SHIFT,
    ZK_EPOCH_SHIFT,
    ZOOKEEPER_LOG,
)
from klamm.replay.sources.zookeeper_changes import (
    CONTROLLER_CREATED,
    EPOCH_WRITTEN,
    SESSION_CLOSED,
    SESSION_CLOSED_DETAIL,
)

_EPOCHS: Final = (Kind.CONTROLLER_ELECTED.value, EPOCH_WRITTEN)
_BIRTHS: Final = (Kind.CONTROLLER_ELECTED.value, CONTROLLER_CREATED, Kind.BROKER_ONLINE.value)
_DEATHS: Final = (Kind.CONTROLLER_RESIGNED.value, Kind.BROKER_OFFLINE.value)
_INTERNAL: Final = (CONTROLLER_CREATED, EPOCH_WRITTEN, SESSION_CLOSED)
_ROOT: Final = "/"
_UNKNOWN: Final = -1
_COUNTER_MASK: Final = (1 << 32) - 1
_LAST_INDEX: Final = (1 << ZK_COUNTER_SHIFT) - 1
_FENCED_OFF: Final = "BADVERSION"
_WRITER: Final = "written by broker "


def events_of(changes: DataFrame, run: str | None) -> DataFrame:
    """Return the events (RAW_SCHEMA) of changes, which must have each zxid once.

    ``changes`` is read several times: persist it before. ``run``: prefix of the chroot in run
    names.
    """
    valid = changes.where(F.col("problem").isNull())
    births = valid.where(F.col("kind").isin(*_BIRTHS))
    sessions = _sessions(births)
    is_by_fence = F.coalesce(
        F.col("fence").isNotNull() | (F.col("kind") == LEADERSHIP_WRITTEN), F.lit(False)
    )
    fenced = _with_generation(valid.where(is_by_fence), valid, sessions)
    others = valid.where(~is_by_fence & ~F.col("kind").isin(*_DEATHS, SESSION_CLOSED))
    named = _with_owners(others, sessions, births).unionByName(
        _deaths(valid, births), allowMissingColumns=True
    )
    return _raw(fenced.unionByName(_with_epochs(named), allowMissingColumns=True), run)


def _sessions(births: DataFrame) -> DataFrame:
    """Return the sessions of brokers: ``session``, ``session_chroot``, ``session_broker``."""
    return births.groupBy("session").agg(
        F.min("chroot").alias("session_chroot"), F.max("broker").alias("session_broker")
    )


def _until(rows: DataFrame, *key: str) -> DataFrame:
    """Add ``until_zxid``: where the next row with the same key begins; null for the last one."""
    following = Window.partitionBy(*key).orderBy("from_zxid")
    return rows.withColumn("until_zxid", F.lead("from_zxid").over(following))


def _lasts() -> Column:
    return (F.col("zxid") > F.col("from_zxid")) & (
        F.col("until_zxid").isNull() | (F.col("zxid") <= F.col("until_zxid"))
    )


def _with_generation(rows: DataFrame, valid: DataFrame, sessions: DataFrame) -> DataFrame:
    """Add ``controller`` and ``epoch`` to writes of controllers and to ISRs written by leaders.

    A fence is a version of /controller_epoch, which is written once per epoch.
    """
    epochs = valid.where(F.col("kind").isin(*_EPOCHS)).select(
        F.col("chroot").alias("of_chroot"),
        F.col("zk_version").alias("of_version"),
        F.col("zxid").alias("from_zxid"),
        F.col("epoch").alias("generation"),
        F.col("broker").alias("of_broker"),
    )
    generations = _until(epochs, "of_chroot", "of_version")
    of_chroot = F.col("chroot") == F.col("of_chroot")
    fenced = rows.join(
        F.broadcast(generations),
        of_chroot & (F.col("fence") == F.col("of_version")) & _lasts(),
        "left",
    ).drop("of_chroot", "of_version", "from_zxid", "until_zxid")
    # Leaders write ISRs without a fence. The epoch in their data is that of their election, which
    # may have ended: the current epoch is used if it is newer.
    current = _until(epochs.withColumnRenamed("generation", "current"), "of_chroot").drop(
        "of_version", "of_broker"
    )
    joined = fenced.join(
        F.broadcast(current), F.col("fence").isNull() & of_chroot & _lasts(), "left"
    ).join(F.broadcast(sessions), "session", "left")
    is_leaders = F.col("fence").isNull() & F.col("session_broker").isNotNull()
    writer = F.concat(F.lit(_WRITER), F.col("session_broker"))
    return joined.select(
        *rows.drop("epoch", "detail", "broker").columns,
        F.coalesce("of_broker", F.lit(_UNKNOWN)).alias("controller"),
        F.coalesce("generation", F.greatest("current", "epoch")).alias("epoch"),
        F.coalesce("detail", F.when(is_leaders, writer)).alias("detail"),
    )


def _with_owners(rows: DataFrame, sessions: DataFrame, births: DataFrame) -> DataFrame:
    """Add ``controller`` to rows without a fence, and the broker to rejected writes.

    Rejected writes of sessions that never were brokers of a Kafka cluster are dropped.
    """
    elections = _until(
        births.where(F.col("kind") == Kind.CONTROLLER_ELECTED.value).select(
            F.col("session").alias("of_session"),
            F.col("zxid").alias("from_zxid"),
            F.col("epoch").alias("elected_epoch"),
        ),
        "of_session",
    )
    is_refused = F.col("kind") == WRITE_REFUSED
    # A multi with a failed first operation is logged without paths: BADVERSION means the fence.
    is_fenced_off = is_refused & F.col("chroot").isNull() & (F.col("outcome") == _FENCED_OFF)
    is_its = is_fenced_off & (F.col("session") == F.col("of_session"))
    joined = rows.join(F.broadcast(sessions), "session", "left").join(
        F.broadcast(elections), is_its & _lasts(), "left"
    )
    is_alone = F.col("kind") == EPOCH_WRITTEN
    was_elected = F.col("elected_epoch").isNotNull()
    controller = (
        F.when(is_alone | was_elected, F.col("session_broker"))
        .when(F.col("kind") == Kind.CONTROLLER_ELECTED.value, F.col("broker"))
        .otherwise(_UNKNOWN)
    )
    return joined.where(~is_refused | F.col("session_chroot").isNotNull()).select(
        *rows.drop("chroot", "broker", "epoch").columns,
        F.coalesce("chroot", "session_chroot").alias("chroot"),
        F.when(is_refused, F.col("session_broker")).otherwise(F.col("broker")).alias("broker"),
        F.coalesce("epoch", "elected_epoch").alias("epoch"),
        F.coalesce(controller, F.lit(_UNKNOWN)).alias("controller"),
    )


def _deaths(valid: DataFrame, births: DataFrame) -> DataFrame:
    """Return the ends of ephemeral znodes, with ``controller``: deletions and closed sessions.

    A closed session removes the znodes that it created and that were not deleted before.
    """
    deleted = valid.where(F.col("kind").isin(*_DEATHS))
    of_broker = F.col("kind").isin(Kind.BROKER_ONLINE.value, Kind.BROKER_OFFLINE.value)
    znode = Window.partitionBy("chroot", F.when(of_broker, F.col("broker"))).orderBy(
        "zxid", "op_index"
    )
    lives = births.unionByName(deleted).withColumns(
        {
            "holder": F.lag(F.when(~of_broker, F.col("broker"))).over(znode),
            "next_zxid": F.lead("zxid").over(znode),
        }
    )
    is_birth = F.col("kind").isin(*_BIRTHS)
    was_broker = F.col("birth") == Kind.BROKER_ONLINE.value
    created = lives.where(is_birth).select(
        "session",
        F.col("zxid").alias("born_zxid"),
        "next_zxid",
        F.col("chroot").alias("of_chroot"),
        F.col("broker").alias("of_broker"),
        F.col("kind").alias("birth"),
    )
    lasts = F.col("next_zxid").isNull() | (F.col("next_zxid") > F.col("zxid"))
    left = (
        valid.where(F.col("kind") == SESSION_CLOSED)
        .join(created, "session")
        .where((F.col("born_zxid") < F.col("zxid")) & lasts)
        .withColumns(
            {
                "kind": F.when(was_broker, Kind.BROKER_OFFLINE.value).otherwise(
                    Kind.CONTROLLER_RESIGNED.value
                ),
                "chroot": F.col("of_chroot"),
                "broker": F.when(was_broker, F.col("of_broker")).otherwise(_UNKNOWN),
                "holder": F.when(~was_broker, F.col("of_broker")),
                "detail": F.lit(SESSION_CLOSED_DETAIL),
            }
        )
    )
    controller = F.coalesce("holder", F.lit(_UNKNOWN)).alias("controller")
    columns: list[str | Column] = [*valid.columns, controller]
    return lives.where(~is_birth).select(*columns).unionByName(left.select(*columns))


def _with_epochs(rows: DataFrame) -> DataFrame:
    """Set ``epoch`` to the current controller epoch in rows that do not have one."""
    until_now = (
        Window.partitionBy("chroot")
        .orderBy("zxid", "op_index")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    written = F.when(F.col("kind").isin(*_EPOCHS), F.col("epoch"))
    current = F.last(written, ignorenulls=True).over(until_now)
    return rows.withColumn("epoch", F.coalesce("epoch", current))


def _raw(rows: DataFrame, run: str | None) -> DataFrame:
    """Convert rows to RAW_SCHEMA."""
    name = F.when(F.col("chroot") == "", F.lit(_ROOT)).otherwise(F.col("chroot"))
    if run is not None:
        name = F.concat(F.lit(run), F.col("chroot"))
    index = F.least(F.col("op_index"), F.lit(_LAST_INDEX)).cast("long")
    counter = F.shiftleft(F.col("zxid").bitwiseAND(F.lit(_COUNTER_MASK)), ZK_COUNTER_SHIFT)
    place = F.shiftleft(F.shiftright("zxid", 32), ZK_EPOCH_SHIFT) + counter + index
    # A separate write of the epoch that is not the first one: by a controller before Kafka 2.2, or
    # manual.
    is_election = (F.col("kind") == EPOCH_WRITTEN) & (F.col("zk_version") > 0)
    kind = F.when(is_election, Kind.CONTROLLER_ELECTED.value).otherwise(F.col("kind"))
    columns: dict[str, Column] = {
        "source": F.lit(ZOOKEEPER_LOG),
        "run": name,
        "line": F.col("offset"),
        "place": place,
        "seq": F.lit(0),
        "epoch": F.coalesce("epoch", F.lit(_UNKNOWN)),
        "kind": kind,
        "replica": F.coalesce("broker", F.lit(_UNKNOWN)),
        "event_id": F.lit(0),
        "cause_id": F.lit(0),
        "has_predecessors": F.lit(False),
    }
    is_controllers = kind.isin(Kind.CONTROLLER_ELECTED.value, Kind.CONTROLLER_RESIGNED.value)
    columns["replica"] = F.when(is_controllers, _UNKNOWN).otherwise(columns["replica"])
    events = rows.where(~F.col("kind").isin(*_INTERNAL) | is_election)
    present: Sequence[str] = events.columns
    return events.select(
        *(
            columns.get(field.name, F.col(field.name) if field.name in present else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in RAW_SCHEMA
        )
    )
