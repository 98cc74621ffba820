"""Where the logs of a broker are kept: the seam between its LogManager and a disk.

A store does what it is told in one log directory and decides nothing. ``MemoryLogStore`` keeps logs
that only count, and outlives the broker that uses it; ``FileLogStore`` (file_log_store.py) keeps
files. Every method but those of the memory raises LogStorageError if the disk refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

import msgspec

from brokers.logs.interval_log import IntervalLog
from brokers.logs.log_config import LogConfig
from brokers.logs.recovery import Repair
from brokers.logs.replica_log import ReplicaLog
from cluster.types import TopicPartition

LogConfigs = Callable[[str], LogConfig]
"""The config of a topic's logs."""


class FoundLog(NamedTuple):
    """A log that was in a directory when it was opened, and what was wrong with its files."""

    partition: TopicPartition
    is_future: bool
    log: ReplicaLog
    repairs: tuple[Repair, ...] = ()


class FoundDir(NamedTuple):
    """What a log directory holds. ``complaints``: checkpoints that could not be used, in words."""

    logs: list[FoundLog]
    high_watermarks: Mapping[TopicPartition, int]
    complaints: list[str]


class LogStore(Protocol):
    """What a LogManager asks of its disk. ``path``: a log directory that was opened."""

    def open_dir(self, path: str, now_ms: int) -> FoundDir:
        """Take a log directory into use, and load what is in it."""
        ...

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Let go of it. ``is_clean``: its logs were closed and its checkpoints written."""
        ...

    def create(
        self, path: str, partition: TopicPartition, now_ms: int, *, is_future: bool
    ) -> ReplicaLog:
        """A new log."""
        ...

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        """A future log takes the name of the current one, which is marked deleted next."""
        ...

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        """Take a log's name away; ``delete_marked`` removes it when its time has come."""
        ...

    def delete_marked(self, now_ms: int) -> int:
        """Remove what was marked file.delete.delay.ms ago; returns how many logs."""
        ...

    def read_topic_id(self, log: ReplicaLog) -> str | None:
        """The topic id that a log was given; None if none was."""
        ...

    def write_topic_id(self, log: ReplicaLog, topic_id: str) -> None:
        """Give a log its topic id."""
        ...

    def checkpoint_logs(self, path: str, logs: Mapping[TopicPartition, ReplicaLog]) -> None:
        """Write recovery points and log starts of all current and future logs in ``path``."""
        ...

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        """Write the high watermarks of all current logs in ``path``."""
        ...


class _Kept(msgspec.Struct):
    """A log in memory."""

    partition: TopicPartition
    is_future: bool
    log: IntervalLog
    topic_id: str | None = None


class MemoryLogStore:
    """Interval logs. Hand it to the broker that comes after, and it finds them."""

    def __init__(self, config_of: LogConfigs) -> None:
        self._config_of = config_of
        self._logs: dict[str, dict[int, _Kept]] = {}
        self._high_watermarks: dict[str, dict[TopicPartition, int]] = {}

    def crash(self, kept_end: Callable[[IntervalLog], int] | None = None) -> int:
        """The machine stops: each log ends at ``kept_end(log)``, or where it was flushed if that is
        later. Returns how many records are lost. Call it when the broker is gone."""
        lost = 0
        for kept in self._logs.values():
            for one in kept.values():
                lost += one.log.crash(None if kept_end is None else kept_end(one.log))
        return lost

    def open_dir(self, path: str, now_ms: int) -> FoundDir:
        kept = self._logs.setdefault(path, {}).values()
        for one in kept:
            # A log that is loaded keeps its records and forgets epochs that wrote none.
            one.log.truncate_to(one.log.log_end_offset)
        found = [FoundLog(one.partition, one.is_future, one.log) for one in kept]
        return FoundDir(found, self._high_watermarks.get(path, {}), [])

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """There is nothing to let go of."""

    def create(
        self, path: str, partition: TopicPartition, now_ms: int, *, is_future: bool
    ) -> IntervalLog:
        log = IntervalLog(self._config_of(partition.topic))
        self._logs[path][id(log)] = _Kept(partition, is_future, log)
        return log

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        self._dir_of(log)[id(log)].is_future = False

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        del self._dir_of(log)[id(log)]

    def delete_marked(self, now_ms: int) -> int:
        return 0

    def read_topic_id(self, log: ReplicaLog) -> str | None:
        return self._dir_of(log)[id(log)].topic_id

    def write_topic_id(self, log: ReplicaLog, topic_id: str) -> None:
        self._dir_of(log)[id(log)].topic_id = topic_id

    def checkpoint_logs(self, path: str, logs: Mapping[TopicPartition, ReplicaLog]) -> None:
        """A log in memory knows its own recovery point."""

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        self._high_watermarks[path] = dict(high_watermarks)

    def _dir_of(self, log: ReplicaLog) -> dict[int, _Kept]:
        return next(kept for kept in self._logs.values() if id(log) in kept)
