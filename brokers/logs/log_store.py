"""Storage of a broker's logs: the interface between its LogManager and a disk.

A store makes no decisions: its methods perform single operations. ``MemoryLogStore`` contains
in-memory (offset-only) logs, ``FileLogStore`` (file_log_store.py) contains logs on disk. A store
outlives the broker process: after a restart the broker gets the same store with its contents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.errors import DamagedLog, LogStorageError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.recovery import Repair, RepairKind
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import TopicPartition

LogConfigs = Callable[[str], LogConfig]
"""Returns the log config of a topic."""

DrawInteger = Callable[[int, int], int]
"""Returns a random integer in a range, given by its first and its last integer.

The simulation of a machine crash uses this function to choose how much unflushed data has reached
the disk.
"""


@dataclass(slots=True, eq=False)
class DirLogs:
    """The logs of one log directory, keyed by partition.

    - ``current``: current logs.
    - ``futures``: future logs, which will replace current logs in other directories.
    """

    current: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)
    futures: dict[TopicPartition, ReplicaLog] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.current) + len(self.futures)

    def items(self) -> Iterator[tuple[TopicPartition, ReplicaLog]]:
        """Yield current logs, then future logs; no directory has both for the same partition."""
        yield from self.current.items()
        yield from self.futures.items()


class FoundDir(NamedTuple):
    """Contents of a log directory that was opened.

    - ``logs``: the logs, in a table that the LogManager then updates.
    - ``high_watermarks``: the checkpointed high watermarks.
    - ``repairs``: every repair of a log, with the log's partition.
    - ``complaints``: messages about unusable checkpoints.
    - ``damaged``: the error found in each damaged current log; such logs are not in ``logs``.
    """

    logs: DirLogs
    high_watermarks: Mapping[TopicPartition, int]
    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]
    damaged: Mapping[TopicPartition, DamagedLog]


class LogStore(Protocol):
    """Storage operations that a LogManager needs.

    In every method, ``path`` is the path of a log directory. Every method except ``crash`` raises
    LogStorageError if the disk fails. If ``needs_checkpoints`` is False, the store keeps all
    offsets even without checkpoints. The methods with a plain ``return`` do nothing by default, and
    a store whose logs are never damaged has no method for damaged logs.
    """

    needs_checkpoints: bool

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        """Open a log directory for ``owner``, and load its logs."""
        ...

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Close a log directory.

        ``is_clean`` is True if all logs were closed and all checkpoints were written.
        """
        return

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> ReplicaLog:
        """Create a log. The caller adds the log to the table of the directory."""
        ...

    def restore(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> tuple[ReplicaLog, Sequence[Repair]]:
        """Truncate a damaged log at its first untrusted offset; return the log and the repairs.

        Raises DamagedLog if the log must not be truncated.
        """
        raise AssertionError("the logs of this store are never damaged")

    def mark_damaged_deleted(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        """Mark a damaged log as deleted, like ``mark_deleted``."""
        raise AssertionError("the logs of this store are never damaged")

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        """Rename a future log to make it the current log of its partition.

        The caller then marks the old current log as deleted.
        """
        return

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """Rename a log to mark it as deleted; ``delete_marked`` removes it later."""
        return

    def delete_marked(self, path: str, now_ms: int) -> None:
        """Remove logs that were marked as deleted at least file.delete.delay.ms ago."""
        return

    def next_deletion_ms(self) -> int | None:
        """Return when to call ``delete_marked``, in milliseconds since the Unix epoch.

        Return None if no log is marked as deleted.
        """
        return None

    def checkpoint_logs(self, path: str) -> None:
        """Write the recovery points and start offsets of all logs in ``path``."""
        return

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        """Write the high watermarks of all current logs in ``path``."""
        ...

    def crash(self, draw: DrawInteger) -> None:
        """Simulate a machine crash: truncate each log at an offset in its unflushed part.

        ``draw`` chooses the offset. The caller must not use the logs afterwards, and must open the
        log directories again.
        """
        ...


class MemoryLogStore(LogStore):
    """A store of in-memory logs, which shares its tables of logs with the LogManager.

    There are no files to close, rename, delete or checkpoint, and the logs are never damaged.
    """

    needs_checkpoints = False

    def __init__(self) -> None:
        self.dirs: dict[str, DirLogs] = {}
        self.high_watermarks: dict[str, Mapping[TopicPartition, int]] = {}
        self.failures: dict[str, str] = {}
        """Simulated failures: log directories that cannot be opened, each with an error message."""
        self._lost: dict[str, list[tuple[TopicPartition, Repair]]] = {}

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        if path in self.failures:
            raise LogStorageError(f"Error while loading log dir {path}: {self.failures[path]}")
        logs = self.dirs.setdefault(path, DirLogs())
        for partition, log in logs.items():
            assert isinstance(log, IntervalLog)
            log.config = config_of(partition.topic)
            # Loading a log keeps its records and drops epochs without records.
            log.truncate_to(log.log_end_offset)
        high_watermarks = self.high_watermarks.pop(path, {})
        return FoundDir(logs, high_watermarks, self._lost.pop(path, []), [], {})

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> IntervalLog:
        # Drop the partition's log in a directory that is offline. With files, Kafka would refuse to
        # start until an operator deletes one of the two logs, which is impossible in memory.
        for logs in self.dirs.values():
            (logs.futures if is_future else logs.current).pop(partition, None)
        return IntervalLog(config)

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        self.high_watermarks[path] = dict(high_watermarks)

    def crash(self, draw: DrawInteger) -> None:
        for path, logs in self.dirs.items():
            for partition, log in logs.items():
                assert isinstance(log, IntervalLog)
                size_bytes = log.size_bytes
                gone = log.crash(draw(log.recovery_point, log.log_end_offset))
                if gone:
                    repair = Repair(
                        RepairKind.UNFLUSHED_LOST,
                        log.log_end_offset,
                        size_bytes - log.size_bytes,
                        f"{gone} records were not on disk when the machine crashed",
                    )
                    self._lost.setdefault(path, []).append((partition, repair))
