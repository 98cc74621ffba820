"""Fetch sessions: what a response leaves out, epochs, eviction.

Sources: FetchManager.newContext, IncrementalFetchContext, FetchSessionCache.tryEvict.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.brokers.leaders.fetch_sessions import FetchSession, FetchSessions
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchedPartition,
    FetchMetadata,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.records import EpochEndOffset
from klamm.cluster.types import TopicPartition

T0, T1, T2 = (TopicPartition("t", partition) for partition in range(3))
EPOCH = 5
EVICTION_MS = 120_000.0


def request(metadata: FetchMetadata, *tps: TopicPartition, offset: int = 0) -> FetchRequest:
    asked = FetchPartition(offset, EPOCH)
    return FetchRequest(-1, dict.fromkeys(tps, asked), metadata=metadata)


def fetched(high_watermark: int, records: bytes = b"") -> FetchedPartition:
    return FetchedPartition(
        Errors.NONE, EPOCH, 0, records=records, high_watermark=high_watermark, log_start_offset=0
    )


def opened(sessions: FetchSessions, *tps: TopicPartition, now_ms: float = 0.0) -> int:
    """Open a session in which all partitions have the high watermark 10."""
    asked = request(FetchMetadata(0, INITIAL_EPOCH), *tps)
    assert sessions.begin(asked, now_ms) == (asked, None)
    return sessions.respond(asked, None, dict.fromkeys(tps, fetched(10)), now_ms).session_id


def begun(
    sessions: FetchSessions, asked: FetchRequest, now_ms: float = 0.0
) -> tuple[FetchRequest, FetchSession]:
    found = sessions.begin(asked, now_ms)
    assert not isinstance(found, FetchResponse)
    whole, session = found
    assert session is not None
    return whole, session


def error_of(sessions: FetchSessions, session_id: int, epoch: int) -> Errors:
    found = sessions.begin(request(FetchMetadata(session_id, epoch)), 0.0)
    return found.error if isinstance(found, FetchResponse) else Errors.NONE


def test_an_incremental_fetch_returns_only_the_partitions_that_changed() -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0, T1)
    whole, session = begun(sessions, request(FetchMetadata(id_, 1), T1, offset=7))
    assert [(tp, one.fetch_offset) for tp, one in whole.partitions.items()] == [(T0, 0), (T1, 7)]
    same = {T0: fetched(10), T1: fetched(10)}
    assert sessions.respond(whole, session, same, 0.0) == FetchResponse({}, session_id=id_)
    for epoch, news in enumerate(
        (
            fetched(11),
            fetched(11, b"records"),
            FetchedPartition(Errors.NOT_LEADER_OR_FOLLOWER, EPOCH, 0),
            fetched(11),
        ),
        start=2,
    ):
        whole, session = begun(sessions, request(FetchMetadata(id_, epoch)))
        answer = sessions.respond(whole, session, {T0: news, T1: fetched(10)}, 0.0)
        assert answer.partitions == {T0: news}
    whole, session = begun(sessions, request(FetchMetadata(id_, 6)))
    assert list(whole.partitions) == [T1, T0]


def test_a_partition_is_sent_again_after_an_error() -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0)
    failed = FetchedPartition(
        Errors.NOT_LEADER_OR_FOLLOWER, EPOCH, 0, high_watermark=10, log_start_offset=0
    )
    for epoch, one, is_news in ((1, failed, True), (2, fetched(10), True), (3, fetched(10), False)):
        whole, session = begun(sessions, request(FetchMetadata(id_, epoch)))
        answer = sessions.respond(whole, session, {T0: one}, 0.0)
        assert answer.partitions == ({T0: one} if is_news else {})


def test_partitions_join_and_leave_a_session_which_ends_with_the_last() -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0)
    joins = FetchRequest(
        -1, {T1: FetchPartition(0, EPOCH)}, 0, 0, 100, FetchMetadata(id_, 1), (T0,)
    )
    whole, session = begun(sessions, joins)
    assert list(whole.partitions) == [T1]
    answer = sessions.respond(whole, session, {T1: fetched(10)}, 0.0)
    assert list(answer.partitions) == [T1]
    leaves = FetchRequest(-1, {}, 0, 0, 100, FetchMetadata(id_, 2), (T1,))
    found = sessions.begin(leaves, 0.0)
    assert not isinstance(found, FetchResponse)
    assert sessions.respond(*found, {}, 0.0).session_id == 0
    assert len(sessions) == 0


def test_unknown_sessions_and_epochs_are_errors() -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0)
    assert error_of(sessions, id_ + 1, 1) is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert error_of(sessions, id_, 2) is Errors.INVALID_FETCH_SESSION_EPOCH
    first = begun(sessions, request(FetchMetadata(id_, 1)))
    begun(sessions, request(FetchMetadata(id_, 2)))
    answer = sessions.respond(*first, {T0: fetched(20)}, 0.0)
    assert answer == FetchResponse({}, error=Errors.INVALID_FETCH_SESSION_EPOCH, session_id=id_)
    sessions.begin(request(FetchMetadata(id_, FINAL_EPOCH), T0), 0.0)
    assert error_of(sessions, id_, 3) is Errors.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("changes", "is_news"),
    [
        ({}, False),
        ({"log_end_offset": 99}, False),
        ({"high_watermark": 9}, True),
        ({"log_start_offset": 1}, True),
        ({"diverging": EpochEndOffset(4, 2)}, True),
    ],
)
def test_any_change_puts_a_partition_into_a_response(
    changes: dict[str, Any], is_news: bool
) -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0)
    one = msgspec.structs.replace(fetched(10), **changes)
    for epoch, expected in ((1, is_news), (2, "diverging" in changes)):
        whole, session = begun(sessions, request(FetchMetadata(id_, epoch)))
        answer = sessions.respond(whole, session, {T0: one, T1: one}, 0.0)
        assert answer.partitions == ({T0: one} if expected else {})


def test_after_the_last_epoch_comes_the_first() -> None:
    sessions = FetchSessions(10)
    id_ = opened(sessions, T0)
    _, session = begun(sessions, request(FetchMetadata(id_, 1)))
    session.epoch = 2**31 - 1
    begun(sessions, request(FetchMetadata(id_, 2**31 - 1)))
    assert session.epoch == 1


def test_a_session_is_as_old_as_it_was_when_it_was_used_last() -> None:
    sessions = FetchSessions(1)
    id_ = opened(sessions, T0)
    begun(sessions, request(FetchMetadata(id_, 1)), EVICTION_MS - 1)
    assert opened(sessions, T0, T1, now_ms=EVICTION_MS + 1) == 0


@pytest.mark.parametrize(
    ("used_ms", "wanted", "is_evicted"),
    [
        pytest.param(EVICTION_MS, (T0, T1), False, id="just not old"),
        pytest.param(EVICTION_MS + 1, (T0, T1), True, id="old and smaller"),
        pytest.param(EVICTION_MS + 1, (T0,), False, id="as large"),
    ],
)
def test_a_session_in_use_is_evicted_only_if_it_is_old_and_smaller(
    used_ms: float, wanted: tuple[TopicPartition, ...], is_evicted: bool
) -> None:
    sessions = FetchSessions(1)
    id_ = opened(sessions, T0)
    begun(sessions, request(FetchMetadata(id_, 1)), used_ms)
    assert (opened(sessions, *wanted, now_ms=used_ms) != 0) == is_evicted
    assert (error_of(sessions, id_, 2) is Errors.NONE) != is_evicted


def test_a_full_fetch_ends_the_session_that_it_names() -> None:
    sessions = FetchSessions(2)
    id_ = opened(sessions, T0)
    sessions.begin(request(FetchMetadata(id_, INITIAL_EPOCH), T0), 0.0)
    assert len(sessions) == 0


def test_a_full_cache_evicts_an_idle_session_or_an_old_and_smaller_one() -> None:
    sessions = FetchSessions(2)
    first, second = opened(sessions, T0), opened(sessions, T0, T1)
    assert opened(sessions, T0, T1, T2, now_ms=EVICTION_MS) == 0
    begun(sessions, request(FetchMetadata(second, 1)), EVICTION_MS + 1)
    third = opened(sessions, T0, now_ms=EVICTION_MS + 1)
    assert third != 0
    assert error_of(sessions, first, 1) is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert opened(sessions, T0, T1, now_ms=EVICTION_MS + 2) == 0
    assert opened(sessions, T0, T1, T2, now_ms=EVICTION_MS + 2) != 0
    assert error_of(sessions, second, 2) is Errors.FETCH_SESSION_ID_NOT_FOUND
    assert error_of(sessions, third, 1) is Errors.NONE


def test_a_broker_without_slots_offers_no_session() -> None:
    assert opened(FetchSessions(0), T0) == 0
