"""Replication invariants: log matching, acknowledged records, high watermarks.

The checks only read logs and messages. After every step of the simulation they verify:

- Log matching: two replicas have the same records below the smaller of their high watermarks.
- Leader completeness: the newest leader has every record that was acknowledged with acks=-1.
- The high watermark of a leader never decreases within a leader epoch.
- A leader epoch of a partition has only one leader.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from itertools import combinations
from operator import attrgetter
from typing import Final, NamedTuple

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import ProduceRequest, ProduceResponse
from klamm.cluster.records import Interval, Stretch
from klamm.cluster.requests import Address, Message
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.world.clients.batches import produced_count
from klamm.world.views.replica_view import PartitionViews, ReplicaView

LOG_MATCHING: Final = "log-matching"
LEADER_COMPLETENESS: Final = "leader-completeness"
MONOTONIC_HIGH_WATERMARK: Final = "high-watermark-does-not-decrease"
ONE_LEADER: Final = "one-broker-leads-an-epoch"
_START: Final = attrgetter("start")


class _Found(NamedTuple):
    """Acknowledged records that were found in the intervals at the beginning of a leader's log.

    ``start``: the log start offset. The stretches are sorted."""

    start: int
    stretches: Sequence[Stretch]
    intervals: tuple[Interval, ...]

    def is_part_of(self, view: ReplicaView, stretches: Sequence[Stretch]) -> bool:
        """Return True if a leader's log still begins with these intervals."""
        return (
            self.start == view.start
            and stretches[: len(self.stretches)] == self.stretches
            and view.intervals[: len(self.intervals)] == self.intervals
        )


