"""Constant-rate workloads as arithmetic: the schedule of a log, and the messages about it.

While a schedule holds, no message is sent and no timer runs: a reader of a log computes where the
log ends. The participants learn of a record in this order, each a margin m after the one before, by
the same clock:

    the leader's log                                                       L(t)
    the follower's log                                                     L(t - m)
    the leader's view of the follower, and the high watermark              L(t - 2m)
    the followers' high watermark, and what the producer knows is acknowledged   L(t - 3m)

Here L(t) = start + floor((t - since) * rate), and m is RATE_MARGIN_MS. L never falls as t rises,
in floating point too: subtraction, multiplication and floor all keep order. So no participant is
ever ahead of the ones before it, as long as all follow one schedule.

A schedule ends in two ways. Either a participant ends, or the network between two participants may
lose messages: both are notified at once that their connection is gone, and each keeps what it has
at that moment T, in the order above. Or a participant revokes it: at T the leader's log is L(T),
and the notification reaches followers and producer by T + m, because messages take less than m.
Until then their logs are at most L(T + m - m) = L(T), and what they know is at most
L(T + m - 3m) = L(T - 2m), the high watermark at T. If a follower revokes it, the follower's log is
L(T - m), and until the leader is notified by T + m, the leader counts L(T + m - 2m), the same.

Only values here. Kafka has nothing like it; it replaces a Produce request every few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Final, NamedTuple

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.records import Stretch
from klamm.cluster.types import TopicPartition

RATE_MARGIN_MS: Final = 50.0
"""Delay between participants. A request and its response must take less."""
NO_CONNECTION: Final = 0


class RateSchedule(NamedTuple):
    """Record n of a workload is at offset ``start`` + n; there are floor(rate * seconds) of them.

    ``since_ms`` is monotonic, ``since_timestamp_ms`` the same moment since the epoch.
    """

    start: int
    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int

    def end_at(self, at_ms: float) -> int:
        """The end of the log (exclusive) at a monotonic time."""
        start, records_per_s, _, since_ms, _ = self
        if at_ms <= since_ms:
            return start
        return start + floor((at_ms - since_ms) * (records_per_s / 1000))

    def timestamp_at(self, at_ms: float) -> int:
        """A monotonic time as a timestamp."""
        return self.since_timestamp_ms + max(0, floor(at_ms - self.since_ms))


def record_count(records_per_s: float, since_ms: float, at_ms: float) -> int:
    """How many records a constant rate has made since it began."""
    return max(0, floor((at_ms - since_ms) * (records_per_s / 1000)))


class RateAgreement(msgspec.Struct, frozen=True, gc=False):
    """A schedule that a leader offers to a follower at the leader's end, over a connection between
    them. The follower accepts by naming it in its next fetch."""

    schedule: RateSchedule
    connection: int


class ConstantRate(msgspec.Struct, frozen=True, gc=False):
    """What is produced to one partition from now on, with acks -1: the records of a workload from
    number ``first_record`` on; those that are late already at once. ``number`` identifies this
    request of the producer."""

    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int
    first_record: int
    number: int


class ConstantRateRequest(msgspec.Struct, frozen=True):
    """A producer's rates. ``connection``: its loss tells the producer that the leader is gone."""

    connection: int
    partitions: Mapping[TopicPartition, ConstantRate]


class ConstantRateProgress(msgspec.Struct, frozen=True, gc=False):
    """A leader's answer to a rate, sent again whenever it changes.

    ``acknowledged``: what the ISR has since the last such answer. ``is_scheduled``: the rest is
    acknowledged by the schedule from now on, at this leader epoch. Without a schedule the rate is
    returned, because of the error or without one: no more records are appended. ``number``: of the
    ConstantRate.
    """

    error: Errors
    number: int
    leader_epoch: int = -1
    schedule: RateSchedule | None = None
    acknowledged: tuple[Stretch, ...] = ()
    is_scheduled: bool = False

    def after(self, earlier: ConstantRateProgress) -> ConstantRateProgress:
        """Merge this answer and what an earlier one acknowledged."""
        acknowledged = (*earlier.acknowledged, *self.acknowledged)
        return msgspec.structs.replace(self, acknowledged=acknowledged)


class ConstantRateResponse(msgspec.Struct, frozen=True):
    """Changes in the partitions of one producer; sent at any time, and repeatedly."""

    partitions: Mapping[TopicPartition, ConstantRateProgress]


class RevokeRates(msgspec.Struct, frozen=True):
    """From a follower to its leader: it left the schedules of these leader epochs."""

    partitions: Mapping[TopicPartition, int]
