"""Client guarantees: every acknowledged record is read, once, in order.

Uses only the records of producers and consumers, so it works on any cluster; with access to a
leader's log that can be checked, too.
Names are those of Jepsen's checker for Kafka. Stretches of offsets are compared, never single
records. replicas.py checks the guarantees between brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from klamm.brokers.clients.consumer import Consumer
from klamm.brokers.clients.producer import Producer
from klamm.brokers.clients.ranges import Acknowledged
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.records import Stretch
from klamm.cluster.types import NO_EPOCH, TopicPartition

LOST_WRITE: Final = "lost-write"
UNSEEN: Final = "unseen"
DUPLICATE: Final = "duplicate"
NONMONOTONIC_SEND: Final = "nonmonotonic-send"
NONMONOTONIC_POLL: Final = "nonmonotonic-poll"
INCONSISTENT_OFFSETS: Final = "inconsistent-offsets"


class Finding(NamedTuple):
    """A violation; ``kind`` is one of the names above.

    ``lost-write``: acknowledged, but skipped by a consumer that has read beyond it, or missing in
    the leader's log.
    ``unseen``: acknowledged, and no consumer has reached it: an error only if all are at the end.
    ``duplicate``: more records were read than were sent and may be stored.
    ``nonmonotonic-send``, ``nonmonotonic-poll``: a later record has an earlier offset.
    ``inconsistent-offsets``: two different records have one offset.
    """

    kind: str
    topic_partition: TopicPartition
    text: str

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.kind}: {self.text}"


def check_clients(producers: Sequence[Producer], consumers: Sequence[Consumer]) -> list[Finding]:
    """Compare the acknowledged records of all producers with the records that consumers read.

    Consumers must have read from the first record of these producers on."""
    findings: list[Finding] = []
    partitions = {tp: None for producer in producers for tp in producer.acknowledged}
    partitions |= {tp: None for consumer in consumers for tp in consumer.read}
    for tp in partitions:
        acknowledged = [one.acknowledged.get(tp, []) for one in producers]
        reads = [one.read.get(tp, []) for one in consumers]
        may_be_stored = sum(
            lost.record_count for one in producers for lost in one.indefinite.get(tp, ())
        )
        findings += check_partition(tp, acknowledged, reads, may_be_stored)
    return findings


def check_leader(
    tp: TopicPartition, acknowledged: Iterable[Acknowledged], leader: int, log: ReplicaLog
) -> list[Finding]:
    """Return the acknowledged records that a leader's log lacks.

    Records before the log start were deleted by retention, and are not reported."""
    findings: list[Finding] = []
    intervals = log.intervals()
    for one in acknowledged:
        epoch, start, _ = one.stretch
        expected = one.stretch._replace(start=max(start, log.log_start_offset))
        there = [(i.start, i.end) for i in intervals if i.leader_epoch == epoch]
        for first, end in _gaps(expected, there):
            text = f"{first}-{end - 1} were acknowledged, but leader {leader} does not have them"
            findings.append(Finding(LOST_WRITE, tp, text))
    return findings


def check_partition(
    tp: TopicPartition,
    acknowledged: Sequence[Sequence[Acknowledged]],
    reads: Sequence[Sequence[Stretch]],
    may_be_stored: int,
) -> list[Finding]:
    """Check one partition: ``acknowledged`` by producer, ``reads`` by consumer in poll order.

    ``may_be_stored``: number of records that were sent without an acknowledgement."""
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
            findings.append(Finding(kind, tp, f"offsets {start} to {missing_end - 1} of {stretch}"))
    sent = sum(end - start for start, end in _joined(stretches)) + may_be_stored
    read = sum(end - start for start, end in seen)
    if stretches and read > sent:
        findings.append(Finding(DUPLICATE, tp, f"{read} records were read, at most {sent} sent"))
    return findings


def _check_send_order(tp: TopicPartition, mine: Sequence[Acknowledged]) -> list[Finding]:
    in_order = sorted(mine, key=lambda one: one.first_number)
    return [
        Finding(
            NONMONOTONIC_SEND,
            tp,
            f"record {after.first_number} is at offset {after.stretch.start}, "
            f"record {before.first_number} at {before.stretch.start}",
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
    """Find offsets with two epochs; acknowledgements of an unknown epoch are ignored."""
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
    """Return the covered offsets as disjoint ranges, regardless of their epochs."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted((one.start, one.end) for one in stretches):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _gaps(stretch: Stretch, seen: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of a stretch outside the ranges ``seen``, which are sorted."""
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
