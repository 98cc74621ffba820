"""Log maintenance of a broker: flush, checkpoint, apply retention, remove deleted logs.

Idle replicas need no CPU time: tasks are scheduled only after a message that may have changed a
log, and for the time when the next record expires or the next deleted log may be removed. In-memory
logs are not checkpointed. Mirrors the tasks that kafka.log.LogManager and
kafka.server.ReplicaManager schedule: flushDirtyLogs, checkpointLogRecoveryOffsets,
checkpointLogStartOffsets, checkpointHighWatermarks, cleanupLogs, deleteLogs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from klamm.brokers.config import BrokerConfig
from klamm.brokers.log_configs import topic_log_config
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.log_config import NEVER
from klamm.brokers.logs.log_journal import LogJournal, log_damage, log_repair
from klamm.brokers.logs.log_store import DrawInteger
from klamm.brokers.partitions.log_schedules import LogSchedules
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.client_requests import DeleteRecordsRequest
from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest
from klamm.cluster.protocols import Clock
from klamm.cluster.requests import (
    AlterReplicaLogDirsRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
)
from klamm.cluster.timers import earliest
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)

_CHANGES_LOGS: Final = (
    FetchRequest,
    FetchResponse,
    ProduceRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    AlterReplicaLogDirsRequest,
    DeleteRecordsRequest,
)
"""Message types that can leave a broker's checkpoint files out of date."""


