"""The replicas that a broker hosts, and what the controller's requests do to them.

No message is sent and no clock is read here: requests come in as values, answers go out as values,
fetches and proposals are queued with their managers. Mirrors kafka.server.ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from brokers.alter_isr_manager import AlterIsrResult
from brokers.fetchers import ReplicaFetcherManager
from brokers.log_dirs import LogDirs
from brokers.metadata_cache import MetadataCache
from brokers.partition import Partition
from brokers.zk_isr_manager import IsrManager
from cluster.api_errors import Errors
from cluster.requests import (
    FetchRequest,
    FetchResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from cluster.types import EPOCH_DURING_DELETE, NO_EPOCH, LeaderAndIsr, TopicPartition

_States = list[tuple[Partition, LeaderAndIsrPartitionState]]
_FINAL_ERRORS = frozenset(
    (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
    )
)


class ReplicaManager:
    """The hosted partitions of one broker.

    ``partitions`` are those that can be used, ``offline_partitions`` those whose log directory
    failed, ``log_dir_moves`` those that are being copied to another directory (see
    brokers/replica_log_dirs.py). ``controller_epoch`` is the highest seen in any request.
    ``is_shutting_down``: replicas that become followers are no longer fetched.
    """

    def __init__(
        self,
        broker_id: int,
        log_dirs: LogDirs,
        metadata_cache: MetadataCache,
        fetchers: ReplicaFetcherManager,
        alter_isr_manager: IsrManager,
    ) -> None:
        self.broker_id = broker_id
        self.log_dirs = log_dirs
        self.controller_epoch = 0
        self.is_shutting_down = False
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline_partitions: dict[TopicPartition, None] = {}
        self.log_dir_moves: dict[TopicPartition, None] = {}
        self.metadata_cache = metadata_cache
        self._fetchers = fetchers
        self._alter_isr = alter_isr_manager
        self._waiting: dict[TopicPartition, None] = {}

    # -- requests of the controller

    def become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
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
                partition = partitions[tp] = Partition()
            error = self._check_state(partition, state, topic_ids.get(tp.topic))
            if error:
                errors[tp] = error
            elif state.leader == broker_id:
                to_be_leader.append((partition, state))
            else:
                to_be_follower.append((partition, state))
        some_refused = bool(errors)
        self._make_leaders(to_be_leader, errors)
        self._make_followers(to_be_follower, errors)
        if some_refused or self.log_dirs.offline:
            self._mark_offline_without_log(errors)
        if self.log_dirs.futures:
            self._resume_moves(to_be_leader)
            self._resume_moves(to_be_follower)
        return LeaderAndIsrResponse(Errors.NONE, errors)

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

    def _make_leaders(self, states: _States, errors: dict[TopicPartition, Errors]) -> None:
        for partition, state in states:
            tp = state.topic_partition
            self._fetchers.remove(tp)
            if not self._has_log(partition, state):
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            errors[tp] = Errors.NONE
            self._apply(partition, state)

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
                self._apply(partition, state)
                if broker_id in state.isr or self.is_shutting_down:
                    self._fetchers.remove(tp)
                else:
                    self._fetchers.add(tp, state.leader, state.leader_epoch)

    def _apply(self, partition: Partition, state: LeaderAndIsrPartitionState) -> None:
        if partition.pending is not None:
            self._alter_isr.clear_pending(state.topic_partition)
        partition.apply(state)

    def _has_log(self, partition: Partition, state: LeaderAndIsrPartitionState) -> bool:
        if partition.log_dir is None:
            partition.log_dir = self.log_dirs.create_log(state.topic_partition, is_new=state.is_new)
        return partition.log_dir is not None

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
            return
        if partition.pending is not None:
            self._alter_isr.clear_pending(tp)
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

    # -- followers and the ISR

    def fetch(self, request: FetchRequest) -> FetchResponse:
        """Record a follower's fetch; replicas that have caught up are proposed for the ISR."""
        errors: dict[TopicPartition, Errors] = {}
        for tp, leader_epoch in request.partitions.items():
            partition = self.partitions.get(tp)
            if partition is None:
                errors[tp] = self._not_hosted(tp)
                continue
            error = partition.check_fetch(self.broker_id, leader_epoch)
            if error:
                errors[tp] = error
            elif partition.record_fetch(request.replica_id):
                self._propose(tp, partition, request.replica_id)
        return FetchResponse(errors)

    def _not_hosted(self, partition: TopicPartition) -> Errors:
        if partition in self.offline_partitions:
            return Errors.KAFKA_STORAGE_ERROR
        if partition in self.metadata_cache:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.UNKNOWN_TOPIC_OR_PARTITION

    def _propose(self, tp: TopicPartition, partition: Partition, replica_id: int) -> None:
        self._waiting.pop(tp, None)
        assert partition.state is not None, "only a leader proposes"
        proposed = partition.propose_expansion(replica_id)
        self._alter_isr.submit(tp, proposed, partition.state.controller_epoch)

    def on_alter_isr_result(self, result: AlterIsrResult) -> None:
        """Take over what the controller wrote, or what it refused.

        As in 2.8.2 a proposal refused for good stays pending, so that nothing is asked until the
        controller sends a new state. Any other error is asked again later, where 2.8.2 means to do
        so at once but throws.
        """
        tp = result.topic_partition
        partition = self.partitions.get(tp)
        if partition is None or partition.pending != result.proposed:
            return
        answer = result.answer
        if isinstance(answer, LeaderAndIsr):
            if partition.commit(answer) and partition.caught_up:
                self._propose_next(tp, partition)
        elif answer not in _FINAL_ERRORS:
            partition.pending = None
            self._waiting[tp] = None

    @property
    def has_waiting(self) -> bool:
        """True if a replica of a live broker has caught up and is still to be proposed."""
        return any(self._candidate(partition) is not None for partition in self._waiting_ones())

    def propose_waiting(self) -> None:
        """Propose replicas that were refused or whose broker was dead; the dead go on waiting."""
        for tp in list(self._waiting):
            partition = self.partitions.get(tp)
            if partition is None or not partition.caught_up:
                del self._waiting[tp]
            else:
                self._propose_next(tp, partition)

    def _propose_next(self, tp: TopicPartition, partition: Partition) -> None:
        candidate = self._candidate(partition)
        if candidate is None:
            self._waiting[tp] = None
        else:
            self._propose(tp, partition, candidate)

    def _candidate(self, partition: Partition) -> int | None:
        if partition.pending is not None:
            return None
        alive = self.metadata_cache.alive_brokers
        return next((replica for replica in partition.caught_up if replica in alive), None)

    def _waiting_ones(self) -> Iterator[Partition]:
        hosted = (self.partitions.get(tp) for tp in self._waiting)
        return (partition for partition in hosted if partition is not None)

    # -- log directories

    def handle_log_dir_failure(self, path: str) -> list[TopicPartition]:
        """Take a log directory out of use; returns the partitions that went offline with it."""
        if not self.log_dirs.is_online(path):
            return []
        lost = [tp for tp, partition in self.partitions.items() if partition.log_dir == path]
        for tp in lost:
            self._fetchers.remove(tp)
            self._alter_isr.clear_pending(tp)
            self._mark_offline(tp)
        self.log_dirs.mark_offline(path)
        for tp in list(self.log_dir_moves):
            if tp in self.offline_partitions or tp not in self.log_dirs.futures:
                del self.log_dir_moves[tp]
        return lost
