"""How fast ZooKeeper's transaction logs become rows, events, and an event table.

``python -m bench.replay_zookeeper``: writes logs of a busy cluster, each of as many transactions as
ZooKeeper puts into a file, and reads them on two cores. What is read
is checked by its count, and by nothing else.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from klamm.replay.engines import Engine
from klamm.replay.engines.duckdb_engine import duckdb_engine
from klamm.replay.generate.txn_log_writer import TxnLogWriter, log_name
from klamm.replay.ingest import make_table
from klamm.zk.txn_log import TxnOp, TxnType

REQUIRED_PER_S = 30_000
TRANSACTIONS = 1_000_000
PARTITIONS = 20_000
PER_TOPIC = 100
PER_FILE = 100_000
OPERATIONS_PER_TRANSACTION = 2
CORES = 2
MEMORY_MB = 2048
INGEST = "ingest: events, coded and stored"
PREDECESSORS = "what came before each event"


class Rate(NamedTuple):
    """Operations of ZooKeeper in a time: how far they came is ``what``."""

    what: str
    operations: int
    duration_s: float

    @property
    def per_s(self) -> float:
        """Operations a second."""
        return self.operations / self.duration_s


def write_logs(folder: Path, transactions: int, partitions: int = PARTITIONS) -> None:
    """Logs of a controller that writes leaderships, a fence and a write in each transaction."""
    for first in range(1, transactions + 1, PER_FILE):
        with closing(TxnLogWriter(folder / log_name(first))) as writer:
            for zxid in range(first, min(first + PER_FILE, transactions + 1)):
                ops = _election() if zxid == 1 else _leadership(zxid, partitions)
                writer.write(zxid, 1_600_000_000_000 + zxid, 1, ops)


def _election() -> tuple[TxnOp, TxnOp]:
    data = b'{"version":1,"brokerid":0,"timestamp":"1600000000000"}'
    create = TxnOp(TxnType.CREATE, "/controller", data, is_ephemeral=True)
    return create, TxnOp(TxnType.SET_DATA, "/controller_epoch", b"1", 1)


def _leadership(zxid: int, partitions: int) -> tuple[TxnOp, TxnOp]:
    turn, number = divmod(zxid, partitions)
    topic, partition = divmod(number, PER_TOPIC)
    path = f"/brokers/topics/topic-{topic}/partitions/{partition}/state"
    data = (
        f'{{"controller_epoch":1,"leader":{zxid % 3},"version":1,'
        f'"leader_epoch":{turn},"isr":[0,1,2]}}'
    )
    check = TxnOp(TxnType.CHECK, "/controller_epoch", version=2)
    return check, TxnOp(TxnType.SET_DATA, path, data.encode(), turn + 1)


def measure(engine: Engine, folder: Path, scratch: Path, transactions: int) -> list[Rate]:
    """Rates of reading the logs in ``folder``, which hold ``transactions``; a table in ``scratch``.

    Raises AssertionError if something was not read.
    """
    operations = transactions * OPERATIONS_PER_TRANSACTION
    (source,) = make_table(engine, [folder], scratch / "table").sources
    assert source.rows == transactions, f"{source.rows} events of {transactions} transactions"
    assert source.predecessors_s is not None
    return [
        Rate(PREDECESSORS, operations, source.predecessors_s),
        Rate(INGEST, operations, source.read_s),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rates; 1 if logs are ingested more slowly than is required."""
    parser = argparse.ArgumentParser(prog="bench.replay_zookeeper")
    parser.add_argument("--transactions", type=int, default=TRANSACTIONS)
    transactions = parser.parse_args(arguments).transactions
    with tempfile.TemporaryDirectory(prefix="klamm-bench-") as name:
        folder = Path(name, "version-2")
        folder.mkdir()
        write_logs(folder, transactions)
        with duckdb_engine(CORES, MEMORY_MB) as engine:
            rates = measure(engine, folder, Path(name), transactions)
    for rate in rates:
        print(f"{rate.what}: {rate.per_s:,.0f} operations/s ({rate.duration_s:.1f} s)")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{transactions:,} transactions, {CORES} cores, load {load}")
    is_enough = rates[-1].per_s >= REQUIRED_PER_S
    print(f"required: {REQUIRED_PER_S:,} operations/s: {'yes' if is_enough else 'NO'}")
    return 0 if is_enough else 1


if __name__ == "__main__":
    raise SystemExit(main())
