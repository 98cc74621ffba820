"""Check the guarantees to clients: every acknowledged record is read exactly once and in order.

The checks use only what producers and consumers recorded, so they work on any cluster. If a
leader's log is accessible, the acknowledged records are also looked up in that log.

The violations have the names used by Jepsen's checker for Kafka. Records are compared as stretches
(ranges of offsets written in one leader epoch), never one by one. replicas.py checks that replicas
agree with each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from klamm.cluster.records import Stretch
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.world.clients.consumer import Consumer
from klamm.world.clients.producer import Producer
from klamm.world.clients.ranges import Acknowledged
from klamm.world.views.replica_view import ReplicaView

LOST_WRITE: Final = "lost-write"
UNSEEN: Final = "unseen"
DUPLICATE: Final = "duplicate"
NONMONOTONIC_SEND: Final = "nonmonotonic-send"
NONMONOTONIC_POLL: Final = "nonmonotonic-poll"
INCONSISTENT_OFFSETS: Final = "inconsistent-offsets"


class Finding(NamedTuple):
    """A violation. ``kind`` is one of these names:

    - ``lost-write``: a record was acknowledged, but a consumer that has read beyond its offset
      skipped it, or the leader's log lacks it.
    - ``unseen``: a record was acknowledged, but no consumer has reached it. This is an error
      only if all consumers are at the end of the partition.
    - ``duplicate``: more records were read than the producers can have stored.
    - ``nonmonotonic-send``, ``nonmonotonic-poll``: a record that was sent or polled later has a
      lower offset.
    - ``inconsistent-offsets``: two different records have the same offset.
    """

    kind: str
    topic_partition: TopicPartition
    text: str

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.kind}: {self.text}"


def check_clients(producers: Sequence[Producer], consumers: Sequence[Consumer]) -> list[Finding]:
    """Compare the acknowledged records of all producers with the records that consumers read.

    The consumers must have started reading before the producers sent their first record."""
    findings: list[Finding] = []
    partitions = {tp: None for producer in producers for tp in producer.acknowledged}
    partitions |= {tp: None for consumer in consumers for tp in consumer.read}
    for tp in partitions:
        acknowledged = [one.acknowledged.get(tp, []) for one in producers]
        reads = [one.read.get(tp, []) for one in consumers]
        may_be_stored = sum(
            one.undecided_in(tp) + sum(lost.record_count for lost in one.indefinite.get(tp, ()))
            for one in producers
        )
        findings += check_partition(tp, acknowledged, reads, may_be_stored)
    return findings


def check_leader(acknowledged: Iterable[Acknowledged], leader: ReplicaView) -> list[Finding]:
    """Return a finding for each range of acknowledged records that is not in the leader's log.

    Records before the log start offset were deleted by retention and are not reported."""
    return [
        Finding(
            LOST_WRITE,
            leader.partition,
            f"offsets {first} to {end - 1} were acknowledged, but are not in the log of leader "
            f"{leader.broker_id}",
        )
        for first, end in lost_offsets(acknowledged, leader)
    ]


def lost_offsets(
    acknowledged: Iterable[Acknowledged], leader: ReplicaView
) -> list[tuple[int, int]]:
    """Return the offset ranges of acknowledged records that are not in a leader's log."""
    found: list[tuple[int, int]] = []
    for one in acknowledged:
        epoch, start, _ = one.stretch
        expected = one.stretch._replace(start=max(start, leader.start))
        there = [(i.start, i.end) for i in leader.intervals if i.leader_epoch == epoch]
        found += _gaps(expected, there)
    return found


def check_partition(
    tp: TopicPartition,
    acknowledged: Sequence[Sequence[Acknowledged]],
    reads: Sequence[Sequence[Stretch]],
    may_be_stored: int,
) -> list[Finding]:
    """Return the violations in one partition.

    ``acknowledged``: the acknowledged records of each producer. ``reads``: the records that each
    consumer read, in poll order. ``may_be_stored``: number of records that were sent but not
    acknowledged, which brokers may or may not have stored."""
    findings: list[Finding] = []
    stretches = [one.stretch for mine in acknowledged for one in mine]
    for mine in acknowledged:
        findings += _check_send_order(tp, mine)
    for polled in reads:
        findings += _check_poll_order(tp, polled)
    findings += _check_offsets(tp, stretches, [one for polled in reads for one in polled])
    end = max((one.end for polled in reads for one in polled), default=0)
    seen = _joined(one for polled in reads for one in polled)
    for stretch in stretches:
        for start, missing_end in _gaps(stretch, seen):
            kind = LOST_WRITE if start < end else UNSEEN
            text = f"offsets {start} to {missing_end - 1} of {stretch} were not read"
            findings.append(Finding(kind, tp, text))
    sent = sum(end - start for start, end in _joined(stretches)) + may_be_stored
    read = sum(end - start for start, end in seen)
    if stretches and read > sent:
        text = f"{read} records were read, but at most {sent} were sent"
        findings.append(Finding(DUPLICATE, tp, text))
    return findings


def _check_send_order(tp: TopicPartition, mine: Sequence[Acknowledged]) -> list[Finding]:
    in_order = sorted(mine, key=lambda one: one.first_number)
    return [
        Finding(
            NONMONOTONIC_SEND,
            tp,
            f"record {after.first_number} is at offset {after.stretch.start}, but "
            f"record {before.first_number}, sent earlier, at {before.stretch.start}",
        )
        for before, after in pairwise(in_order)
        if after.stretch.start < before.stretch.end
    ]


def _check_poll_order(tp: TopicPartition, polled: Sequence[Stretch]) -> list[Finding]:
    return [
        Finding(NONMONOTONIC_POLL, tp, f"{after} was read after {before}")
        for before, after in pairwise(polled)
        if after.start < before.end
    ]


def _check_offsets(
    tp: TopicPartition, stretches: Sequence[Stretch], reads: Sequence[Stretch]
) -> list[Finding]:
    """Find offsets that were read or acknowledged in two different leader epochs.

    Acknowledgements with an unknown leader epoch are ignored."""
    known = sorted(
        (*(one for one in stretches if one.leader_epoch != NO_EPOCH), *reads),
        key=lambda one: (one.start, one.end),
    )
    findings: list[Finding] = []
    widest: Stretch | None = None
    for one in known:
        if (
            widest is not None
            and one.start < widest.end
            and (one.leader_epoch != widest.leader_epoch)
        ):
            findings.append(Finding(INCONSISTENT_OFFSETS, tp, f"{widest} and {one}"))
        if widest is None or one.end > widest.end:
            widest = one
    return findings


def _joined(stretches: Iterable[Stretch]) -> list[tuple[int, int]]:
    """Return the offsets of the stretches as disjoint ranges, regardless of their leader epochs."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((one.start, one.end) for one in stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _gaps(stretch: Stretch, seen: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the offset ranges of a stretch that are not in ``seen``, which must be sorted."""
    gaps: list[tuple[int, int]] = []
    at = stretch.start
    for start, end in seen:
        if start >= stretch.end:
            break
        if end > at:
            if start > at:
                gaps.append((at, start))
            at = max(at, end)
    if at < stretch.end:
        gaps.append((at, stretch.end))
    return gaps
