"""DeleteRecords: the log start offsets of all live replicas move before the leader answers."""

from __future__ import annotations

import msgspec
import pytest

from klamm.cluster.api_errors import Errors
from klamm.cluster.client_requests import (
    DeletedRecords,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import T0, update_metadata
from tests.unit.brokers.replicas import CLIENT, IDS, Replicas

TIMEOUT_MS = 1000


@pytest.fixture
def replicas() -> Replicas:
    found = Replicas()
    found.lead(1, 3)
    found.replicate(1, 10)
    return found


def delete(replicas: Replicas, offset: int, tp: TopicPartition = T0, leader: int = 1) -> int:
    return replicas.ask(leader, DeleteRecordsRequest({tp: offset}, TIMEOUT_MS), CLIENT)


def deleted(replicas: Replicas, number: int, tp: TopicPartition = T0) -> DeletedRecords | None:
    answer = replicas.answer_to(number, CLIENT)
    assert isinstance(answer, DeleteRecordsResponse | None)
    return answer and answer.partitions[tp]


def starts(replicas: Replicas) -> list[int]:
    logs = [replicas.replica(broker_id).log for broker_id in IDS]
    return [log.log_start_offset for log in logs if log is not None]


@pytest.mark.parametrize(("offset", "start"), [(4, 4), (-1, 10), (10, 10)])
def test_the_leader_answers_when_every_log_starts_there(
    replicas: Replicas, offset: int, start: int
) -> None:
    number = delete(replicas, offset)
    assert deleted(replicas, number) is None
    replicas.settle()
    assert deleted(replicas, number) == DeletedRecords(Errors.NONE, start)
    assert starts(replicas) == [start] * 3
    replicas.replicate(1, 5)
    assert replicas.ends() == [(15, 15)] * 3


def test_records_that_are_deleted_already_need_no_wait(replicas: Replicas) -> None:
    delete(replicas, 6)
    replicas.settle()
    assert deleted(replicas, delete(replicas, 4)) == DeletedRecords(Errors.NONE, 6)


@pytest.mark.parametrize("offset", [11, -2])
def test_an_offset_beyond_the_high_watermark_is_out_of_range(
    replicas: Replicas, offset: int
) -> None:
    assert deleted(replicas, delete(replicas, offset)) == DeletedRecords(Errors.OFFSET_OUT_OF_RANGE)
    assert starts(replicas) == [0, 0, 0]


def test_records_that_are_not_committed_are_not_deleted(replicas: Replicas) -> None:
    replicas.lost = (2,)
    replicas.replicate(1, 5)
    assert replicas.ends()[0] == (15, 10)
    assert deleted(replicas, delete(replicas, 11)) == DeletedRecords(Errors.OFFSET_OUT_OF_RANGE)


@pytest.mark.parametrize("alive", [(0, 1), (0, 1, 2)], ids=str)
def test_dead_replicas_are_not_waited_for(replicas: Replicas, alive: tuple[int, ...]) -> None:
    replicas.request(1, update_metadata(live=alive))
    number = delete(replicas, 4)
    if 2 in alive:
        assert deleted(replicas, number) is None
        replicas.deliver()
    assert deleted(replicas, number) == DeletedRecords(Errors.NONE, 4)


def test_a_replica_outside_the_isr_is_waited_for(replicas: Replicas) -> None:
    replicas.lost = (3,)
    replicas.lead(1, 4, (1, 2), told=(1, 2))
    number = delete(replicas, 4)
    replicas.settle()
    assert deleted(replicas, number) is None
    replicas.lost = ()
    replicas.lead(1, 4, (1, 2), told=(3,))
    replicas.settle()
    assert deleted(replicas, number) == DeletedRecords(Errors.NONE, 4)


def test_compacted_internal_and_foreign_partitions_are_refused(replicas: Replicas) -> None:
    log = replicas.replica(1).log
    assert log is not None
    log.config, config = (
        msgspec.structs.replace(log.config, cleanup_policy=("compact",)),
        log.config,
    )
    assert deleted(replicas, delete(replicas, 4)) == DeletedRecords(Errors.POLICY_VIOLATION)
    log.config = config
    internal = TopicPartition("__consumer_offsets", 0)
    number = delete(replicas, 0, internal)
    assert deleted(replicas, number, internal) == DeletedRecords(Errors.INVALID_TOPIC_EXCEPTION)
    number = delete(replicas, 0, leader=2)
    assert deleted(replicas, number) == DeletedRecords(Errors.NOT_LEADER_OR_FOLLOWER)


def test_a_follower_that_is_silent_delays_the_answer_to_the_timeout(replicas: Replicas) -> None:
    replicas.lost = (3,)
    number = delete(replicas, 4)
    replicas.settle()
    assert deleted(replicas, number) is None
    replicas.pass_time(TIMEOUT_MS)
    assert deleted(replicas, number) == DeletedRecords(Errors.REQUEST_TIMED_OUT, 0)
    assert starts(replicas) == [4, 4, 0]


def test_a_new_leader_ends_the_wait(replicas: Replicas) -> None:
    replicas.lost = (3,)
    number = delete(replicas, 4)
    replicas.lead(2, 4, told=(1, 2))
    assert deleted(replicas, number) == DeletedRecords(Errors.NOT_LEADER_OR_FOLLOWER)
