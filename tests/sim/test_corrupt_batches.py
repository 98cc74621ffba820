"""A batch that the disk has spoilt: whoever meets it says so in the journal, and klamm explain."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.brokers.logs.record_batch import HEADER_SIZE_BYTES
from klamm.cli.explain import explained_lines
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import Address
from klamm.world.clients.config import ConsumerConfig
from klamm.world.clients.consumer import Consumer
from klamm.world.explain.explain import explain_partition
from tests.sim.replication import IDS, T0, Cluster

BATCH_RECORDS = 10


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """t-0 on three brokers with files, led by 0; broker 1 is down and lacks four batches, of which
    the third is spoilt on broker 0."""
    cluster = Cluster(segments=tmp_path, config={"log.dirs": "d0"})
    cluster.world.kill(1)
    for _ in range(4):
        cluster.produce(0, BATCH_RECORDS)
        cluster.world.run_for(20_000)
    (path,) = (tmp_path / "0" / "d0" / "t-0").glob("*.log")
    written = bytearray(path.read_bytes())
    written[len(written) // 4 * 2 + HEADER_SIZE_BYTES] ^= 1
    path.write_bytes(written)
    yield cluster
    cluster.close()


def rows(cluster: Cluster) -> list[JournalRow]:
    return [row for row in cluster.world.journal.rows if row.kind == Kind.CORRUPT_BATCH]


def said(row: JournalRow) -> tuple[int, int, str]:
    """(offset, next offset, who met it); the reason is Kafka's."""
    detail = json.loads(row.detail or "")
    assert detail["reason"].startswith("Record is corrupt (stored crc = ")
    return detail["offset"], detail["next_offset"], detail["fetched_by"]


def test_a_follower_logs_a_repeated_request_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.world.start(1)
    cluster.world.run_for(30_000)
    (row,) = rows(cluster)
    assert (row.topic, row.partition, row.replica, row.controller) == ("t", 0, 0, -1)
    assert (row.leader, row.leader_epoch) == (0, cluster.state().leader_epoch)
    assert said(row) == (20, 30, "broker 1")
    (text,) = [text for text in caplog.messages if "invalid messages" in text]
    assert text.startswith(
        "broker 1: Found invalid messages during fetch for partition t-0 offset 20 from broker 0: "
        "Record is corrupt"
    )
    explained = explain_partition(lambda: cluster.world.journal.rows, T0)
    assert explained.logs == (row,)
    assert any("corrupt batch t-0 on 0" in line for line in explained_lines(explained))


def test_a_consumer_reports_where_it_ends(cluster: Cluster) -> None:
    world = cluster.world
    config = ConsumerConfig(auto_offset_reset="earliest")
    journal = world.log_journal
    consumer = Consumer(Address("client", 11), IDS, config, log_journal=journal)
    consumer.assign([T0])
    world.add_client(consumer)
    world.run_for(5_000)
    assert consumer.position(T0) == 20
    assert [said(row) for row in rows(cluster)] == [(20, 30, "consumer")]
    consumer.seek(T0, 30)
    world.run_for(5_000)
    assert consumer.position(T0) == 40
    assert len(rows(cluster)) == 1
