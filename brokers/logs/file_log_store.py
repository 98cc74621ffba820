"""Log directories on disk in Kafka's layout: segment logs, checkpoints and lock files.

This module only accesses the files; brokers/logs/log_manager.py makes the decisions. Mirrors the
parts of kafka.log.LogManager that access the disk (lockLogDirs, loadLogs, asyncDelete, deleteLogs,
checkpoints, shutdown).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

from klamm.brokers.logs.checkpoints import (
    CLEAN_SHUTDOWN,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    MetaProperties,
    read_meta_properties,
    read_offsets,
    write_meta_properties,
    write_offsets,
)
from klamm.brokers.logs.errors import (
    CorruptCheckpoint,
    DamagedLog,
    LogStorageError,
    storage_errors,
)
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_store import DirLogs, DrawInteger, FoundDir, LogConfigs, LogStore
from klamm.brokers.logs.recovery import (
    NOTHING_KNOWN,
    Known,
    Repair,
    RepairKind,
    cut_files,
    forget_unflushed,
)
from klamm.brokers.logs.replica_log import ReplicaLog
from klamm.brokers.logs.segment_files import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    log_delete_dir_name,
    log_dir_name,
    log_future_dir_name,
    parse_log_dir_name,
)
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK, Disk
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.types import TopicPartition

LOCK: Final = ".lock"


class _Damaged(NamedTuple):
    """A damaged log.

    - ``folder``: path of the log's folder, which may be missing.
    - ``known``: checkpointed offsets of the log.
    """

    folder: Path
    known: Known
    error: DamagedLog


def random_id() -> str:
    """Return 32 random hexadecimal digits for use in a folder name."""
    return uuid4().hex


def folder_of(root: Path, log_dir: str) -> Path:
    """Return the folder of a log directory: /d0 is the folder d0 of ``root``, as d0 is.

    Kafka's tools accept only absolute paths of log directories.
    """
    return root / log_dir.lstrip("/")


class FileLogStore(LogStore):
    """Stores segment logs in log directories below ``root`` on ``disk``.

    ``new_id`` returns 32 hexadecimal digits that make the name of a log's folder unique.
    """

    needs_checkpoints = True

    def __init__(
        self,
        root: Path = Path("/"),
        new_id: Callable[[], str] = random_id,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        self._root = root
        self._disk = disk
        self._new_id = new_id
        self._locks: dict[Path, Callable[[], None]] = {}
        self._dirs: dict[Path, DirLogs] = {}
        self._damaged: dict[Path, dict[TopicPartition, _Damaged]] = {}
        self._marked: list[tuple[int, Path]] = []

    def open_dir(
        self, path: str, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        """Lock a log directory, creating it if it does not exist, and load its logs.

        - After an unclean shutdown, each log is recovered from its recovery point onward.
        - A corrupt checkpoint is reported in ``complaints`` and treated as empty. A log without a
          recovery point is recovered from its start.
        - The files and checkpoint entries of a damaged log are not changed.

        Raises EnvironmentProblem if another process uses the directory, or if the directory belongs
        to another broker or cluster.
        """
        try:
            return self._open_dir(folder_of(self._root, path), owner, config_of, now_ms)
        except BaseException:
            self.close_dir(path, is_clean=False)
            raise

    def _open_dir(
        self, directory: Path, owner: MetaProperties, config_of: LogConfigs, now_ms: int
    ) -> FoundDir:
        complaints: list[str] = []
        with storage_errors("loading log dir", directory):
            self._disk.make_dirs(directory)
            self._lock(directory)
            _check_owner(directory / META_PROPERTIES, owner, self._disk)
            is_clean = CLEAN_SHUTDOWN in self._disk.names(directory)
            if is_clean:
                # Remove it first: a crash while loading must not count as a clean shutdown.
                self._disk.remove(directory / CLEAN_SHUTDOWN)
            names = self._disk.folders(directory)
        points = self._offsets(directory / RECOVERY_POINT_CHECKPOINT, complaints) or {}
        starts = self._offsets(directory / LOG_START_OFFSET_CHECKPOINT, complaints)
        high_watermarks = self._offsets(directory / REPLICATION_OFFSET_CHECKPOINT, complaints) or {}
        logs = self._dirs[directory] = DirLogs()
        damaged = self._damaged[directory] = {}
        repairs: list[tuple[TopicPartition, Repair]] = []
        for name in names:
            partition, suffix = parse_log_dir_name(name)
            config = config_of(partition.topic)
            if suffix == DELETE_DIR_SUFFIX:
                self._marked.append((now_ms + config.file_delete_delay_ms, directory / name))
                points.pop(partition, None)
                continue
            known = Known(
                None if starts is None else starts.get(partition, 0),
                points.pop(partition, None),
                high_watermarks.get(partition, 0),
                is_clean,
            )
            table = logs.futures if suffix == FUTURE_DIR_SUFFIX else logs.current
            if partition in table:
                raise LogStorageError(
                    f"Duplicate log directories for {partition} are found in {directory}",
                    hint=f"delete all but one of the {name.split('.')[0]}.*-future folders in that "
                    "directory",
                )
            try:
                log = self._log(directory / name, config, now_ms, known)
            except DamagedLog as error:
                found = _Damaged(directory / name, known, error)
                if table is logs.current:
                    damaged[partition] = found
                    continue
                # The current log has all records that a future log needs.
                log = self._cut(found, config, now_ms)
            table[partition] = log
            repairs.extend((partition, repair) for repair in log.repairs)
        for partition, point in points.items():
            if point > (starts or {}).get(partition, 0):
                damaged[partition] = _missing(directory, partition, point, is_clean=is_clean)
        errors = {partition: one.error for partition, one in damaged.items()}
        return FoundDir(logs, high_watermarks, repairs, complaints, errors)

    def _log(self, folder: Path, config: LogConfig, now_ms: int, known: Known) -> SegmentLog:
        log = SegmentLog(folder, config, now_ms=now_ms, known=known, disk=self._disk)
        log.on_recovery_point_lowered = partial(self._checkpoint, folder.parent)
        return log

    def _cut(self, damaged: _Damaged, config: LogConfig, now_ms: int) -> SegmentLog:
        """Truncate a damaged log at its first untrusted offset, and open it.

        Raises DamagedLog if the log must not be truncated.
        """
        folder, known, error = damaged
        size_bytes = 0
        while error.offset is not None:
            with storage_errors(f"truncating {folder.name}", folder.parent):
                self._disk.make_dirs(folder)
                size_bytes += cut_files(folder, error.offset, self._disk)
            start = min(known.log_start_offset or 0, error.offset)
            try:
                log = self._log(folder, config, now_ms, Known(start))
            except DamagedLog as another:
                if another.offset is None or another.offset >= error.offset:
                    raise
                error = another
            else:
                kind = RepairKind.CUT_TO_RESTORE
                cut = Repair(kind, log.log_end_offset, size_bytes, damaged.error.message)
                others = (one for one in log.repairs if one.kind is not RepairKind.EPOCHS_REBUILT)
                log.repairs = (cut, *others)
                return log
        raise error

    def close_dir(self, path: str, *, is_clean: bool) -> None:
        """Unlock a log directory. If ``is_clean`` is True, first write the clean shutdown file."""
        directory = folder_of(self._root, path)
        self._dirs.pop(directory, None)
        self._damaged.pop(directory, None)
        self._marked = [one for one in self._marked if one[1].parent != directory]
        try:
            if is_clean:
                with storage_errors("marking the clean shutdown", directory):
                    self._disk.create(directory / CLEAN_SHUTDOWN)
        finally:
            unlock = self._locks.pop(directory, None)
            if unlock is not None:
                unlock()

    def create(
        self,
        path: str,
        partition: TopicPartition,
        config: LogConfig,
        now_ms: int,
        *,
        is_future: bool,
    ) -> SegmentLog:
        name = log_dir_name(partition)
        if is_future:
            name = log_future_dir_name(partition, self._new_id())
        return self._log(folder_of(self._root, path) / name, config, now_ms, NOTHING_KNOWN)

    def restore(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> tuple[SegmentLog, Sequence[Repair]]:
        damaged = self._damaged[folder_of(self._root, path)]
        log = self._cut(damaged[partition], config, now_ms)
        del damaged[partition]
        return log, log.repairs

    def mark_damaged_deleted(
        self, path: str, partition: TopicPartition, config: LogConfig, now_ms: int
    ) -> None:
        folder = self._damaged[folder_of(self._root, path)].pop(partition).folder
        if folder.name in self._disk.folders(folder.parent):
            marked = folder.with_name(log_delete_dir_name(partition, self._new_id()))
            with storage_errors(f"renaming dir for {partition}", folder.parent):
                self._disk.rename(folder, marked)
            self._marked.append((now_ms + config.file_delete_delay_ms, marked))

    def make_current(self, partition: TopicPartition, log: ReplicaLog) -> None:
        _files(log).rename_dir(log_dir_name(partition))

    def mark_deleted(self, partition: TopicPartition, log: ReplicaLog, now_ms: int) -> None:
        files = _files(log)
        files.rename_dir(log_delete_dir_name(partition, self._new_id()))
        self._marked.append((now_ms + files.config.file_delete_delay_ms, files.directory))

    def delete_marked(self, path: str, now_ms: int) -> None:
        directory = folder_of(self._root, path)
        due = [one for one in self._marked if one[0] <= now_ms and one[1].parent == directory]
        for marked in due:
            self._marked.remove(marked)
            with storage_errors(f"deleting {marked[1].name}", directory):
                self._disk.remove_tree(marked[1])

    def next_deletion_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self._marked), default=None)

    def checkpoint_logs(self, path: str) -> None:
        self._checkpoint(folder_of(self._root, path))

    def _checkpoint(self, directory: Path) -> None:
        logs = self._dirs.get(directory)
        if logs is None:
            return  # the directory is offline
        points = {partition: log.recovery_point for partition, log in logs.items()}
        # All other logs start at their first file, so they need no entry.
        starts = {
            partition: log.log_start_offset
            for partition, log in logs.items()
            if log.log_start_offset > _files(log).base_offsets[0]
        }
        for partition, (_, known, _) in self._damaged.get(directory, {}).items():
            if known.recovery_point is not None:
                points[partition] = known.recovery_point
            if known.log_start_offset:
                starts[partition] = known.log_start_offset
        write_offsets(directory / RECOVERY_POINT_CHECKPOINT, points, self._disk)
        write_offsets(directory / LOG_START_OFFSET_CHECKPOINT, starts, self._disk)

    def checkpoint_high_watermarks(
        self, path: str, high_watermarks: Mapping[TopicPartition, int]
    ) -> None:
        file = folder_of(self._root, path) / REPLICATION_OFFSET_CHECKPOINT
        write_offsets(file, high_watermarks, self._disk)

    def crash(self, draw: DrawInteger) -> None:
        """Truncate each log at a random offset in its unflushed part (see LogStore).

        The first half of the batch at this offset remains in the file. At random, the second half
        is replaced with zeros or is cut off.
        """
        # A disk that fails the broker's operations also loses what was not flushed.
        disk = self._disk.inner if isinstance(self._disk, FaultyDisk) else self._disk
        for logs in self._dirs.values():
            for _, log in logs.items():
                kept_end = draw(log.recovery_point, log.log_end_offset)
                is_length_kept = bool(draw(0, 1))
                forget_unflushed(
                    _files(log).directory, kept_end, disk, is_length_kept=is_length_kept
                )

    def _offsets(self, path: Path, complaints: list[str]) -> dict[TopicPartition, int] | None:
        """Read an offset checkpoint. If it is corrupt, add a complaint and return None."""
        try:
            return read_offsets(path, self._disk)
        except CorruptCheckpoint as error:
            complaints.append(error.message)
            return None

    def _lock(self, directory: Path) -> None:
        try:
            self._locks[directory] = self._disk.lock(directory / LOCK)
        except BlockingIOError as error:
            raise EnvironmentProblem(
                f"Failed to acquire lock on file {LOCK} in {directory}. A Kafka instance in "
                "another process or thread is using this directory.",
                hint="stop that process, or configure other log directories (log.dirs)",
            ) from error


def _check_owner(path: Path, owner: MetaProperties, disk: Disk) -> None:
    """Raise an error if meta.properties names another owner; write the file if it is missing."""
    stored = read_meta_properties(path, disk)
    if stored is None:
        write_meta_properties(path, owner, disk)
    elif stored.cluster_id != owner.cluster_id:
        raise EnvironmentProblem(
            f"The Cluster ID {owner.cluster_id} doesn't match stored clusterId "
            f"Some({stored.cluster_id}) in meta.properties. The broker is trying to join the "
            "wrong cluster. Configured zookeeper.connect may be wrong.",
            hint=f"{path.parent} belongs to another cluster",
        )
    elif stored.broker_id != owner.broker_id:
        raise EnvironmentProblem(
            f"Configured broker.id {owner.broker_id} doesn't match stored broker.id "
            f"Some({stored.broker_id}) in meta.properties. If you moved your data, make sure "
            "your configured broker.id matches. If you intend to create a new broker, you "
            "should remove all data in your data directories (log.dirs).",
            hint=f"{path.parent} belongs to another broker",
        )


def _files(log: ReplicaLog) -> SegmentLog:
    assert isinstance(log, SegmentLog)
    return log


def _missing(directory: Path, partition: TopicPartition, point: int, *, is_clean: bool) -> _Damaged:
    folder = directory / log_dir_name(partition)
    error = DamagedLog(f"{folder} is missing; the log was flushed up to offset {point}", offset=0)
    return _Damaged(folder, Known(0, point, is_clean=is_clean), error)
