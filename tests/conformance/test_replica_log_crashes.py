"""What every kind of replica log keeps over a crash, and what it knows of idempotent producers."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import InvalidProducerEpoch, OutOfOrderSequence
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.replica_log import Appended, ReplicaLog
from klamm.cluster.records import Produced
from tests.conformance.replica_logs import (
    NOW_MS,
    LogFactory,
    epochs_of,
    lead,
    replicate,
    small_segments,
)

MIB = 1 << 20


def test_what_was_not_flushed_is_lost_in_a_crash(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4), (0, 4))
    log.flush()
    assert log.recovery_point == 8
    lead(log_factory, log, (1, 4), (2, 4))
    found = log_factory.crash(log)
    assert (found.log_start_offset, found.log_end_offset, found.latest_epoch) == (0, 8, 0)
    assert epochs_of(found) == [(0, 0, 8)]
    assert found.append_as_leader(log_factory.batch(1), 3, NOW_MS) == Appended(8, 8)


def test_a_crash_may_lose_only_a_part(log_factory: LogFactory, log: ReplicaLog) -> None:
    lead(log_factory, log, (0, 4))
    log.flush()
    lead(log_factory, log, (1, 4), (2, 4))
    log.start_epoch(5)
    found = log_factory.crash(log, 8)
    assert epochs_of(found) == [(0, 0, 4), (1, 4, 8)]
    assert found.latest_epoch == 1


def test_a_crash_of_the_process_loses_no_record(log_factory: LogFactory) -> None:
    log = log_factory.create(small_segments(log_factory, batches=2))
    lead(log_factory, log, *((number, 10) for number in range(5)))
    log.start_epoch(7)
    before = epochs_of(log)
    found = log_factory.crash(log, log.log_end_offset)
    assert (epochs_of(found), found.latest_epoch) == (before, 4)


def test_a_log_that_lost_everything_begins_where_it_began(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    log.truncate_fully_and_start_at(40)
    lead(log_factory, log, (1, 4))
    found = log_factory.crash(log)
    assert (found.log_start_offset, found.log_end_offset, found.latest_epoch) == (40, 40, None)


# Idempotent producers


def idempotent(log_factory: LogFactory, first: int, count: int, *, epoch: int = 0) -> Produced:
    return log_factory.batch(count, producer_id=77, producer_epoch=epoch, base_sequence=first)


def send(log_factory: LogFactory, log: ReplicaLog, *sent: tuple[int, int], epoch: int = 0) -> list:
    """Append batches of (first sequence, number of records)."""
    return [
        log.append_as_leader(idempotent(log_factory, first, count, epoch=epoch), 0, NOW_MS)
        for first, count in sent
    ]


def test_a_batch_sent_again_is_where_it_was(log_factory: LogFactory, log: ReplicaLog) -> None:
    sent = [(0, 3), (3, 3), (6, 3)]
    first = send(log_factory, log, *sent)
    again = send(log_factory, log, *sent)
    assert again == [appended._replace(is_duplicate=True) for appended in first]
    assert log.log_end_offset == 9


def test_a_producer_may_leave_nothing_out(log_factory: LogFactory, log: ReplicaLog) -> None:
    send(log_factory, log, (0, 3))
    with pytest.raises(OutOfOrderSequence):
        send(log_factory, log, (4, 3))
    assert log.log_end_offset == 3
    assert send(log_factory, log, (3, 1)) == [Appended(3, 3)]


def test_a_producer_with_a_new_epoch_fences_the_old(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    send(log_factory, log, (0, 3))
    send(log_factory, log, (0, 2), epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        send(log_factory, log, (3, 3))
    assert log.log_end_offset == 5


@pytest.mark.parametrize("max_bytes", [1, MIB])
def test_a_follower_knows_the_producers_of_its_leader(
    log_factory: LogFactory, log: ReplicaLog, max_bytes: int
) -> None:
    first = send(log_factory, log, (0, 3), (3, 3), (6, 3))
    follower = log_factory.create()
    replicate(log, follower, max_bytes)
    assert send(log_factory, follower, (3, 3), (6, 3)) == [
        appended._replace(is_duplicate=True) for appended in first[1:]
    ]
    with pytest.raises(OutOfOrderSequence):
        send(log_factory, follower, (10, 1))


def test_a_crash_forgets_of_producers_what_was_lost(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    send(log_factory, log, (0, 3))
    log.flush()
    send(log_factory, log, (3, 3))
    found = log_factory.crash(log)
    assert send(log_factory, found, (0, 3), (3, 3)) == [Appended(0, 2, True), Appended(3, 5)]


def test_a_truncation_forgets_of_producers_what_was_cut(
    log_factory: LogFactory, log: ReplicaLog
) -> None:
    send(log_factory, log, (0, 3), (3, 3), (6, 3))
    log.truncate_to(6)
    with pytest.raises(OutOfOrderSequence):
        send(log_factory, log, (9, 1))
    assert send(log_factory, log, (3, 3), (6, 3)) == [Appended(3, 5, True), Appended(6, 8)]


def test_an_idle_producer_is_forgotten(log_factory: LogFactory) -> None:
    log = log_factory.create(LogConfig(producer_id_expiration_ms=1000))
    send(log_factory, log, (0, 3))
    log.delete_old(NOW_MS + 999, 0)
    assert send(log_factory, log, (0, 3)) == [Appended(0, 2, True)]
    log.delete_old(NOW_MS + 1000, 0)
    assert send(log_factory, log, (9, 3)) == [Appended(3, 5)]
