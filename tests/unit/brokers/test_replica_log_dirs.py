"""What a broker answers about its log directories, and what it does when one fails.

Sources: ReplicaManager.{alterReplicaLogDirs, describeLogDirs, handleLogDirFailure},
LogManager.{isLogDirOnline, maybeUpdatePreferredLogDir, getOrCreateLog, asyncDelete,
replaceCurrentWithFutureLog}.
"""

from __future__ import annotations

import math

import pytest

from klamm.brokers.broker import KafkaServer
from klamm.brokers.config import broker_config
from klamm.brokers.logs.errors import LogStorageError
from klamm.cluster.api_errors import Errors
from klamm.cluster.records import CountedBatch
from klamm.cluster.requests import (
    Address,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirResult,
    ReplicaInfo,
)
from klamm.cluster.types import TopicPartition
from klamm.zk.kafka_zk_client import KafkaZkClient
from tests.unit.brokers.network import (
    T0,
    T1,
    TOPIC_ID,
    Network,
    cached,
    leader_and_isr,
    state,
    stop_replica,
    update_metadata,
)
from tests.unit.brokers.replica_status import replica_status

CLIENT = Address("client", 0)
A, B, C = "/a", "/b", "/c"
KNOWN = TopicPartition("t", 7)
UNKNOWN = TopicPartition("t", 8)
NONE = Errors.NONE
STORAGE = Errors.KAFKA_STORAGE_ERROR


@pytest.fixture
def network() -> Network:
    """Broker 1, registered: t-0, which it leads, is in /a, t-1, which it follows, in /b."""
    network = Network()
    network.add(1, broker_config({"log.dirs": f"{A},{B},{C}"})).startup()
    network.request(1, update_metadata(cached(T0), cached(KNOWN)))
    first = leader_and_isr(state(T0), state(T1, leader=2))
    network.request(1, first)
    network.request(1, first)
    return network


def broker(network: Network) -> KafkaServer:
    return network.brokers[1]


def alter(network: Network, tp: TopicPartition, path: str) -> Errors:
    """The answer for one replica."""
    answer = network.request(1, AlterReplicaLogDirsRequest({tp: path}), CLIENT)
    assert isinstance(answer, AlterReplicaLogDirsResponse) and list(answer.results) == [tp]
    return answer.results[tp]


def logs(network: Network, *partitions: TopicPartition) -> dict[str, list[tuple[str, bool]]]:
    """(partition, is future) by directory; a directory that failed is left out."""
    request = DescribeLogDirsRequest(partitions or None)
    answer = network.request(1, request, CLIENT)
    assert isinstance(answer, DescribeLogDirsResponse)
    return {
        found.path: [(str(tp), log.is_future) for tp, log in found.logs.items()]
        for found in answer.log_dirs
        if found.error is NONE
    }


def host(network: Network, tp: TopicPartition, *, is_new: bool = True) -> Errors:
    """Make the broker lead a partition; what it answers."""
    answer = network.request(1, leader_and_isr(state(tp, is_new=is_new)))
    errors: dict[TopicPartition, Errors] = answer.partition_errors  # type: ignore[union-attr]
    return errors[tp]


def delete(network: Network, tp: TopicPartition) -> None:
    network.request(1, stop_replica(tp))


# Moves


def test_a_replica_moves_once_the_broker_has_time(network: Network) -> None:
    assert alter(network, T0, C) is NONE
    assert logs(network) == {A: [("t-0", False)], B: [("t-1", False)], C: [("t-0", True)]}
    assert broker(network).next_due_ms() == -math.inf, "at once"
    network.pass_time(0)
    assert logs(network) == {A: [], B: [("t-1", False)], C: [("t-0", False)]}
    assert broker(network).replica_manager.log_dirs.log_counts() == {A: 0, B: 1, C: 1}
    assert broker(network).next_due_ms() != -math.inf


def test_a_log_that_has_moved_gets_its_topic_id_again(network: Network) -> None:
    alter(network, T0, C)
    network.pass_time(0)
    partition = broker(network).replica_manager.partitions[T0]
    assert partition.log is not None and partition.log.topic_id is None
    network.request(1, leader_and_isr(state(T0)))
    assert partition.log.topic_id == TOPIC_ID


