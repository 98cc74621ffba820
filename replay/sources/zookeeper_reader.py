"""Spark data source ``zktxnlog``: ZooKeeper's transaction logs as rows, one partition per file.

``spark.read.format("zktxnlog").load(path)`` takes a log, a snapshot or a server's directory; the
option ``paths`` takes several, as a JSON list. The option ``rows`` selects the kind of rows:

- ``operations`` (the default): every operation of every transaction of the logs;
- ``changes``: changes of Kafka clusters in the logs and snapshots;
- ``stretches``: the ranges of consecutive transactions in each log;
- ``digests``: a digest of each transaction, to compare the logs of two servers.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.cluster.journal import Kind
from klamm.replay.sources.zookeeper_changes import (
    BROKER,
    CONTROLLER,
    CONTROLLER_CREATED,
    EPOCH,
    EPOCH_WRITTEN,
    TOPIC,
    Change,
    ZNode,
    changes_of,
    malformed,
    written,
    znode_of,
)
from klamm.replay.sources.zookeeper_files import find_files
from klamm.zk.snapshot_file import SnapshotEntry, read_entries
from klamm.zk.txn_log import Txn, TxnDamage, TxnOp, TxnType, read_stretches, read_txn_log
from klamm.zk.znodes import MalformedZNode, UnparsableJson

SNAPSHOT_DETAIL: Final = "snapshot"


class SnapshotChange(NamedTuple):
    """The last write of a znode in a snapshot.

    ``session_id``: owner of an ephemeral znode, else 0.
    """

    offset: int
    zxid: int
    t_ms: int
    session_id: int
    change: Change


def changes_in_snapshot(entries: Iterable[SnapshotEntry]) -> Iterator[SnapshotChange]:
    """Yield the last write of each znode in a snapshot; a snapshot does not name the writer."""
    controllers: dict[str, list[SnapshotChange]] = {}
    for entry in entries:
        znode = znode_of(entry.path)
        if znode is None:
            continue
        node = entry.node
        for change in _last_changes(znode, entry):
            at = (node.czxid, node.ctime_ms) if _is_at_creation(change) else _last_write(entry)
            row = SnapshotChange(entry.offset, *at, node.ephemeral_owner, change)
            if znode.what in (CONTROLLER, EPOCH):
                controllers.setdefault(znode.chroot, []).append(row)
            else:
                yield row
    for rows in controllers.values():
        yield from _election_in_snapshot(rows)


def _last_changes(znode: ZNode, entry: SnapshotEntry) -> Iterator[Change]:
    node = entry.node
    # After a second write the data of the creation is lost.
    is_new = node.czxid == node.mzxid
    try:
        for change in written(
            znode, node.data, node.version, is_new or znode.what == BROKER, 0, None
        ):
            yield change._replace(detail=change.detail or SNAPSHOT_DETAIL)
    except (MalformedZNode, UnparsableJson) as error:
        yield malformed(znode, entry.path, str(error), node.version, 0, None)
    if znode.what == TOPIC and not is_new:
        yield Change(Kind.TOPIC_CREATED.value, 0, znode.chroot, znode.topic, detail=SNAPSHOT_DETAIL)


def _is_at_creation(change: Change) -> bool:
    return change.kind in (Kind.BROKER_ONLINE, Kind.TOPIC_CREATED, CONTROLLER_CREATED)


def _last_write(entry: SnapshotEntry) -> tuple[int, int]:
    return entry.node.mzxid, entry.node.mtime_ms


def _election_in_snapshot(rows: list[SnapshotChange]) -> Iterator[SnapshotChange]:
    """Combine /controller and /controller_epoch if one multi wrote both: they have one zxid."""
    by_kind = {row.change.kind: row for row in rows}
    created, epoch = by_kind.get(CONTROLLER_CREATED), by_kind.get(EPOCH_WRITTEN)
    if created is None or epoch is None or created.zxid != epoch.zxid:
        yield from rows
        return
    broker = created.change.broker
    elected = epoch.change._replace(kind=Kind.CONTROLLER_ELECTED.value, broker=broker)
    yield created._replace(change=elected)


FORMAT: Final = "zktxnlog"
OPERATIONS, CHANGES, STRETCHES, DIGESTS = "operations", "changes", "stretches", "digests"
_BATCH_ROWS: Final = 20_000
_MOST_STRETCHES: Final = 10_000
_DIGEST_BYTES: Final = 8

_FILE: Final = (pa.field("file", pa.string(), False), pa.field("offset", pa.int64(), False))
_TYPES: Final = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "ints": pa.list_(pa.field("element", pa.int32(), False)),
    "long": pa.int64(),
    "string": pa.string(),
    "strings": pa.list_(pa.string()),
}


def _schema(columns: str) -> pa.Schema:
    """Return a schema of file, offset and the given nullable columns, each a name and a type."""
    fields = (column.split() for column in columns.split(","))
    return pa.schema([*_FILE, *(pa.field(name, _TYPES[kind]) for name, kind in fields)])


_OPERATIONS: Final = _schema(
    "zxid long, session long, t_ms long, cxid int, is_multi boolean, is_rejected boolean, "
    "op_index int, type string, path string, data binary, version int, is_ephemeral boolean, "
    "number int, paths strings, problem string, text string"
)
_CHANGES: Final = _schema(
    "zxid long, session long, t_ms long, kind string, op_index int, chroot string, topic string, "
    "partition int, broker int, leader int, leader_epoch int, isr ints, epoch int, "
    "zk_version int, fence int, reassignment string, outcome string, detail string, "
    "problem string, text string"
)
_STRETCHES: Final = _schema("first_zxid long, last_zxid long")
_DIGESTS: Final = _schema("zxid long, digest long")
_Row = tuple[Any, ...]


class _Kind(NamedTuple):
    schema: pa.Schema
    of_log: Callable[[Path], Iterator[_Row]]
    has_snapshots: bool


class ZooKeeperLogs(DataSource):
    """The data source; register it with ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the kind of rows in the option ``rows``."""
        return from_arrow_schema(_kind(self.options).schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the files in the options."""
        return _Reader(dict(self.options))


