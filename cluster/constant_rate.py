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

This file has values only. Kafka has no such workloads; they replace a Produce request every few
milliseconds.
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
        """Return the end offset of the log (exclusive) at a monotonic time in ms."""
        start, records_per_s, _, since_ms, _ = self
        if at_ms <= since_ms:
            return start
        return start + floor((at_ms - since_ms) * (records_per_s / 1000))

    def timestamp_at(self, at_ms: float) -> int:
        """Convert a monotonic time in ms to a timestamp in ms since the epoch."""
        return self.since_timestamp_ms + max(0, floor(at_ms - self.since_ms))


def record_count(records_per_s: float, since_ms: float, at_ms: float) -> int:
    """Return how many records a constant rate has produced since it started."""
    return max(0, floor((at_ms - since_ms) * (records_per_s / 1000)))


class RateAgreement(msgspec.Struct, frozen=True, gc=False):
    """A schedule that a leader offers to a follower with the same log end, over one connection.

    The follower accepts it by including it in its next fetch.
    """

    schedule: RateSchedule
    connection: int


class ConstantRate(msgspec.Struct, frozen=True, gc=False):
    """Records that a producer produces to one partition at a constant rate, with acks -1.

    They start with number ``first_record`` of the workload; overdue records are appended at once.
    ``number`` identifies this request of the producer.
    """

    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int
    first_record: int
    number: int


class ConstantRateRequest(msgspec.Struct, frozen=True):
    """Constant rates of a producer, by partition.

    ``connection``: its loss notifies the producer that the leader is gone.
    """

    connection: int
    partitions: Mapping[TopicPartition, ConstantRate]


class ConstantRateProgress(msgspec.Struct, frozen=True, gc=False):
    """A leader's response to a ConstantRate, sent again whenever it changes.

    ``acknowledged``: records that the ISR has replicated since the last response. ``is_scheduled``:
    later records of this leader epoch are acknowledged according to the schedule. ``schedule``
    None: the leader has ended the rate, with or without an error, and appends no more records.
    ``number``: number of the ConstantRate.
    """

    error: Errors
    number: int
    leader_epoch: int = -1
    schedule: RateSchedule | None = None
    acknowledged: tuple[Stretch, ...] = ()
    is_scheduled: bool = False

    def after(self, earlier: ConstantRateProgress) -> ConstantRateProgress:
        """Merge the acknowledged records of an earlier response into this one."""
        acknowledged = (*earlier.acknowledged, *self.acknowledged)
        return msgspec.structs.replace(self, acknowledged=acknowledged)


class ConstantRateResponse(msgspec.Struct, frozen=True):
    """Progress of a producer's partitions; an unsolicited response, sent at every change."""

    partitions: Mapping[TopicPartition, ConstantRateProgress]


class RevokeRates(msgspec.Struct, frozen=True):
    """Notification from a follower to its leader: it revoked the schedules of these epochs."""

    partitions: Mapping[TopicPartition, int]
