"""When a broker checks the retention of its logs."""

from __future__ import annotations

from pathlib import Path

from klamm.brokers.config import broker_config
from klamm.brokers.log_maintenance import LogMaintenance
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_store import LogStore, MemoryLogStore
from klamm.brokers.logs.records import encode_batch
from klamm.cluster.client_requests import DeleteRecordsRequest
from klamm.cluster.data_requests import ProduceRequest
from klamm.cluster.records import CountedBatch, Record
from tests.unit.brokers.network import T0, Network, leader_and_isr, state

INTERVAL_MS = 1_000


def started(retention_ms: int, store: LogStore | None = None) -> tuple[Network, LogMaintenance]:
    """A broker that deletes what is that old."""
    network = Network()
    config = {
        "log.retention.check.interval.ms": str(INTERVAL_MS),
        "log.retention.ms": str(retention_ms),
    }
    maintenance = network.add(1, broker_config(config), log_store=store).log_maintenance
    maintenance.startup(MetaProperties("cluster", 1))
    return network, maintenance


def produced(retention_ms: int, store: LogStore | None = None) -> tuple[Network, LogMaintenance]:
    """The same, which leads a partition with a record."""
    network, maintenance = started(retention_ms, store)
    network.request(1, leader_and_isr(state(isr=(1,), replicas=(1,))))
    network.request(1, ProduceRequest(1, 30_000, {T0: CountedBatch(1, 100)}))
    return network, maintenance


def test_segments_that_expire_soon_are_deleted_after_an_interval_and_not_earlier() -> None:
    network, maintenance = produced(retention_ms=1_200)
    begun_ms = network.clock.time_ms
    assert maintenance.next_due_ms() == begun_ms + INTERVAL_MS
    network.pass_time(INTERVAL_MS)
    assert maintenance.next_due_ms() == begun_ms + 2 * INTERVAL_MS
    network.pass_time(INTERVAL_MS)
    assert network.brokers[1].replica_manager.partitions[T0].log.log_start_offset == 1
    assert maintenance.next_due_ms() is None


def test_segments_that_expire_later_are_checked_when_they_do() -> None:
    network, maintenance = produced(retention_ms=60_000)
    begun_ms = network.clock.time_ms
    network.pass_time(INTERVAL_MS)
    assert maintenance.next_due_ms() == begun_ms + 60_001


def test_records_that_come_before_a_late_check_make_it_earlier() -> None:
    network, maintenance = produced(retention_ms=60_000)
    network.pass_time(30_000)
    network.request(1, ProduceRequest(1, 30_000, {T0: CountedBatch(1, 100)}))
    due_ms = network.clock.time_ms + INTERVAL_MS
    assert maintenance.next_due_ms() == due_ms
    network.pass_time(INTERVAL_MS - 1)
    network.request(1, ProduceRequest(1, 30_000, {T0: CountedBatch(1, 100)}))
    assert maintenance.next_due_ms() == due_ms, "a check that is near is not put off"


def test_records_that_are_there_at_the_start_are_looked_at_after_an_interval() -> None:
    store = MemoryLogStore()
    assert started(retention_ms=1_200, store=store)[1].next_due_ms() is None, "no records"
    _, maintenance = produced(retention_ms=1_200, store=store)
    maintenance.shutdown()
    network, again = started(retention_ms=1_200, store=store)
    assert again.next_due_ms() == network.clock.time_ms + INTERVAL_MS


def test_logs_that_were_marked_for_deletion_before_the_start_are_deleted_in_time(
    tmp_path: Path,
) -> None:
    marked = tmp_path / "d0" / f"t-0.{0:032x}-delete"
    marked.mkdir(parents=True)
    network = Network()
    config = broker_config({"log.dirs": "d0", "log.segment.delete.delay.ms": "5000"})
    store = FileLogStore(tmp_path)
    maintenance = network.add(1, config, log_store=store).log_maintenance
    maintenance.startup(MetaProperties("cluster", 1))
    network.pass_time(4_999)
    assert marked.exists()
    network.pass_time(1)
    assert not marked.exists()
    maintenance.shutdown()


def test_deleted_records_stay_deleted_after_a_crash(tmp_path: Path) -> None:
    def leading_broker() -> tuple[Network, LogMaintenance]:
        network = Network()
        config, store = broker_config({"log.dirs": "d0"}), FileLogStore(tmp_path)
        maintenance = network.add(1, config, log_store=store).log_maintenance
        maintenance.startup(MetaProperties("cluster", 1))
        network.request(1, leader_and_isr(state(isr=(1,), replicas=(1,))))
        return network, maintenance

    network, maintenance = leading_broker()
    batch = encode_batch((Record(network.clock.now_ms(), b"k", b"v"),) * 3, "none")
    network.request(1, ProduceRequest(1, 30_000, {T0: batch}))
    network.pass_time(120_000)
    network.request(1, DeleteRecordsRequest({T0: 2}, 30_000))
    network.pass_time(120_000)
    maintenance.abandon(None)
    network, maintenance = leading_broker()
    assert network.brokers[1].replica_manager.partitions[T0].log.log_start_offset == 2
    maintenance.shutdown()
