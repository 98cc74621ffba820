"""When a leader takes a follower for caught up."""

from __future__ import annotations

from klamm.brokers.partitions.remote_replica import NEVER_MS, RemoteReplica
from klamm.cluster.data_requests import FetchPartition


def test_a_follower_that_was_sent_hours_of_records_is_caught_up_only_if_nothing_was_added() -> None:
    busy, quiet = RemoteReplica(1, NEVER_MS), RemoteReplica(2, NEVER_MS)
    for remote, end_at_arrival in ((busy, 120), (quiet, 100)):
        remote.record_fetch(FetchPartition(0, 0), leader_end_offset=100, now_ms=0.0)
        remote.record_arrival(end_at_arrival, now_ms=9_000.0)
        remote.record_fetch(FetchPartition(100, 0), leader_end_offset=130, now_ms=9_001.0)
    assert busy.caught_up_ms == NEVER_MS
    assert quiet.caught_up_ms == 9_000.0
