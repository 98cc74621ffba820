"""Raw events out of changes that ZooKeeper's logs tell: what needs more than one transaction.

Which controller a fence stands for, who held a session, what a closed session left (before 3.6 the
log does not say), which epoch it was. The few rows about controllers and brokers are sorted; those
about partitions are only joined with them. What cannot be known is null, or -1 for a controller and
an epoch. Reads no file.
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
_UNTOLD: Final = (CONTROLLER_CREATED, EPOCH_WRITTEN, SESSION_CLOSED)
_ROOT: Final = "/"
_UNKNOWN: Final = -1
_COUNTER_MASK: Final = (1 << 32) - 1
_LAST_INDEX: Final = (1 << ZK_COUNTER_SHIFT) - 1
_FENCED_OFF: Final = "BADVERSION"
_WRITER: Final = "written by broker "


def events_of(changes: DataFrame, run: str | None) -> DataFrame:
    """Events by RAW_SCHEMA of changes (rows ``changes`` of the data source, each zxid once).

    ``changes`` is read several times: let it be stored. ``run``: a name before the chroot.
    """
    told = changes.where(F.col("problem").isNull())
    births = told.where(F.col("kind").isin(*_BIRTHS))
    sessions = _sessions(births)
    is_by_fence = F.coalesce(
        F.col("fence").isNotNull() | (F.col("kind") == LEADERSHIP_WRITTEN), F.lit(False)
    )
    fenced = _with_generation(told.where(is_by_fence), told, sessions)
    others = told.where(~is_by_fence & ~F.col("kind").isin(*_DEATHS, SESSION_CLOSED))
    named = _with_owners(others, sessions, births).unionByName(
        _deaths(told, births), allowMissingColumns=True
    )
    return _raw(fenced.unionByName(_with_epochs(named), allowMissingColumns=True), run)


def _sessions(births: DataFrame) -> DataFrame:
    """``session``, ``session_chroot``, ``session_broker``: whose sessions those of brokers are."""
    return births.groupBy("session").agg(
        F.min("chroot").alias("session_chroot"), F.max("broker").alias("session_broker")
    )


def _until(rows: DataFrame, *key: str) -> DataFrame:
    """With ``until_zxid``: where the next row of the same key begins; null for the last one."""
    following = Window.partitionBy(*key).orderBy("from_zxid")
    return rows.withColumn("until_zxid", F.lead("from_zxid").over(following))


def _lasts() -> Column:
    return (F.col("zxid") > F.col("from_zxid")) & (
        F.col("until_zxid").isNull() | (F.col("zxid") <= F.col("until_zxid"))
    )


def _with_generation(rows: DataFrame, told: DataFrame, sessions: DataFrame) -> DataFrame:
    """Rows of controllers, and ISRs that leaders wrote themselves: ``controller``, ``epoch``.

    A fence is a version of /controller_epoch, which is written once an epoch.
    """
    epochs = told.where(F.col("kind").isin(*_EPOCHS)).select(
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
    # A leader that writes by itself does so without a fence, and its data has the epoch that made
    # it the leader, which may be over.
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
    """What no fence tells of: ``controller``, and the broker of a session that was refused.

    A refusal to somebody who never was a broker of a Kafka cluster is left out.
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
    # Of a multi whose first operation failed nothing is left: with this error it was the fence.
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


def _deaths(told: DataFrame, births: DataFrame) -> DataFrame:
    """Ends of ephemerals, each once, with ``controller``: deleted, or left by a session.

    A session leaves what it created if nothing befell it in between.
    """
    deleted = told.where(F.col("kind").isin(*_DEATHS))
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
        told.where(F.col("kind") == SESSION_CLOSED)
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
    columns: list[str | Column] = [*told.columns, controller]
    return lives.where(~is_birth).select(*columns).unionByName(left.select(*columns))


def _with_epochs(rows: DataFrame) -> DataFrame:
    """The epoch that it was, where a row does not tell one."""
    until_now = (
        Window.partitionBy("chroot")
        .orderBy("zxid", "op_index")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    told = F.when(F.col("kind").isin(*_EPOCHS), F.col("epoch"))
    current = F.last(told, ignorenulls=True).over(until_now)
    return rows.withColumn("epoch", F.coalesce("epoch", current))


def _raw(rows: DataFrame, run: str | None) -> DataFrame:
    """RAW_SCHEMA's columns."""
    name = F.when(F.col("chroot") == "", F.lit(_ROOT)).otherwise(F.col("chroot"))
    if run is not None:
        name = F.concat(F.lit(run), F.col("chroot"))
    index = F.least(F.col("op_index"), F.lit(_LAST_INDEX)).cast("long")
    counter = F.shiftleft(F.col("zxid").bitwiseAND(F.lit(_COUNTER_MASK)), ZK_COUNTER_SHIFT)
    place = F.shiftleft(F.shiftright("zxid", 32), ZK_EPOCH_SHIFT) + counter + index
    # Written by itself, and not for the first time: a controller of before 2.2, or somebody's hand.
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
    told = rows.where(~F.col("kind").isin(*_UNTOLD) | is_election)
    present: Sequence[str] = told.columns
    return told.select(
        *(
            columns.get(field.name, F.col(field.name) if field.name in present else F.lit(None))
            .cast(field.dataType)
            .alias(field.name)
            for field in RAW_SCHEMA
        )
    )
