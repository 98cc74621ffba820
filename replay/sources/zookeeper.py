"""Reads ZooKeeper's transaction logs and snapshots.

Merges the logs of several servers by zxid, reports transactions that are missing from all logs, and
rejects logs that contradict each other. Each chroot is a separate run. zookeeper_rows.py reads the
files, zookeeper_events.py derives the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from klamm.cluster.errors import UsageError
from klamm.replay.engines import Engine, rows
from klamm.replay.event_files import Folders, Tasks, store_tasks, write_batches, write_parts
from klamm.replay.event_schema import BEGINS_LATE, LOST_TRANSACTIONS, ZOOKEEPER_LOG, DamagedLine
from klamm.replay.sources import LogSource, SourceOptions, damaged_batch
from klamm.replay.sources.file_parts import part_size, total_size_bytes
from klamm.replay.sources.zookeeper_events import events_of
from klamm.replay.sources.zookeeper_files import (
    ZxidRange,
    find_gaps,
    find_zookeeper_files,
    has_overlap,
    is_snapshot,
    is_txn_log,
    start_snapshot,
)
from klamm.replay.sources.zookeeper_rows import (
    CHANGE_KINDS,
    CHANGES_SCHEMA,
    DIGESTS_SCHEMA,
    ZooKeeperFile,
    change_batches,
    digest_batches,
    scan_log,
)
from klamm.zk.snapshot_file import snapshot_zxid

_SAME: Final = "zxid, op_index, kind, run, topic, partition, broker"


def recognizes(path: Path, head: bytes) -> bool:
    """Return whether a file is a transaction log or a snapshot of ZooKeeper."""
    return is_txn_log(path, head) or is_snapshot(path, head)


def store(engine: Engine, paths: Sequence[Path], options: SourceOptions, folders: Folders) -> str:
    """Read the files of one ensemble and store their changes. Return a query for the events.

    If the logs do not begin with the first transaction, one snapshot replaces the earlier logs.
    Raises UsageError if two files have different transactions with the same zxid.
    """
    files = find_zookeeper_files(paths)
    size = total_size_bytes(files.logs)
    scan = partial(scan_log, part_size(engine, files.logs))
    scans = engine.map(scan, files.logs, size)
    ranges = [zxids for scanned in scans for zxids in scanned.ranges]
    first_zxid = min((zxids.first_zxid for zxids in ranges), default=None)
    start = start_snapshot(files.snapshots, first_zxid)
    before = -1 if first_zxid is None else first_zxid
    items = [
        ZooKeeperFile(number, path, *part)
        for number, (path, scanned) in enumerate(zip(files.logs, scans, strict=True))
        for part in scanned.parts
    ]
    if start is not None:
        items.append(ZooKeeperFile(len(files.logs), start, is_snapshot=True, before=before))
    read = partial(change_batches, options.run)
    changes = store_tasks(engine, Tasks(items, read, size, CHANGES_SCHEMA, CHANGE_KINDS), folders)
    if has_overlap(ranges):
        _refuse_disagreement(engine, files.logs, size, folders.events.parent / "digests")
        changes = _once(changes)
    _store_gaps(ranges, None if start is None else snapshot_zxid(start), folders)
    return events_of(engine, engine.view(changes))


SOURCE: Final = LogSource(ZOOKEEPER_LOG, False, recognizes, store, unites_copies=True)


def _refuse_disagreement(
    engine: Engine, logs: Sequence[Path], size_bytes: int, folder: Path
) -> None:
    folder.mkdir()
    engine.map(partial(_store_digests, folder), list(enumerate(logs)), size_bytes)
    at = "{'digest': digest, 'file': file, 'line': line}"
    differing = rows(
        engine,
        f"""
SELECT * FROM (
  SELECT zxid, min({at}) AS one, max({at}) AS other
  FROM {engine.files(folder, DIGESTS_SCHEMA)} GROUP BY zxid)
WHERE one.digest <> other.digest ORDER BY zxid LIMIT 1""",
    )
    if differing:
        zxid, one, other = (differing[0][name] for name in ("zxid", "one", "other"))
        raise UsageError(
            f"zxid 0x{zxid:x} is one transaction in {one['file']} at byte {one['line']} "
            f"and a different one in {other['file']} at byte {other['line']}",
            hint="replay the logs of one ZooKeeper ensemble at a time",
        )


def _store_digests(folder: Path, item: tuple[int, Path]) -> None:
    number, path = item
    write_batches(digest_batches(path), folder / f"{number:05d}.parquet", DIGESTS_SCHEMA)


def _once(changes: str) -> str:
    """Return a query without duplicates: if several files have a transaction, the first counts."""
    return f"""
SELECT * FROM ({changes})
QUALIFY row_number() OVER (PARTITION BY {_SAME} ORDER BY number, line) = 1"""


def _store_gaps(ranges: Sequence[ZxidRange], start_zxid: int | None, folders: Folders) -> None:
    batches: list[pa.RecordBatch] = []
    for gap in find_gaps(ranges, start_zxid):
        problem = LOST_TRANSACTIONS if gap.is_between else BEGINS_LATE
        damaged = DamagedLine(gap.offset, problem, gap.text)
        batches.append(damaged_batch(ZOOKEEPER_LOG, gap.file, [damaged]))
    write_parts(batches, folders, "gaps.parquet")
