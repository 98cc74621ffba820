"""Appends records to the log of a leader or a follower at the times that a schedule determines.

Call ``materialize`` before you read a replica: it appends the records due by now.
cluster/constant_rate.py proves that a follower is never ahead of its leader. This module does no
I/O and reads no clock.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import msgspec

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.partitions.remote_replica import NEVER_MS, RemoteReplica
from klamm.cluster.constant_rate import RATE_MARGIN_MS, RateAgreement, RateSchedule
from klamm.cluster.data_requests import MAX_BYTES, FetchedPartition
from klamm.cluster.records import IntervalRecords, Stretch
from klamm.cluster.requests import Address

_KNOWN_AFTER_MS: Final = 2 * RATE_MARGIN_MS
"""How long after a record is due the leader knows that a follower has it."""


class LeaderRate(msgspec.Struct, gc=False):
    """A constant rate that this broker has accepted as the leader of a partition.

    RemoteReplica.keeps_up is True for the followers that have a rate agreement.

    - ``is_acknowledged``: the schedule acknowledges records, because all replicas that the high
      watermark waits for have a rate agreement. The followers and the producer were notified.
    - ``notified_offset``: the producer was notified of acknowledgements up to this offset.
    - ``number``: number of the producer's request, which all responses to the request repeat.
    - ``materialized_ms``: all records due by this time have been appended.
    """

    partition: Partition
    schedule: RateSchedule
    producer: Address
    number: int
    notified_offset: int
    is_acknowledged: bool = False
    materialized_ms: float = NEVER_MS

    @property
    def followers(self) -> tuple[int, ...]:
        """The ids of the followers that follow the schedule."""
        return tuple([one.replica_id for one in self.partition.remotes if one.keeps_up])

    @property
    def commit_delay_ms(self) -> float:
        """How long after a record is due it is below the high watermark.

        Valid while ``is_acknowledged`` is True."""
        return _KNOWN_AFTER_MS if self.followers else 0.0

    def materialize(self, now_ms: float) -> None:
        """Append all records due by now, and update the known log ends of followers.

        The caller advances the high watermark, because it has to notify followers of the change.
        """
        partition = self.partition
        _append(partition, self.schedule, now_ms)
        known, leader_epoch = self.schedule.end_at(now_ms - _KNOWN_AFTER_MS), partition.leader_epoch
        for remote in partition.remotes:
            if remote.keeps_up:
                if known > remote.log_end_offset:
                    remote.log_end_offset = known
                remote.last_fetched_epoch = leader_epoch
                remote.caught_up_ms = now_ms

    def take_acknowledged(self) -> tuple[Stretch, ...]:
        """Return the acknowledged offsets of which the producer has not been notified yet.

        Each stretch is a range of offsets in one leader epoch.
        """
        partition, stretches = self.partition, []
        log = partition.log
        assert log is not None
        offset = max(self.notified_offset, log.log_start_offset)
        while offset < partition.high_watermark:
            records = log.read(offset, MAX_BYTES, partition.high_watermark)
            assert isinstance(records, IntervalRecords)
            stretches += [Stretch(i.leader_epoch, i.start, i.end) for i in records.intervals]
            offset = stretches[-1].end
        self.notified_offset = offset
        return tuple(stretches)


class Readiness(Enum):
    """How far a follower is from following the leader's schedule.

    - ``LACKS_RECORDS``: the next response contains records that the follower lacks.
    - ``AWAITED``: it was sent records or an offer, and its next fetch has not arrived.
    - ``CAUGHT_UP``: it has all records that the leader had when it last fetched.
    - ``AGREED``: it accepted a rate agreement, and only has to be notified of changes. The leader
      knows its log end with a delay (cluster/constant_rate.py).
    """

    LACKS_RECORDS = auto()
    AWAITED = auto()
    CAUGHT_UP = auto()
    AGREED = auto()


def readiness_of(remote: RemoteReplica, answer: FetchedPartition | None) -> Readiness:
    """Return the state of a follower that would be sent ``answer`` without an offer.

    ``pending_data_for`` has made this response; None means that there is nothing to be sent.
    """
    if remote.keeps_up:
        return Readiness.AGREED
    if answer is not None and answer.records is not None:
        return Readiness.LACKS_RECORDS
    if answer is None and remote.owes_fetch:
        return Readiness.AWAITED
    return Readiness.CAUGHT_UP


class FollowerRate(msgspec.Struct, gc=False):
    """A rate agreement that this broker has accepted as a follower of a partition.

    If ``is_acknowledged`` is True, the high watermark also follows the schedule.
    ``materialized_ms``: all records due by this time have been appended.
    """

    partition: Partition
    agreement: RateAgreement
    is_acknowledged: bool = False
    materialized_ms: float = NEVER_MS

    def materialize(self, now_ms: float) -> None:
        """Append all records due by now, and advance the high watermark."""
        if self.materialized_ms == now_ms:
            return
        self.materialized_ms = now_ms
        partition, schedule = self.partition, self.agreement.schedule
        _append(partition, schedule, now_ms - RATE_MARGIN_MS)
        if self.is_acknowledged:
            self.advance_high_watermark(schedule.end_at(now_ms - 3 * RATE_MARGIN_MS), now_ms)

    def advance_high_watermark(self, offset: int, now_ms: float) -> None:
        """Advance the high watermark, but not beyond the log end offset."""
        partition = self.partition
        assert partition.log is not None
        known = min(offset, partition.log.log_end_offset)
        if known > partition.high_watermark:
            partition.set_high_watermark(known, now_ms)


def _append(partition: Partition, schedule: RateSchedule, at_ms: float) -> None:
    """Append the records due by ``at_ms``, at most segment.bytes at a time.

    max.message.bytes does not apply, because one append represents many small batches.
    """
    log, end = partition.log, schedule.end_at(at_ms)
    assert isinstance(log, IntervalLog), "only in-memory logs follow schedules"
    start = log.log_end_offset
    if end <= start:
        return
    size_bytes = schedule.record_size_bytes
    at_once = max(1, log.config.segment_bytes // size_bytes)
    timestamp_ms, epoch = schedule.timestamp_at(at_ms), partition.leader_epoch
    while end - start > at_once:
        start += at_once
        log.append_analytically(epoch, start, size_bytes, timestamp_ms)
    log.append_analytically(epoch, end, size_bytes, timestamp_ms)
