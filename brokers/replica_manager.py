"""The replicas that a broker hosts, and what the controller's requests do to them.

No message is sent and no clock is read here: requests come in as values, answers go out as values,
fetches and proposals are queued with their managers. What leaders do with records is in
brokers/leader_replicas.py. Mirrors kafka.server.ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokers.config import BrokerConfig
from brokers.disk import Disk, StoredReplica
from brokers.fetchers import ReplicaFetcherManager
from brokers.leader_replicas import LeaderReplicas
from brokers.log_dirs import LogDirs
from brokers.logs.interval_log import IntervalLog
from brokers.metadata_cache import MetadataCache
from brokers.partition import Partition
from brokers.zk_isr_manager import IsrManager
from cluster.api_errors import Errors
from cluster.data_requests import FetchResponse
from cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.types import EPOCH_DURING_DELETE, NO_EPOCH, TopicPartition

_States = list[tuple[Partition, LeaderAndIsrPartitionState]]


class ReplicaManager:
    """The hosted partitions of one broker.

    ``partitions`` are those that can be used, ``offline_partitions`` those whose log directory
    failed, ``log_dir_moves`` those that are being copied to another directory (see
    brokers/replica_log_dirs.py). ``controller_epoch`` is the highest seen in any request.
    ``is_shutting_down``: replicas that become followers are no longer fetched. ``disk`` holds the
    logs that the controller has not named yet.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata_cache: MetadataCache,
        fetchers: ReplicaFetcherManager,
        alter_isr_manager: IsrManager,
        min_insync_replicas: Callable[[str], int],
        disk: Disk,
    ) -> None:
        self.broker_id = broker_id
        self.log_dirs = LogDirs(config.log_dirs)
        self.controller_epoch = 0
        self.is_shutting_down = False
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline_partitions: dict[TopicPartition, None] = {}
        self.log_dir_moves: dict[TopicPartition, None] = {}
        self.metadata_cache = metadata_cache
        self.leaders = LeaderReplicas(
            broker_id,
            config,
            metadata_cache,
            self.partitions,
            self.offline_partitions,
            alter_isr_manager,
            min_insync_replicas,
        )
        self._fetchers = fetchers
        self._disk = disk
        for _, stored in disk:
            self.log_dirs.add_log(stored.log_dir)

    # -- requests of the controller

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, now_ms: float
    ) -> LeaderAndIsrResponse:
        """Lead and follow as the request says; an error or NONE for each of its partitions."""
        if request.controller_epoch < self.controller_epoch:
            named = (state.topic_partition for state in request.partition_states)
            stale = Errors.STALE_CONTROLLER_EPOCH
            return LeaderAndIsrResponse(stale, dict.fromkeys(named, stale))
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, Errors] = {}
        to_be_leader: _States = []
        to_be_follower: _States = []
        topic_ids = request.topic_ids
        partitions = self.partitions
        broker_id = self.broker_id
        for state in request.partition_states:
            tp = state.topic_partition
            partition = partitions.get(tp)
            if partition is None:
                if tp in self.offline_partitions:
                    errors[tp] = Errors.KAFKA_STORAGE_ERROR
                    continue
                partition = partitions[tp] = self._load(tp)
            error = self._check_state(partition, state, topic_ids.get(tp.topic))
            if error:
                errors[tp] = error
            elif state.leader == broker_id:
                to_be_leader.append((partition, state))
            else:
                to_be_follower.append((partition, state))
        some_refused = bool(errors)
        self._make_leaders(to_be_leader, errors, now_ms)
        self._make_followers(to_be_follower, errors)
        if some_refused or self.log_dirs.offline:
            self._mark_offline_without_log(errors)
        if self.log_dirs.futures:
            self._resume_moves(to_be_leader)
            self._resume_moves(to_be_follower)
        return LeaderAndIsrResponse(Errors.NONE, errors)

    def _load(self, tp: TopicPartition) -> Partition:
        """A replica as the disk has it, or one that has no log yet."""
        stored = self._disk.take(tp)
        if stored is None:
            return Partition()
        return Partition(
            log=stored.log,
            log_dir=stored.log_dir,
            topic_id=stored.topic_id,
            high_watermark=min(stored.high_watermark, stored.log.log_end_offset),
        )

    def stored_replicas(self, now_ms: float, *, is_clean: bool) -> Disk:
        """What of the broker is on its disk when it ends now; nothing may be asked of it any more.

        Logs in failed directories are lost, and those that never held a record are made anew. A
        broker that ends cleanly writes its high watermarks.
        """
        disk = self._disk
        for tp, partition in self.partitions.items():
            if partition.log is None or partition.log_dir is None or partition.is_untouched:
                continue
            high_watermark = partition.high_watermark
            if not is_clean:
                high_watermark = partition.stored_high_watermark(now_ms)
            disk.put(
                tp,
                StoredReplica(partition.log, partition.log_dir, partition.topic_id, high_watermark),
            )
        return disk

    def _check_state(
        self, partition: Partition, state: LeaderAndIsrPartitionState, topic_id: str | None
    ) -> Errors:
        if not partition.check_or_set_topic_id(topic_id):
            return Errors.INCONSISTENT_TOPIC_ID
        if state.leader_epoch <= partition.leader_epoch:
            return Errors.STALE_CONTROLLER_EPOCH
        if self.broker_id not in state.replicas:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.NONE

    def _make_leaders(
        self, states: _States, errors: dict[TopicPartition, Errors], now_ms: float
    ) -> None:
        for partition, state in states:
            tp = state.topic_partition
            self._fetchers.remove(tp)
            if not self._has_log(partition, state):
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            errors[tp] = Errors.NONE
            self.leaders.begin(partition, state, now_ms)

    def _make_followers(self, states: _States, errors: dict[TopicPartition, Errors]) -> None:
        alive = self.metadata_cache.alive_brokers
        broker_id = self.broker_id
        for partition, state in states:
            tp = state.topic_partition
            if not self._has_log(partition, state):
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            errors[tp] = Errors.NONE
            # Without a live leader only the log is made: the epoch stays, so that the same state
            # can be applied when it comes again.
            if state.leader in alive:
                self.leaders.end(tp, partition, Errors.NOT_LEADER_OR_FOLLOWER)
                partition.make_follower(state)
                if self.is_shutting_down or (broker_id in state.isr and partition.is_untouched):
                    self._fetchers.remove(tp)
                else:
                    self._fetchers.add(tp, partition)

    def _has_log(self, partition: Partition, state: LeaderAndIsrPartitionState) -> bool:
        if partition.log is None:
            partition.log_dir = self.log_dirs.create_log(state.topic_partition, is_new=state.is_new)
            if partition.log_dir is not None:
                partition.log = IntervalLog()
        return partition.log is not None

    def _resume_moves(self, states: _States) -> None:
        for partition, state in states:
            tp = state.topic_partition
            if partition.log_dir is not None and tp in self.log_dirs.futures:
                self.log_dir_moves[tp] = None

    def _mark_offline_without_log(self, named: Iterable[TopicPartition]) -> None:
        for tp in named:
            partition = self.partitions.get(tp)
            if partition is not None and partition.log_dir is None:
                self._mark_offline(tp)

    def _mark_offline(self, partition: TopicPartition) -> None:
        del self.partitions[partition]
        self.offline_partitions[partition] = None

    def stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas, and drop those to be deleted; an error or NONE for each of them."""
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(Errors.STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, Errors] = {}
        for state in request.partition_states:
            error = errors[state.topic_partition] = self._check_stop(state)
            if not error:
                self._stop_partition(state)
        return StopReplicaResponse(Errors.NONE, errors)

    def _check_stop(self, state: StopReplicaPartitionState) -> Errors:
        if state.topic_partition in self.offline_partitions:
            return Errors.KAFKA_STORAGE_ERROR
        partition = self.partitions.get(state.topic_partition)
        if partition is None or state.leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH):
            return Errors.NONE
        if state.leader_epoch <= partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.NONE

    def _stop_partition(self, state: StopReplicaPartitionState) -> None:
        tp = state.topic_partition
        self._fetchers.remove(tp)
        self.log_dir_moves.pop(tp, None)
        if not state.delete_partition:
            return
        partition = self.partitions.pop(tp, None)
        if partition is None:
            stored = self._disk.take(tp)
            if stored is not None:
                self.log_dirs.delete_log(stored.log_dir)
            return
        self.leaders.end(tp, partition, Errors.NOT_LEADER_OR_FOLLOWER)
        if partition.log_dir is not None:
            self.log_dirs.delete_log(partition.log_dir)
        self.log_dirs.delete_future(tp)

    def maybe_update_metadata_cache(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Hand the request to the metadata cache unless it comes from an old controller."""
        if request.controller_epoch < self.controller_epoch:
            return UpdateMetadataResponse(Errors.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        self.metadata_cache.update(request)
        return UpdateMetadataResponse(Errors.NONE)

    # -- following

    def on_standing_answers(self, leader: int, response: FetchResponse, now_ms: float) -> None:
        """Take what a broker sends as the leader, unless it leads no more or at another epoch."""
        for tp, answer in response.partitions.items():
            partition = self.partitions.get(tp)
            if (
                partition is not None
                and partition.is_leader(leader)
                and partition.leader_epoch == answer.leader_epoch
            ):
                self._fetchers.on_standing_answer(tp, partition, answer, now_ms)

    # -- log directories

    def handle_log_dir_failure(self, path: str) -> list[TopicPartition]:
        """Take a log directory out of use; returns the partitions that went offline with it."""
        if not self.log_dirs.is_online(path):
            return []
        lost = [tp for tp, partition in self.partitions.items() if partition.log_dir == path]
        for tp in lost:
            self._fetchers.remove(tp)
            self.leaders.end(tp, self.partitions[tp], Errors.KAFKA_STORAGE_ERROR)
            self._mark_offline(tp)
        self.log_dirs.mark_offline(path)
        for tp in list(self.log_dir_moves):
            if tp in self.offline_partitions or tp not in self.log_dirs.futures:
                del self.log_dir_moves[tp]
        return lost
