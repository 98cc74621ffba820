"""Source for ZooKeeper's transaction logs and snapshots.

Unites the logs of several servers by zxid, reports transactions that none of them has, and rejects
logs that contradict each other. Each chroot is a separate run. Files are read by
replay/sources/zookeeper_reader.py; events are derived in zookeeper_events.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from klamm.cluster.errors import UsageError
from klamm.replay.event_schema import BEGINS_LATE, LOST_TRANSACTIONS, ZOOKEEPER_LOG
from klamm.replay.sources import Source, SourceOptions
from klamm.replay.sources.zookeeper_events import events_of
from klamm.replay.sources.zookeeper_files import (
    FileStretch,
    Gap,
    ZooKeeperFiles,
    find_files,
    find_gaps,
    has_overlap,
    is_snapshot,
    is_txn_log,
    start_snapshot,
)
from klamm.replay.sources.zookeeper_reader import CHANGES, DIGESTS, FORMAT, STRETCHES, ZooKeeperLogs
from klamm.zk.snapshot_file import snapshot_zxid

_UNREAD: Final = ("file", "offset", "problem", "text")
_SAME: Final = ("zxid", "op_index", "kind", "chroot", "topic", "partition", "broker")


def recognizes(path: Path, head: bytes) -> bool:
    """Return whether a file is a transaction log or a snapshot of ZooKeeper."""
    return is_txn_log(path, head) or is_snapshot(path, head)


def read(spark: SparkSession, paths: Sequence[Path], options: SourceOptions) -> DataFrame:
    """Return events and damaged places (READ_SCHEMA) in the files of one ensemble.

    The ranges of transactions are read at once; the changes are cached on disk, because several
    queries use them. At most one snapshot is used, if the logs do not begin with the first
    transaction. Raises UsageError if two files have different transactions with the same zxid.
    """
    spark.dataSource.register(ZooKeeperLogs)
    files = find_files(paths)
    stretches = _stretches(spark, files.logs)
    first_zxid = min((stretch.first_zxid for stretch in stretches), default=None)
    start = start_snapshot(files.snapshots, first_zxid)
    used = ZooKeeperFiles(files.logs, () if start is None else (start,))
    changes = _load(spark, used, CHANGES, before=-1 if first_zxid is None else first_zxid)
    if has_overlap(stretches):
        _refuse_disagreement(_load(spark, ZooKeeperFiles(files.logs, ()), DIGESTS))
        changes = _once(changes)
    changes = changes.persist(StorageLevel.DISK_ONLY)
    gaps = find_gaps(stretches, None if start is None else snapshot_zxid(start))
    unread = changes.where(F.col("problem").isNotNull()).select(*_UNREAD)
    damaged = unread.unionByName(_gap_rows(spark, gaps)).select(
        F.lit(ZOOKEEPER_LOG).alias("source"), "file", F.col("offset").alias("line"), *_UNREAD[2:]
    )
    return events_of(changes, options.run).unionByName(damaged, allowMissingColumns=True)


SOURCE: Final = Source(ZOOKEEPER_LOG, False, recognizes, read, unites_copies=True)


def _load(
    spark: SparkSession, files: ZooKeeperFiles, rows: str, before: int | None = None
) -> DataFrame:
    texts = [str(path) for path in (*files.logs, *files.snapshots)]
    reader = spark.read.format(FORMAT).option("rows", rows)
    if before is not None:
        reader = reader.option("before", before)
    return reader.option("paths", msgspec.json.encode(texts).decode()).load()


def _stretches(spark: SparkSession, logs: Sequence[Path]) -> list[FileStretch]:
    if not logs:
        return []
    found = _load(spark, ZooKeeperFiles(tuple(logs), ()), STRETCHES).collect()
    return [FileStretch(at.first_zxid, at.last_zxid, at.file, at.offset) for at in found]


def _refuse_disagreement(digests: DataFrame) -> None:
    at = F.struct("digest", "file", "offset")
    differing = (
        digests.groupBy("zxid")
        .agg(F.min(at).alias("one"), F.max(at).alias("other"))
        .where("one.digest != other.digest")
        .orderBy("zxid")
        .limit(1)
        .collect()
    )
    if differing:
        ((zxid, one, other),) = differing
        raise UsageError(
            f"zxid 0x{zxid:x} is a different transaction in {one.file} at byte {one.offset} and in "
            f"{other.file} at byte {other.offset}",
            hint="replay the logs of one ZooKeeper ensemble at a time",
        )


def _once(changes: DataFrame) -> DataFrame:
    """Deduplicate transactions across files, keeping the first file's; keep all damaged places."""
    first = Window.partitionBy(*_SAME).orderBy("file", "offset")
    number = F.when(F.col("problem").isNull(), F.row_number().over(first)).otherwise(1)
    return changes.withColumn("_number", number).where("_number = 1").drop("_number")


def _gap_rows(spark: SparkSession, gaps: Sequence[Gap]) -> DataFrame:
    rows = [
        (gap.file, gap.offset, LOST_TRANSACTIONS if gap.is_between else BEGINS_LATE, gap.text)
        for gap in gaps
    ]
    return spark.createDataFrame(rows, "file string, offset long, problem string, text string")
