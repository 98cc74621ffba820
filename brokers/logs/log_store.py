"""Where the logs of a broker are kept: the seam between its LogManager and a disk.

A store does what it is told in one log directory and decides nothing. ``MemoryLogStore`` keeps logs
that only count; ``FileLogStore`` (file_log_store.py) keeps files. Either outlives the broker that
uses it: handed to the next one, it has what that one left.
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
"""The config of a topic's logs."""

Draw = Callable[[int, int], int]
"""A number between two others, both of which may come: how much of what was not flushed the machine
had written on its own account."""


class DirLogs:
    """The logs of one directory, by partition: the current ones, and the future ones that will
    take the place of a current log in another directory."""

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
        """Current logs, then future ones: of a partition never both in one directory."""
        yield from self.current.items()
        yield from self.futures.items()


class FoundDir(NamedTuple):
    """What a log directory holds. ``logs``: a table that the manager keeps up to date from now on.

    ``repairs``: repairs of the files of each partition's log. ``complaints``: messages about
    unusable checkpoints. ``damaged``: current logs that are not among ``logs``, and why.
    """

    logs: DirLogs
    high_watermarks: Mapping[TopicPartition, int]
    repairs: list[tuple[TopicPartition, Repair]]
    complaints: list[str]
    damaged: Mapping[TopicPartition, DamagedLog]


class LogStore(Protocol):
    """What a LogManager asks of its disk. ``path``: a log directory that was opened.

    ``needs_checkpoints`` False: what would be written down is known anyway. Every method but
    ``crash`` raises LogStorageError if the disk refuses.
    """

    needs_checkpoints: bool

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        """Take a log directory into use for ``owner``, and load what is in it."""
        ...

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Let go of it. ``is_clean``: its logs were closed and its checkpoints written."""
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
        """A new log, for the table."""
        ...

    def restore(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> tuple[ReplicaLog, Sequence[Repair]]:
        """Truncate a damaged log to its trusted part; the rest is fetched from the leader. Return
        it and the repairs. Raises DamagedLog if it must not be truncated."""
        ...

    def mark_damaged_deleted(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        """As ``mark_deleted``, for a damaged log."""
        ...

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        """A future log takes the name of the current one, which is marked deleted next."""
        ...

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """Take a log's name away; ``delete_marked`` removes it when its time has come."""
        ...

    def delete_marked(self, path: str, now_ms: int) -> int:
        """Remove what was marked file.delete.delay.ms ago; returns how many logs."""
        ...

    def next_deletion_ms(self) -> int | None:
        """When the next of them is due, since the epoch; None if none is marked."""
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
        """The machine stops: each log ends at a place that is drawn, between what was flushed and
        its end. Returns how many records are lost. Nothing may be asked of the logs any more."""
        ...


class MemoryLogStore:
    """Interval logs. Its tables of logs are the manager's own, so that a log costs one entry."""

    needs_checkpoints = False

    def __init__(self) -> None:
        self.dirs: dict[str, DirLogs] = {}
        self.high_watermarks: dict[str, Mapping[TopicPartition, int]] = {}
        self.failures: dict[str, str] = {}
        """Directories on a failing disk, with its error: they cannot be opened."""
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
            # A log that is loaded keeps its records and forgets epochs that wrote none.
            log.truncate_to(log.log_end_offset)
        high_watermarks = self.high_watermarks.pop(path, {})
        return FoundDir(logs, high_watermarks, self._lost.pop(path, []), [], {})

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """There is nothing to let go of."""

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> IntervalLog:
        # One in a directory that is offline is gone for good: with files Kafka refuses to start
        # until somebody deletes one of two, which nobody can do here.
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
        """The tables say it."""

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """The tables say it."""

    def delete_marked(self, path: str, now_ms: int) -> int:
        return 0

    def next_deletion_ms(self) -> int | None:
        return None

    def checkpoint_logs(self, path: str, logs: DirLogs) -> None:
        """A log in memory knows its own recovery point."""

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
                        f"{gone} offsets were not on the disk when the machine stopped",
                    )
                    self._lost.setdefault(path, []).append((partition, repair))
                lost += gone
        return lost