class LogMaintenance:
    """Schedules and runs the maintenance tasks of one broker's logs, from startup to shutdown."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: ReplicaManager,
        clock: Clock,
        schedules: LogSchedules,
        log_journal: LogJournal | None = None,
    ) -> None:
        self._config = config
        self._checkpoint_ms = min(
            config.log_flush_offset_checkpoint_interval_ms,
            config.log_flush_start_offset_checkpoint_interval_ms,
        )
        self._log_manager = replicas.log_manager
        self._partitions = replicas.partitions
        self._clock = clock
        self._schedules = schedules
        self._log_journal = log_journal
        self._flush_due_ms: float | None = None
        self._high_watermarks_due_ms: float | None = None
        self._checkpoint_due_ms: float | None = None
        self._retention_due_ms: float | None = None
        self._deletion_due_ms: float | None = None

    def startup(self, owner: MetaProperties) -> None:
        """Load the logs and report repairs and damage. Raises the errors of LogManager.startup."""
        found = self._log_manager.startup(owner, self._clock.now_ms())
        for complaint in found.complaints:
            logger.warning("broker %d: %s", owner.broker_id, complaint)
        for tp, repair in found.repairs:
            log_repair(owner.broker_id, tp, repair, self._log_journal)
        for tp, error in found.damaged.items():
            log_damage(owner.broker_id, tp, error, self._log_journal)
        # Loaded logs may contain expired records, or may be marked for deletion.
        if any(log.log_end_offset for log in self._log_manager.logs()):
            self._schedule_retention_check(self._clock.monotonic_ms())
        self._deletion_due_ms = self._monotonic(self._log_manager.store.next_deletion_ms())

    def on_message(self, body: object) -> None:
        """Schedule the tasks that have become necessary because the broker handled a message."""
        if isinstance(body, _CHANGES_LOGS):
            self.schedule_checkpoints()
        now_ms = self._clock.monotonic_ms()
        if self._flush_due_ms is None:
            self._flush_due_ms = self._next_flush_ms(now_ms)
        if not self._is_retention_near(now_ms) and _may_move_records(body):
            self._schedule_retention_check(now_ms)

    def _schedule_retention_check(self, now_ms: float) -> None:
        if not self._is_retention_near(now_ms):
            self._retention_due_ms = now_ms + self._config.log_retention_check_interval_ms

    def on_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """Apply a changed topic config to the logs of the topic."""
        config = topic_log_config(topic, overrides, self._config.log)
        self._log_manager.update_topic_config(topic, config)
        self._schedule_retention_check(self._clock.monotonic_ms())

    def _is_retention_near(self, now_ms: float) -> bool:
        due_ms = self._retention_due_ms
        if due_ms is None:
            return False
        return due_ms <= now_ms + self._config.log_retention_check_interval_ms

    def schedule_checkpoints(self) -> None:
        """Schedule checkpoints and the removal of logs that are marked for deletion."""
        if not self._log_manager.store.needs_checkpoints:
            return
        now_ms = self._clock.monotonic_ms()
        if self._high_watermarks_due_ms is None:
            interval_ms = self._config.replica_high_watermark_checkpoint_interval_ms
            self._high_watermarks_due_ms = now_ms + interval_ms
        if self._checkpoint_due_ms is None:
            self._checkpoint_due_ms = now_ms + self._checkpoint_ms
        if self._deletion_due_ms is None:
            self._deletion_due_ms = self._monotonic(self._log_manager.store.next_deletion_ms())

    def next_due_ms(self) -> float | None:
        """Return when to call ``on_timer`` next, in monotonic milliseconds.

        Return None if no task is scheduled.
        """
        due = (
            self._flush_due_ms,
            self._high_watermarks_due_ms,
            self._checkpoint_due_ms,
            self._retention_due_ms,
            self._deletion_due_ms,
        )
        return earliest(due)

    def on_timer(self) -> None:
        """Run the tasks that are due. LogManager records any log directories that fail."""
        now_ms = self._clock.monotonic_ms()
        if _is_due(self._flush_due_ms, now_ms):
            self._flush_due_ms = self._next_flush_ms(now_ms) if self._flush_dirty() else None
        if _is_due(self._high_watermarks_due_ms, now_ms):
            self._high_watermarks_due_ms = None
            self._log_manager.checkpoint_high_watermarks(self._high_watermarks())
        if _is_due(self._checkpoint_due_ms, now_ms):
            self._checkpoint_due_ms = None
            self._log_manager.checkpoint_logs()
        if _is_due(self._retention_due_ms, now_ms):
            self._retention_due_ms = self._delete_old()
        if _is_due(self._deletion_due_ms, now_ms):
            self._log_manager.delete_marked(self._clock.now_ms())
            self._deletion_due_ms = self._monotonic(self._log_manager.store.next_deletion_ms())

    def _next_flush_ms(self, now_ms: float) -> float | None:
        interval_ms = self._config.log_flush_scheduler_interval_ms
        return None if interval_ms == NEVER else now_ms + interval_ms

    def _flush_dirty(self) -> bool:
        """Flush the logs whose flush.ms has elapsed.

        Return True if a log will have to be flushed even if no more messages arrive.
        """
        more_will_come = self._schedules.materialize_all()
        return self._log_manager.flush_dirty(self._clock.now_ms()) or more_will_come

    def _delete_old(self) -> float | None:
        now_ms = self._clock.monotonic_ms()
        again_ms = self._log_manager.delete_old(self._clock.now_ms(), self._high_watermarks())
        # Every message with records schedules a check, so no expiry is missed here.
        for tp, partition in self._partitions.items():
            if tp not in self._schedules:
                partition.pack(now_ms)
        due_ms = self._monotonic(again_ms)
        if due_ms is None:
            return None
        interval_ms = self._config.log_retention_check_interval_ms
        return max(due_ms, now_ms + interval_ms)

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {tp: partition.high_watermark for tp, partition in self._partitions.items()}

    def _monotonic(self, wall_ms: int | None) -> float | None:
        if wall_ms is None:
            return None
        return self._clock.monotonic_ms() + wall_ms - self._clock.now_ms()

    # -- the end

    def shutdown(self) -> None:
        """Write all checkpoints and close the logs. The broker must not be used afterwards."""
        self._log_manager.checkpoint_high_watermarks(self._high_watermarks())
        self._log_manager.shutdown()

    def abandon(self, draw: DrawInteger | None) -> None:
        """Close the logs without flushing them, as if the broker's process had died.

        If ``draw`` is given, the machine has crashed too, and ``draw`` chooses how much unflushed
        data is lost.
        """
        store = self._log_manager.store
        if not store.needs_checkpoints:
            now_ms = self._clock.monotonic_ms()
            stored = {tp: one.stored_high_watermark(now_ms) for tp, one in self._partitions.items()}
            self._log_manager.checkpoint_high_watermarks(
                {tp: offset for tp, offset in stored.items() if offset}
            )
        if draw is not None:
            store.crash(draw)
        self._log_manager.abandon()


def _is_due(due_ms: float | None, now_ms: float) -> bool:
    return due_ms is not None and due_ms <= now_ms


def _may_move_records(body: object) -> bool:
    """Return True if a message contains or deletes records or may advance a high watermark."""
    match body:
        case ProduceRequest() | DeleteRecordsRequest():
            return True
        case FetchResponse(partitions=answers):
            return any(answer.records is not None for answer in answers.values())
        case FetchRequest(partitions=asked):
            return any(one.fetch_offset > 0 for one in asked.values())
    return False
