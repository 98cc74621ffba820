"""Reads the replicas of a simulated world for checks that run after every event.

A replica or a partition that has not changed since it was last read is the same object as before,
so that checks can tell quickly that there is nothing new to check. Reading a replica materializes
its constant-rate appends, and changes nothing else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from klamm.brokers.bandwidth.copying import Arrived
from klamm.brokers.broker import KafkaServer
from klamm.brokers.logs.errors import ReplicaLogError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_store import MemoryLogStore
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.data_requests import (
    CONSUMER_REPLICA_ID,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from klamm.cluster.records import Interval
from klamm.cluster.requests import (
    AlterIsrResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    StopReplicaRequest,
)
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.log_intervals import LogIntervals
from klamm.world.views.replica_view import PartitionViews, ReplicaView, views_of_partition

_BY_PARTITION: Final = (FetchRequest, FetchResponse, ProduceRequest, AlterIsrResponse)

_Known = tuple[tuple[object, ...], ReplicaView]
"""A log's contents and offsets and a replica's state when they were read, and what was read."""

Hosts = list[tuple[int, KafkaServer | None, Mapping[TopicPartition, Partition]]]
"""Ids of brokers; if they are running, the brokers and the partitions that they host."""


class ReplicaViews:
    """Reads the replicas on running brokers, and the in-memory logs of stopped brokers."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._intervals = LogIntervals()
        self._views: defaultdict[int, dict[TopicPartition, _Known]] = defaultdict(dict)
        self._partitions: dict[TopicPartition, PartitionViews] = {}
        self._hosts: Hosts = []
        self._running: tuple[object, object] = ([], [])

    def hosts(self) -> Hosts:
        """Return the brokers that may have replicas now. Stopped brokers have in-memory logs."""
        running, stores = list(self._world.nodes.items()), list(self._world.log_stores)
        if (running, stores) != self._running:
            self._running, self._hosts = (running, stores), []
            for broker_id in stores:
                node = self._world.nodes.get(broker_id)
                broker = None if node is None else node.node.broker
                hosted = {} if broker is None else broker.replica_manager.partitions
                self._hosts.append((broker_id, broker, hosted))
        return self._hosts

    def of(self, tp: TopicPartition, hosts: Hosts) -> PartitionViews:
        """Return all replicas of a partition."""
        found = []
        for broker_id, broker, hosted in hosts:
            if broker is None:
                view = self._on_stopped(tp, broker_id)
            elif (partition := hosted.get(tp)) is None or (log := partition.log) is None:
                continue
            else:
                broker.rates.materialize(tp)
                view = self._view(tp, broker_id, log, partition.high_watermark, partition.state)
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
        return self._view(tp, broker_id, partition.log, partition.high_watermark, partition.state)

    def _on_stopped(self, tp: TopicPartition, broker_id: int) -> ReplicaView | None:
        store = self._world.log_stores[broker_id]
        if not isinstance(store, MemoryLogStore):
            return None
        for path, logs in store.dirs.items():
            log = logs.current.get(tp)
            if log is not None:
                stored = store.high_watermarks.get(path, {}).get(tp, 0)
                return self._view(tp, broker_id, log, min(stored, log.log_end_offset), None)
        return None

    def _view(
        self,
        tp: TopicPartition,
        broker_id: int,
        log: ReplicaLog,
        high_watermark: int,
        state: LeaderAndIsrPartitionState | None,
    ) -> ReplicaView | None:
        if not isinstance(log, IntervalLog):
            read = self._read_segments(log)
            if read is None:
                return None
            intervals, start, end = read
            epochs = _epochs(broker_id, state)
            return ReplicaView(tp, broker_id, intervals, high_watermark, *epochs, start, end)
        end, start, kept = log.log_end_offset, log.log_start_offset, log.kept
        # While the end is the same, a log has the same intervals if they are in an equal object.
        key = (end, high_watermark, start, state, kept)
        views = self._views[broker_id]
        known = views.get(tp)
        if known is not None and known[0] == key:
            return known[1]
        intervals, shape = self._intervals.of(tp, broker_id, log)
        epochs = _epochs(broker_id, state)
        view = ReplicaView(tp, broker_id, intervals, high_watermark, *epochs, start, end, shape)
        views[tp] = key, view
        return view

    def _read_segments(self, log: ReplicaLog) -> tuple[tuple[Interval, ...], int, int] | None:
        """Return the intervals, start and end of a log. None if it is damaged."""
        try:
            start, end = log.log_start_offset, log.log_end_offset
            with self._world.log_stores.disk.without_faults():
                return log.intervals(), start, end
        except ReplicaLogError:
            return None  # its broker finds the damage when it needs the log


def _epochs(broker_id: int, state: LeaderAndIsrPartitionState | None) -> tuple[int, int]:
    """Return the epoch at which a replica leads, or -1, and the epoch that it has applied."""
    if state is None:
        return NO_EPOCH, NO_EPOCH
    return (state.leader_epoch if state.leader == broker_id else NO_EPOCH), state.leader_epoch


def changed_partitions(event: object) -> Sequence[TopicPartition]:
    """Return the partitions whose replicas a broker may have changed in an event."""
    if not isinstance(event, Message):
        return (event.copy_id.topic_partition,) if isinstance(event, Arrived) else ()
    body = event.body
    if isinstance(body, FetchRequest) and body.replica_id == CONSUMER_REPLICA_ID:
        return ()
    if isinstance(body, _BY_PARTITION):
        return tuple(body.partitions)
    if isinstance(body, LeaderAndIsrRequest | StopReplicaRequest):
        return tuple(state.topic_partition for state in body.partition_states)
    return ()