@pytest.mark.parametrize(
    ("tp", "path", "expected"),
    [
        (T0, "/nowhere", Errors.LOG_DIR_NOT_FOUND),
        (UNKNOWN, "/nowhere", Errors.LOG_DIR_NOT_FOUND),
        (T0, A, NONE),
        (T0, C, NONE),
        (KNOWN, C, Errors.REPLICA_NOT_AVAILABLE),
        (UNKNOWN, C, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t" * 213, 0), C, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TopicPartition("t" * 214, 0), C, Errors.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_moves_are_accepted_or_refused_as_in_kafka(
    network: Network, tp: TopicPartition, path: str, expected: Errors
) -> None:
    assert alter(network, tp, path) is expected
    if path != C or expected is not NONE:
        assert (str(tp), True) not in logs(network)[C]


@pytest.mark.parametrize(
    ("tp", "path", "expected"),
    [
        pytest.param(T0, B, STORAGE, id="the replica is lost"),
        pytest.param(T1, A, STORAGE, id="the directory is lost"),
        pytest.param(T1, B, NONE, id="it is there already"),
        pytest.param(T1, C, STORAGE, id="no future log beside a failed directory"),
        pytest.param(KNOWN, A, STORAGE, id="nothing is made in a failed directory"),
        pytest.param(KNOWN, C, Errors.REPLICA_NOT_AVAILABLE, id="remembered all the same"),
    ],
)
def test_moves_beside_a_failed_directory_are_refused_as_in_kafka(
    network: Network, tp: TopicPartition, path: str, expected: Errors
) -> None:
    broker(network).fail_log_dir(A)
    assert alter(network, tp, path) is expected
    assert logs(network) == {B: [("t-1", False)], C: []}


@pytest.mark.parametrize("tp", [KNOWN, UNKNOWN])
def test_a_replica_that_is_created_later_goes_to_the_requested_directory(
    network: Network, tp: TopicPartition
) -> None:
    alter(network, tp, A)
    assert host(network, tp) is NONE
    assert logs(network, tp) == {A: [(str(tp), False)], B: [], C: []}


def test_a_replica_is_not_created_in_a_directory_that_has_failed(network: Network) -> None:
    alter(network, KNOWN, C)
    broker(network).fail_log_dir(C)
    assert host(network, KNOWN) is STORAGE


def test_a_directory_in_which_a_replica_is_already_is_not_remembered(network: Network) -> None:
    assert alter(network, T1, B) is NONE
    delete(network, T1)
    assert [host(network, tp) for tp in (KNOWN, T1)] == [NONE, NONE]
    assert logs(network, T1) == {A: [], B: [], C: [("t-1", False)]}


def test_logs_are_described_by_partition_and_a_leader_lacks_nothing(network: Network) -> None:
    for tp in (UNKNOWN, KNOWN):
        alter(network, tp, A)
        host(network, tp)
    log = broker(network).replica_manager.partitions[T0].log
    assert log is not None
    log.append_as_leader(CountedBatch(10, 1_000), 3, 0)
    answer = network.request(1, DescribeLogDirsRequest(None), CLIENT)
    assert isinstance(answer, DescribeLogDirsResponse)
    assert answer.log_dirs[0].logs == {
        T0: ReplicaInfo(1_000, 0, False),
        KNOWN: ReplicaInfo(0, 0, False),
        UNKNOWN: ReplicaInfo(0, 0, False),
    }
    assert [*answer.log_dirs[0].logs] == [T0, KNOWN, UNKNOWN]


def test_another_target_ends_the_move_to_the_first(network: Network) -> None:
    alter(network, T0, B)
    alter(network, T0, C)
    assert logs(network, T0) == {A: [("t-0", False)], B: [], C: [("t-0", True)]}
    alter(network, T0, A)
    assert logs(network, T0) == {A: [("t-0", False)], B: [], C: []}
    network.pass_time(1_000)
    assert logs(network, T0) == {A: [("t-0", False)], B: [], C: []}


def test_a_move_stops_with_its_replica_and_continues_with_it(network: Network) -> None:
    alter(network, T0, C)
    network.request(1, stop_replica(T0, 4, delete=False))
    network.pass_time(1_000)
    assert logs(network, T0)[C] == [("t-0", True)]
    network.request(1, leader_and_isr(state(T0, leader_epoch=5)))
    network.pass_time(0)
    assert logs(network, T0) == {A: [], B: [], C: [("t-0", False)]}


def test_a_replica_that_is_deleted_takes_its_future_log_with_it(network: Network) -> None:
    alter(network, T0, C)
    delete(network, T0)
    assert logs(network) == {A: [], B: [("t-1", False)], C: []}
    network.pass_time(1_000)
    assert broker(network).replica_manager.log_dirs.log_counts() == {A: 0, B: 1, C: 0}


# Failures


def test_replicas_in_a_failed_directory_are_not_described(network: Network) -> None:
    broker(network).fail_log_dir(A)
    answer = network.request(1, DescribeLogDirsRequest((T0, T1, UNKNOWN)), CLIENT)
    assert answer == DescribeLogDirsResponse(
        (
            LogDirResult(A, STORAGE),
            LogDirResult(B, NONE, {T1: ReplicaInfo(0, 0, False)}),
            LogDirResult(C, NONE),
        )
    )


def test_a_move_whose_target_fails_leaves_the_replica_where_it_was(network: Network) -> None:
    alter(network, T0, C)
    broker(network).fail_log_dir(C)
    network.pass_time(1_000)
    assert logs(network) == {A: [("t-0", False)], B: [("t-1", False)]}


def test_a_move_whose_source_fails_takes_the_replica_offline(network: Network) -> None:
    """What was copied stays, behind by nobody knows how much, and is of no use."""
    alter(network, T0, C)
    broker(network).fail_log_dir(A)
    network.pass_time(1_000)
    answer = network.request(1, DescribeLogDirsRequest((T0,)), CLIENT)
    assert isinstance(answer, DescribeLogDirsResponse)
    assert answer.log_dirs[2] == LogDirResult(C, NONE, {T0: ReplicaInfo(0, -1, True)})
    assert replica_status(broker(network), T0) == {"topic": "t", "partition": 0, "role": "offline"}


def test_a_failure_is_reported_once(network: Network) -> None:
    zk = KafkaZkClient(network.stores[1])
    broker(network).fail_log_dir(A)
    broker(network).fail_log_dir(A)
    (name,) = zk.get_children("/log_dir_event_notification")
    number = name.removeprefix("log_dir_event_")
    assert zk.get_broker_ids_from_log_dir_events([number]).values == {number: 1}
    path = f"/log_dir_event_notification/log_dir_event_{number}"
    found = zk.get_data_and_stat(path)
    assert found is not None and found[0] == b'{"version":1,"broker":1,"event":1}'


def test_each_directory_that_fails_is_reported(network: Network) -> None:
    for path in (A, B):
        broker(network).log_manager.handle_log_dir_failure(path, LogStorageError("gone"))
    network.pass_time(1)
    assert len(KafkaZkClient(network.stores[1]).get_children("/log_dir_event_notification")) == 2


def test_the_last_failure_halts_the_broker(network: Network) -> None:
    for path in (A, B):
        broker(network).fail_log_dir(path)
        assert broker(network).halt_reason is None
    broker(network).fail_log_dir(C)
    assert "all log directories have failed" in str(broker(network).halt_reason)
    assert len(KafkaZkClient(network.stores[1]).get_children("/log_dir_event_notification")) == 2


@pytest.mark.parametrize(("version", "halts"), [("0.11.0", True), ("1.0", False)])
def test_before_1_0_the_first_failure_halts_the_broker(version: str, halts: bool) -> None:
    network = Network()
    config = broker_config({"log.dirs": "a,b", "inter.broker.protocol.version": version})
    network.add(1, config).startup()
    broker(network).fail_log_dir("a")
    reason = "a log directory has failed: a: injected failure of a" if halts else None
    assert broker(network).halt_reason == reason
    told = KafkaZkClient(network.stores[1]).get_children("/log_dir_event_notification")
    assert bool(told) is not halts


def test_a_failure_in_an_expired_session_is_reported_at_the_next_registration(
    network: Network,
) -> None:
    network.zookeeper.expire_session(network.stores[1].session_id)
    broker(network).fail_log_dir(A)
    assert host(network, T0) is STORAGE
    broker(network).on_session_expired()
    assert host(network, T0) is STORAGE
    assert KafkaZkClient(network.stores[1]).get_children("/log_dir_event_notification") == []


def test_a_follower_in_a_failed_directory_does_not_fetch(network: Network) -> None:
    network.request(1, leader_and_isr(state(T1, leader=2, leader_epoch=4, isr=(2,))))
    assert broker(network).fetchers.partition_count == 1
    broker(network).fail_log_dir(B)
    assert broker(network).fetchers.partition_count == 0
