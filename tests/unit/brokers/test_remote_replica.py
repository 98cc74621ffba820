"""When a leader takes a follower for caught up."""

from __future__ import annotations

from klamm.brokers.partitions.remote_replica import (
    NEVER_MS,
    RemoteReplica,
    pack_followers,
    unpack_followers,
)
from klamm.cluster.data_requests import FetchPartition
from tests.unit.brokers.replicas import Replicas


def test_a_follower_that_was_sent_hours_of_records_is_caught_up_only_if_nothing_was_added() -> None:
    busy, quiet = RemoteReplica(1, NEVER_MS), RemoteReplica(2, NEVER_MS)
    for remote, end_at_arrival in ((busy, 120), (quiet, 100)):
        remote.record_fetch(FetchPartition(0, 0), leader_end_offset=100, now_ms=0.0)
        remote.record_arrival(end_at_arrival, now_ms=9_000.0)
        remote.record_fetch(FetchPartition(100, 0), leader_end_offset=130, now_ms=9_001.0)
    assert busy.caught_up_ms == NEVER_MS
    assert quiet.caught_up_ms == 9_000.0


def test_a_follower_outside_the_isr_has_not_caught_up_when_the_epoch_began() -> None:
    replicas = Replicas()
    replicas.confirms = False
    replicas.lead(1, 3, isr=(1, 2))
    replicas.lost = (2, 3)
    replicas.produce(1, 10)
    leader = replicas.replica(1)
    for follower, caught_up_ms in ((2, replicas.clock.time_ms), (3, NEVER_MS)):
        leader.known = ()
        assert leader.record_fetch(follower, FetchPartition(5, 3), replicas.clock.time_ms)
        assert leader.caught_up_ms(follower) == caught_up_ms


def test_a_repeated_fetch_is_sent_both_offsets_again() -> None:
    remote = RemoteReplica(1, NEVER_MS)
    remote.record_fetch(FetchPartition(5, 0), leader_end_offset=5, now_ms=0.0)
    for offset, sent in ((6, (3, 2)), (6, (0, 0))):
        remote.sent_high_watermark, remote.sent_log_start_offset = 3, 2
        remote.record_fetch(FetchPartition(offset, 0), leader_end_offset=6, now_ms=1.0)
        assert (remote.sent_high_watermark, remote.sent_log_start_offset) == sent


def test_a_fetch_tells_where_a_follower_is_and_is_owed_no_longer() -> None:
    remote = RemoteReplica(1, NEVER_MS, owes_fetch=True)
    asked = FetchPartition(fetch_offset=7, current_leader_epoch=0, log_start_offset=2)
    remote.record_fetch(asked, leader_end_offset=9, now_ms=5.0)
    assert (remote.log_end_offset, remote.log_start_offset) == (7, 2)
    assert (remote.fetched_ms, remote.leader_end_at_fetch) == (5.0, 9)
    assert not remote.owes_fetch
    assert unpack_followers(pack_followers((remote,))) == (remote,)


def test_a_follower_that_keeps_up_without_fetching_does_not_lag() -> None:
    replicas = Replicas()
    replicas.confirms = False
    replicas.lead(1, 3, isr=(1, 2))
    replicas.lost = (2, 3)
    replicas.produce(1, 10)
    leader = replicas.replica(1)
    assert leader.record_fetch(2, FetchPartition(5, 3), replicas.clock.time_ms)
    remote = leader.remote(2)
    assert remote is not None
    assert (leader.lags(2), leader.keeps_up(2)) == (True, False)
    remote.keeps_up = True
    assert (leader.lags(2), leader.keeps_up(2)) == (False, True)
    assert not leader.keeps_up(3)
