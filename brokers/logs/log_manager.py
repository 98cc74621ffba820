"""Loads, creates, moves, deletes and checkpoints the logs of one broker.

log_dirs.py chooses the directories, and the LogStore accesses the files. This module uses no timers
and no threads: the broker calls its methods when they are due. Mirrors kafka.log.LogManager,
without the log cleaner.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import NamedTuple

from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.errors import DamagedLog, LogStorageError, ReplicaLogError
from klamm.brokers.logs.log_config import NEVER, LogConfig
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_store import FoundDir, LogConfigs, LogStore
from klamm.brokers.logs.recovery import Repair
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.api_errors import Errors
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class LogDirFailure(NamedTuple):
    """The failure of a log directory. ``partitions`` had their current logs in this directory."""

    path: str
    reason: str
    partitions: tuple[TopicPartition, ...]


class LogsReport(NamedTuple):
    """Problems found while the log directories were opened.

    - ``repairs``: every repair of a log, with the log's partition.
    - ``complaints``: messages about unusable checkpoints.
    - ``damaged``: the error found in each damaged current log; these logs stay offline.
    """

    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]
    damaged: dict[TopicPartition, DamagedLog]


class LogManager:
    """The current logs of a broker, and the future logs that will replace some of them.

    ``dirs`` contains the logs of all directories that are online.
    """

    def __init__(self, dirs: LogDirs, store: LogStore, config_of: LogConfigs) -> None:
        self.dirs = dirs
        self.store = store
        self._config_of = config_of
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._flushed_ms: dict[tuple[str, TopicPartition], int] = {}
        self._failures: list[LogDirFailure] = []
        self._damaged: dict[TopicPartition, str] = {}
        self._restored: list[tuple[TopicPartition, Repair]] = []
        self._open: list[str] = []

    @property
    def is_open(self) -> bool:
        """True from ``startup`` until ``shutdown`` or ``abandon``."""
        return bool(self._open)

    @property
    def has_failures(self) -> bool:
        """True if ``take_failures`` would return at least one failure."""
        return bool(self._failures)

    @property
    def damaged(self) -> Collection[TopicPartition]:
        """Partitions whose current log is offline because of damage to the log itself."""
        return self._damaged.keys()

    def logs(self) -> Iterator[ReplicaLog]:
        """Yield all online logs, including future logs."""
        for path in self._open:
            for _, log in self.dirs.logs(path).items():
                yield log

    def take_high_watermark(self, partition: TopicPartition) -> int:
        """Remove and return the checkpointed high watermark of a partition; 0 if there is none."""
        return self._high_watermarks.pop(partition, 0)

    def startup(self, owner: MetaProperties, now_ms: int) -> LogsReport:
        """Open every log directory and load its logs; an unusable directory goes offline.

        Raises LogStorageError if no directory is usable, or if a partition has two current logs or
        two future logs. Raises EnvironmentProblem if another broker uses or owns a directory. All
        directories are closed before an error is raised.
        """
        report = LogsReport([], [], {})
        try:
            for path in self.dirs.paths:
                try:
                    found = self.store.open_dir(path, owner, self._config_of, now_ms)
                except LogStorageError as error:
                    self._fail(path, error)
                else:
                    self._open.append(path)
                    self._take(path, found, report)
            if not self._open:
                raise LogStorageError(
                    "Shutdown broker because none of the specified log dirs from "
                    f"{', '.join(self.dirs.paths)} can be created or validated",
                    hint="; ".join(failure.reason for failure in self._failures),
                )
            self._forget_moved(report)
        except BaseException:
            self.abandon()
            raise
        return report

    def _take(self, path: str, found: FoundDir, report: LogsReport) -> None:
        report.complaints.extend(found.complaints)
        report.repairs.extend(found.repairs)
        for partition, error in found.damaged.items():
            self._damaged[partition] = path
            report.damaged[partition] = error
        for partition in found.logs.current:
            self._refuse_two(partition, path, self.dirs.path_of(partition))
        for partition in found.logs.futures:
            self._refuse_two(partition, path, self.dirs.future_path_of(partition))
        self.dirs.use(path, found.logs)
        self._high_watermarks.update(found.high_watermarks)

    def _refuse_two(self, partition: TopicPartition, path: str, other: str | None) -> None:
        if other is not None:
            raise LogStorageError(
                f"Duplicate log directories for {partition} are found in both {path} and {other}",
                hint="delete the log in the directory that had failed or was unavailable",
            )

    def _forget_moved(self, report: LogsReport) -> None:
        """Remove logs from ``damaged`` that were found intact in another directory.

        A broker that dies after it has moved a log may not have updated the checkpoint of the old
        directory yet. The log then seems to be missing from the old directory.
        """
        for partition in [tp for tp in self._damaged if self.dirs.path_of(tp) is not None]:
            del self._damaged[partition], report.damaged[partition]

    def restore(self, partition: TopicPartition, now_ms: int) -> None:
        """Truncate a damaged log at its first untrusted offset, and bring it online.

        The replica then fetches the truncated records again. Raises DamagedLog if the log must not
        be truncated, or LogStorageError if the disk fails.
        """
        path = self._damaged[partition]
        with self.in_dir(path):
            config = self._config_of(partition.topic)
            log, repairs = self.store.restore(path, partition, config, now_ms)
            del self._damaged[partition]
            self.dirs.logs(path).current[partition] = log
            self._restored.extend((partition, repair) for repair in repairs)
            self.store.checkpoint_logs(path)

    def take_restored(self) -> list[tuple[TopicPartition, Repair]]:
        """Remove and return the repairs that ``restore`` has made since the last call."""
        restored, self._restored = self._restored, []
        return restored

    def get_or_create(self, partition: TopicPartition, now_ms: int, *, is_new: bool) -> ReplicaLog:
        """Return the current log of a partition, creating it if it does not exist.

        ``LogDirs.choose`` chooses the directory of a new log. If the log cannot be created there,
        the directory goes offline and another one is tried. Raises LogStorageError if the log is
        damaged, if no directory is left, or if ``is_new`` is False and a directory was already
        offline.
        """
        if partition in self._damaged:
            raise LogStorageError(f"The log of {partition} is damaged and offline")
        log = self.dirs.current(partition)
        while log is None:
            path = self.dirs.choose(partition, is_new=is_new)
            if path is None:
                raise self._offline(partition)
            try:
                log = self._create(path, partition, now_ms, is_future=False)
            except LogStorageError:
                is_new = True
            else:
                self.dirs.logs(path).current[partition] = log
        return log

    def create_future(self, partition: TopicPartition, now_ms: int) -> ReplicaLog:
        """Create a partition's future log in the directory set by ``LogDirs.prefer``.

        Raises LogStorageError if any directory is offline or the log cannot be created.
        """
        path = self.dirs.choose_for_future(partition)
        if path is None:
            raise self._offline(partition)
        log = self._create(path, partition, now_ms, is_future=True)
        self.dirs.logs(path).futures[partition] = log
        return log

    def _create(
        self, path: str, partition: TopicPartition, now_ms: int, *, is_future: bool
    ) -> ReplicaLog:
        config = self._config_of(partition.topic)
        with self.in_dir(path):
            return self.store.create(path, partition, config, now_ms, is_future=is_future)

    @contextmanager
    def in_dir(self, path: str) -> Iterator[None]:
        """Context manager: take a directory offline if the body raises LogStorageError.

        The error is then re-raised.
        """
        try:
            yield
        except LogStorageError as error:
            self._fail(path, error)
            raise

    def _fail(self, path: str, error: LogStorageError) -> None:
        if self.dirs.is_online(path):
            logger.warning("Stopping serving logs in dir %s: %s", path, error.message)
        self.handle_log_dir_failure(path, error)

    def _offline(self, partition: TopicPartition) -> LogStorageError:
        return LogStorageError(
            f"Can not create log for {partition} because log directories "
            f"{','.join(self.dirs.offline)} are offline"
        )

    def replace_current_with_future(self, partition: TopicPartition, now_ms: int) -> ReplicaLog:
        """Replace the current log with the future log, and mark the old log as deleted.

        Return the new current log. If the future log cannot be renamed, its directory goes offline
        and LogStorageError is raised. If the old log cannot be renamed, its directory goes offline,
        but the replica stays online.
        """
        source, target = self.dirs.path_of(partition), self.dirs.future_path_of(partition)
        assert source is not None and target is not None, (
            f"{partition} has no current log or no future log"
        )
        new = self.dirs.logs(target).futures[partition]
        with self.in_dir(target):
            self.store.make_current(partition, new)
        old = self.dirs.logs(source).current.pop(partition)
        del self.dirs.logs(target).futures[partition]
        self.dirs.logs(target).current[partition] = new
        with suppress(LogStorageError):
            self._mark_deleted(source, partition, old, now_ms)
        return new

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Mark the current and the future log of a partition as deleted, if they exist.

        Raises LogStorageError.
        """
        self.delete_future(partition, now_ms)
        self._high_watermarks.pop(partition, None)
        path = self.dirs.path_of(partition)
        if path is not None:
            log = self.dirs.logs(path).current.pop(partition)
            self._mark_deleted(path, partition, log, now_ms)
        elif partition in self._damaged:
            path = self._damaged.pop(partition)
            with self.in_dir(path):
                config = self._config_of(partition.topic)
                self.store.mark_damaged_deleted(path, partition, config, now_ms)
                self.store.checkpoint_logs(path)

    def delete_future(self, partition: TopicPartition, now_ms: int) -> None:
        """Mark the future log of a partition as deleted, if it exists. Raises LogStorageError."""
        path = self.dirs.future_path_of(partition)
        if path is not None:
            log = self.dirs.logs(path).futures.pop(partition)
            self._mark_deleted(path, partition, log, now_ms)

    def _mark_deleted(
        self, path: str, partition: TopicPartition, log: ReplicaLog, now_ms: int
    ) -> None:
        with self.in_dir(path):
            self.store.mark_deleted(partition, log, now_ms)
            self.store.checkpoint_logs(path)

    def delete_marked(self, now_ms: int) -> None:
        """Remove logs that were marked as deleted at least file.delete.delay.ms ago.

        A directory goes offline if its disk fails.
        """
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                self.store.delete_marked(path, now_ms)

    def delete_old(self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]) -> int | None:
        """Delete old segments of all current logs; return when to call this again (see ReplicaLog).

        A directory goes offline if its disk fails.
        """
        due: list[int] = []
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                for partition, log in self.dirs.logs(path).current.items():
                    again_ms = log.delete_old(now_ms, high_watermarks.get(partition, 0))
                    if again_ms is not None:
                        due.append(again_ms)
        return min(due, default=None)

    def flush_dirty(self, now_ms: int) -> bool:
        """Flush every log with unflushed data for which flush.ms has elapsed.

        The time is measured from the last flush by this method. A log that this method has never
        flushed is flushed immediately. Return True if a log has unflushed data that a later call
        will flush. A directory goes offline if its disk fails.
        """
        before, self._flushed_ms = self._flushed_ms, {}
        is_left = False
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                for partition, log in self.dirs.logs(path).items():
                    flushed_ms = before.get((path, partition))
                    if log.recovery_point < log.log_end_offset:
                        if now_ms - (flushed_ms or 0) >= log.config.flush_ms:
                            log.flush()
                            flushed_ms = now_ms
                        else:
                            is_left |= log.config.flush_ms < NEVER
                    if flushed_ms is not None:
                        self._flushed_ms[path, partition] = flushed_ms
        return is_left

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Apply a changed topic config to all logs of the topic, including future logs."""
        for path in self._open:
            for partition, log in self.dirs.logs(path).items():
                if partition.topic == topic:
                    log.config = config

    def checkpoint_logs(self) -> None:
        """Checkpoint recovery points and log start offsets. A directory that fails goes offline."""
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                self.store.checkpoint_logs(path)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Checkpoint the high watermarks of current logs. A directory that fails goes offline.

        Partitions that have not been used since startup keep their checkpointed high watermarks.
        """
        known = {**self._high_watermarks, **high_watermarks}
        for path in list(self._open):
            here = self.dirs.logs(path).current
            offsets = {
                tp: offset
                for tp, offset in known.items()
                if tp in here or self._damaged.get(tp) == path
            }
            with suppress(LogStorageError), self.in_dir(path):
                self.store.checkpoint_high_watermarks(path, offsets)

    def on_error(self, partition: TopicPartition, error: ReplicaLogError) -> Errors:
        """Handle an error of a partition's current log; return the code for the broker's response.

        After a LogStorageError, the directory of the log goes offline.
        """
        if isinstance(error, LogStorageError):
            path = self.dirs.path_of(partition)
            if path is not None:
                self._fail(path, error)
        return error.code

    def handle_log_dir_failure(self, path: str, error: LogStorageError) -> None:
        """Take a directory and its logs offline. Do nothing if the directory is already offline."""
        if not self.dirs.is_online(path):
            return
        lost = tuple(self.dirs.logs(path).current)
        self._damaged = {tp: one for tp, one in self._damaged.items() if one != path}
        self.dirs.mark_offline(path)
        if path in self._open:
            self._open.remove(path)
        self.store.close_dir(path, is_clean=False)
        self._failures.append(LogDirFailure(path, error.message, lost))

    def take_failures(self) -> list[LogDirFailure]:
        """Remove and return the log directory failures since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def shutdown(self) -> None:
        """Flush and close every log, write checkpoints and clean shutdown files.

        If the disk of a directory fails, the directory gets no clean shutdown file, and its logs
        are recovered at the next start; ``take_failures`` returns the failure.
        """
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                for _, log in self.dirs.logs(path).items():
                    log.close()
                self.store.checkpoint_logs(path)
                self.store.close_dir(path, is_clean=True)
        self._open.clear()

    def abandon(self) -> None:
        """Close the log directories as if the process had been killed.

        Nothing is flushed or checkpointed, and no clean shutdown file is written.
        """
        for path in self._open:
            self.store.close_dir(path, is_clean=False)
        self._open.clear()
