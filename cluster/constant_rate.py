"""Constant-rate workloads: schedules for the growth of a log, and messages to agree on them.

A schedule is a function from the time to the end offset of a log. While a schedule is in force, no
message is sent and no timer runs: every reader of the log computes the end offset. All participants
use the same clock. A record becomes visible in this order, in each step later by a margin m:

    the leader's log                                                       L(t)
    the follower's log                                                     L(t - m)
    the leader's view of the follower, and the high watermark              L(t - 2m)
    the followers' high watermark, and the records acknowledged to the producer  L(t - 3m)

Here L(t) = start + floor((t - since) * rate), and m is RATE_MARGIN_MS. L never decreases as t
increases, even in floating point, because subtraction, multiplication and floor are monotonic. So
no participant is ever ahead of an earlier participant while all follow the same schedule.

A schedule can end in two ways:

- A connection is lost, because a participant stopped or the network between two participants may
  lose messages. Both ends are notified immediately, at time T, and each keeps its state at T.
- A participant revokes the schedule at time T. If the leader revokes it, the leader's log ends at
  L(T), and the notification reaches followers and producer by T + m, because messages take less
  than m. Until then the followers' logs end at or before L(T + m - m) = L(T), and followers and
  producer assume a high watermark of at most L(T + m - 3m) = L(T - 2m), the high watermark at T.
  If a follower revokes it, the follower's log ends at L(T - m). The leader is notified by T + m,
  and until then assumes a follower log end of at most L(T + m - 2m) = L(T - m).

This file defines values only. Kafka has no such workloads. In klamm a constant-rate workload
replaces a Produce request every few milliseconds.
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
"""The margin m, in milliseconds. The round trip of a request must take less time than m."""
NO_CONNECTION: Final = 0


class RateSchedule(NamedTuple):
    """End offset of a log as a function of time: ``start`` + floor(rate * elapsed seconds).

    The schedule begins at ``since_ms``, in monotonic milliseconds; ``since_timestamp_ms`` is the
    same moment in milliseconds since the Unix epoch.
    """

    start: int
    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int

    def end_at(self, at_ms: float) -> int:
        """Return the (exclusive) end offset of the log at ``at_ms`` on the monotonic clock."""
        start, records_per_s, _, since_ms, _ = self
        if at_ms <= since_ms:
            return start
        return start + floor((at_ms - since_ms) * (records_per_s / 1000))

    def timestamp_at(self, at_ms: float) -> int:
        """Convert a monotonic time in ms to a timestamp in ms since the epoch."""
        return self.since_timestamp_ms + max(0, floor(at_ms - self.since_ms))


def records_produced(records_per_s: float, since_ms: float, at_ms: float) -> int:
    """Return the number of records produced at a constant rate from ``since_ms`` to ``at_ms``."""
    return max(0, floor((at_ms - since_ms) * (records_per_s / 1000)))


class RateAgreement(msgspec.Struct, frozen=True, gc=False):
    """Schedule that a leader offers to a follower whose log end equals the leader's.

    The follower accepts the agreement by including it in the next fetch. The agreement ends when
    ``connection`` is lost.
    """

    schedule: RateSchedule
    connection: int


class ConstantRate(msgspec.Struct, frozen=True, gc=False):
    """Request to append a producer's records to one partition at a constant rate, with acks -1.

    Records that are already due are appended immediately.

    - ``first_record``: position, in the whole workload, of the first record to append.
    - ``number``: identifies the request among the producer's requests for the partition.
    """

    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int
    first_record: int
    number: int


class ConstantRateRequest(msgspec.Struct, frozen=True):
    """Request to append a producer's records at a constant rate for each partition.

    If ``connection`` is lost, the producer is notified that it has lost the leader.
    """

    connection: int
    partitions: Mapping[TopicPartition, ConstantRate]


class ConstantRateProgress(msgspec.Struct, frozen=True, gc=False):
    """A leader's response to a ConstantRate. A new response is sent whenever the content changes.

    - ``number``: the ``number`` of the ConstantRate.
    - ``schedule``: schedule of the leader's log; None if the leader has stopped appending, with or
      without an error.
    - ``acknowledged``: records that the ISR has replicated since the previous response.
    - ``is_scheduled``: later records of this leader epoch are acknowledged according to the
      schedule, without further responses.
    """

    error: Errors
    number: int
    leader_epoch: int = -1
    schedule: RateSchedule | None = None
    acknowledged: tuple[Stretch, ...] = ()
    is_scheduled: bool = False

    def after(self, earlier: ConstantRateProgress) -> ConstantRateProgress:
        """Return a response that combines this response with an earlier, unsent response."""
        acknowledged = (*earlier.acknowledged, *self.acknowledged)
        return msgspec.structs.replace(self, acknowledged=acknowledged)


class ConstantRateResponse(msgspec.Struct, frozen=True):
    """Progress of a producer's constant-rate partitions, sent unsolicited after every change."""

    partitions: Mapping[TopicPartition, ConstantRateProgress]


class RevokeRates(msgspec.Struct, frozen=True):
    """Notification from a follower to its leader that the follower revoked schedules.

    ``partitions`` maps each partition to the leader epoch of the revoked schedule.
    """

    partitions: Mapping[TopicPartition, int]
