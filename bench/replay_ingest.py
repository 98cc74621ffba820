"""How fast logs become event tables: a journal, Kafka's state-change.log, ZooKeeper's log.

Generates each once, and reads a small one before the large one. What came before each
row, which a log does not say, is added by one sort a key and timed apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

from bench.usage import Usage
from klamm.replay.engines import Engine
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions
from klamm.replay.ingest import make_table
from klamm.replay.sources import SourceOptions
from klamm.zk.txn_log import Txn, read_txn_log

PARTITIONS_PART: Final = 100
_WARM_UP_PART: Final = 10
_FORMATS: Final = {
    "ingest, JSONL": Format.JOURNAL,
    "ingest, state-change.log": Format.STATE_CHANGE_LOG,
    "ingest, transaction log": Format.ZOOKEEPER,
}

Engines = Callable[[], AbstractContextManager[Engine]]


class Ingested(NamedTuple):
    """``rows``: lines, or operations of ZooKeeper. ``took_s`` is all of it but ``before_s``, in
    which what came before each row was found; ``cpu_s`` and ``peak_mb`` are those of both."""

    what: str
    rows: int
    took_s: float
    before_s: float
    cpu_s: float
    peak_mb: int


def measure_ingest(folder: Path, rows: int, engines: Engines) -> Iterator[Ingested]:
    """What each kind of log took, of about so many rows; files and tables go into ``folder``."""
    for what, written_as in _FORMATS.items():
        logs = folder / written_as
        for name, count in (("small", rows // _WARM_UP_PART), ("large", rows)):
            history = HistoryOptions(max(1, count // PARTITIONS_PART), count)
            generate(history, written_as, logs / name)
        with engines() as engine:
            for name in ("small", "large"):
                table = folder / "tables" / written_as / name
                with Usage() as used:
                    start_s = time.perf_counter()
                    options = SourceOptions(timezone="UTC")
                    made = make_table(engine, [logs / name], table, options=options)
                    took_s = time.perf_counter() - start_s
        before_s = sum(source.predecessors_s or 0.0 for source in made.sources)
        count = _count(logs / "large", written_as)
        yield Ingested(what, count, took_s - before_s, before_s, used.cpu_s, used.peak_mb)


def _count(logs: Path, written_as: Format) -> int:
    """Lines, or operations of ZooKeeper."""
    if written_as is Format.ZOOKEEPER:
        files = logs.glob("*/log.*")
        txns = (txn for file in files for txn in read_txn_log(file) if isinstance(txn, Txn))
        return sum(len(txn.ops) for txn in txns)
    return sum(path.read_bytes().count(b"\n") for path in logs.rglob("*.*l*") if path.is_file())
