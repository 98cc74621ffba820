"""Reads ZooKeeper's files: changes to Kafka clusters, zxid ranges, and digests of transactions.

Each function reads one file. Worker processes call these functions in parallel.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.journal import Kind
from klamm.replay.event_schema import KINDS, TYPES, ZOOKEEPER_LOG, DamagedLine
from klamm.replay.sources import batches, damaged_batch
from klamm.replay.sources.zookeeper_changes import (
    BROKER,
    CONTROLLER,
    CONTROLLER_CREATED,
    EPOCH,
    EPOCH_WRITTEN,
    SESSION_CLOSED,
    TOPIC,
    ClusterChange,
    ZNodePath,
    changes_of,
    written,
    znode_of,
)
from klamm.replay.sources.zookeeper_files import ZxidRange
from klamm.zk.snapshot_file import SnapshotEntry, read_entries
from klamm.zk.txn_log import Txn, TxnDamage, TxnType, cut_txn_log, read_stretches, read_txn_log

SNAPSHOT_DETAIL: Final = "snapshot"
_AT_CREATION: Final = (Kind.BROKER_ONLINE, Kind.TOPIC_CREATED, CONTROLLER_CREATED)


class SnapshotChange(NamedTuple):
    """A change with the byte offset, zxid, time and session of its transaction.

    In a snapshot, ``offset`` is the offset of the znode, and ``session_id`` is the session that
    owns it if it is ephemeral, otherwise 0.
    """

    offset: int
    zxid: int
    t_ms: int
    session_id: int
    change: ClusterChange


def changes_in_snapshot(entries: Iterable[SnapshotEntry]) -> Iterator[SnapshotChange]:
    """Yield the last change of each znode in a snapshot. Earlier changes are not in a snapshot."""
    controllers: dict[str, list[SnapshotChange]] = {}
    for entry in entries:
        znode = znode_of(entry.path)
        if znode is None:
            continue
        node = entry.node
        for change in _last_changes(znode, entry):
            is_of_creation = change.kind in _AT_CREATION
            at = (node.czxid, node.ctime_ms) if is_of_creation else (node.mzxid, node.mtime_ms)
            row = SnapshotChange(entry.offset, *at, node.ephemeral_owner, change)
            if znode.what in (CONTROLLER, EPOCH):
                controllers.setdefault(znode.chroot, []).append(row)
            else:
                yield row
    for rows in controllers.values():
        yield from _election_in_snapshot(rows)


def _last_changes(znode: ZNodePath, entry: SnapshotEntry) -> Iterator[ClusterChange]:
    node = entry.node
    # If the znode was written again, the data with which it was created is lost.
    is_new = node.czxid == node.mzxid
    created = is_new or znode.what == BROKER
    for change in written(znode, entry.path, node.data, node.version, created):
        change.detail = change.detail or SNAPSHOT_DETAIL
        yield change
    if znode.what == TOPIC and not is_new:
        yield ClusterChange(
            Kind.TOPIC_CREATED.value, znode.chroot, znode.topic, detail=SNAPSHOT_DETAIL
        )


def _election_in_snapshot(rows: list[SnapshotChange]) -> Iterator[SnapshotChange]:
    """Combine the writes of /controller and /controller_epoch if they are one transaction."""
    by_kind = {row.change.kind: row for row in rows}
    created, epoch = by_kind.get(CONTROLLER_CREATED), by_kind.get(EPOCH_WRITTEN)
    if created is None or epoch is None or created.zxid != epoch.zxid:
        yield from rows
        return
    epoch.change.kind, epoch.change.broker = Kind.CONTROLLER_ELECTED.value, created.change.broker
    yield created._replace(change=epoch.change)


_MOST_RANGES: Final = 10_000
_DIGEST_BYTES: Final = 8
_ROOT: Final = "/"
CHANGE_KINDS: Final = (*KINDS, CONTROLLER_CREATED, EPOCH_WRITTEN, SESSION_CLOSED)
"""The kinds of changes. The last three are not events, but events are derived from them."""
_COLUMNS: Final = {
    **{"file": "hash", "number": "int", "line": "long", "zxid": "long", "session": "long"},
    **{"t_ms": "long", "kind": "code", "run": "hash", "topic": "hash"},
    **{"partition": "int", "broker": "int", "leader": "int", "leader_epoch": "int", "isr": "ints"},
    **{"epoch": "int", "zk_version": "int", "fence": "int", "reassignment": "hash"},
    **{"outcome": "hash", "detail": "string", "op_index": "int"},
}
CHANGES_SCHEMA: Final = pa.schema([(name, TYPES[kind]) for name, kind in _COLUMNS.items()])
"""Changes, with codes and hashes. ``number``: position of the file among the files that are read.
``run``: null if the chroot of a change is unknown."""
_RAW_SCHEMA: Final = pa.schema(
    [(name, TYPES[re.sub("code|hash", "string", kind)]) for name, kind in _COLUMNS.items()]
    + [("problem", pa.string()), ("text", pa.string())]
)
DIGESTS_SCHEMA: Final = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("zxid", pa.int64()), ("digest", pa.int64())]
)


class ZooKeeperFile(NamedTuple):
    """A part of a log, or a snapshot to read.

    - ``number``: position of the file among the files that are read.
    - ``begin``, ``end``: where the part of a log begins and ends, in bytes.
    - ``is_snapshot``: the file is a snapshot. It is read as a whole.
    - ``before``: in a snapshot, ignore changes from this zxid on, because the logs contain them;
      -1: ignore none.
    """

    number: int
    path: Path
    begin: int = 0
    end: int = 0
    is_snapshot: bool = False
    before: int = -1


def change_batches(run: str | None, file: ZooKeeperFile) -> Iterator[pa.RecordBatch]:
    """Yield the changes and damaged transactions of a file.

    ``run``: name of the cluster, to which the chroot is appended; None: the chroot is the name.
    """
    damaged: list[DamagedLine] = []
    yield from batches(_rows(run, file, damaged), _RAW_SCHEMA)
    if damaged:
        yield damaged_batch(ZOOKEEPER_LOG, str(file.path), damaged)


def _rows(
    run: str | None, file: ZooKeeperFile, damaged: list[DamagedLine]
) -> Iterator[tuple[Any, ...]]:
    """Yield the changes of a file, and append its damaged transactions to ``damaged``."""
    of_file = _in_snapshot if file.is_snapshot else _in_log
    path = str(file.path)
    for found in of_file(file):
        if isinstance(found, TxnDamage):
            damaged.append(DamagedLine(found.offset, found.problem, found.text))
            continue
        offset, zxid, t_ms, session, change = found
        kind, chroot, *others = msgspec.structs.astuple(change)
        name = None if chroot is None else f"{run}{chroot}" if run is not None else chroot or _ROOT
        head = (path, file.number, offset, zxid, session, t_ms, kind, name)
        yield (*head, *others, None, None)


def _in_log(file: ZooKeeperFile) -> Iterator[SnapshotChange | TxnDamage]:
    for txn in read_txn_log(file.path, file.begin, file.end):
        if isinstance(txn, TxnDamage):
            yield txn
            continue
        for change in changes_of(txn):
            yield SnapshotChange(txn.offset, txn.zxid, txn.t_ms, txn.session_id, change)


def _in_snapshot(file: ZooKeeperFile) -> Iterator[SnapshotChange | TxnDamage]:
    """Yield the changes in a snapshot that are older than the logs.

    Reads the whole file first, because its checksum is at the end.
    """
    try:
        found = list(changes_in_snapshot(read_entries(file.path)))
    except EnvironmentProblem as error:
        yield TxnDamage(0, "snapshot", str(error))
        return
    yield from (at for at in found if file.before < 0 or at.zxid < file.before)


class LogScan(NamedTuple):
    """Where a log has transactions: its ranges of zxids, and the parts to read it in, in bytes."""

    ranges: list[ZxidRange]
    parts: list[tuple[int, int]]


def scan_log(part_bytes: int, path: Path) -> LogScan:
    """Find the ranges of consecutive transactions in a log, and divide it into parts.

    Raises EnvironmentProblem if there are more than 10,000 ranges.
    """
    found = []
    for count, (offset, first, last) in enumerate(read_stretches(path), 1):
        if count > _MOST_RANGES:
            raise EnvironmentProblem(
                f"{path} has more than {_MOST_RANGES:,} gaps between its zxids",
                hint="inspect the file with ZooKeeper's TxnLogToolkit",
            )
        found.append(ZxidRange(first, last, str(path), offset))
    return LogScan(found, cut_txn_log(path, part_bytes))


def digest_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield a digest of each transaction in a log (DIGESTS_SCHEMA), to compare logs of servers."""
    some = [
        {"file": str(path), "line": txn.offset, "zxid": txn.zxid, "digest": _digest(txn)}
        for txn in read_txn_log(path)
        if isinstance(txn, Txn)
    ]
    yield pa.RecordBatch.from_pylist(some, DIGESTS_SCHEMA)


def _digest(txn: Txn) -> int:
    """Return a hash of a transaction's content.

    Leaves out the paths of a closed session's ephemeral znodes, which may differ between servers.
    """
    ops = [op._replace(paths=None) if op.type is TxnType.CLOSE_SESSION else op for op in txn.ops]
    text = repr((txn.session_id, txn.cxid, txn.t_ms, txn.is_multi, *map(tuple, ops)))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return int.from_bytes(digest.digest(), signed=True)


assert [name for name in _COLUMNS if name not in ("run",)][6:] == [
    name for name in ClusterChange.__struct_fields__ if name != "chroot"
]
