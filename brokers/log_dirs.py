"""The log directories of a broker as a table: which are online, and where which log goes.

No log is kept here and no file is touched. A current log's directory is in its Partition; kept here
are the number of logs in each directory, the future logs of replicas that move to another
directory, and where replicas that do not exist yet are to be made. Mirrors the choice of
directories of kafka.log.LogManager (nextLogDirs, getOrCreateLog, maybeUpdatePreferredLogDir,
replaceCurrentWithFutureLog, handleLogDirFailure).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cluster.types import TopicPartition


class LogDirs:
    """Directories in the order of the configuration, with the number of logs in each."""

    __slots__ = ("_futures", "_log_counts", "_offline", "_preferred")

    def __init__(self, paths: Sequence[str]) -> None:
        self._log_counts: dict[str, int] = dict.fromkeys(paths, 0)
        self._offline: dict[str, None] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self._futures: dict[TopicPartition, str] = {}

    @property
    def paths(self) -> tuple[str, ...]:
        """Every configured directory."""
        return tuple(self._log_counts)

    @property
    def offline(self) -> tuple[str, ...]:
        """The directories that failed, in the order in which they did."""
        return tuple(self._offline)

    @property
    def futures(self) -> Mapping[TopicPartition, str]:
        """The directory of each future log: one that takes the place of a replica's current log
        once it holds the same."""
        return self._futures

    def is_online(self, path: str) -> bool:
        """True if ``path`` is configured and did not fail."""
        return path in self._log_counts and path not in self._offline

    def log_counts(self) -> dict[str, int]:
        """Logs by directory, future ones among them; none in a failed directory."""
        return dict(self._log_counts)

    def create_log(self, partition: TopicPartition, *, is_new: bool) -> str | None:
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
        self._log_counts[path] += 1
        return path

    def _with_fewest_logs(self) -> str | None:
        online = [path for path in self._log_counts if path not in self._offline]
        if len(online) > 1:
            return min(online, key=self._log_counts.__getitem__)
        return online[0] if online else None

    def add_log(self, path: str) -> None:
        """Count a log that was in ``path`` already."""
        self._log_counts[path] += 1

    def delete_log(self, path: str) -> None:
        """Forget one log of ``path``."""
        self._log_counts[path] -= 1

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """Make the partition's next log in ``path``, whether it is a new one or a future one."""
        self._preferred[partition] = path

    def create_future(self, partition: TopicPartition) -> bool:
        """Make a future log in the preferred directory; False if any directory is offline."""
        if self._offline:
            return False
        path = self._futures[partition] = self._preferred.pop(partition)
        self._log_counts[path] += 1
        return True

    def add_future(self, partition: TopicPartition, path: str) -> None:
        """Count a future log that was in ``path`` already."""
        self._futures[partition] = path
        self._log_counts[path] += 1

    def delete_future(self, partition: TopicPartition) -> None:
        """Forget a partition's future log, if it has one."""
        path = self._futures.pop(partition, None)
        if path is not None:
            self.delete_log(path)

    def replace_with_future(self, partition: TopicPartition, path: str) -> str:
        """Delete the current log in ``path``; returns where the future log is, the current one
        from now on."""
        self.delete_log(path)
        return self._futures.pop(partition)

    def mark_offline(self, path: str) -> None:
        """Take a failed directory out of use, and all logs in it."""
        self._offline[path] = None
        self._log_counts[path] = 0
        self._futures = {tp: future for tp, future in self._futures.items() if future != path}
