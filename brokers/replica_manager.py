"""The replicas that a broker hosts, and the execution of the controller's requests.

This module sends no messages: requests are arguments, responses are return values, and fetches and
ISR proposals are queued in ReplicaFetcherManager and AlterIsrManager.
brokers/leaders/leader_replicas.py handles the records of leaders. Mirrors
kafka.server.ReplicaManager.

A replica with a damaged log is offline, as if its log directory had failed. To make the controller
send the states of such replicas again, the broker writes a log dir event notification to ZooKeeper.
Kafka 2.8.2 has no equivalent.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from klamm.brokers.bandwidth.copying import Arrived, DirectoryMove
from klamm.brokers.config import BrokerConfig
from klamm.brokers.followers.fetchers import ReplicaFetcherManager
from klamm.brokers.followers.replica_alter_log_dirs import ReplicaAlterLogDirsManager
from klamm.brokers.leaders.copies import Copies
from klamm.brokers.leaders.leader_replicas import LeaderReplicas
from klamm.brokers.leaders.zk_isr_manager import IsrManager
from klamm.brokers.logs.errors import DamagedLog, LogStorageError
from klamm.brokers.logs.log_manager import LogDirFailure, LogManager
from klamm.brokers.metadata_cache import MetadataCache
from klamm.brokers.partitions.partition import Partition
from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import FetchResponse
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    NO_LEADER,
    TopicPartition,
)

_States = list[tuple[Partition, LeaderAndIsrPartitionState]]


def refuse_all(request: LeaderAndIsrRequest, error: Errors) -> LeaderAndIsrResponse:
    """Return a response with the same error for the request and each of its partitions."""
    named = (state.topic_partition for state in request.partition_states)
    return LeaderAndIsrResponse(error, dict.fromkeys(named, error))


class ReplicaManager:
    """Manages the replicas that one broker hosts.

    - ``partitions``: partitions with an online replica.
    - ``offline_partitions``: partitions whose replica has a damaged log or is in a failed log
      directory.
    - ``replica_alter_log_dirs_manager``: moves replicas to other log directories.
    - ``controller_epoch``: the highest controller epoch seen in any request.
    - ``is_shutting_down``: if True, replicas that become followers do not fetch.
    - ``log_manager``: also holds logs from disk that no LeaderAndIsr request has named yet.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        metadata_cache: MetadataCache,
        fetchers: ReplicaFetcherManager,
        alter_isr_manager: IsrManager,
        log_manager: LogManager,
        now_ms: Callable[[], float],
        copies: Copies,
        quirks: Quirks = NO_QUIRKS,
    ) -> None:
        self.broker_id = broker_id
        self._hosts_replicas = config.hosts_replicas
        self.log_manager = log_manager
        self.log_dirs = log_manager.dirs
        self.controller_epoch = 0
        self.is_shutting_down = False
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline_partitions: dict[TopicPartition, None] = {}
        self._damaged = DamagedReplicas(log_manager)
        self.metadata_cache = metadata_cache
        self.replica_alter_log_dirs_manager = ReplicaAlterLogDirsManager(
            broker_id, config, self.partitions, log_manager, quirks, copies.copying
        )
        self.leaders = LeaderReplicas(
            broker_id,
            config,
            metadata_cache,
            self.partitions,
            self.offline_partitions,
            alter_isr_manager,
            log_manager.on_error,
            copies,
            quirks,
        )
        self._fetchers = fetchers
        self._now_ms = now_ms
        self._copies = copies

    def pop_wants_state(self) -> bool:
        """Return True if the controller must resend the states of damaged replicas.

        The next call returns False, unless the states are needed again in the meantime.
        """
        wanted, self._damaged.wants_state = self._damaged.wants_state, False
        return wanted

    # -- requests of the controller

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, now_ms: float, wall_ms: int
    ) -> LeaderAndIsrResponse:
        """Make replicas leaders and followers as requested; return an error or NONE per partition.

        ``now_ms`` is in monotonic milliseconds, ``wall_ms`` in milliseconds since the Unix epoch.
        """
        if request.controller_epoch < self.controller_epoch:
            return refuse_all(request, Errors.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, Errors] = {}
        to_be_leader: _States = []
        to_be_follower: _States = []
        topic_ids = request.topic_ids
        partitions = self.partitions
        broker_id = self.broker_id
        for state in request.partition_states:
            tp = state.topic_partition
            if not self._hosts_replicas:
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            partition = partitions.get(tp)
            if partition is None:
                if self._damaged.maybe_restore(self.broker_id, state, wall_ms):
                    self.offline_partitions.pop(tp, None)
                if tp in self.offline_partitions:
                    errors[tp] = self._damaged.error_of(tp)
                    continue
                partition = partitions[tp] = self._load(tp)
            error = self._check_state(partition, state, topic_ids.get(tp.topic))
            if error:
                errors[tp] = error
            elif state.leader == broker_id:
                to_be_leader.append((partition, state))
            else:
                to_be_follower.append((partition, state))
        accepted = to_be_leader + to_be_follower
        for partition, state in accepted:
            # Its leader may change: append the records transferred so far.
            self._end_copy(state.topic_partition, partition)
        some_refused = bool(errors)
        self._make_leaders(to_be_leader, errors, now_ms, wall_ms)
        self._make_followers(to_be_follower, errors, wall_ms)
        if some_refused or self.log_dirs.offline or self.log_manager.damaged:
            self._mark_offline_without_log(errors)
        if self.log_dirs.has_futures:
            self._resume_moves(accepted, wall_ms)
        return LeaderAndIsrResponse(Errors.NONE, errors)

    def topics_without_logs(self, request: LeaderAndIsrRequest) -> Iterable[str]:
        """Return the topics for which a LeaderAndIsr request will create logs on this broker."""
        named = (state.topic_partition for state in request.partition_states)
        return dict.fromkeys(
            tp.topic
            for tp in named
            if tp not in self.partitions and self.log_dirs.path_of(tp) is None
        )

    def _load(self, tp: TopicPartition) -> Partition:
        """Create the state of a replica, with the replica's log if it exists on disk."""
        log = self.log_dirs.current(tp)
        if log is None:
            return Partition()
        high_watermark = self.log_manager.take_high_watermark(tp)
        return Partition(log=log, high_watermark=min(high_watermark, log.log_end_offset))

    def _check_state(
        self, partition: Partition, state: LeaderAndIsrPartitionState, topic_id: str | None
    ) -> Errors:
        try:
            if not partition.check_or_set_topic_id(topic_id):
                return Errors.INCONSISTENT_TOPIC_ID
        except LogStorageError as error:
            return self.log_manager.on_error(state.topic_partition, error)
        if state.leader_epoch <= partition.leader_epoch:
            return Errors.STALE_CONTROLLER_EPOCH
        if self.broker_id not in state.replicas:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.NONE

    def _make_leaders(
        self,
        states: _States,
        errors: dict[TopicPartition, Errors],
        now_ms: float,
        wall_ms: int,
    ) -> None:
        for partition, state in states:
            tp = state.topic_partition
            self._fetchers.remove(tp)
            if not self._has_log(partition, state, wall_ms):
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            try:
                self.leaders.begin(partition, state, now_ms)
            except LogStorageError as error:
                errors[tp] = self.log_manager.on_error(tp, error)
            else:
                errors[tp] = Errors.NONE

    def _make_followers(
        self, states: _States, errors: dict[TopicPartition, Errors], wall_ms: int
    ) -> None:
        alive = self.metadata_cache.alive_brokers
        broker_id = self.broker_id
        for partition, state in states:
            tp = state.topic_partition
            if not self._has_log(partition, state, wall_ms):
                errors[tp] = Errors.KAFKA_STORAGE_ERROR
                continue
            errors[tp] = Errors.NONE
            # Without a live leader only the log is created. The epoch is not updated, so that
            # the same state can be applied when it is sent again.
            if state.leader in alive:
                self.leaders.end(tp, partition, Errors.NOT_LEADER_OR_FOLLOWER)
                partition.make_follower(state)
                if self.is_shutting_down:
                    self._fetchers.stop(tp)
                elif broker_id in state.isr and partition.is_untouched:
                    self._fetchers.remove(tp)
                else:
                    self._fetchers.add(tp, partition)

    def _has_log(
        self, partition: Partition, state: LeaderAndIsrPartitionState, wall_ms: int
    ) -> bool:
        if partition.log is None:
            with contextlib.suppress(LogStorageError):
                partition.log = self.log_manager.get_or_create(
                    state.topic_partition, wall_ms, is_new=state.is_new
                )
        return partition.log is not None

    def _resume_moves(self, states: _States, wall_ms: int) -> None:
        for partition, state in states:
            if partition.log is not None:
                moves = self.replica_alter_log_dirs_manager
                moves.resume(state.topic_partition, partition, wall_ms)

    def _mark_offline_without_log(self, named: Iterable[TopicPartition]) -> None:
        for tp in named:
            partition = self.partitions.get(tp)
            if partition is not None and partition.log is None:
                self._mark_offline(tp)

    def _mark_offline(self, partition: TopicPartition) -> None:
        del self.partitions[partition]
        self.offline_partitions[partition] = None

    def stop_replicas(self, request: StopReplicaRequest, wall_ms: int) -> StopReplicaResponse:
        """Stop or delete replicas as requested; return an error or NONE per partition.

        ``wall_ms`` is in milliseconds since the Unix epoch.
        """
        if request.controller_epoch < self.controller_epoch:
            return StopReplicaResponse(Errors.STALE_CONTROLLER_EPOCH, {})
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, Errors] = {}
        for state in request.partition_states:
            error = self._check_stop(state)
            errors[state.topic_partition] = error or self._stop_partition(state, wall_ms)
        return StopReplicaResponse(Errors.NONE, errors)

    def _check_stop(self, state: StopReplicaPartitionState) -> Errors:
        if state.topic_partition in self.log_manager.damaged and state.delete_partition:
            self.offline_partitions.pop(state.topic_partition, None)
            self._damaged.to_be_deleted.discard(state.topic_partition)
            return Errors.NONE
        if state.topic_partition in self.offline_partitions:
            # The controller has removed the damaged replica from the ISR, unless no other replica
            # was in the ISR.
            self._damaged.wants_state |= state.topic_partition in self.log_manager.damaged
            return Errors.KAFKA_STORAGE_ERROR
        partition = self.partitions.get(state.topic_partition)
        if partition is None or state.leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH):
            return Errors.NONE
        if state.leader_epoch <= partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.NONE

    def _stop_partition(self, state: StopReplicaPartitionState, wall_ms: int) -> Errors:
        tp = state.topic_partition
        self.replica_alter_log_dirs_manager.remove(tp)
        partition = self.partitions.get(tp)
        if partition is not None:
            self.leaders.schedules.end(tp, Errors.NOT_LEADER_OR_FOLLOWER)
            self._end_copy(tp, partition)
        self._fetchers.remove(tp)
        if not state.delete_partition:
            return Errors.NONE
        if partition is not None:
            del self.partitions[tp]
            self._end(tp, partition, Errors.NOT_LEADER_OR_FOLLOWER)
        try:
            self.log_manager.delete(tp, wall_ms)
        except LogStorageError as error:
            return error.code
        return Errors.NONE

    def maybe_update_metadata_cache(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Update the metadata cache, unless the request is from a deposed controller."""
        if request.controller_epoch < self.controller_epoch:
            return UpdateMetadataResponse(Errors.STALE_CONTROLLER_EPOCH)
        self.controller_epoch = request.controller_epoch
        self.metadata_cache.update(request)
        self._damaged.on_metadata(request)
        return UpdateMetadataResponse(Errors.NONE)

    def _end(self, tp: TopicPartition, partition: Partition, error: Errors) -> None:
        """Stop leading or following a partition; answer its delayed requests with ``error``."""
        self.leaders.end(tp, partition, error)
        if partition.state is not None:
            self._copies.on_gone(tp, partition.state.leader)

    # -- following

    def on_unsolicited_responses(self, leader: int, response: FetchResponse, now_ms: float) -> None:
        """Process unsolicited fetch responses for partitions that this broker follows.

        Responses from a broker that is not the current leader, or with another leader epoch, are
        ignored.
        """
        for tp, answer in response.partitions.items():
            partition = self.partitions.get(tp)
            if (
                partition is not None
                and partition.is_leader(leader)
                and partition.leader_epoch == answer.leader_epoch
            ):
                self._fetchers.on_unsolicited_response(tp, partition, answer, now_ms)

    def take_arrived(self) -> None:
        """Append the records that copies in progress have transferred to this broker so far."""
        self._take(self._copies.copying.take_all(self.broker_id))
        self.replica_alter_log_dirs_manager.take_arrived(self._now_ms())

    def break_connections(self) -> None:
        """End all copies before the broker stops; append the records transferred so far."""
        self._take(self._copies.copying.cut(self.broker_id))

    def _take(self, arrived: Iterable[Arrived]) -> None:
        for copy_id, size_bytes, answer in arrived:
            if isinstance(copy_id, DirectoryMove):
                moves = self.replica_alter_log_dirs_manager
                moves.take(copy_id, size_bytes, self._now_ms())
            partition = self.partitions.get(copy_id.topic_partition)
            if answer is not None and partition is not None:
                tp = copy_id.topic_partition
                self._fetchers.take_early(tp, partition, answer, self._now_ms())

    def _end_copy(self, tp: TopicPartition, partition: Partition) -> None:
        """End the copy from the leader, if any; append the records transferred so far."""
        if partition.state is None:
            return
        answer = self._copies.end(tp, partition.state.leader)
        if answer is not None and answer.leader_epoch == partition.leader_epoch:
            self._fetchers.take_early(tp, partition, answer, self._now_ms())

    # -- log directories

    def handle_log_dir_failures(self) -> list[LogDirFailure]:
        """Take the replicas in newly failed log directories offline; return the failures."""
        failures = self.log_manager.take_failures()
        if not failures:
            return failures
        for failure in failures:
            for tp in failure.partitions:
                partition = self.partitions.get(tp)
                if partition is not None:
                    self._fetchers.remove(tp)
                    self._end(tp, partition, Errors.KAFKA_STORAGE_ERROR)
                    self._mark_offline(tp)
        self.replica_alter_log_dirs_manager.on_log_dir_failure()
        return failures


class DamagedReplicas:
    """Restores or deletes replicas whose logs are damaged.

    - ``wants_state``: True if the controller must resend the states of damaged replicas.
    - ``to_be_deleted``: damaged replicas of topics that are being deleted.
    """

    def __init__(self, log_manager: LogManager) -> None:
        self.wants_state = False
        self.to_be_deleted: set[TopicPartition] = set()
        self._log_manager = log_manager

    def maybe_restore(
        self, broker_id: int, state: LeaderAndIsrPartitionState, wall_ms: int
    ) -> bool:
        """Restore a damaged replica if doing so is safe; return True if it was restored.

        Restoring is safe if another replica leads and the damaged replica has left the ISR. Inside
        the ISR, the restored replica could be elected before it has fetched the lost records.
        """
        if state.topic_partition not in self._log_manager.damaged:
            return False
        if state.leader in (NO_LEADER, broker_id) or broker_id in state.isr:
            return False
        try:
            self._log_manager.restore(state.topic_partition, wall_ms)
        except (DamagedLog, LogStorageError):
            return False
        return True

    def error_of(self, partition: TopicPartition) -> Errors:
        """Return the error code of LeaderAndIsr for an offline replica.

        While the topic of a damaged replica is being deleted, the code is NONE, so that the
        controller resumes the deletion.
        """
        if partition in self.to_be_deleted:
            return Errors.NONE
        return Errors.KAFKA_STORAGE_ERROR

    def on_metadata(self, request: UpdateMetadataRequest) -> None:
        """Set ``wants_state`` if the topic of a damaged replica is now being deleted.

        Otherwise the deletion would wait until this broker restarts.
        """
        damaged = self._log_manager.damaged
        if not damaged:
            return
        for state in request.partition_states:
            partition = state.topic_partition
            if partition not in damaged:
                continue
            if state.leader != LEADER_DURING_DELETE:
                self.to_be_deleted.discard(partition)
            elif partition not in self.to_be_deleted:
                self.to_be_deleted.add(partition)
                self.wants_state = True
