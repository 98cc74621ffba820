"""What of a simulated broker outlives it: its logs, and how high it knew them to be replicated.

A broker in memory has no files, so whoever starts it again hands it the Disk of its predecessor.
Nothing here reads a clock or decides what was lost. Mirrors what kafka.log.LogManager finds in the
log directories when it starts, and replication-offset-checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from brokers.logs.interval_log import IntervalLog
from brokers.logs.replica_log import ReplicaLog
from cluster.types import TopicPartition

HIGH_WATERMARK_CHECKPOINT_MS: Final = 5_000.0
"""replica.high.watermark.checkpoint.interval.ms"""


Kept = Callable[[IntervalLog], int]
"""Where a log ends once its broker is gone."""


def everything(log: IntervalLog) -> int:
    """The broker's process died, and the machine has all that was written."""
    return log.log_end_offset


class StoredReplica(msgspec.Struct, gc=False):
    """A log, its directory and topic id, and its high watermark as it was last written."""

    log: ReplicaLog
    log_dir: str
    topic_id: str | None
    high_watermark: int


class Disk:
    """Replicas of which there is anything on the disk, by partition."""

    __slots__ = ("_replicas",)

    def __init__(self) -> None:
        self._replicas: dict[TopicPartition, StoredReplica] = {}

    def __iter__(self) -> Iterator[tuple[TopicPartition, StoredReplica]]:
        return iter(self._replicas.items())

    def __len__(self) -> int:
        return len(self._replicas)

    def put(self, partition: TopicPartition, replica: StoredReplica) -> None:
        """Keep a replica."""
        self._replicas[partition] = replica

    def take(self, partition: TopicPartition) -> StoredReplica | None:
        """A replica for a broker to go on with, or to drop; None if there is none."""
        return self._replicas.pop(partition, None)

    def crash(self, kept: Kept = everything) -> int:
        """The broker is gone of a sudden: each log ends at ``kept(log)`` or where it was flushed,
        if that is later. Returns how many records were lost."""
        lost = 0
        for stored in self._replicas.values():
            assert isinstance(stored.log, IntervalLog), "files are lost by whoever has them"
            lost += stored.log.crash(kept(stored.log))
        return lost

    def close(self) -> None:
        """The broker stops cleanly: everything is flushed."""
        for stored in self._replicas.values():
            stored.log.close()
