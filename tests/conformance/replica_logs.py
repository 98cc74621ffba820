"""The kinds of replica log that the conformance suite and the properties run on.

A factory makes logs of one kind, and the batches that such a log takes from a producer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import DEFAULT_LOG_CONFIG, LogConfig
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CountedBatch,
    Interval,
    Produced,
)

NOW_MS = 1_700_000_000_000
RECORD_BYTES = 100


def deleted_bytes(log: ReplicaLog, now_ms: int, high_watermark: int) -> int:
    """Delete old segments; return their size."""
    before = log.size_bytes
    log.delete_old(now_ms, high_watermark)
    return before - log.size_bytes


class LogFactory(Protocol):
    """Opens logs of one kind. All batches of as many records are equally large."""

    def create(self, config: LogConfig = DEFAULT_LOG_CONFIG) -> ReplicaLog:
        """A new, empty log."""
        ...

    def batch(
        self,
        record_count: int,
        *,
        timestamp_ms: int = NOW_MS,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> Produced:
        """What a producer sends: every record at ``timestamp_ms``."""
        ...

    def crash(self, log: ReplicaLog, kept_end: int | None = None) -> ReplicaLog:
        """The machine stops and starts: the log as it is found again.

        What was not flushed is lost, but for what lies before ``kept_end``, where a batch begins or
        the log ends. The old one is not used again.
        """
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class IntervalLogFactory:
    """Logs that only count."""

    def create(self, config: LogConfig = DEFAULT_LOG_CONFIG) -> IntervalLog:
        return IntervalLog(config)

    def batch(
        self,
        record_count: int,
        *,
        timestamp_ms: int = NOW_MS,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> CountedBatch:
        return CountedBatch(
            record_count,
            record_count * RECORD_BYTES,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
        )

    def crash(self, log: ReplicaLog, kept_end: int | None = None) -> IntervalLog:
        assert isinstance(log, IntervalLog)
        log.crash(kept_end)
        return log

    def close(self) -> None:
        """There is nothing to let go of."""


def size_of(produced: Produced) -> int:
    """Bytes of a batch."""
    return len(produced) if isinstance(produced, bytes) else produced.size_bytes


def epochs_of(log: ReplicaLog) -> list[tuple[int, int, int]]:
    """What may be read, as stretches (leader epoch, start, end) of one epoch each."""
    return joined(log.intervals())


def joined(intervals: Sequence[Interval]) -> list[tuple[int, int, int]]:
    """(leader epoch, start, end) of each stretch of one epoch."""
    found: list[tuple[int, int, int]] = []
    for interval in intervals:
        if found and found[-1][0] == interval.leader_epoch:
            found[-1] = (interval.leader_epoch, found[-1][1], interval.end)
        else:
            found.append((interval.leader_epoch, interval.start, interval.end))
    return found


def replicate(leader: ReplicaLog, follower: ReplicaLog, max_bytes: int = 1 << 20) -> int:
    """Fetch until the follower has all; returns in how many reads."""
    reads = 0
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, max_bytes))
        reads += 1
    return reads


def lead(factory: LogFactory, log: ReplicaLog, *batches: tuple[int, int]) -> None:
    """Append batches of (leader epoch, number of records)."""
    for epoch, count in batches:
        log.append_as_leader(factory.batch(count), epoch, NOW_MS)


def small_segments(factory: LogFactory, *, batches: int, **limits: int) -> LogConfig:
    """A segment has room for so many batches of ten records."""
    return LogConfig(segment_bytes=batches * size_of(factory.batch(10)), **limits)
