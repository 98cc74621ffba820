"""Replicas of one broker whose logs are damaged: how they come back, and how they are deleted.

They are offline as if their log directory had failed. To be told of them again, the broker leaves
the notice of a failed directory. Kafka 2.8.2 has nothing like it.
"""

from __future__ import annotations

from brokers.logs.errors import DamagedLog, LogStorageError
from brokers.logs.log_manager import LogManager
from cluster.api_errors import Errors
from cluster.requests import LeaderAndIsrPartitionState, UpdateMetadataRequest
from cluster.types import LEADER_DURING_DELETE, NO_LEADER, TopicPartition


class DamagedReplicas:
    """What becomes of damaged replicas.

    ``wants_state``: the controller is to send their states. ``to_be_deleted``: their topics are.
    """

    def __init__(self, log_manager: LogManager) -> None:
        self.wants_state = False
        self.to_be_deleted: set[TopicPartition] = set()
        self._log_manager = log_manager

    def is_restored(self, broker_id: int, state: LeaderAndIsrPartitionState, wall_ms: int) -> bool:
        """Restore a damaged replica once another one has the lost records and it has left the ISR:
        in the ISR it could become the leader before it has fetched the rest."""
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
        """The answer for an offline replica: one that can be deleted need not be waited for."""
        if partition in self.to_be_deleted:
            return Errors.NONE
        return Errors.KAFKA_STORAGE_ERROR

    def on_metadata(self, request: UpdateMetadataRequest) -> None:
        """Have the controller ask for damaged replicas whose topics are to be deleted.

        The deletion would wait for them until this broker starts again.
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
