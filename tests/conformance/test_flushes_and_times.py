"""What every kind of replica log does about flush.messages and message.timestamp.*: Log.append and
LogValidator."""

from __future__ import annotations

import pytest

from klamm.brokers.logs.errors import InvalidTimestamp
from klamm.brokers.logs.log_config import LogConfig
from klamm.cluster.api_errors import Errors
from tests.conformance.replica_logs import NOW_MS, LogFactory

LATER_MS = NOW_MS + 5_000
LOG_APPEND_TIME = LogConfig(is_log_append_time=True)
AT_MOST_A_SECOND = LogConfig(timestamp_difference_max_ms=1_000)


def test_so_many_records_are_flushed(log_factory: LogFactory) -> None:
    log = log_factory.create(LogConfig(flush_messages=5))
    log.append_as_leader(log_factory.batch(4), 0, NOW_MS)
    assert log.recovery_point == 0
    log.append_as_leader(log_factory.batch(1), 0, NOW_MS)
    assert log.recovery_point == 5
    log.append_as_leader(log_factory.batch(3), 0, NOW_MS)
    found = log_factory.crash(log)
    assert found.log_end_offset == 5


def test_a_follower_flushes_as_its_leader_does(log_factory: LogFactory) -> None:
    leader = log_factory.create()
    for _ in range(3):
        leader.append_as_leader(log_factory.batch(2), 0, NOW_MS)
    follower = log_factory.create(LogConfig(flush_messages=1))
    follower.append_as_follower(leader.read(0, 1 << 20))
    assert (leader.recovery_point, follower.recovery_point) == (0, 6)


def test_records_have_the_time_of_the_append(log_factory: LogFactory) -> None:
    log = log_factory.create(LOG_APPEND_TIME)
    log.append_as_leader(log_factory.batch(3, timestamp_ms=7), 0, NOW_MS)
    log.append_as_leader(log_factory.batch(2, timestamp_ms=7), 1, LATER_MS)
    assert [one.max_timestamp_ms for one in log.intervals()] == [NOW_MS, LATER_MS]
    found = log.offset_for_time(NOW_MS + 1)
    assert found is not None and (found.timestamp_ms, found.offset) == (LATER_MS, 3)
    follower = log_factory.create()
    follower.append_as_follower(log.read(0, 1 << 20))
    assert follower.intervals() == log.intervals()


@pytest.mark.parametrize("apart_ms", [-1_001, 1_001])
def test_a_time_too_far_away_is_refused(log_factory: LogFactory, apart_ms: int) -> None:
    log = log_factory.create(AT_MOST_A_SECOND)
    with pytest.raises(InvalidTimestamp, match=str(NOW_MS + apart_ms)) as refused:
        log.append_as_leader(log_factory.batch(1, timestamp_ms=NOW_MS + apart_ms), 0, NOW_MS)
    assert refused.value.code is Errors.INVALID_TIMESTAMP
    assert log.log_end_offset == 0
    nearer_ms = apart_ms - apart_ms // abs(apart_ms)
    log.append_as_leader(log_factory.batch(1, timestamp_ms=NOW_MS + nearer_ms), 0, NOW_MS)
    assert log.log_end_offset == 1


def test_a_time_that_the_leader_gives_is_never_too_far(log_factory: LogFactory) -> None:
    log = log_factory.create(LogConfig(is_log_append_time=True, timestamp_difference_max_ms=0))
    log.append_as_leader(log_factory.batch(1, timestamp_ms=7), 0, NOW_MS)
    assert log.log_end_offset == 1
