"""The logs of one broker: where each is, made and found again, moved, deleted, written down.

It chooses no directory (brokers/log_dirs.py does), touches no file (its store does), has no timer
and no thread: the broker calls what is due. Mirrors kafka.log.LogManager, without the cleaner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from brokers.log_dirs import LogDirs
from brokers.logs.errors import LogStorageError
from brokers.logs.log_store import FoundDir, LogStore
from brokers.logs.recovery import Repair
from brokers.logs.replica_log import Deleted, ReplicaLog
from cluster.types import TopicPartition


class HeldLog(NamedTuple):
    """A log and the log directory that it is in."""

    path: str
    log: ReplicaLog


class LogDirFailure(NamedTuple):
    """A directory that went offline, why, and the partitions whose current log is in it."""

    path: str
    reason: str
    partitions: tuple[TopicPartition, ...]


class StartUp(NamedTuple):
    """What was not in order in the directories that were opened.

    ``repairs``: what was done to the files of a partition's log. ``complaints``: checkpoints that
    could not be used, in words.
    """

    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]


class LogManager:
    """Current logs, and the future logs that will take their place in another directory."""

    def __init__(self, dirs: LogDirs, store: LogStore) -> None:
        self.dirs = dirs
        self._store = store
        self._current: dict[TopicPartition, HeldLog] = {}
        self._futures: dict[TopicPartition, HeldLog] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._failures: list[LogDirFailure] = []
        self._open: list[str] = []

    @property
    def current(self) -> Mapping[TopicPartition, HeldLog]:
        """The logs that are used, by partition."""
        return self._current

    @property
    def futures(self) -> Mapping[TopicPartition, HeldLog]:
        """The future logs, by partition."""
        return self._futures

    def high_watermark(self, partition: TopicPartition) -> int:
        """As it was last written down before the broker started; 0 if it was not."""
        return self._high_watermarks.get(partition, 0)

    def startup(self, now_ms: int) -> StartUp:
        """Open every directory and load its logs; one that cannot be used goes offline.

        Raises LogStorageError if none is left or if a partition has two current logs or two future
        ones, and EnvironmentProblem if another broker uses a directory. What was opened is let go.
        """
        report = StartUp([], [])
        try:
            for path in self.dirs.paths:
                try:
                    found = self._store.open_dir(path, now_ms)
                except LogStorageError as error:
                    self.handle_log_dir_failure(path, error)
                else:
                    self._open.append(path)
                    self._take(path, found, report)
            if not self._open:
                raise LogStorageError(
                    "Shutdown broker because none of the specified log dirs from "
                    f"{', '.join(self.dirs.paths)} can be created or validated",
                    hint="; ".join(failure.reason for failure in self._failures),
                )
        except BaseException:
            self._let_go()
            raise
        return report

    def _take(self, path: str, found: FoundDir, report: StartUp) -> None:
        report.complaints.extend(found.complaints)
        for partition, is_future, log, repairs in found.logs:
            held = self._futures if is_future else self._current
            if partition in held:
                raise LogStorageError(
                    f"Duplicate log directories for {partition} are found in both {path} and "
                    f"{held[partition].path}",
                    hint="one failed while a replica moved: delete the replica's folder there",
                )
            held[partition] = HeldLog(path, log)
            report.repairs.extend((partition, repair) for repair in repairs)
            if is_future:
                self.dirs.add_future(partition, path)
            else:
                self.dirs.add_log(path)
                self._high_watermarks[partition] = found.high_watermarks.get(partition, 0)

    def get_or_create(self, partition: TopicPartition, now_ms: int, *, is_new: bool) -> HeldLog:
        """The current log; if there is none, a new one where LogDirs says.

        A directory in which it cannot be made goes offline, and the next one is tried. Raises
        LogStorageError if none is left, or if ``is_new`` is False and a directory is offline.
        """
        held = self._current.get(partition)
        while held is None:
            path = self.dirs.create_log(partition, is_new=is_new)
            if path is None:
                raise self._offline(partition)
            try:
                log = self._store.create(path, partition, now_ms, is_future=False)
            except LogStorageError as error:
                self.handle_log_dir_failure(path, error)
                is_new = True
            else:
                held = self._current[partition] = HeldLog(path, log)
        return held

    def create_future(self, partition: TopicPartition, now_ms: int) -> HeldLog:
        """A future log in the directory that LogDirs prefers for the partition.

        Raises LogStorageError if a directory is offline or the log cannot be made.
        """
        if not self.dirs.create_future(partition):
            raise self._offline(partition)
        path = self.dirs.futures[partition]
        try:
            log = self._store.create(path, partition, now_ms, is_future=True)
        except LogStorageError as error:
            self.handle_log_dir_failure(path, error)
            raise
        self._futures[partition] = HeldLog(path, log)
        return self._futures[partition]

    def _offline(self, partition: TopicPartition) -> LogStorageError:
        return LogStorageError(
            f"Can not create log for {partition} because log directories "
            f"{','.join(self.dirs.offline)} are offline"
        )

    def replace_current_with_future(self, partition: TopicPartition, now_ms: int) -> HeldLog:
        """The future log becomes the current one, and that one is deleted later.

        Raises LogStorageError; the future log is the current one once it has its name.
        """
        source, target = self._current[partition], self._futures[partition]
        self._store.make_current(partition, target.log)
        self.dirs.replace_with_future(partition, source.path)
        self._current[partition] = self._futures.pop(partition)
        self._store.mark_deleted(partition, source.log, now_ms)
        self._checkpoint_dir(source.path)
        return target

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Take away the current log and the future one, if there are any; they are removed later.

        Raises LogStorageError.
        """
        self.delete_future(partition, now_ms)
        held = self._current.pop(partition, None)
        self._high_watermarks.pop(partition, None)
        if held is not None:
            self.dirs.delete_log(held.path)
            self._store.mark_deleted(partition, held.log, now_ms)
            self._checkpoint_dir(held.path)

    def delete_future(self, partition: TopicPartition, now_ms: int) -> None:
        """Take away the future log, if there is one. Raises LogStorageError."""
        held = self._futures.pop(partition, None)
        self.dirs.delete_future(partition)
        if held is not None:
            self._store.mark_deleted(partition, held.log, now_ms)
            self._checkpoint_dir(held.path)

    def delete_marked(self, now_ms: int) -> int:
        """Remove logs that were deleted file.delete.delay.ms ago; returns how many."""
        return self._store.delete_marked(now_ms)

    def delete_old(
        self, now_ms: int, high_watermarks: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Deleted]:
        """Retention for all current logs; where anything went, what. Raises LogStorageError."""
        deleted = {
            partition: held.log.delete_old(now_ms, high_watermarks.get(partition, 0))
            for partition, held in self._current.items()
        }
        return {partition: went for partition, went in deleted.items() if went.segments}

    def topic_id(self, partition: TopicPartition) -> str | None:
        """The id of the topic that the current log is of; None if it was not told."""
        return self._store.read_topic_id(self._current[partition].log)

    def assign_topic_id(self, partition: TopicPartition, topic_id: str) -> None:
        """Tell the current log the id of its topic. Raises LogStorageError."""
        self._store.write_topic_id(self._current[partition].log, topic_id)

    def checkpoint_logs(self) -> None:
        """Write down recovery points and log starts; a directory that refuses goes offline."""
        for path in list(self._open):
            try:
                self._checkpoint_dir(path)
            except LogStorageError as error:
                self.handle_log_dir_failure(path, error)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write down how far current logs are replicated; a directory that refuses goes offline."""
        by_path: dict[str, dict[TopicPartition, int]] = {path: {} for path in self._open}
        for partition, held in self._current.items():
            if partition in high_watermarks:
                by_path[held.path][partition] = high_watermarks[partition]
        for path, offsets in by_path.items():
            try:
                self._store.checkpoint_high_watermarks(path, offsets)
            except LogStorageError as error:
                self.handle_log_dir_failure(path, error)

    def handle_log_dir_failure(self, path: str, error: LogStorageError) -> None:
        """Take a directory out of use, and all logs in it; nothing if it is offline already."""
        if not self.dirs.is_online(path):
            return
        lost = tuple(partition for partition, held in self._current.items() if held.path == path)
        self._current = {tp: held for tp, held in self._current.items() if held.path != path}
        self._futures = {tp: held for tp, held in self._futures.items() if held.path != path}
        self.dirs.mark_offline(path)
        if path in self._open:
            self._open.remove(path)
        self._store.close_dir(path, is_clean=False)
        self._failures.append(LogDirFailure(path, error.message, lost))

    def take_failures(self) -> list[LogDirFailure]:
        """The directories that went offline since this was last asked, for the broker to tell."""
        failures, self._failures = self._failures, []
        return failures

    def shutdown(self) -> None:
        """Flush and close every log, write checkpoints, mark the directories clean, let go of them.

        A directory that refuses is not marked and is among the failures; its logs are recovered at
        the next start.
        """
        for path in list(self._open):
            try:
                for _, held in self._in_dir(path):
                    held.log.close()
                self._checkpoint_dir(path)
                self._store.close_dir(path, is_clean=True)
            except LogStorageError as error:
                self.handle_log_dir_failure(path, error)
        self._forget()

    def _let_go(self) -> None:
        for path in list(self._open):
            self._store.close_dir(path, is_clean=False)
        self._forget()

    def _forget(self) -> None:
        self._open.clear()
        self._current.clear()
        self._futures.clear()

    def _in_dir(self, path: str) -> list[tuple[TopicPartition, HeldLog]]:
        """Current logs, then future ones: of a partition never both in one directory."""
        every = [*self._current.items(), *self._futures.items()]
        return [(partition, held) for partition, held in every if held.path == path]

    def _checkpoint_dir(self, path: str) -> None:
        logs = {partition: held.log for partition, held in self._in_dir(path)}
        self._store.checkpoint_logs(path, logs)
