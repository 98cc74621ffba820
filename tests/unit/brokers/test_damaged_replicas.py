"""A replica whose log is damaged: when it is restored, deleted or stays offline.

Kafka 2.8.2 has nothing like it: it starts such a replica anew (see brokers/replica_manager.py).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from klamm.brokers.broker import KafkaServer
from klamm.brokers.config import broker_config
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchResponse
from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrResponse,
    StopReplicaResponse,
)
from klamm.cluster.types import LEADER_DURING_DELETE
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.conformance.replica_logs import NOW_MS
from tests.conformance.segment_logs import SegmentLogFactory
from tests.unit.brokers.network import (
    T0,
    T1,
    Network,
    cached,
    fetch_of,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)

STORAGE = Errors.KAFKA_STORAGE_ERROR


def start(network: Network, folder: Path) -> KafkaServer:
    config = broker_config({"log.dirs": "a,b"})
    broker = network.add(1, config, -1, "c", FileLogStore(folder))
    broker.startup()
    network.request(1, update_metadata())
    return broker


@pytest.fixture
def network(tmp_path: Path) -> Network:
    """Broker 1, which has started again after the folder of its log of t-0 was removed."""
    network, maker = Network(), SegmentLogFactory()
    broker = start(network, tmp_path)
    host(network, state(T0, isr=(1,)))
    log = broker.replica_manager.partitions[T0].log
    assert log is not None
    log.append_as_leader(maker.batch(5), 3, NOW_MS)
    maker.close()
    broker.log_maintenance.shutdown()
    shutil.rmtree(tmp_path / "a" / "t-0")
    KafkaZkClient(network.stores[1]).delete("/brokers/ids/1")
    start(network, tmp_path)
    return network


def host(network: Network, named: LeaderAndIsrPartitionState) -> Errors:
    """Name a state of t-0 to the broker; what it answers."""
    answer = network.request(1, leader_and_isr(named, topic_id=None))
    assert isinstance(answer, LeaderAndIsrResponse)
    return answer.partition_errors[T0]


def close(network: Network) -> None:
    network.brokers[1].log_maintenance.shutdown()


def notifications(network: Network) -> int:
    return len(KafkaZkClient(network.stores[1]).get_children("/log_dir_event_notification"))


@pytest.mark.parametrize(
    ("leader", "isr", "error"),
    [(2, (2,), Errors.NONE), (2, (1, 2), STORAGE), (-1, (2,), STORAGE), (1, (2,), STORAGE)],
)
def test_a_damaged_replica_is_restored_from_another_leader_once_it_is_not_in_the_isr(
    network: Network, leader: int, isr: tuple[int, ...], error: Errors
) -> None:
    manager = network.brokers[1].replica_manager
    assert host(network, state(T0, leader=leader, isr=isr, is_new=False)) is error
    assert (T0 in manager.partitions, T0 in manager.offline_partitions) == (
        error is Errors.NONE,
        error is not Errors.NONE,
    )
    close(network)


def test_a_damaged_replica_is_reported_again_and_deleted_with_its_topic(network: Network) -> None:
    in_sync = state(T0, leader=2, isr=(1, 2), is_new=False)
    assert host(network, in_sync) is STORAGE
    network.request(1, update_metadata(cached(T1, leader=LEADER_DURING_DELETE)))
    assert notifications(network) == 0
    for _ in range(2):
        network.request(1, update_metadata(cached(T0, leader=LEADER_DURING_DELETE)))
        assert notifications(network) == 1
    assert host(network, in_sync) is Errors.NONE
    network.request(1, update_metadata(cached(T0, leader=2)))
    assert host(network, in_sync) is STORAGE, "the topic is not deleted after all"
    network.request(1, update_metadata(cached(T0, leader=LEADER_DURING_DELETE)))
    answer = network.request(1, stop_replica())
    assert answer == StopReplicaResponse(Errors.NONE, {T0: Errors.NONE})
    # A new topic of that name has a log again, until its directory fails.
    assert host(network, state(T0, isr=(1,))) is Errors.NONE
    path = network.brokers[1].log_manager.dirs.path_of(T0)
    assert path is not None
    network.brokers[1].fail_log_dir(path)
    assert host(network, state(T0, isr=(1,), leader_epoch=4)) is STORAGE
    close(network)


def test_damage_that_a_leader_reads_is_an_error_of_the_partition(tmp_path: Path) -> None:
    network, maker = Network(), SegmentLogFactory()
    start(network, tmp_path)
    host(network, state(T0, isr=(1,), replicas=(1, 2)))
    log = network.brokers[1].replica_manager.partitions[T0].log
    assert isinstance(log, SegmentLog)
    one = maker.batch(5)
    for _ in range(3):
        log.append_as_leader(one, 3, NOW_MS)
    file = log.directory / f"{0:020d}.log"
    stored = file.read_bytes()
    file.write_bytes(stored[: len(one)] + stored[2 * len(one) :])
    maker.close()
    answer = network.request(1, fetch_of(2, offset=5, epoch=3))
    assert isinstance(answer, FetchResponse)
    assert answer.partitions[T0].error is Errors.CORRUPT_MESSAGE
    close(network)
