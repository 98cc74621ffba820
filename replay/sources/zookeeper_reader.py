"""Spark data source ``zktxnlog``: reads ZooKeeper's transaction logs, one partition per file.

``spark.read.format("zktxnlog").load(path)`` reads a log, or the logs in a server's directory. The
option ``paths`` takes several paths, as a JSON list. Each operation in a transaction is a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from klamm.replay.sources import batches
from klamm.replay.sources.zookeeper_files import find_zookeeper_files
from klamm.zk.txn_log import TxnDamage, TxnOp, read_txn_log

FORMAT: Final = "zktxnlog"
_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string(), False),
        pa.field("offset", pa.int64(), False),
        ("zxid", pa.int64()),
        ("session", pa.int64()),
        ("t_ms", pa.int64()),
        ("cxid", pa.int32()),
        ("is_multi", pa.bool_()),
        ("is_rejected", pa.bool_()),
        ("op_index", pa.int32()),
        ("type", pa.string()),
        ("path", pa.string()),
        ("data", pa.binary()),
        ("version", pa.int32()),
        ("is_ephemeral", pa.bool_()),
        ("number", pa.int32()),
        ("paths", pa.list_(pa.string())),
        ("problem", pa.string()),
        ("text", pa.string()),
    ]
)
assert _SCHEMA.names[10:-2] == list(TxnOp._fields)[1:]


class ZooKeeperLogs(DataSource):
    """The Spark data source ``zktxnlog``. Register it with ``spark.dataSource.register``."""

    @classmethod
    def name(cls) -> str:
        """Return the name to use with ``spark.read.format``."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the schema of the rows."""
        return from_arrow_schema(_SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the files that the options name."""
        return _Reader(dict(self.options))


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        texts = msgspec.json.decode(options["paths"]) if "paths" in options else [options["path"]]
        self._paths = [Path(text) for text in texts]

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition per file."""
        return [InputPartition(str(path)) for path in find_zookeeper_files(self._paths).logs]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a file as Arrow batches."""
        return batches(_rows(partition.value), _SCHEMA)


def _rows(file: str) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each operation in a log, and a row for each damaged transaction."""
    for txn in read_txn_log(Path(file)):
        if isinstance(txn, TxnDamage):
            nothing = (None,) * (len(_SCHEMA) - 4)
            yield (file, txn.offset, *nothing, txn.problem, txn.text)
            continue
        head = (file, txn.offset, txn.zxid, txn.session_id, txn.t_ms)
        of_txn = (txn.cxid, txn.is_multi, txn.is_rejected)
        for index, op in enumerate(txn.ops):
            yield (*head, *of_txn, index, op.type.name, *op[1:], None, None)
