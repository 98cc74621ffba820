"""A replica with real files moves to another log directory: what lies on the disk at each step, and
what Kafka 2.8.2's DumpLogSegments says of the result.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.kafka.locate import SKIP_REASON, run_tool
from klamm.brokers.config import broker_config
from klamm.brokers.logs.checkpoints import RECOVERY_POINT_CHECKPOINT, read_offsets
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.brokers.logs.records import encode_batch
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.records import Record
from klamm.cluster.requests import (
    Address,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from klamm.world.kafka.jars import kafka_libs
from tests.unit.brokers.network import T0, Network, cached, leader_and_isr, state, update_metadata

CLIENT = Address("client", 0)
DELAY_MS = 60_000
CONFIG = broker_config(
    {
        "log.dirs": "a,b",
        "log.index.interval.bytes": "400",
        "log.index.size.max.bytes": "4096",
        "log.segment.bytes": "8000",
        "log.segment.delete.delay.ms": str(DELAY_MS),
        "replica.fetch.max.bytes": "3000",
    }
)
FUTURE = re.compile(r"t-0\.[0-9a-f]{32}-future")
DELETED = re.compile(r"t-0\.[0-9a-f]{32}-delete")


def started(folder: Path, network: Network) -> None:
    """Broker 1 leads t-0, on files below ``folder``."""
    broker = network.add(1, CONFIG, proposed_cluster_id="a-cluster", log_store=FileLogStore(folder))
    broker.startup()
    network.request(1, update_metadata(cached(T0)))
    lead(network, 3)


def lead(network: Network, leader_epoch: int) -> None:
    named = state(T0, leader_epoch=leader_epoch, isr=(1,), replicas=(1,))
    network.request(1, leader_and_isr(named))


def produce(network: Network, batches: int, first: int = 0) -> None:
    """Batches of every compression, one to four records each."""
    for number in range(first, first + batches):
        records = [
            Record(1_000_000 + number, None, f"record-{number}-{one} ".encode() * 20)
            for one in range(1 + number % 4)
        ]
        batch = encode_batch(records, COMPRESSIONS[number % len(COMPRESSIONS)])
        answer = network.request(1, ProduceRequest(-1, 1_000, {T0: batch}), CLIENT)
        assert isinstance(answer, ProduceResponse)
        assert answer.partitions[T0].error is Errors.NONE


def alter(network: Network, path: str) -> None:
    network.request(1, AlterReplicaLogDirsRequest({T0: path}), CLIENT)


def dirs_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir())


def records_in(directory: Path) -> bytes:
    """What all .log files of a log hold, one after the other."""
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def end(network: Network) -> None:
    network.brokers[1].log_maintenance.shutdown()


def test_what_lies_on_the_disk_while_a_replica_moves(tmp_path: Path) -> None:
    network = Network()
    started(tmp_path, network)
    produce(network, 150)
    before = records_in(tmp_path / "a" / "t-0")
    assert len(before) > 3 * 8_000
    alter(network, "b")
    assert dirs_in(tmp_path / "a") == ["t-0"]
    (future,) = dirs_in(tmp_path / "b")
    assert FUTURE.fullmatch(future) and records_in(tmp_path / "b" / future) == b""
    for _ in range(4):
        network.brokers[1].on_timer()
    copied = records_in(tmp_path / "b" / future)
    assert 0 < len(copied) < len(before) and before.startswith(copied)
    produce(network, 1, first=150)
    answer = network.request(1, DescribeLogDirsRequest((T0,)), CLIENT)
    assert isinstance(answer, DescribeLogDirsResponse)
    of_a, of_b = (found.logs[T0] for found in answer.log_dirs)
    assert (of_a.size_bytes > len(before), of_b.size_bytes) == (True, len(copied))
    assert (of_a.is_future, of_b.is_future, of_a.offset_lag) == (False, True, 0)
    assert 0 < of_b.offset_lag < 378
    network.pass_time(0)
    before = records_in(tmp_path / "a" / dirs_in(tmp_path / "a")[0])
    assert dirs_in(tmp_path / "b") == ["t-0"]
    assert records_in(tmp_path / "b" / "t-0") == before
    (deleted,) = dirs_in(tmp_path / "a")
    assert DELETED.fullmatch(deleted)
    network.pass_time(DELAY_MS - 1)
    assert dirs_in(tmp_path / "a") == [deleted]
    network.pass_time(1)
    assert dirs_in(tmp_path / "a") == []
    assert read_offsets(tmp_path / "a" / RECOVERY_POINT_CHECKPOINT) == {}
    end(network)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
def test_a_move_goes_on_with_the_files_that_the_broker_finds(
    tmp_path: Path, is_clean: bool
) -> None:
    network = Network()
    started(tmp_path, network)
    produce(network, 100)
    alter(network, "b")
    for _ in range(4):
        network.brokers[1].on_timer()
    (future,) = dirs_in(tmp_path / "b")
    copied = records_in(tmp_path / "b" / future)
    before = records_in(tmp_path / "a" / "t-0")
    upkeep = network.brokers[1].log_maintenance
    upkeep.shutdown() if is_clean else upkeep.abandon(None)
    network.stores[1].close()
    started(tmp_path, network)
    assert dirs_in(tmp_path / "b") == [future]
    assert records_in(tmp_path / "b" / future) == copied != b""
    network.pass_time(0)
    assert dirs_in(tmp_path / "b") == ["t-0"] and records_in(tmp_path / "b" / "t-0") == before
    lead(network, 4)
    assert (tmp_path / "b" / "t-0" / "partition.metadata").exists()
    end(network)


@pytest.mark.kafka
@pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON)
def test_kafka_reads_what_has_moved(tmp_path: Path) -> None:
    network = Network()
    started(tmp_path, network)
    produce(network, 100)
    lead(network, 4)
    produce(network, 20, first=100)
    alter(network, "b")
    network.pass_time(0)
    produce(network, 20, first=120)
    end(network)
    files = sorted(
        str(path)
        for path in (tmp_path / "b" / "t-0").iterdir()
        if path.suffix in (".log", ".index", ".timeindex")
    )
    assert len(files) > 3 * 3
    for flags in (["--deep-iteration"], ["--index-sanity-check"]):
        done = run_tool("kafka.tools.DumpLogSegments", [*flags, "--files", ",".join(files)])
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("Dumping ") == len(files)
        for complaint in ("invalid bytes", "isvalid: false", "isValid: false", "Exception"):
            assert complaint not in done.stdout
