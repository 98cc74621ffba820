"""How fast logs become event tables: a journal, Kafka's state-change.log, ZooKeeper's log.

Generates each once, and reads it twice: Java compiles what it runs often.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bench.usage import Usage
from replay.generate.generate import generate
from replay.generate.options import Format, HistoryOptions
from replay.ingest import make_table
from replay.sources import SourceOptions
from zk.txn_log import Txn, read_txn_log

PARTITIONS_PART: Final = 100
_WARM_UP_PART: Final = 10
_FORMATS: Final = {
    "ingest, JSONL": Format.JOURNAL,
    "ingest, state-change.log": Format.STATE_CHANGE_LOG,
    "ingest, transaction log": Format.ZOOKEEPER,
}

Sessions = Callable[[], AbstractContextManager[SparkSession]]


def measure_ingest(
    folder: Path, rows: int, sessions: Sessions
) -> Iterator[tuple[str, int, float, float, int]]:
    """What was read, how many rows (lines; operations) it has, the seconds of all of it, with what
    came before each where a log does not say, those of processors, and the memory in MB."""
    for what, written_as in _FORMATS.items():
        logs = folder / written_as
        for name, count in (("small", rows // _WARM_UP_PART), ("large", rows)):
            history = HistoryOptions(max(1, count // PARTITIONS_PART), count)
            generate(history, written_as, logs / name)
        with sessions() as spark:
            for name in ("small", "large"):
                table = folder / "tables" / written_as / name
                with Usage() as used:
                    start_s = time.perf_counter()
                    make_table(spark, [logs / name], table, options=SourceOptions(timezone="UTC"))
                    took_s = time.perf_counter() - start_s
        yield what, _count(logs / "large", written_as), took_s, used.cpu_s, used.peak_mb


def _count(logs: Path, written_as: Format) -> int:
    """Lines, or operations of ZooKeeper."""
    if written_as is Format.ZOOKEEPER:
        files = logs.glob("*/log.*")
        txns = (txn for file in files for txn in read_txn_log(file) if isinstance(txn, Txn))
        return sum(len(txn.ops) for txn in txns)
    return sum(path.read_bytes().count(b"\n") for path in logs.rglob("*.*l*") if path.is_file())