class ReplicationChecker:
    """Checks the replication invariants, and remembers which records were acknowledged.

    ``names``: the name of the violated invariant, keyed by the text of the violation."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.acknowledged: dict[TopicPartition, Sequence[Stretch]] = {}
        self._requests: dict[tuple[Address, int], ProduceRequest] = {}
        self._found: dict[TopicPartition, _Found] = {}
        self._leaders: dict[tuple[TopicPartition, int], int] = {}
        self._latest_epochs: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[tuple[TopicPartition, int], int] = {}

    @property
    def violations(self) -> list[str]:
        """One line for each violation so far, without duplicates."""
        return list(self.names)

    def forget(self, topic: str) -> None:
        """Discard all data about a deleted topic: a new topic may have the same name."""
        for tp in [tp for tp in self._latest_epochs if tp.topic == topic]:
            del self._latest_epochs[tp]
            self.acknowledged.pop(tp, None)
            self._found.pop(tp, None)
        for by_epoch in (self._leaders, self._high_watermarks):
            for key in [key for key in by_epoch if key[0].topic == topic]:
                del by_epoch[key]

    def on_restart(self, broker_id: int) -> None:
        """Forget a restarted broker's high watermarks: its checkpoints may be lower."""
        for key in [key for key, leader in self._leaders.items() if leader == broker_id]:
            self._high_watermarks.pop(key, None)

    def on_message(self, message: Message, views: Sequence[ReplicaView]) -> None:
        """Remember which records are acknowledged. Call this for each produce request and response.

        ``views``: for a response, the replicas on the broker that sends it."""
        body = message.body
        if isinstance(body, ProduceRequest) and body.acks == -1:
            self._requests[message.source, message.correlation_id] = body
        elif isinstance(body, ProduceResponse):
            request = self._requests.pop((message.destination, message.correlation_id), None)
            if request is not None:
                self._acknowledge(message.source.id, request, body, views)

    def _acknowledge(
        self,
        broker_id: int,
        request: ProduceRequest,
        answer: ProduceResponse,
        views: Sequence[ReplicaView],
    ) -> None:
        for tp, produced in answer.partitions.items():
            count = produced_count(request.partitions[tp])
            if produced.error is not Errors.NONE:
                continue
            start, end = produced.base_offset, produced.base_offset + count
            found_views = (v for v in views if (v.broker_id, v.partition) == (broker_id, tp))
            view = next(found_views, None)
            if view is None:
                continue  # its log directory has failed since the append
            found = records_between(view.intervals, start, end)
            self._add_acknowledged(tp, found)
            if sum(stretch.end - stretch.start for stretch in found) != count:
                self._report(
                    LEADER_COMPLETENESS,
                    f"{tp}: broker {broker_id} acknowledged offsets {start} to {end - 1}, but they "
                    "are not all in its log",
                )

    def _add_acknowledged(self, tp: TopicPartition, found: Iterable[Stretch]) -> None:
        known = list(self.acknowledged.get(tp, ()))
        for one in found:
            # A leader acknowledges a batch again if the producer resends it, and a deposed leader
            # may do so late. check_has_all needs sorted stretches that do not overlap.
            if any(map(one.is_within, known)):
                continue
            last = known[-1] if known else None
            if last and (last.leader_epoch, last.end) == (one.leader_epoch, one.start):
                known[-1] = last._replace(end=one.end)
            else:
                insort(known, one, key=_START)
        self.acknowledged[tp] = known

    def check_partition(self, tp: TopicPartition, replicas: PartitionViews) -> None:
        """Check the invariants of one partition. ``replicas``: all its replicas."""
        views = replicas.views
        if not replicas.are_alike:
            for one, other in combinations(views, 2):
                self._check_agreement(tp, one, other)
        leaders = []
        for view in views:
            if view.leading_epoch != NO_EPOCH:
                self._check_leader(tp, view)
                leaders.append(view)
        # While the latest leader is away, a deposed one may not know that yet.
        for view in leaders:
            if view.leading_epoch == self._latest_epochs[tp]:
                self.check_has_all(tp, view)

    def _check_agreement(self, tp: TopicPartition, one: ReplicaView, other: ReplicaView) -> None:
        end = min(one.high_watermark, other.high_watermark)
        if one.begins_like(other, end):
            return
        mine = records_between(one.intervals, 0, end)
        theirs = records_between(other.intervals, 0, end)
        if mine != theirs:
            self._report(
                LOG_MATCHING,
                f"{tp}: the logs of brokers {one.broker_id} and {other.broker_id} differ below "
                f"offset {end}: {mine} and {theirs}",
            )

    def _check_leader(self, tp: TopicPartition, view: ReplicaView) -> None:
        key = (tp, view.leading_epoch)
        if view.leading_epoch > self._latest_epochs.get(tp, NO_EPOCH):
            self._latest_epochs[tp] = view.leading_epoch
        leader = self._leaders.setdefault(key, view.broker_id)
        if leader != view.broker_id:
            self._report(
                ONE_LEADER,
                f"{tp}: brokers {leader} and {view.broker_id} both lead at leader epoch "
                f"{view.leading_epoch}",
            )
        before = self._high_watermarks.get(key, 0)
        if view.high_watermark < before:
            self._report(
                MONOTONIC_HIGH_WATERMARK,
                f"{tp}: the high watermark of leader {leader} fell from {before} to "
                f"{view.high_watermark}",
            )
        self._high_watermarks[key] = view.high_watermark

    def check_has_all(self, tp: TopicPartition, view: ReplicaView) -> None:
        """Check that a replica has every acknowledged record."""
        intervals, stretches = view.intervals, self.acknowledged.get(tp, ())
        found = self._found.get(tp)
        if found is None or not found.is_part_of(view, stretches):
            found = self._found[tp] = _Found(view.start, stretches[:0], ())
        at = len(found.intervals)
        rest = stretches[len(found.stretches) :]
        for number, stretch in enumerate(rest, len(found.stretches)):
            start = max(stretch.start, view.start)
            if start >= stretch.end:
                continue
            while at < len(intervals) and intervals[at].end <= start:
                at += 1
            if at > len(found.intervals):
                found = self._found[tp] = _Found(view.start, stretches[:number], intervals[:at])
            there = intervals[at] if at < len(intervals) else None
            if (
                there is None
                or there.leader_epoch != stretch.leader_epoch
                or not there.start <= start < stretch.end <= there.end
            ):
                self._report(
                    LEADER_COMPLETENESS,
                    f"{tp}: the records at {stretch} were acknowledged, but are not in the log "
                    f"of leader {view.broker_id}",
                )

    def _report(self, name: str, violation: str) -> None:
        self.names.setdefault(violation, name)


def records_between(intervals: Iterable[Interval], start: int, end: int) -> list[Stretch]:
    """Return a log's stretches between the offsets ``start`` and ``end`` (exclusive)."""
    found: list[Stretch] = []
    for interval in intervals:
        if interval.end <= start:
            continue
        first, last = max(start, interval.start), min(end, interval.end)
        if first < last:
            found.append(Stretch(interval.leader_epoch, first, last))
    return found
