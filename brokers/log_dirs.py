"""The log directories of a broker: which are online, and where the next log goes.

No log is kept here and no file is touched. Mirrors the choice of directories of
kafka.log.LogManager (nextLogDirs, getOrCreateLog, handleLogDirFailure).
"""

from __future__ import annotations

from collections.abc import Sequence


class LogDirs:
    """Directories in the order of the configuration, with the number of logs in each."""

    __slots__ = ("_log_counts", "_offline")

    def __init__(self, paths: Sequence[str]) -> None:
        self._log_counts: dict[str, int] = dict.fromkeys(paths, 0)
        self._offline: dict[str, None] = {}

    @property
    def offline(self) -> tuple[str, ...]:
        """The directories that failed, in the order in which they did."""
        return tuple(self._offline)

    def is_online(self, path: str) -> bool:
        """True if ``path`` is configured and did not fail."""
        return path in self._log_counts and path not in self._offline

    def log_counts(self) -> dict[str, int]:
        """Logs by directory, failed directories among them."""
        return dict(self._log_counts)

    def create_log(self, *, is_new: bool) -> str | None:
        """The directory of a new log: the online one with the fewest logs, the first of equals.

        None (Kafka's KafkaStorageException) if no directory is online, or if one is offline and
        the replica is not new: its log may be there.
        """
        if self._offline and not is_new:
            return None
        online = [path for path in self._log_counts if path not in self._offline]
        if not online:
            return None
        path = online[0] if len(online) == 1 else min(online, key=self._log_counts.__getitem__)
        self._log_counts[path] += 1
        return path

    def delete_log(self, path: str) -> None:
        """Forget one log of ``path``."""
        self._log_counts[path] -= 1

    def mark_offline(self, path: str) -> None:
        """Take a failed directory out of use."""
        self._offline[path] = None
