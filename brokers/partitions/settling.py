"""How what has grown by a law so far becomes records: ``settle``, which whoever looks at a growing
partition calls first.

Sends nothing, reads no clock, and agrees on nothing: that is the business of
brokers/leaders/growing_leaders.py and brokers/followers/growing_followers.py. What makes it safe
is said in cluster/constant_rate.py. Kafka has nothing like it.
"""

from __future__ import annotations

from brokers.logs.interval_log import IntervalLog
from brokers.partitions.growth import LeaderGrowth
from brokers.partitions.partition import Partition
from cluster.constant_rate import LAW_MARGIN_MS, Law
from cluster.records import Interval


def settle(partition: Partition, now_ms: float) -> None:
    """Turn what has grown by now into records, and into what is known of followers.

    A leader's high watermark is moved by its owner, who has to tell others.
    """
    growth, log = partition.growth, partition.log
    if growth is None:
        return
    assert isinstance(log, IntervalLog), "only counted records grow by a law"
    leader_epoch = partition.leader_epoch
    if isinstance(growth, LeaderGrowth):
        law, followers = growth.law, growth.followers
        _grow(log, leader_epoch, law, now_ms)
        if not followers:
            return
        known = law.end_at(now_ms - 2 * LAW_MARGIN_MS)
        for remote in partition.remotes:
            if remote.replica_id in followers:
                if known > remote.log_end_offset:
                    remote.log_end_offset = known
                remote.last_fetched_epoch = leader_epoch
                remote.caught_up_ms = now_ms
        return
    law = growth.offer.law
    _grow(log, leader_epoch, law, now_ms - LAW_MARGIN_MS)
    if growth.is_acknowledged:
        known = min(law.end_at(now_ms - 3 * LAW_MARGIN_MS), log.log_end_offset)
        if known > partition.high_watermark:
            partition.set_high_watermark(known, now_ms)


def bytes_to_come(partition: Partition, at_ms: float) -> int:
    """What will have come below a leader's high watermark by a later time if nothing changes until
    then, in bytes; it is settled up to now."""
    growth = partition.growth
    if not isinstance(growth, LeaderGrowth) or not growth.is_acknowledged:
        return 0
    known_ms = at_ms - 2 * LAW_MARGIN_MS if growth.followers else at_ms
    come = growth.law.end_at(known_ms) - partition.high_watermark
    return max(0, come) * growth.law.record_size_bytes


def _grow(log: IntervalLog, leader_epoch: int, law: Law, at_ms: float) -> None:
    """Append what the log of a law has at a time and this one has not, a segment at most at once.

    No batch is too large: it stands for many small ones.
    """
    end = law.end_at(at_ms)
    if end <= log.log_end_offset:
        return
    at_once = max(1, log.config.segment_bytes // law.record_size_bytes)
    while (start := log.log_end_offset) < end:
        until = min(end, start + at_once)
        size_bytes = (until - start) * law.record_size_bytes
        log.grow(Interval(leader_epoch, start, until, size_bytes, law.timestamp_at(at_ms)))
