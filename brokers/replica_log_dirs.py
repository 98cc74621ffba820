"""Requests about log directories: describe them, and move replicas between them.

This module validates requests and builds responses; brokers/followers/replica_alter_log_dirs.py
moves the data. Mirrors alterReplicaLogDirs and describeLogDirs of kafka.server.ReplicaManager.
"""

from __future__ import annotations

import operator
from typing import Final

from klamm.brokers.logs.errors import LogStorageError
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.partitions.partition import Partition
from klamm.brokers.replica_manager import ReplicaManager
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    LogDirResult,
    ReplicaInfo,
)
from klamm.cluster.types import TopicPartition

_FILE_NAME_MAX: Final = 255
_FUTURE_SUFFIX_LENGTH: Final = len(".") + 32 + len("-future")
_UNKNOWN_LAG: Final = -1


def alter_replica_log_dirs(
    manager: ReplicaManager, request: AlterReplicaLogDirsRequest, wall_ms: int
) -> AlterReplicaLogDirsResponse:
    """Start moving replicas to the requested log directories.

    - If a replica does not exist yet, the directory is remembered for the creation of the replica.
    - If a replica is being moved to a different directory, that move is cancelled.
    - If a replica is already in the requested directory, the response is NONE.

    ``wall_ms`` is in milliseconds since the Unix epoch.
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
    """Start the move of a replica, or store the directory for a replica to be created.

    Raises LogStorageError.
    """
    dirs = manager.log_dirs
    partition = manager.partitions.get(tp)
    future = dirs.future_path_of(tp)
    if partition is not None and future not in (None, path):
        manager.replica_alter_log_dirs_manager.remove(tp)
        manager.log_manager.delete_future(tp, wall_ms)
    current = None if partition is None else dirs.path_of(tp)
    if path not in (current, future):
        dirs.prefer(tp, path)
    if partition is None and tp not in manager.metadata_cache:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if current is None:
        return Errors.REPLICA_NOT_AVAILABLE
    if path not in (current, future):
        manager.log_manager.create_future(tp, wall_ms)
        manager.replica_alter_log_dirs_manager.add(tp)
    return Errors.NONE


def describe_log_dirs(
    manager: ReplicaManager, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Return all log directories, each with its logs sorted by partition.

    Failed directories are returned without logs. The lag of a log is a number of records:

    - For a current log, the number of records up to the high watermark that the log lacks.
    - For a future log, the number of records of the current log that the future log lacks.
    - -1 if no LeaderAndIsr request has named the replica since the broker started.
    """
    wanted = None if request.partitions is None else frozenset(request.partitions)
    logs: dict[str, dict[TopicPartition, ReplicaInfo]] = {}
    for path in manager.log_dirs.paths:
        logs[path] = {}
        held = manager.log_dirs.logs(path)
        found = [item for item in held.items() if wanted is None or item[0] in wanted]
        for tp, log in sorted(found, key=operator.itemgetter(0)):
            is_future = held.futures.get(tp) is log
            lag = _lag(manager.partitions.get(tp), log)
            logs[path][tp] = ReplicaInfo(log.size_bytes, lag, is_future)
    return DescribeLogDirsResponse(
        tuple(
            LogDirResult(path, Errors.NONE, found)
            if manager.log_dirs.is_online(path)
            else LogDirResult(path, Errors.KAFKA_STORAGE_ERROR)
            for path, found in logs.items()
        )
    )


def _lag(partition: Partition | None, log: ReplicaLog) -> int:
    if partition is None or partition.log is None:
        return _UNKNOWN_LAG
    if partition.log is log:
        return max(partition.high_watermark - log.log_end_offset, 0)
    return partition.log.log_end_offset - log.log_end_offset
