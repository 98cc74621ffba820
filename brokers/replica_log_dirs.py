"""Which replica is in which log directory, and its way to another one.

The future log is filled and takes the place of
the current one when the broker next has time, and not while
``hold_catch_up`` keeps everything from being copied. Mirrors alterReplicaLogDirs and
describeLogDirs of kafka.server.ReplicaManager and kafka.server.ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

import contextlib
from typing import Final

from brokers.logs.errors import LogStorageError
from brokers.logs.replica_log import ReplicaLog as Log
from brokers.partition import Partition
from brokers.replica_manager import ReplicaManager
from cluster.api_errors import Errors
from cluster.requests import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirResult,
    ReplicaLog,
)
from cluster.types import TopicPartition

_FILE_NAME_MAX: Final = 255
_FUTURE_SUFFIX_LENGTH: Final = len(".") + 32 + len("-future")
_UNKNOWN_LAG: Final = -1
_COPY_MAX_BYTES: Final = 1 << 20


def alter_replica_log_dirs(
    manager: ReplicaManager, request: AlterReplicaLogDirsRequest, wall_ms: int
) -> AlterReplicaLogDirsResponse:
    """Begin to move replicas to other directories, or remember where they are to be made.

    A replica that is there already gets NONE, and a move to another directory than this is ended.
    ``wall_ms``: since the epoch.
    """
    return AlterReplicaLogDirsResponse(
        {tp: _alter(manager, tp, path, wall_ms) for tp, path in request.log_dirs.items()}
    )


def _alter(manager: ReplicaManager, tp: TopicPartition, path: str, wall_ms: int) -> Errors:
    dirs = manager.log_dirs
    if len(f"{tp.topic}-{tp.partition}") + _FUTURE_SUFFIX_LENGTH > _FILE_NAME_MAX:
        return Errors.INVALID_TOPIC_EXCEPTION
    if path not in dirs.paths:
        return Errors.LOG_DIR_NOT_FOUND
    if not dirs.is_online(path) or tp in manager.offline_partitions:
        return Errors.KAFKA_STORAGE_ERROR
    try:
        return _move(manager, tp, path, wall_ms)
    except LogStorageError:
        return Errors.KAFKA_STORAGE_ERROR


def _move(manager: ReplicaManager, tp: TopicPartition, path: str, wall_ms: int) -> Errors:
    """Begin a move, or remember it. Raises LogStorageError."""
    dirs = manager.log_dirs
    partition = manager.partitions.get(tp)
    future = dirs.future_path_of(tp)
    if partition is not None and future not in (None, path):
        manager.log_dir_moves.pop(tp, None)
        manager.log_manager.delete_future(tp, wall_ms)
        future = None
    current = None if partition is None else dirs.path_of(tp)
    if path not in (current, future):
        dirs.prefer(tp, path)
    if partition is None and tp not in manager.metadata_cache:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if current is None:
        return Errors.REPLICA_NOT_AVAILABLE
    if path not in (current, future):
        manager.log_manager.create_future(tp, wall_ms)
        manager.log_dir_moves[tp] = None
    return Errors.NONE


def finish_log_dir_moves(manager: ReplicaManager, wall_ms: int) -> None:
    """Copy all replicas that move, and let their future logs take the place of the current ones.

    As in 2.8.2 the log is without a topic id then, and the next LeaderAndIsr request gives it one.
    A move whose disk refuses is over.
    """
    moves = sorted(manager.log_dir_moves)
    manager.log_dir_moves.clear()
    for tp in moves:
        partition = manager.partitions[tp]
        future = manager.log_dirs.future(tp)
        assert partition.log is not None and future is not None, "only a replica with a log moves"
        with contextlib.suppress(LogStorageError):
            _copy(partition.log, future)
            partition.log = manager.log_manager.replace_current_with_future(tp, wall_ms)


def _copy(source: Log, target: Log) -> None:
    if target.log_end_offset < source.log_start_offset:
        target.truncate_fully_and_start_at(source.log_start_offset)
    while target.log_end_offset < source.log_end_offset:
        target.append_as_follower(source.read(target.log_end_offset, _COPY_MAX_BYTES))


def describe_log_dirs(
    manager: ReplicaManager, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Every directory with the logs in it, sorted by partition; none of a failed directory.

    The lag of a log is how many offsets it is behind the high watermark, of a future log how many
    behind the current one; -1 if the broker was not told of the replica.
    """
    wanted = None if request.partitions is None else frozenset(request.partitions)
    logs: dict[str, list[ReplicaLog]] = {}
    for path in manager.log_dirs.paths:
        logs[path] = []
        held = manager.log_dirs.logs(path)
        for tp, log in held.items():
            if wanted is None or tp in wanted:
                is_future = held.futures.get(tp) is log
                lag = _lag(manager.partitions.get(tp), log)
                logs[path].append(ReplicaLog(tp, log.size_bytes, lag, is_future))
    return DescribeLogDirsResponse(
        tuple(
            LogDirResult(path, Errors.NONE, tuple(sorted(found, key=_by_partition)))
            if manager.log_dirs.is_online(path)
            else LogDirResult(path, Errors.KAFKA_STORAGE_ERROR)
            for path, found in logs.items()
        )
    )


def _lag(partition: Partition | None, log: Log) -> int:
    if partition is None or partition.log is None:
        return _UNKNOWN_LAG
    if partition.log is log:
        return max(partition.high_watermark - log.log_end_offset, 0)
    return partition.log.log_end_offset - log.log_end_offset


def _by_partition(log: ReplicaLog) -> TopicPartition:
    return log.topic_partition
