"""Which replica is in which log directory, and its way to another one.

A move ends without copying anything: the future log takes the place of
the current one when the broker next has time, as that of an empty log does in Kafka, and not while
``hold_catch_up`` keeps everything from being copied. Mirrors alterReplicaLogDirs and
describeLogDirs of kafka.server.ReplicaManager and kafka.server.ReplicaAlterLogDirsThread.
"""

from __future__ import annotations

from typing import Final

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


def alter_replica_log_dirs(
    manager: ReplicaManager, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move replicas to other directories, or remember where they are to be made.

    A replica that is there already gets NONE, and a move to another directory than this is ended.
    """
    return AlterReplicaLogDirsResponse(
        {tp: _alter(manager, tp, path) for tp, path in request.log_dirs.items()}
    )


def _alter(manager: ReplicaManager, tp: TopicPartition, path: str) -> Errors:
    dirs = manager.log_dirs
    if len(f"{tp.topic}-{tp.partition}") + _FUTURE_SUFFIX_LENGTH > _FILE_NAME_MAX:
        return Errors.INVALID_TOPIC_EXCEPTION
    if path not in dirs.paths:
        return Errors.LOG_DIR_NOT_FOUND
    if not dirs.is_online(path) or tp in manager.offline_partitions:
        return Errors.KAFKA_STORAGE_ERROR
    partition = manager.partitions.get(tp)
    future = dirs.futures.get(tp)
    if partition is not None and future not in (None, path):
        manager.log_dir_moves.pop(tp, None)
        dirs.delete_future(tp)
        future = None
    current = None if partition is None else partition.log_dir
    if path not in (current, future):
        dirs.prefer(tp, path)
    if partition is None and tp not in manager.metadata_cache:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if current is None:
        return Errors.REPLICA_NOT_AVAILABLE
    if path not in (current, future):
        if not dirs.create_future(tp):
            return Errors.KAFKA_STORAGE_ERROR
        manager.log_dir_moves[tp] = None
    return Errors.NONE


def finish_log_dir_moves(manager: ReplicaManager) -> None:
    """Let the future logs of all replicas that move take the place of the current ones.

    As in 2.8.2 the log is without a topic id then, and the next LeaderAndIsr request gives it one.
    """
    for tp in sorted(manager.log_dir_moves):
        partition = manager.partitions[tp]
        assert partition.log_dir is not None, "only a replica with a log moves"
        partition.log_dir = manager.log_dirs.replace_with_future(tp, partition.log_dir)
        partition.topic_id = None
    manager.log_dir_moves.clear()


def describe_log_dirs(
    manager: ReplicaManager, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Every directory with the logs in it, sorted by partition; none of a failed directory.

    A future log is shown as 0 bytes; its lag is -1 if the current one is lost. Other lags are 0.
    """
    wanted = None if request.partitions is None else frozenset(request.partitions)
    logs: dict[str, list[ReplicaLog]] = {path: [] for path in manager.log_dirs.paths}
    for tp, partition in manager.partitions.items():
        if partition.log_dir is not None and (wanted is None or tp in wanted):
            size_bytes = 0 if partition.log is None else partition.log.size_bytes
            logs[partition.log_dir].append(ReplicaLog(tp, size_bytes, 0, False))
    for tp, path in manager.log_dirs.futures.items():
        if wanted is None or tp in wanted:
            lag = 0 if tp in manager.partitions else _UNKNOWN_LAG
            logs[path].append(ReplicaLog(tp, 0, lag, True))
    return DescribeLogDirsResponse(
        tuple(
            LogDirResult(path, Errors.NONE, tuple(sorted(found, key=_by_partition)))
            if manager.log_dirs.is_online(path)
            else LogDirResult(path, Errors.KAFKA_STORAGE_ERROR)
            for path, found in logs.items()
        )
    )


def _by_partition(log: ReplicaLog) -> TopicPartition:
    return log.topic_partition
