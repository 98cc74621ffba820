"""The benchmark of reading ZooKeeper's logs, in small: it counts what it says it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import replay_zookeeper
from bench.replay_zookeeper import INGEST, measure, write_logs
from klamm.replay.engines import Engine
from klamm.zk.txn_log import Txn, read_txn_log

TRANSACTIONS = 250


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three files."""
    monkeypatch.setattr(replay_zookeeper, "PER_FILE", 100)
    folder = tmp_path / "version-2"
    folder.mkdir()
    write_logs(folder, TRANSACTIONS, partitions=20)
    return folder


def test_the_logs_are_whole(logs: Path) -> None:
    paths = sorted(logs.iterdir())
    found = [txn for path in paths for txn in read_txn_log(path)]
    assert sorted(txn.zxid for txn in found if isinstance(txn, Txn)) == list(range(1, 251))
    assert [path.name for path in paths] == ["log.1", "log.65", "log.c9"]


@pytest.mark.timeout(300)
def test_every_operation_is_measured(duckdb: Engine, logs: Path, tmp_path: Path) -> None:
    rates = measure(duckdb, logs, tmp_path, TRANSACTIONS)
    assert {rate.operations for rate in rates} == {2 * TRANSACTIONS}
    assert all(rate.per_s > 0 for rate in rates)
    assert rates[-1].what == INGEST


def test_what_was_not_read_is_no_rate(duckdb: Engine, logs: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="250 events of 251"):
        measure(duckdb, logs, tmp_path, TRANSACTIONS + 1)
