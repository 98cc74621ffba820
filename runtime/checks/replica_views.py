"""Reads the replicas of a simulated world for checks that run after every event.

A replica or a partition that has not changed since it was last read is the same object as before,
so that checks can tell quickly that there is nothing new to check. Reading a replica materializes
its constant-rate appends, and changes nothing else.
"""

from __future__ import annotations

from collections import defaultdict

from klamm.brokers.broker import Broker
from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.runtime.checks.log_intervals import LogIntervals
from klamm.runtime.checks.replicas import PartitionViews, ReplicaView, views_of_partition
from klamm.runtime.simulated.world import SimulatedWorld

_Known = tuple[object, tuple[int, ...], ReplicaView]
"""The contents of a log and its offsets and epochs when it was read, and what was read."""

Hosts = list[tuple[int, Broker | None]]
"""Ids of brokers, with the brokers that are running."""


class ReplicaViews:
    """Reads the replicas on running brokers, and the in-memory logs of stopped brokers."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._intervals = LogIntervals()
        self._views: defaultdict[int, dict[TopicPartition, _Known]] = defaultdict(dict)
        self._partitions: dict[TopicPartition, PartitionViews] = {}

    def hosts(self) -> Hosts:
        """Return the brokers that may have replicas now. Stopped brokers have in-memory logs."""
        nodes = self._world.nodes
        return [
            (broker_id, None if (running := nodes.get(broker_id)) is None else running.node.broker)
            for broker_id in self._world.log_stores
        ]

    def of(self, tp: TopicPartition, hosts: Hosts) -> PartitionViews:
        """Return all replicas of a partition."""
        found = []
        for broker_id, broker in hosts:
            if broker is None:
                view = self._on_stopped(tp, broker_id)
            else:
                partition = broker.replica_manager.partitions.get(tp)
                if partition is None:
                    continue
                view = self._on_running(tp, broker, partition)
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
        return None if partition is None else self._on_running(tp, broker, partition)

    def _on_running(
        self, tp: TopicPartition, broker: Broker, partition: Partition
    ) -> ReplicaView | None:
        if partition.log is None:
            return None
        broker.rates.materialize(tp)
        state, broker_id = partition.state, broker.info.id
        epoch = leading = NO_EPOCH
        if state is not None:
            epoch = state.leader_epoch
            if state.leader == broker_id:
                leading = epoch
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
            views = self._views[broker_id]
            known = views.get(tp)
            if known is not None and known[0] is log.kept and known[1] == rest:
                return known[2]
            intervals, shape = self._intervals.of(tp, broker_id, log)
            view = ReplicaView(tp, broker_id, intervals, *rest, shape)
            views[tp] = log.kept, rest, view
            return view
        except ReplicaLogError:
            return None  # its broker finds the damage when it needs the log
