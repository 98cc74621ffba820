"""Records that come at a constant rate, as arithmetic: the law of a growing log, and its messages.

While a law holds nothing is sent and no timer runs: who looks at a log computes how far it is. Each
of those who know of a record knows of it a margin later than the one before, by the same clock:

    the leader's log     L(t)       the follower's log        L(t - m)
    what the leader knows the follower has, and so the high watermark   L(t - 2m)
    the high watermark as followers know it, and what the producer knows to be acknowledged  L(t-3m)

Here L(t) = start + floor((t - since) * rate), and m is LAW_MARGIN_MS. L never falls as t rises, in
floating point too: subtraction, multiplication and floor all keep order. So at any time nobody
believes more than is true, as long as all go on by one law.

A law ends in two ways. Somebody is gone, or no message is certain to arrive between two: both are
told at once that their connection is broken, and each keeps what it has at that moment T, in the
same order as above. Or somebody ends it and says so: at T the leader's log is L(T), and the news
is at the followers and the producer by T + m at the latest, for links are quicker than m. Until
then they count L(T + m - m) = L(T) at most in their logs, and L(T + m - 3m) = L(T - 2m), which is
the high watermark at T. If a follower ends it, its log is L(T - m), and until the leader hears of
that by T + m it counts L(T + m - 2m), the same. Nobody is ever ahead of the truth.

Only values here. Kafka has nothing like it; it stands for a Produce request every so often.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Final, NamedTuple

import msgspec

from cluster.api_errors import Errors
from cluster.records import Stretch
from cluster.types import TopicPartition

LAW_MARGIN_MS: Final = 50.0
"""How much later the next one knows. A question and its answer must be quicker than this."""
NO_CONNECTION: Final = 0


class Law(NamedTuple):
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


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A law that a leader offers to a follower that is at its end, over a connection of theirs."""

    law: Law
    connection: int


class ConstantRate(msgspec.Struct, frozen=True, gc=False):
    """What is produced to one partition from now on, with acks -1: the records of a workload from
    number ``first_record`` on, those that there should have been by now at once. ``number``: of
    this wish among those of its producer."""

    records_per_s: float
    record_size_bytes: int
    since_ms: float
    since_timestamp_ms: int
    first_record: int
    number: int


class ConstantRateRequest(msgspec.Struct, frozen=True):
    """A producer's rates. ``connection``: on which it hears if the leader is gone."""

    connection: int
    partitions: Mapping[TopicPartition, ConstantRate]


class GrowingPartition(msgspec.Struct, frozen=True, gc=False):
    """What a leader says of a rate that it took, whenever that changes.

    ``acknowledged``: what the ISR has come to have since the last such answer. ``is_law``: the rest
    is acknowledged by the law from now on, at this leader epoch. Without a law the rate is given
    back, for the error's reason or none: nothing more is appended. ``number``: of the wish.
    """

    error: Errors
    number: int
    leader_epoch: int = -1
    law: Law | None = None
    acknowledged: tuple[Stretch, ...] = ()
    is_law: bool = False

    def after(self, earlier: GrowingPartition) -> GrowingPartition:
        """This answer and what an earlier one acknowledged, in one."""
        acknowledged = (*earlier.acknowledged, *self.acknowledged)
        return msgspec.structs.replace(self, acknowledged=acknowledged)


class ConstantRateResponse(msgspec.Struct, frozen=True):
    """What is new of the partitions of one producer; may come at any time, and often."""

    partitions: Mapping[TopicPartition, GrowingPartition]


class EndOfLaw(msgspec.Struct, frozen=True):
    """A follower, to its leader: it grows by the law of these leader epochs no more."""

    partitions: Mapping[TopicPartition, int]
