"""The logs of one broker: load, create, move, delete, apply retention, write checkpoints.

It chooses no directory (log_dirs.py does), accesses no file (its store does), and has no timer or
thread: the broker calls what is due. Mirrors kafka.log.LogManager, without the cleaner.
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
from klamm.brokers.logs.replica_log import Deleted, ReplicaLog
from klamm.cluster.api_errors import Errors
from klamm.cluster.types import TopicPartition

logger = logging.getLogger(__name__)


class LogDirFailure(NamedTuple):
    """A log directory that went offline, the reason, and the partitions of its current logs."""

    path: str
    reason: str
    partitions: tuple[TopicPartition, ...]


class StartUp(NamedTuple):
    """Problems found while opening log directories.

    ``repairs``: by partition. ``complaints``: messages about unusable checkpoints. ``damaged``:
    current logs that are offline.
    """

    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]
    damaged: dict[TopicPartition, DamagedLog]


class LogManager:
    """Current logs, and future logs that will replace them, in the tables of ``dirs``."""

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
        """True from ``startup`` to ``shutdown`` or ``abandon``."""
        return bool(self._open)

    @property
    def has_failures(self) -> bool:
        """True if ``take_failures`` would return a failure."""
        return bool(self._failures)

    @property
    def damaged(self) -> Collection[TopicPartition]:
        """Partitions with a damaged, offline current log in an online directory."""
        return self._damaged.keys()

    def logs(self) -> Iterator[ReplicaLog]:
        """Yield all online logs, including future logs."""
        for path in self._open:
            for _, log in self.dirs.logs(path).items():
                yield log

    def take_high_watermark(self, partition: TopicPartition) -> int:
        """Remove and return the checkpointed high watermark of a partition; 0 if there is none."""
        return self._high_watermarks.pop(partition, 0)

    def startup(self, owner: MetaProperties, now_ms: int) -> StartUp:
        """Open every directory and load its logs; an unusable directory goes offline.

        Raises LogStorageError if none is left or if a partition has two current logs or two future
        logs, and EnvironmentProblem if another broker uses a directory. Then all are closed again.
        """
        report = StartUp([], [], {})
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

    def _take(self, path: str, found: FoundDir, report: StartUp) -> None:
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

    def _forget_moved(self, report: StartUp) -> None:
        """Clear damage of logs found elsewhere: the broker died between a move and a checkpoint."""
        for partition in [tp for tp in self._damaged if self.dirs.path_of(tp) is not None]:
            del self._damaged[partition], report.damaged[partition]

    def restore(self, partition: TopicPartition, now_ms: int) -> None:
        """Truncate a damaged log to its trusted part, so that the rest can be fetched.

        Raises DamagedLog if it must not be truncated, and LogStorageError.
        """
        path = self._damaged[partition]
        with self.in_dir(path):
            config = self._config_of(partition.topic)
            log, repairs = self.store.restore(path, partition, config, now_ms)
            del self._damaged[partition]
            self.dirs.logs(path).current[partition] = log
            self._restored.extend((partition, repair) for repair in repairs)
            self._checkpoint_dir(path)

    def take_restored(self) -> list[tuple[TopicPartition, Repair]]:
        """Return the repairs of damaged logs since the last call, for the broker to report."""
        restored, self._restored = self._restored, []
        return restored

    def get_or_create(self, partition: TopicPartition, now_ms: int, *, is_new: bool) -> ReplicaLog:
        """Return the current log, or create one in the directory that LogDirs chooses.

        If a directory fails, it goes offline and the next one is tried. Raises LogStorageError if
        none is left, if ``is_new`` is False and a directory is offline, or if the log is damaged.
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
        """Create a future log in the directory that LogDirs prefers for the partition.

        Raises LogStorageError if a directory is offline or the log cannot be created.
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
        """Take the directory offline if a LogStorageError is raised inside; re-raise it."""
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
        """Make the future log current and mark the old one deleted; return the new one.

        Raises LogStorageError if the future log cannot be renamed, and takes its directory offline.
        If the old log cannot be renamed, only its directory goes offline, not the replica.
        """
        source, target = self.dirs.path_of(partition), self.dirs.future_path_of(partition)
        assert source is not None and target is not None, "only a replica that moves"
        new = self.dirs.logs(target).futures[partition]
        with self.in_dir(target):
            self.store.make_current(partition, new)
        old = self.dirs.logs(source).current.pop(partition)
        del self.dirs.logs(target).futures[partition]
        self.dirs.logs(target).current[partition] = new
        with suppress(LogStorageError), self.in_dir(source):
            self.store.mark_deleted(partition, old, now_ms)
            self._checkpoint_dir(source)
        return new

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Mark the current and the future log deleted, if there are any.

        Raises LogStorageError.
        """
        self.delete_future(partition, now_ms)
        self._high_watermarks.pop(partition, None)
        path = self.dirs.path_of(partition)
        if path is not None:
            log = self.dirs.logs(path).current.pop(partition)
            with self.in_dir(path):
                self.store.mark_deleted(partition, log, now_ms)
                self._checkpoint_dir(path)
        elif partition in self._damaged:
            path = self._damaged.pop(partition)
            with self.in_dir(path):
                config = self._config_of(partition.topic)
                self.store.mark_damaged_deleted(path, partition, config, now_ms)
                self._checkpoint_dir(path)

    def delete_future(self, partition: TopicPartition, now_ms: int) -> None:
        """Mark the future log deleted, if there is one. Raises LogStorageError."""
        path = self.dirs.future_path_of(partition)
        if path is not None:
            log = self.dirs.logs(path).futures.pop(partition)
            with self.in_dir(path):
                self.store.mark_deleted(partition, log, now_ms)
                self._checkpoint_dir(path)

    def delete_marked(self, now_ms: int) -> int:
        """Remove logs marked deleted file.delete.delay.ms ago; return their number.

        A directory goes offline if its disk fails."""
        count = 0
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                count += self.store.delete_marked(path, now_ms)
        return count

    def next_deletion_ms(self) -> int | None:
        """Return when the next deleted log is to be removed, since the epoch; None without one."""
        return self.store.next_deletion_ms()

    def delete_old(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Deleted]:
        """Apply retention to all current logs; return what each one deleted.

        A directory goes offline if its disk fails."""
        deleted: dict[TopicPartition, Deleted] = {}
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                for partition, log in self.dirs.logs(path).current.items():
                    high_watermark = high_watermarks.get(partition, 0)
                    deleted[partition] = log.delete_old(now_ms, high_watermark)
        return deleted

    def flush_dirty(self, now_ms: int) -> bool:
        """Flush every log that is due by flush.ms; return False if no other log has unflushed data.

        A log is due flush.ms after its last timed flush, and at once before the first. A directory
        goes offline if its disk fails.
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
        """Apply a changed config to all logs of a topic."""
        for path in self._open:
            for partition, log in self.dirs.logs(path).items():
                if partition.topic == topic:
                    log.config = config

    def checkpoint_logs(self) -> None:
        """Write recovery points and log start offsets; a failing directory goes offline."""
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                self._checkpoint_dir(path)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write the high watermarks of current logs; a failing directory goes offline.

        Partitions that were not used since startup keep their checkpointed high watermarks.
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
        """Handle an error of a partition's current log; return the error code to respond with."""
        if isinstance(error, LogStorageError):
            path = self.dirs.path_of(partition)
            if path is not None:
                self._fail(path, error)
        return error.code

    def handle_log_dir_failure(self, path: str, error: LogStorageError) -> None:
        """Take a directory and its logs offline; does nothing if it is offline already."""
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
        """Remove and return the failures since the last call, for the broker to report."""
        failures, self._failures = self._failures, []
        return failures

    def shutdown(self) -> None:
        """Flush and close every log, write checkpoints, mark directories clean, and close them.

        If its disk fails, a directory is not marked and is among the failures; its logs are
        recovered at the next start.
        """
        for path in list(self._open):
            with suppress(LogStorageError), self.in_dir(path):
                for _, log in self.dirs.logs(path).items():
                    log.close()
                self._checkpoint_dir(path)
                self.store.close_dir(path, is_clean=True)
        self._open.clear()

    def abandon(self) -> None:
        """Close the directories as they are, like a process that is killed."""
        for path in self._open:
            self.store.close_dir(path, is_clean=False)
        self._open.clear()

    def _checkpoint_dir(self, path: str) -> None:
        self.store.checkpoint_logs(path, self.dirs.logs(path))
