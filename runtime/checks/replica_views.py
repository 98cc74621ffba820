"""Reads the replicas of a simulated world for checks that run after every event.

A replica or a partition that has not changed since it was last read is the same object as before,
so that checks can tell quickly that there is nothing new to check. Reading a replica materializes
its constant-rate appends, and changes nothing else.
"""

from __future__ import annotations

from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.runtime.checks.log_intervals import LogIntervals
from klamm.runtime.checks.replicas import PartitionViews, ReplicaView, views_of_partition
from klamm.runtime.simulated.world import SimulatedWorld


class ReplicaViews:
    """Reads the replicas on running brokers, and the in-memory logs of stopped brokers."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._intervals = LogIntervals()
        self._views: dict[tuple[TopicPartition, int], tuple[object, object, ReplicaView]] = {}
        self._partitions: dict[TopicPartition, PartitionViews] = {}

    def of(self, tp: TopicPartition) -> PartitionViews:
        """Return all replicas of a partition."""
        found = []
        for broker_id in self._world.log_stores:
            view = self.on_broker(tp, broker_id)
            if view is not None:
                found.append(view)
        views, before = tuple(found), self._partitions.get(tp)
        if before is None or before.views != views:
            before = self._partitions[tp] = views_of_partition(views)
        return before

    def on_broker(self, tp: TopicPartition, broker_id: int) -> ReplicaView | None:
        """Return a broker's replica of a partition, or None if it has none."""
        running = self._world.nodes.get(broker_id)
        if running is None:
            return self._on_stopped(tp, broker_id)
        broker = running.node.broker
        partition = broker.replica_manager.partitions.get(tp)
        if partition is None or partition.log is None:
            return None
        broker.rates.materialize(tp)
        epoch = partition.leader_epoch
        leading = epoch if partition.is_leader(broker_id) else NO_EPOCH
        return self._view(tp, broker_id, partition.log, partition.high_watermark, leading, epoch)

    def _on_stopped(self, tp: TopicPartition, broker_id: int) -> ReplicaView | None:
        store = self._world.log_stores[broker_id]
        if not isinstance(store, MemoryLogStore):
            return None
        for path, logs in store.dirs.items():
            log = logs.current.get(tp)
            if log is not None:
                stored = store.high_watermarks.get(path, {}).get(tp, 0)
                high_watermark = min(stored, log.log_end_offset)
                return self._view(tp, broker_id, log, high_watermark, NO_EPOCH, NO_EPOCH)
        return None

    def _view(
        self,
        tp: TopicPartition,
        broker_id: int,
        log: ReplicaLog,
        high_watermark: int,
        leading_epoch: int,
        applied_epoch: int,
    ) -> ReplicaView | None:
        try:
            start, end = log.log_start_offset, log.log_end_offset
            rest = (high_watermark, leading_epoch, applied_epoch, start, end)
            if not isinstance(log, IntervalLog):
                with self._world.log_stores.disk.without_faults():
                    return ReplicaView(tp, broker_id, log.intervals(), *rest)
            # While the end is the same, a log has the same intervals if they are still in the same
            # object.
            key = (tp, broker_id)
            known = self._views.get(key)
            if known is not None and known[0] is log.kept and known[1] == rest:
                return known[2]
            view = ReplicaView(tp, broker_id, self._intervals.of(tp, broker_id, log), *rest)
            self._views[key] = log.kept, rest, view
            return view
        except ReplicaLogError:
            return None  # its broker finds the damage when it needs the log
