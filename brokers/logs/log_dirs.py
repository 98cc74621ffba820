"""The log directories of a broker as a table: which are online, which logs are in which of them.

It chooses the directory of a new log and makes none; no file is touched. Mirrors the choice of
directories of kafka.log.LogManager (nextLogDirs, getOrCreateLog, maybeUpdatePreferredLogDir,
handleLogDirFailure).
"""

from __future__ import annotations

from collections.abc import Sequence

from klamm.brokers.logs.log_store import DirLogs
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import TopicPartition


class LogDirs:
    """Directories in the order of the configuration, with their logs: of a failed one none."""

    __slots__ = ("_logs", "_offline", "_preferred")

    def __init__(self, paths: Sequence[str]) -> None:
        self._logs = {path: DirLogs({}, {}) for path in paths}
        self._offline: dict[str, None] = {}
        self._preferred: dict[TopicPartition, str] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Every configured directory."""
        return tuple(self._logs)

    @property
    def offline(self) -> tuple[str, ...]:
        """The directories that failed, in the order in which they did."""
        return tuple(self._offline)

    @property
    def has_futures(self) -> bool:
        """True if any replica has a future log: one that takes the place of its current log once
        it holds the same."""
        return any(logs.futures for logs in self._logs.values())

    def is_online(self, path: str) -> bool:
        """True if ``path`` is configured and did not fail."""
        return path in self._logs and path not in self._offline

    def log_counts(self) -> dict[str, int]:
        """Logs by directory, future ones among them."""
        return {path: len(logs) for path, logs in self._logs.items()}

    # -- logs

    def logs(self, path: str) -> DirLogs:
        """The logs of a directory: the table itself."""
        return self._logs[path]

    def use(self, path: str, logs: DirLogs) -> None:
        """Take this table, which may be another's too, for that of a directory."""
        self._logs[path] = logs

    def current(self, partition: TopicPartition) -> ReplicaLog | None:
        """A partition's current log."""
        path = self.path_of(partition)
        return None if path is None else self._logs[path].current[partition]

    def future(self, partition: TopicPartition) -> ReplicaLog | None:
        """A partition's future log."""
        path = self.future_path_of(partition)
        return None if path is None else self._logs[path].futures[partition]

    def path_of(self, partition: TopicPartition) -> str | None:
        """The directory of a partition's current log."""
        for path, logs in self._logs.items():
            if partition in logs.current:
                return path
        return None

    def future_path_of(self, partition: TopicPartition) -> str | None:
        """The directory of a partition's future log."""
        for path, logs in self._logs.items():
            if partition in logs.futures:
                return path
        return None

    # -- directories

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """Make the partition's next log in ``path``, whether it is a new one or a future one."""
        self._preferred[partition] = path

    def choose(self, partition: TopicPartition, *, is_new: bool) -> str | None:
        """The directory of a new log: the preferred one, else the online one with the fewest logs,
        the first of equals.

        None (Kafka's KafkaStorageException) if that directory or all are offline, or if one is
        offline and the replica is not new: its log may be there.
        """
        if self._offline and not is_new:
            return None
        path = self._preferred.get(partition) or self._with_fewest_logs()
        if path is None or path in self._offline:
            return None
        self._preferred.pop(partition, None)
        return path

    def choose_for_future(self, partition: TopicPartition) -> str | None:
        """The preferred directory, for a future log; None if any directory is offline."""
        return None if self._offline else self._preferred.pop(partition)

    def _with_fewest_logs(self) -> str | None:
        online = [path for path in self._logs if path not in self._offline]
        if len(online) > 1:
            return min(online, key=lambda path: len(self._logs[path]))
        return online[0] if online else None

    def mark_offline(self, path: str) -> None:
        """Take a failed directory out of use, and all logs in it."""
        self._offline[path] = None
        self._logs[path] = DirLogs({}, {})
