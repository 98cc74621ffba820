"""What a broker answers to the controller and to followers: Kafka 2.8.2's code for every case.

Sources: KafkaApis (broker epoch), ReplicaManager.{becomeLeaderOrFollower, stopReplicas,
maybeUpdateMetadataCache, getPartitionOrError}, Partition.{checkOrSetTopicId, getLocalLog}.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.brokers.broker import KafkaServer
from klamm.brokers.config import broker_config
from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.log_manager import LogDirFailure
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchedPartition, FetchResponse
from klamm.cluster.requests import (
    Address,
    LeaderAndIsrResponse,
    Request,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataResponse,
)
from tests.unit.brokers.network import (
    CONTROLLER,
    CONTROLLER_EPOCH,
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

BROKER_EPOCH = 50
STALE_CONTROLLER = Errors.STALE_CONTROLLER_EPOCH
FAILED_DIR = "dir-that-fails"


@pytest.fixture
def network() -> Network:
    """Broker 1, which knows everybody, leads t-0 at epoch 3 and follows t-1 of leader 2."""
    network = Network()
    config = broker_config({"log.dirs": f"{FAILED_DIR},other-dir"})
    network.add(1, config, BROKER_EPOCH)
    network.request(1, update_metadata(cached(T0)))
    first = leader_and_isr(state(T0), state(T1, leader=2))
    network.request(1, first)
    # The request that creates a log leaves it without a topic id; the next one sets it.
    network.request(1, first)
    return network


def hosted(network: Network) -> KafkaServer:
    return network.brokers[1]


def states_of(network: Network) -> list[Any]:
    return [p.leader_and_isr for p in hosted(network).replica_manager.partitions.values()]


@pytest.mark.parametrize(
    ("in_request", "expected"),
    [
        (BROKER_EPOCH - 1, Errors.STALE_BROKER_EPOCH),
        (BROKER_EPOCH, Errors.NONE),
        (BROKER_EPOCH + 1, Errors.NONE),
        (-1, Errors.NONE),
        (0, Errors.STALE_BROKER_EPOCH),
    ],
)
def test_requests_with_a_stale_broker_epoch_are_refused(
    network: Network, in_request: int, expected: Errors
) -> None:
    before = states_of(network)
    newer = state(leader_epoch=4)
    lai = network.request(1, leader_and_isr(newer, broker_epoch=in_request))
    assert lai == LeaderAndIsrResponse(expected, {T0: expected})
    assert (states_of(network) == before) == (expected != Errors.NONE)
    metadata = network.request(1, update_metadata(cached(T1), broker_epoch=in_request))
    assert metadata == UpdateMetadataResponse(expected)
    assert (T1 in hosted(network).metadata_cache) == (expected == Errors.NONE)
    stop = stop_replica(T0, 5, broker_epoch=in_request)
    per_partition = {} if expected else {T0: Errors.NONE}
    assert network.request(1, stop) == StopReplicaResponse(expected, per_partition)


@pytest.mark.parametrize(
    ("in_request", "expected"),
    [
        (CONTROLLER_EPOCH - 1, STALE_CONTROLLER),
        (CONTROLLER_EPOCH, Errors.NONE),
        (CONTROLLER_EPOCH + 1, Errors.NONE),
    ],
)
@pytest.mark.parametrize("learned_from", ["LeaderAndIsr", "UpdateMetadata", "StopReplica"])
def test_requests_with_a_stale_controller_epoch_are_refused(
    in_request: int, expected: Errors, learned_from: str
) -> None:
    network = Network()
    network.add(1)
    current = StopReplicaRequest(CONTROLLER, CONTROLLER_EPOCH, -1, [])
    teachers: dict[str, Request] = {
        "LeaderAndIsr": leader_and_isr(),
        "UpdateMetadata": update_metadata(),
        "StopReplica": current,
    }
    network.request(1, teachers[learned_from])
    stop = stop_replica(T0, 0, delete=False, controller_epoch=in_request)
    per_partition = {} if expected else {T0: Errors.NONE}
    assert network.request(1, stop) == StopReplicaResponse(expected, per_partition)
    metadata = network.request(1, update_metadata(cached(), controller_epoch=in_request))
    assert metadata == UpdateMetadataResponse(expected)
    lai = network.request(1, leader_and_isr(state(), controller_epoch=in_request))
    assert lai == LeaderAndIsrResponse(expected, {T0: expected})
    assert (T0 in hosted(network).metadata_cache) == (expected == Errors.NONE)
    assert (T0 in hosted(network).replica_manager.partitions) == (expected == Errors.NONE)


@pytest.mark.parametrize(
    ("named", "topic_id", "expected"),
    [
        pytest.param(state(leader_epoch=4), None, Errors.NONE, id="newer epoch, no topic id"),
        pytest.param(state(leader_epoch=3), None, STALE_CONTROLLER, id="equal epoch"),
        pytest.param(state(leader_epoch=2), None, STALE_CONTROLLER, id="older epoch"),
        pytest.param(
            state(leader_epoch=4, replicas=(2, 3)),
            None,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            id="not assigned to this broker",
        ),
        pytest.param(
            state(leader_epoch=3, replicas=(2, 3)),
            None,
            STALE_CONTROLLER,
            id="the epoch is looked at before the assignment",
        ),
        pytest.param(
            state(leader_epoch=4),
            "another-topic-id-12345",
            Errors.INCONSISTENT_TOPIC_ID,
            id="another topic id",
        ),
        pytest.param(
            state(leader_epoch=2),
            "another-topic-id-12345",
            Errors.INCONSISTENT_TOPIC_ID,
            id="the topic id is looked at before the epoch",
        ),
        pytest.param(
            state(T1, leader=9, leader_epoch=4), None, Errors.NONE, id="leader that is not alive"
        ),
        pytest.param(
            state(T1, leader=-1, leader_epoch=4), None, Errors.NONE, id="no leader at all"
        ),
    ],
)
def test_leader_and_isr_has_kafkas_error_for_every_state(
    network: Network, named: Any, topic_id: str, expected: Errors
) -> None:
    answer = network.request(1, leader_and_isr(named, topic_id=topic_id))
    assert answer == LeaderAndIsrResponse(Errors.NONE, {named.topic_partition: expected})


def test_each_partition_of_a_request_has_its_own_answer(network: Network) -> None:
    answer = network.request(1, leader_and_isr(state(T0), state(T1, leader=1, leader_epoch=4)))
    expected = {T0: STALE_CONTROLLER, T1: Errors.NONE}
    assert answer == LeaderAndIsrResponse(Errors.NONE, expected)


def test_without_a_live_leader_the_epoch_stays_and_the_state_can_come_again(
    network: Network,
) -> None:
    partition = hosted(network).replica_manager.partitions[T1]
    for leader, epoch_after in ((9, 3), (-1, 3), (2, 4)):
        network.request(1, leader_and_isr(state(T1, leader=leader, leader_epoch=4)))
        assert partition.leader_epoch == epoch_after


def test_a_new_replica_without_a_live_leader_has_a_log_and_no_epoch() -> None:
    network = Network()
    network.add(1)
    named = state(leader=2)
    assert network.request(1, leader_and_isr(named)) == LeaderAndIsrResponse(
        Errors.NONE, {T0: Errors.NONE}
    )
    partition = hosted(network).replica_manager.partitions[T0]
    path = hosted(network).log_manager.dirs.path_of(T0)
    assert (partition.leader_epoch, path) == (-1, "kafka-logs")


def test_an_unassigned_partition_without_a_log_counts_as_offline_from_then_on() -> None:
    network = Network()
    network.add(1)
    unassigned = state(replicas=(2, 3))
    codes = [
        network.request(1, leader_and_isr(named)).partition_errors[T0]  # type: ignore[union-attr]
        for named in (unassigned, state())
    ]
    assert codes == [Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize(
    ("tp", "leader_epoch", "expected"),
    [
        pytest.param(T0, 4, Errors.NONE, id="newer epoch"),
        pytest.param(T0, 3, Errors.FENCED_LEADER_EPOCH, id="equal epoch"),
        pytest.param(T0, 2, Errors.FENCED_LEADER_EPOCH, id="older epoch"),
        pytest.param(T0, -2, Errors.NONE, id="epoch during delete"),
        pytest.param(T0, -1, Errors.NONE, id="no epoch"),
        pytest.param(T0._replace(partition=9), 0, Errors.NONE, id="not hosted"),
    ],
)
def test_stop_replica_has_kafkas_error_and_deletes_only_when_told_to(
    network: Network, tp: Any, leader_epoch: int, delete: bool, expected: Errors
) -> None:
    was_hosted = tp in hosted(network).replica_manager.partitions
    request = stop_replica(tp, leader_epoch, delete=delete, broker_epoch=BROKER_EPOCH)
    assert network.request(1, request) == StopReplicaResponse(Errors.NONE, {tp: expected})
    stays = was_hosted and not (delete and expected == Errors.NONE)
    assert (tp in hosted(network).replica_manager.partitions) == stays


def test_a_deleted_partition_may_be_created_with_another_topic_id(network: Network) -> None:
    network.request(1, stop_replica(broker_epoch=BROKER_EPOCH))
    again = leader_and_isr(state(leader_epoch=0), topic_id="id-of-the-new-topic-12")
    assert network.request(1, again) == LeaderAndIsrResponse(Errors.NONE, {T0: Errors.NONE})


def fail(network: Network) -> list[LogDirFailure]:
    """Let a directory fail; which did since the last time, as the broker hears it."""
    hosted(network).log_manager.handle_log_dir_failure(FAILED_DIR, LogStorageError("it failed"))
    return hosted(network).replica_manager.handle_log_dir_failures()


def test_partitions_of_a_failed_log_directory_have_a_storage_error(network: Network) -> None:
    assert fail(network) == [(FAILED_DIR, "it failed", (T0,))]
    assert fail(network) == []
    storage = Errors.KAFKA_STORAGE_ERROR
    newer = network.request(1, leader_and_isr(state(T0, leader_epoch=4)))
    assert newer == LeaderAndIsrResponse(Errors.NONE, {T0: storage})
    stop = stop_replica(broker_epoch=BROKER_EPOCH)
    assert network.request(1, stop) == StopReplicaResponse(Errors.NONE, {T0: storage})


def test_a_broker_without_replicas_refuses_them_and_lets_them_be_deleted() -> None:
    network = Network()
    config = msgspec.structs.replace(broker_config({}), hosts_replicas=False)
    network.add(1, config, BROKER_EPOCH)
    network.request(1, update_metadata(cached(T0)))
    storage = Errors.KAFKA_STORAGE_ERROR
    named = leader_and_isr(state(T0, is_new=True), state(T1, leader=2))
    assert network.request(1, named) == LeaderAndIsrResponse(
        Errors.NONE, {T0: storage, T1: storage}
    )
    stop = stop_replica(broker_epoch=BROKER_EPOCH)
    assert network.request(1, stop) == StopReplicaResponse(Errors.NONE, {T0: Errors.NONE})
    assert states_of(network) == []


@pytest.mark.parametrize(
    ("is_new", "leader", "expected"),
    [
        (True, 1, Errors.NONE),
        (True, 2, Errors.NONE),
        (False, 1, Errors.KAFKA_STORAGE_ERROR),
        (False, 2, Errors.KAFKA_STORAGE_ERROR),
    ],
)
def test_with_a_failed_directory_only_new_replicas_get_a_log(
    network: Network, is_new: bool, leader: int, expected: Errors
) -> None:
    manager = hosted(network).replica_manager
    fail(network)
    tp = T0._replace(partition=7)
    answer = network.request(1, leader_and_isr(state(tp, leader=leader, is_new=is_new)))
    assert answer == LeaderAndIsrResponse(Errors.NONE, {tp: expected})
    assert (tp in manager.partitions) == (expected == Errors.NONE)
    assert (tp in manager.offline_partitions) == (expected != Errors.NONE)


@pytest.mark.parametrize(
    ("tp", "leader_epoch", "expected"),
    [
        pytest.param(T0, 3, Errors.NONE, id="leader at this epoch"),
        pytest.param(T0, 2, Errors.FENCED_LEADER_EPOCH, id="follower is behind"),
        pytest.param(T0, 4, Errors.UNKNOWN_LEADER_EPOCH, id="leader is behind"),
        pytest.param(T1, 3, Errors.NOT_LEADER_OR_FOLLOWER, id="not the leader"),
        pytest.param(
            T0._replace(partition=5), 0, Errors.UNKNOWN_TOPIC_OR_PARTITION, id="unknown partition"
        ),
        pytest.param(
            T0._replace(partition=6), 0, Errors.NOT_LEADER_OR_FOLLOWER, id="known, not hosted"
        ),
        pytest.param(T0._replace(partition=7), 0, Errors.KAFKA_STORAGE_ERROR, id="offline"),
    ],
)
def test_fetch_has_kafkas_error_for_every_partition(
    network: Network, tp: Any, leader_epoch: int, expected: Errors
) -> None:
    network.request(1, update_metadata(cached(T0._replace(partition=6))))
    hosted(network).replica_manager.offline_partitions[T0._replace(partition=7)] = None
    asked = fetch_of(2, tp, leader_epoch=leader_epoch)
    answer = network.request(1, asked, Address("broker", 2))
    refused = FetchedPartition(expected, leader_epoch, 0)
    assert answer == FetchResponse({tp: refused} if expected else {})
