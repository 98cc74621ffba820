"""A broker's log directories: which of them are online, and which logs they contain.

This module also chooses the directory of a new log. It accesses no files. Mirrors how
kafka.log.LogManager chooses directories (nextLogDirs, getOrCreateLog, maybeUpdatePreferredLogDir,
handleLogDirFailure).
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.brokers.logs.log_store import DirLogs
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import TopicPartition


class LogDirs:
    """Log directories in configuration order, with their logs. A failed directory has no logs.

    ``paths``: the paths of all configured log directories.
    """

    __slots__ = ("_logs", "_offline", "_preferred", "paths")

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._logs = {path: DirLogs() for path in paths}
        self._offline: dict[str, None] = {}
        self._preferred: dict[TopicPartition, str] = {}

    @property
    def offline(self) -> tuple[str, ...]:
        """The paths of failed log directories, in the order in which they failed."""
        return tuple(self._offline)

    @property
    def has_futures(self) -> bool:
        """True if any replica has a future log, which will replace its current log."""
        return any(logs.futures for logs in self._logs.values())

    def is_online(self, path: str) -> bool:
        """Return True if ``path`` is configured and has not failed."""
        return path in self._logs and path not in self._offline

    def log_counts(self) -> dict[str, int]:
        """Return the number of logs in each directory, including future logs."""
        return {path: len(logs) for path, logs in self._logs.items()}

    # -- logs

    def logs(self, path: str) -> DirLogs:
        """Return the table with the logs of a directory. The table is not copied."""
        return self._logs[path]

    def use(self, path: str, logs: DirLogs) -> None:
        """Replace the table with the logs of a directory. The new table is not copied."""
        self._logs[path] = logs

    def current(self, partition: TopicPartition) -> ReplicaLog | None:
        """Return the current log of a partition, or None if it has no current log."""
        path = self.path_of(partition)
        return None if path is None else self._logs[path].current[partition]

    def future(self, partition: TopicPartition) -> ReplicaLog | None:
        """Return the future log of a partition, or None if it has no future log."""
        path = self.future_path_of(partition)
        return None if path is None else self._logs[path].futures[partition]

    def path_of(self, partition: TopicPartition) -> str | None:
        """Return the directory of a partition's current log, or None if it has no current log."""
        for path, logs in self._logs.items():
            if partition in logs.current:
                return path
        return None

    def future_path_of(self, partition: TopicPartition) -> str | None:
        """Return the directory of a partition's future log, or None if it has no future log."""
        for path, logs in self._logs.items():
            if partition in logs.futures:
                return path
        return None

    # -- directories

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """Set the directory for the next log, current or future, that a partition will get."""
        self._preferred[partition] = path

    def choose(self, partition: TopicPartition, *, is_new: bool) -> str | None:
        """Return the preferred directory for a new log, or else the directory with the fewest logs.

        If several directories have equally few logs, the first of them is returned. Return None,
        where Kafka throws KafkaStorageException, in these cases:

        - The preferred directory is offline, or all directories are.
        - A directory is offline and the replica is not new: its log may be in that directory.
        """
        if self._offline and not is_new:
            return None
        path = self._preferred.get(partition) or self._with_fewest_logs()
        if path is None or path in self._offline:
            return None
        self._preferred.pop(partition, None)
        return path

    def choose_for_future(self, partition: TopicPartition) -> str | None:
        """Return the preferred directory for a future log, or None if any directory is offline."""
        return None if self._offline else self._preferred.pop(partition)

    def _with_fewest_logs(self) -> str | None:
        online = [path for path in self._logs if path not in self._offline]
        if len(online) > 1:
            return min(online, key=lambda path: len(self._logs[path]))
        return online[0] if online else None

    def mark_offline(self, path: str) -> None:
        """Mark a directory as failed, and remove its logs from the table."""
        self._offline[path] = None
        self._logs[path] = DirLogs()
