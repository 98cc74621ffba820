"""Replication invariants: log matching, acknowledged records, high watermarks.

Inspects logs and messages from outside; changes nothing. Checked after every step: replicas agree
below the smaller high watermark (log matching); the newest leader has every record acknowledged to
a producer with acks -1 (leader completeness); a leader's high watermark never decreases within its
epoch; an epoch has one leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from klamm.brokers.logs.record_batch import parse_header
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.records import CountedBatch, Interval, Stretch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import NO_EPOCH, TopicPartition


class ReplicaView(NamedTuple):
    """Snapshot of a replica. ``leading_epoch``: the epoch at which it leads, -1 if it does not."""

    partition: TopicPartition
    broker_id: int
    intervals: tuple[Interval, ...]
    high_watermark: int
    leading_epoch: int = NO_EPOCH


class ReplicationChecker:
    """Records acknowledgements, and collects each violation once, as text, in ``violations``."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.acknowledged: dict[TopicPartition, list[Stretch]] = {}
        self._requests: dict[tuple[Address, int], ProduceRequest] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._latest_epochs: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[tuple[TopicPartition, int], int] = {}

    def on_message(self, message: Message, views: Sequence[ReplicaView]) -> None:
        """Record a message as it is sent, with the replicas at that time."""
        body = message.body
        if isinstance(body, ProduceRequest):
            self._requests[message.source, message.correlation_id] = body
        elif isinstance(body, ProduceResponse):
            request = self._requests.pop((message.destination, message.correlation_id), None)
            if request is not None and request.acks == -1:
                self._acknowledge(message.source.id, request, body, views)

    def _acknowledge(
        self,
        broker_id: int,
        request: ProduceRequest,
        answer: ProduceResponse,
        views: Sequence[ReplicaView],
    ) -> None:
        for tp, produced in answer.partitions.items():
            batch = request.partitions[tp]
            count = batch.record_count if isinstance(batch, CountedBatch) else _count(batch)
            if produced.error is not Errors.NONE:
                continue
            start, end = produced.base_offset, produced.base_offset + count
            [view] = [v for v in views if v.broker_id == broker_id and v.partition == tp]
            found = _between(view.intervals, start, end)
            self.acknowledged.setdefault(tp, []).extend(found)
            if sum(stretch.end - stretch.start for stretch in found) != count:
                self._report(
                    f"{tp}: broker {broker_id} acknowledged {start}-{end} and does not have it"
                )

    def check(self, views: Iterable[ReplicaView]) -> None:
        """Check all replicas, of running and of stopped brokers."""
        by_partition: dict[TopicPartition, list[ReplicaView]] = {}
        for view in views:
            by_partition.setdefault(view.partition, []).append(view)
        for tp, replicas in by_partition.items():
            for one, other in combinations(replicas, 2):
                self._check_agreement(tp, one, other)
            leaders = [view for view in replicas if view.leading_epoch != NO_EPOCH]
            for view in leaders:
                self._check_leader(tp, view)
            # While the latest leader is away, a deposed one may not know that yet.
            for view in leaders:
                if view.leading_epoch == self._latest_epochs[tp]:
                    self.check_has_all(tp, view)

    def _check_agreement(self, tp: TopicPartition, one: ReplicaView, other: ReplicaView) -> None:
        if _begin_alike(one.intervals, other.intervals):
            return
        end = min(one.high_watermark, other.high_watermark)
        mine = _between(one.intervals, 0, end)
        theirs = _between(other.intervals, 0, end)
        if mine != theirs:
            self._report(
                f"{tp}: brokers {one.broker_id} and {other.broker_id} differ below {end}: "
                f"{mine}, {theirs}"
            )

    def _check_leader(self, tp: TopicPartition, view: ReplicaView) -> None:
        key = (tp, view.leading_epoch)
        self._latest_epochs[tp] = max(view.leading_epoch, self._latest_epochs.get(tp, NO_EPOCH))
        leader = self._leaders.setdefault(key, view.broker_id)
        if leader != view.broker_id:
            self._report(
                f"{tp}: brokers {leader} and {view.broker_id} both lead epoch {view.leading_epoch}"
            )
        before = self._high_watermarks.get(key, 0)
        if view.high_watermark < before:
            self._report(
                f"{tp}: the high watermark of leader {leader} fell from {before} to "
                f"{view.high_watermark}"
            )
        self._high_watermarks[key] = view.high_watermark

    def check_has_all(self, tp: TopicPartition, view: ReplicaView) -> None:
        """Check that a replica has every acknowledged record."""
        for stretch in self.acknowledged.get(tp, ()):
            if _between(view.intervals, stretch.start, stretch.end) != [stretch]:
                self._report(
                    f"{tp}: broker {view.broker_id} lacks {stretch}, which was acknowledged"
                )

    def _report(self, violation: str) -> None:
        if violation not in self.violations:
            self.violations.append(violation)


def _begin_alike(ones: Sequence[Interval], others: Sequence[Interval]) -> bool:
    """Return True if two logs differ at most in their ends: the usual case, detected quickly."""
    if not ones or len(ones) != len(others):
        return False
    ends_apart = False
    for one, other in zip(ones, others, strict=True):
        if ends_apart or one.leader_epoch != other.leader_epoch or one.start != other.start:
            return False
        ends_apart = one.end != other.end
    return True


def _count(batch: bytes) -> int:
    """Return the number of records of a batch as a producer sends it, with base offset 0."""
    return parse_header(batch).next_offset


def _between(intervals: Iterable[Interval], start: int, end: int) -> list[Stretch]:
    """Return the part of a log from ``start`` to ``end`` (exclusive), without sizes."""
    found: list[Stretch] = []
    for interval in intervals:
        if interval.end <= start:
            continue
        first, last = max(start, interval.start), min(end, interval.end)
        if first < last:
            found.append(Stretch(interval.leader_epoch, first, last))
    return found
