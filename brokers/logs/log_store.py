"""Storage of a broker's logs: the interface between its LogManager and a disk.

A store executes operations in one log directory and decides nothing. ``MemoryLogStore`` has
in-memory (offset-only) logs; ``FileLogStore`` (file_log_store.py) has files. A store outlives its
broker: the next broker process gets it with everything stored in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.errors import DamagedLog, LogStorageError
from klamm.brokers.logs.interval_log import IntervalLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.recovery import Repair, RepairKind
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.cluster.types import TopicPartition

LogConfigs = Callable[[str], LogConfig]
"""Returns the log config of a topic."""

Draw = Callable[[int, int], int]
"""Returns a random number between two others, inclusive: how much unflushed data the operating
system had written before a crash."""


class DirLogs:
    """The logs of one directory by partition.

    ``current``: current logs. ``futures``: logs that will replace a current log of another
    directory."""

    __slots__ = ("current", "futures")

    def __init__(
        self,
        current: dict[TopicPartition, ReplicaLog],
        futures: dict[TopicPartition, ReplicaLog],
    ) -> None:
        self.current: Final = current
        self.futures: Final = futures

    def __len__(self) -> int:
        return len(self.current) + len(self.futures)

    def items(self) -> Iterator[tuple[TopicPartition, ReplicaLog]]:
        """Yield current logs, then future logs; one directory never has both of a partition."""
        yield from self.current.items()
        yield from self.futures.items()


class FoundDir(NamedTuple):
    """Contents of a log directory. ``logs``: a table that the manager updates from now on.

    ``repairs``: repairs of the files of each partition's log. ``complaints``: messages about
    unusable checkpoints. ``damaged``: current logs that are not among ``logs``, and why.
    """

    logs: DirLogs
    high_watermarks: Mapping[TopicPartition, int]
    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]
    damaged: Mapping[TopicPartition, DamagedLog]


class LogStore(Protocol):
    """Operations that a LogManager needs. ``path``: an opened log directory.

    ``needs_checkpoints`` False: the store keeps the values without checkpoints. Every method but
    ``crash`` raises LogStorageError if the disk fails.
    """

    needs_checkpoints: bool

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        """Open a log directory for ``owner``, and load its logs."""
        ...

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Close a log directory. ``is_clean``: logs were closed and checkpoints written."""
        ...

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> ReplicaLog:
        """Create a log, which the caller adds to the table."""
        ...

    def restore(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> tuple[ReplicaLog, Sequence[Repair]]:
        """Truncate a damaged log to its trusted part; return it and the repairs.

        The rest is fetched from the leader. Raises DamagedLog if it must not be truncated."""
        ...

    def mark_damaged_deleted(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        """Mark a damaged log deleted, like ``mark_deleted``."""
        ...

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        """Rename a future log to the name of a current log, which is marked deleted next."""
        ...

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """Rename a log for deletion; ``delete_marked`` removes it later."""
        ...

    def delete_marked(self, path: str, now_ms: int) -> int:
        """Remove logs marked file.delete.delay.ms ago; return their number."""
        ...

    def next_deletion_ms(self) -> int | None:
        """Return when the next marked log is due, since the epoch; None if none is marked."""
        ...

    def checkpoint_logs(self, path: str, logs: DirLogs) -> None:
        """Write recovery points and log starts of all current and future logs in ``path``."""
        ...

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        """Write the high watermarks of all current logs in ``path``."""
        ...

    def crash(self, draw: Draw) -> int:
        """Simulate a machine crash: truncate each log between its flushed end and its end.

        ``draw`` chooses the offset. Returns the number of lost records. The logs must not be used
        afterwards."""
        ...


class MemoryLogStore:
    """In-memory logs. It shares its tables with the LogManager, so that a log costs one entry."""

    needs_checkpoints = False

    def __init__(self) -> None:
        self.dirs: dict[str, DirLogs] = {}
        self.high_watermarks: dict[str, Mapping[TopicPartition, int]] = {}
        self.failures: dict[str, str] = {}
        """Directories on a failing disk, by path with the error: they cannot be opened."""
        self._lost: dict[str, list[tuple[TopicPartition, Repair]]] = {}

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        if path in self.failures:
            raise LogStorageError(f"Error while loading log dir {path}: {self.failures[path]}")
        logs = self.dirs.setdefault(path, DirLogs({}, {}))
        for partition, log in logs.items():
            assert isinstance(log, IntervalLog)
            log.config = config_of(partition.topic)
            # Loading a log keeps its records and drops epochs without records.
            log.truncate_to(log.log_end_offset)
        high_watermarks = self.high_watermarks.pop(path, {})
        return FoundDir(logs, high_watermarks, self._lost.pop(path, []), [], {})

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Do nothing: there are no files to close."""

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> IntervalLog:
        # Drop a log in a directory that is offline. With files, Kafka would refuse to start
        # until an operator deletes one of the two logs; no operator can do that in memory.
        for logs in self.dirs.values():
            (logs.futures if is_future else logs.current).pop(partition, None)
        return IntervalLog(config)

    def restore(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> tuple[IntervalLog, Sequence[Repair]]:
        raise AssertionError("no log in memory is ever damaged")

    def mark_damaged_deleted(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        raise AssertionError("no log in memory is ever damaged")

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        """Do nothing: the manager updates the shared tables."""

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """Do nothing: the manager updates the shared tables."""

    def delete_marked(self, path: str, now_ms: int) -> int:
        return 0

    def next_deletion_ms(self) -> int | None:
        return None

    def checkpoint_logs(self, path: str, logs: DirLogs) -> None:
        """Do nothing: an in-memory log stores its recovery point."""

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        self.high_watermarks[path] = dict(high_watermarks)

    def crash(self, draw: Draw) -> int:
        lost = 0
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
                lost += gone
        return lost
