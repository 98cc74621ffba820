"""What holds of replica logs after any appends, truncations, crashes and retention: each
kind is what a plain list of batches would be, and so all kinds are alike.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.replica_log import Appended, ReplicaLog
from klamm.cluster.records import EpochEndOffset
from tests.conformance.replica_logs import (
    NOW_MS,
    IntervalLogFactory,
    LogFactory,
    epochs_of,
    replicate,
    size_of,
)
from tests.conformance.segment_logs import SegmentLogFactory

REPLICAS = (0, 1)
replicas = st.sampled_from(REPLICAS)
RECORDS = 5
"""In every batch: batches of one size fill the segments of every kind alike."""
batch_counts = st.integers(1, 4)


class Batch(NamedTuple):
    """Records of one append, ``end`` exclusive."""

    epoch: int
    start: int
    end: int


class Model:
    """What a log should be. ``noted``: the latest epoch, if no record of it is there."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.end = start
        self.batches: list[Batch] = []
        self.noted: int | None = None

    @property
    def bounds(self) -> list[int]:
        """Offsets between batches, the log's start and end among them."""
        return [self.start, *(batch.end for batch in self.batches)]

    @property
    def stretches(self) -> list[tuple[int, int, int]]:
        """(epoch, start, end) of each stretch of one epoch."""
        found: list[tuple[int, int, int]] = []
        for epoch, start, end in self.batches:
            if found and found[-1][0] == epoch:
                found[-1] = (epoch, found[-1][1], end)
            else:
                found.append((epoch, start, end))
        return found

    @property
    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, first offset) of each epoch that is known."""
        known = [(epoch, start) for epoch, start, _ in self.stretches]
        return known if self.noted is None else [*known, (self.noted, self.end)]

    def end_offset_for(self, epoch: int) -> EpochEndOffset:
        known = self.epochs
        if epoch < 0 or not known or epoch > known[-1][0]:
            return EpochEndOffset(-1, -1)
        ends = [start for _, start in known[1:]] + [self.end]
        below = [(one, end) for (one, _), end in zip(known, ends, strict=True) if one <= epoch]
        return EpochEndOffset(*(below[-1] if below else (epoch, known[0][1])))

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        self.end = batch.end
        self.noted = None

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.end <= offset]
        self.end = offset
        self.noted = None

    def raise_start(self, offset: int) -> None:
        if offset > self.start and offset == self.end and self.noted is None:
            self.noted = self.batches[-1].epoch
        self.batches = [batch for batch in self.batches if batch.start >= offset]
        self.start = max(self.start, offset)


class ReplicaLogs(RuleBasedStateMachine):
    """Two replicas of one partition, each as a log of every kind, and what they should be."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[LogFactory] = [IntervalLogFactory(), SegmentLogFactory()]
        self.logs: list[list[ReplicaLog]] = []
        for factory in self.made:
            size = size_of(factory.batch(RECORDS))
            config = LogConfig(segment_bytes=2 * size, retention_bytes=5 * size)
            self.logs.append([factory.create(config) for _ in REPLICAS])
        self.models = [Model() for _ in REPLICAS]
        self.epoch = -1
        self.leader: int | None = None

    def teardown(self) -> None:
        for factory in self.made:
            factory.close()

    def of(self, replica: int) -> list[ReplicaLog]:
        """The logs of one replica, one of each kind."""
        return [logs[replica] for logs in self.logs]

    def bound(self, replica: int, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(self.models[replica].bounds))

    @rule(replica=replicas, step=st.integers(1, 2))
    def become_leader(self, replica: int, step: int) -> None:
        self.epoch += step
        self.leader = replica
        for log in self.of(replica):
            log.start_epoch(self.epoch)
        self.models[replica].noted = self.epoch

    @precondition(lambda self: self.leader is not None)
    @rule(batch_count=batch_counts)
    def produce(self, batch_count: int) -> None:
        assert self.leader is not None
        model = self.models[self.leader]
        for _ in range(batch_count):
            batch = Batch(self.epoch, model.end, model.end + RECORDS)
            for factory, log in zip(self.made, self.of(self.leader), strict=True):
                appended = log.append_as_leader(factory.batch(RECORDS), self.epoch, NOW_MS)
                assert appended == Appended(batch.start, batch.end - 1)
            model.append(batch)

    @rule(leader=replicas, batch_count=batch_counts)
    def fetch(self, leader: int, batch_count: int) -> None:
        """The other replica cuts what it has beside the leader, and fetches the rest, so many
        batches at a time."""
        follower = 1 - leader
        ours, theirs = self.models[follower], self.models[leader]
        common = [offset for offset in ours.bounds if offset in theirs.bounds]
        common = [at for at in common if not self.differ_between(theirs.start, at)]
        if common and ours.end >= theirs.start:
            self.cut(follower, max(common))
        else:
            self.begin_anew(follower, theirs.start)
        ours = self.models[follower]
        for factory, logs in zip(self.made, self.logs, strict=True):
            max_bytes = batch_count * size_of(factory.batch(RECORDS))
            replicate(logs[leader], logs[follower], max_bytes)
        for batch in theirs.batches:
            if batch.start >= ours.end:
                ours.append(batch)
        if self.leader == follower:
            self.leader = None

    def differ_between(self, start: int, end: int) -> bool:
        held = [
            [batch for batch in model.batches if start <= batch.start < end]
            for model in self.models
        ]
        return held[0] != held[1]

    @rule(replica=replicas, data=st.data())
    def truncate(self, replica: int, data: st.DataObject) -> None:
        self.cut(replica, self.bound(replica, data))
        if self.leader == replica:
            self.leader = None

    def cut(self, replica: int, offset: int) -> None:
        lost = self.models[replica].end - offset
        assert [log.truncate_to(offset) for log in self.of(replica)] == [lost] * len(self.made)
        self.models[replica].truncate(offset)

    @rule(replica=replicas, offset=st.integers(0, 60))
    def begin_anew(self, replica: int, offset: int) -> None:
        for log in self.of(replica):
            log.truncate_fully_and_start_at(offset)
        self.models[replica] = Model(offset)
        if self.leader == replica:
            self.leader = None

    @rule(replica=replicas)
    def flush(self, replica: int) -> None:
        for log in self.of(replica):
            log.flush()
            assert log.recovery_point == log.log_end_offset

    @rule(replica=replicas)
    def pack(self, replica: int) -> None:
        """Whatever comes after it, nobody notices."""
        for log in self.of(replica):
            if isinstance(log, IntervalLog):
                log.pack()

    @rule(replica=replicas, data=st.data())
    def crash(self, replica: int, data: st.DataObject) -> None:
        model = self.models[replica]
        kept = data.draw(st.none() | st.sampled_from(model.bounds))
        flushed = {log.recovery_point for log in self.of(replica)}
        assert len(flushed) == 1
        for factory, logs in zip(self.made, self.logs, strict=True):
            logs[replica] = factory.crash(logs[replica], kept)
        model.truncate(max(model.start, *flushed, kept or 0))
        if self.leader == replica:
            self.leader = None

    @rule(replica=replicas, data=st.data())
    def increment_log_start_offset(self, replica: int, data: st.DataObject) -> None:
        model = self.models[replica]
        offset = self.bound(replica, data)
        rises = offset > model.start
        for log in self.of(replica):
            assert log.increment_log_start_offset(offset) == rises
        model.raise_start(offset)

    @rule(replica=replicas, data=st.data())
    def delete_old(self, replica: int, data: st.DataObject) -> None:
        model = self.models[replica]
        high_watermark = self.bound(replica, data)
        for log in self.of(replica):
            log.delete_old(NOW_MS, high_watermark)
        (start,) = {log.log_start_offset for log in self.of(replica)}
        assert start in model.bounds and model.start <= start
        assert start == model.start or start <= high_watermark
        model.raise_start(start)

    @invariant()
    def logs_are_what_they_should_be(self) -> None:
        for replica, model in enumerate(self.models):
            for log in self.of(replica):
                assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
                assert epochs_of(log) == model.stretches
                assert log.latest_epoch == (model.epochs[-1][0] if model.epochs else None)
                for epoch in range(-1, self.epoch + 2):
                    assert log.end_offset_for(epoch) == model.end_offset_for(epoch)
                assert log.recovery_point <= log.log_end_offset


ReplicaLogs.TestCase.settings = settings(max_examples=30, stateful_step_count=30)
TestReplicaLogs = ReplicaLogs.TestCase
