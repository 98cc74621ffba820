"""Handling of failed log directories: take replicas offline and notify the controller.

Logs detect the failure; brokers/replica_manager.py determines the affected replicas. Mirrors
LogDirFailureHandler and handleLogDirFailure of kafka.server.ReplicaManager.
"""

from __future__ import annotations

import contextlib

from klamm.brokers.config import BrokerConfig
from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.log_journal import LogJournal, log_repair
from klamm.brokers.logs.log_manager import LogDirFailure
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.errors import SessionExpired
from klamm.zk.kafka_zk_client import KafkaZkClient


class LogDirFailureHandler:
    """Handles failures of one broker's log directories.

    ``halt_reason`` is set when a failure forces the broker to halt immediately.
    """

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        zk: KafkaZkClient,
        log_journal: LogJournal | None,
    ) -> None:
        self.halt_reason: str | None = None
        self._broker_id = broker_id
        self._config = config
        self._log_manager = replica_manager.log_manager
        self._replica_manager = replica_manager
        self._zk = zk
        self._log_journal = log_journal

    def fail(self, path: str, reason: str | None) -> None:
        """Mark a log directory as failed, and handle the failure like a failure of the disk.

        Does nothing if the directory has already failed.
        """
        text = f"injected failure of {path}"
        if reason is not None:
            text = f"Error while writing to log dir {path}: {reason}"
        error = LogStorageError(text)
        self._log_manager.handle_log_dir_failure(path, error)
        self.handle_failures()

    def take_offline(self) -> list[LogDirFailure]:
        """Take the replicas in newly failed directories offline; return the failures."""
        failures = self._replica_manager.handle_log_dir_failures()
        if self._log_journal is not None:
            for failure in failures:
                self._log_journal.dir_failed(self._broker_id, failure.path, failure.reason)
        return failures

    def handle_failures(self) -> None:
        """Take the replicas in failed directories offline and notify the controller.

        If no directory is left online, or if the config ``halts_on_log_dir_failure`` is True,
        ``halt_reason`` is set, and the controller is not notified.
        """
        for tp, repair in self._log_manager.take_restored():
            log_repair(self._broker_id, tp, repair, self._log_journal)
        if self._replica_manager.pop_wants_state():
            with contextlib.suppress(SessionExpired):
                self._zk.propagate_log_dir_event(self._broker_id)
        if not self._log_manager.has_failures:
            return
        failures = self.take_offline()
        dirs = self._log_manager.dirs
        is_last = len(dirs.offline) == len(dirs.paths)
        if is_last or self._config.halts_on_log_dir_failure:
            reasons = "; ".join(f"{failure.path}: {failure.reason}" for failure in failures)
            what = "all log directories have failed" if is_last else "a log directory has failed"
            self.halt_reason = f"{what}: {reasons}"
            return
        # If the session expired, nothing is lost: the controller sends the states of all replicas
        # after the broker registers again.
        with contextlib.suppress(SessionExpired):
            for _ in failures:
                self._zk.propagate_log_dir_event(self._broker_id)