class _FilePartition(InputPartition):
    def __init__(self, path: str, is_snapshot: bool) -> None:
        super().__init__(path)
        self.path = path
        self.is_snapshot = is_snapshot


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per file."""
        files = find_files(_paths(self._options))
        parts = [_FilePartition(str(path), False) for path in files.logs]
        if _kind(self._options).has_snapshots:
            parts += [_FilePartition(str(path), True) for path in files.snapshots]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file as Arrow batches."""
        assert isinstance(partition, _FilePartition)
        # Exempt imported modules from garbage collection: scanning them takes a fifth of the time.
        gc.freeze()
        kind, before = _kind(self._options), int(self._options.get("before", -1))
        path = Path(partition.path)
        rows = _snapshot_rows(path, before) if partition.is_snapshot else kind.of_log(path)
        return _batches(rows, kind.schema)


def _kind(options: Any) -> _Kind:
    name = options.get("rows", OPERATIONS)
    if name not in _KINDS:
        raise UsageError(f"option rows: {name} is not one of {', '.join(_KINDS)}")
    return _KINDS[name]


def _paths(options: dict[str, str]) -> list[Path]:
    texts = msgspec.json.decode(options["paths"]) if "paths" in options else [options["path"]]
    return [Path(text) for text in texts]


def _batches(rows: Iterator[_Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    some: list[_Row] = []
    for row in rows:
        some.append(row)
        if len(some) == _BATCH_ROWS:
            yield _batch(some, schema)
            some = []
    if some:
        yield _batch(some, schema)


def _batch(rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _txn_rows(columns: int, rows_of: Callable[[Txn], Iterable[_Row]], path: Path) -> Iterator[_Row]:
    """Yield rows of a log: place, zxid, session and time, then the columns of ``rows_of``.

    Damaged transactions become rows, too; ``columns`` is the number of columns.
    """
    file = str(path)
    for txn in read_txn_log(path):
        if isinstance(txn, TxnDamage):
            yield _damage_row(file, txn, columns)
            continue
        head = (file, txn.offset, txn.zxid, txn.session_id, txn.t_ms)
        for row in rows_of(txn):
            yield (*head, *row, None, None)


def _damage_row(file: str, damage: TxnDamage, columns: int) -> _Row:
    nothing = (None,) * (columns - 4)
    return (file, damage.offset, *nothing, damage.problem, damage.text)


def _operations_of(txn: Txn) -> Iterator[_Row]:
    head = (txn.cxid, txn.is_multi, txn.is_rejected)
    return ((*head, index, op.type.name, *op[1:]) for index, op in enumerate(txn.ops))


def _snapshot_rows(path: Path, before: int) -> Iterator[_Row]:
    """Yield the last writes in a snapshot that are older than the logs, with zxid < ``before``.

    The checksum is at the end of the file, so that all rows are read before the first is yielded.
    """
    file = str(path)
    try:
        found = [
            (file, at.offset, at.zxid, at.session_id, at.t_ms, *at.change, None, None)
            for at in changes_in_snapshot(read_entries(path))
            if before < 0 or at.zxid < before
        ]
    except EnvironmentProblem as error:
        yield _damage_row(file, TxnDamage(0, "snapshot", str(error)), len(_CHANGES))
        return
    yield from found


def _stretch_rows(path: Path) -> Iterator[_Row]:
    for count, stretch in enumerate(read_stretches(path), 1):
        if count > _MOST_STRETCHES:
            raise EnvironmentProblem(
                f"{path} has more than {_MOST_STRETCHES:,} gaps between its zxids",
                hint="inspect the file with ZooKeeper's TxnLogToolkit",
            )
        yield (str(path), *stretch)


def _digest_rows(path: Path) -> Iterator[_Row]:
    for txn in read_txn_log(path):
        if isinstance(txn, Txn):
            yield (str(path), txn.offset, txn.zxid, _digest(txn))


def _digest(txn: Txn) -> int:
    """Return a hash of a transaction's content.

    Paths of closed sessions are excluded: servers may differ in them.
    """
    ops = [op._replace(paths=None) if op.type is TxnType.CLOSE_SESSION else op for op in txn.ops]
    text = repr((txn.session_id, txn.cxid, txn.t_ms, txn.is_multi, *map(tuple, ops)))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES)
    return int.from_bytes(digest.digest(), signed=True)


_KINDS: Final[dict[str, _Kind]] = {
    OPERATIONS: _Kind(
        _OPERATIONS, partial(_txn_rows, len(_OPERATIONS), _operations_of), has_snapshots=False
    ),
    CHANGES: _Kind(_CHANGES, partial(_txn_rows, len(_CHANGES), changes_of), has_snapshots=True),
    STRETCHES: _Kind(_STRETCHES, _stretch_rows, False),
    DIGESTS: _Kind(_DIGESTS, _digest_rows, False),
}
assert _CHANGES.names[5:-2] == list(Change._fields)
assert _OPERATIONS.names[9:-2] == list(TxnOp._fields)
