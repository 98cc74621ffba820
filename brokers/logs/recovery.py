"""Loads a segment log: finds its files, detects damage, and makes safe repairs.

Flushed data is never truncated. After an unclean shutdown, segments that extend beyond the recovery
point are verified, and truncated at the first invalid batch. Repairs are returned to the broker,
which writes them to the journal. If flushed records may be missing, or files contradict each other,
DamagedLog is raised and no batch is changed. Disk errors are raised as OSError. Mirrors how
kafka.log.Log is loaded (loadSegments, recoverLog, rebuildProducerState). Kafka does not detect such
damage: its log would start at a later offset, or skip the gap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from klamm.brokers.logs.batch_file import BatchFile
from klamm.brokers.logs.checkpoints import LEADER_EPOCH_CHECKPOINT, read_epochs
from klamm.brokers.logs.errors import (
    CorruptCheckpoint,
    CorruptRecord,
    DamagedLog,
    UnsupportedMessageFormat,
)
from klamm.brokers.logs.leader_epoch_cache import EpochEntries
from klamm.brokers.logs.log_inspection import Inspection, agreed_epochs, epochs_between, inspect
from klamm.brokers.logs.producer_state import ProducerStates
from klamm.brokers.logs.segment import LogSegment
from klamm.brokers.logs.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SegmentFile,
    file_name,
    parse_file_name,
)
from klamm.brokers.storage.disk import Disk

_CLEANED_SUFFIX: Final = ".cleaned"
_SNAPSHOT_SUFFIX: Final = ".snapshot"
_SWAP_SUFFIX: Final = ".swap"
MakeSegment = Callable[[int], LogSegment]


class RepairKind(StrEnum):
    """Kinds of log repairs. The values are written to the journal."""

    INDEX_REBUILT = "index_rebuilt"
    TAIL_CUT = "tail_cut"
    SEGMENT_DELETED = "segment_deleted"
    UNFLUSHED_LOST = "unflushed_lost"
    EPOCHS_REBUILT = "epochs_rebuilt"
    LOG_START_MOVED = "log_start_moved"
    TOPIC_ID_FORGOTTEN = "topic_id_forgotten"
    TAKEN_OFFLINE = "taken_offline"
    CUT_TO_RESTORE = "cut_to_restore"


class Repair(NamedTuple):
    """A repair of a log.

    - ``base_offset``: base offset of the repaired segment for the kinds INDEX_REBUILT, TAIL_CUT and
      SEGMENT_DELETED; for all other kinds the first affected offset of the log.
    - ``size_bytes``: total size of the removed batches.
    """

    kind: RepairKind
    base_offset: int
    size_bytes: int
    reason: str


class Known(NamedTuple):
    """The checkpointed offsets of one log, and whether the last shutdown was clean.

    ``log_start_offset`` and ``recovery_point`` are None if they are unknown.
    """

    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int = 0
    is_clean: bool = False

    @property
    def flushed_end(self) -> int:
        """An offset before which all records were certainly flushed."""
        flushed = self.recovery_point or 0
        return max(flushed, self.high_watermark) if self.is_clean else flushed


NOTHING_KNOWN: Final = Known()


class Loaded(NamedTuple):
    """A log that was loaded from its files.

    - ``segments``: the segments in order of offset; may be empty.
    - ``epochs``: the leader epochs to be written to leader-epoch-checkpoint.
    - ``recorded_epochs``: the leader epochs that leader-epoch-checkpoint contained.
    """

    segments: list[LogSegment]
    start_offset: int
    end_offset: int
    epochs: EpochEntries
    recorded_epochs: EpochEntries
    producers: ProducerStates
    repairs: list[Repair]


class _Files(NamedTuple):
    """Files in the directory of one log.

    - ``base_offsets``: base offsets of the segments, in ascending order.
    - ``orphans``: index files without a ``.log`` file.
    - ``removable``: names of leftover files that are to be deleted.
    """

    base_offsets: list[int]
    orphans: list[SegmentFile]
    removable: list[str]


def load_segments(
    directory: Path, make_segment: MakeSegment, known: Known, *, has_gaps: bool, disk: Disk
) -> Loaded:
    """Load and repair the segments in the directory of a log. Raises DamagedLog.

    ``make_segment`` returns a LogSegment for a base offset. If ``has_gaps`` is True, offsets may be
    missing because a log cleaner removed them.
    """
    return _Loading(directory, known, disk, has_gaps=has_gaps).load(make_segment)


class _Loading:
    """Loads one log, and holds the intermediate state until loading is complete."""

    def __init__(self, directory: Path, known: Known, disk: Disk, *, has_gaps: bool) -> None:
        self._directory = directory
        self._disk = disk
        self._known = known
        self._has_gaps = has_gaps
        self._files = _list_files(directory, disk)
        self._repairs: list[Repair] = []

    def load(self, make_segment: MakeSegment) -> Loaded:
        segments = [make_segment(offset) for offset in self._files.base_offsets]
        recorded = self._read_epochs()
        self._check_first(segments, recorded)
        try:
            self._recover(segments)
            inspected = inspect(segments, has_gaps=self._has_gaps)
        except UnsupportedMessageFormat as error:
            raise DamagedLog(error.message, offset=None, hint=error.hint) from error
        start = self._start_offset(segments, recorded)
        end = start if inspected.next_offset is None else inspected.next_offset
        self._check_end(start, end)
        epochs = self._agreed_epochs(inspected, recorded, start, end)
        for segment in inspected.misindexed:
            segment.rebuild_indexes()
            self._repair(RepairKind.INDEX_REBUILT, segment.base_offset, _INDEX)
        for name in (*self._files.removable, *(file_name(*one) for one in self._files.orphans)):
            self._disk.remove(self._directory / name)
        return Loaded(segments, start, end, epochs, recorded, inspected.producers, self._repairs)

    def _repair(self, kind: RepairKind, offset: int, reason: str, size_bytes: int = 0) -> None:
        self._repairs.append(Repair(kind, offset, size_bytes, reason))

    def _read_epochs(self) -> EpochEntries:
        """Read leader-epoch-checkpoint. If the file is corrupt, add a repair and return ()."""
        try:
            return read_epochs(self._directory / LEADER_EPOCH_CHECKPOINT, self._disk)
        except CorruptCheckpoint as error:
            self._repair(RepairKind.EPOCHS_REBUILT, 0, error.message)
            return ()

    def _check_first(self, segments: Sequence[LogSegment], recorded: EpochEntries) -> None:
        """Check that no segment is missing at the start of the log.

        The first segment must not start after the first leader epoch, because
        leader-epoch-checkpoint is updated before the files of a deleted segment are removed.
        """
        known, orphans = self._known, self._files.orphans
        begins = recorded[0].start_offset if recorded else None
        if begins is None and orphans:
            begins = orphans[0].base_offset
        if not segments:
            if begins is None or (
                known.is_clean and known.recovery_point == (known.log_start_offset or 0)
            ):
                return
            if known.is_clean or known.flushed_end > begins or orphans:
                raise DamagedLog(f"{self._directory} has no .log file", offset=begins)
            self._repair(RepairKind.UNFLUSHED_LOST, begins, "no records had been flushed")
            return
        first = segments[0].base_offset
        if begins is not None and begins < first:
            raise DamagedLog(
                f"offsets from {begins} onward are missing: the first file is "
                f"{segments[0].log.path}",
                offset=begins,
            )

    def _recover(self, segments: list[LogSegment]) -> None:
        known, flushed = self._known, self._known.recovery_point or 0
        for number, segment in enumerate(segments):
            following = segments[number + 1 :]
            if known.is_clean or (following and following[0].base_offset <= flushed):
                if segment.load():
                    self._repair(RepairKind.INDEX_REBUILT, segment.base_offset, _INDEX)
                if following or not self._ends_late(segment):
                    continue
            cut = segment.recover(flushed)
            if cut:
                self._repair(RepairKind.TAIL_CUT, segment.base_offset, cut.reason, cut.size_bytes)
            if cut or (following and self._ends_early(segment, following[0].base_offset)):
                self._delete(following)
                del segments[number + 1 :]
                return

    def _ends_late(self, segment: LogSegment) -> bool:
        """Return True if the last segment is unreadable or ends after the recovery point.

        After a clean shutdown, the recovery point should be the log end.
        """
        point = self._known.recovery_point
        try:
            return point is not None and segment.next_offset() > point
        except CorruptRecord:
            return True

    def _ends_early(self, segment: LogSegment, next_base_offset: int) -> bool:
        """Return True if an unflushed segment has lost its last batches.

        Return False if an index file shows that a whole ``.log`` file is missing instead.
        """
        end = segment.next_offset()
        return end < next_base_offset and not (
            self._has_gaps
            or any(end <= orphan.base_offset < next_base_offset for orphan in self._files.orphans)
        )

    def _delete(self, segments: Sequence[LogSegment]) -> None:
        reason = "follows a truncated segment"
        # In reverse order, so that a crash never leaves a gap.
        for segment in reversed(segments):
            segment.log.load()
            size_bytes = segment.size_bytes
            self._repair(RepairKind.SEGMENT_DELETED, segment.base_offset, reason, size_bytes)
            segment.delete()

    def _start_offset(self, segments: Sequence[LogSegment], recorded: EpochEntries) -> int:
        """Return the log start offset.

        The offset in log-start-offset-checkpoint may be stale. If it is larger than the start
        offset of the first leader epoch, the log is damaged, and the smaller offset is used.
        """
        first = segments[0].base_offset if segments else 0
        point = self._known.log_start_offset
        if not recorded:
            return max(point or 0, first)
        begins = recorded[0].start_offset
        if point is None:
            return begins
        if point > begins:
            self._repair(
                RepairKind.LOG_START_MOVED,
                begins,
                f"log-start-offset-checkpoint contains {point}, but leader-epoch-checkpoint "
                f"starts at offset {begins}",
            )
        return min(max(point, first), begins)

    def _check_end(self, start: int, end: int) -> None:
        known = self._known
        if end < known.flushed_end:
            raise DamagedLog(
                f"{self._directory} ends at offset {end}, but was flushed up to "
                f"{known.flushed_end}",
                offset=end,
            )
        if end < start:
            raise DamagedLog(
                f"{self._directory} ends at offset {end}, before its log start offset {start}",
                offset=end,
            )
        for orphan in self._files.orphans:
            if orphan.base_offset >= end and not known.is_clean:
                raise DamagedLog(
                    f"the log ends at offset {end}, but {self._directory / file_name(*orphan)} has "
                    "no .log file",
                    offset=end,
                )
        if end < known.high_watermark:
            reason = f"the high watermark was {known.high_watermark}"
            self._repair(RepairKind.UNFLUSHED_LOST, end, reason)

    def _agreed_epochs(
        self, inspected: Inspection, recorded: EpochEntries, start: int, end: int
    ) -> EpochEntries:
        """Compare the batches' leader epochs with leader-epoch-checkpoint, and return them.

        If the checkpoint is empty or out of date, add a repair. Raises DamagedLog if the checkpoint
        contradicts the batches.
        """
        found = inspected.epochs
        epochs = agreed_epochs(found, recorded, start, end)
        if epochs is not None:
            return epochs
        derived = epochs_between(found, start, end)
        if not recorded:
            if not self._repairs or self._repairs[0].kind is not RepairKind.EPOCHS_REBUILT:
                self._repair(RepairKind.EPOCHS_REBUILT, start, "leader-epoch-checkpoint was empty")
            return derived
        begins = recorded[0].start_offset
        if agreed_epochs(found, recorded, begins, end) is not None:
            # DeleteRecords advanced the log start, but the broker was killed before it wrote
            # log-start-offset-checkpoint.
            if self._known.is_clean:
                self._repair(
                    RepairKind.LOG_START_MOVED,
                    start,
                    f"leader-epoch-checkpoint starts at offset {begins}",
                )
            return derived
        kept = derived[: len(recorded)]
        lacking = derived[len(recorded) :]
        flushed = self._known.flushed_end
        if recorded == kept and lacking and lacking[0].start_offset >= flushed:
            reason = "leader-epoch-checkpoint lacked the last leader epochs"
            self._repair(RepairKind.EPOCHS_REBUILT, lacking[0].start_offset, reason)
            return derived
        raise DamagedLog(
            f"{self._directory / LEADER_EPOCH_CHECKPOINT} does not match the batches: leader "
            f"epochs {_text(recorded)} in the file, {_text(derived)} in the batches",
            offset=min(entry.start_offset for entry in {*recorded} ^ {*derived}),
            hint=f"delete {LEADER_EPOCH_CHECKPOINT}; klamm then rebuilds it from the batches",
        )


_INDEX: Final = "an index was missing, too short, or did not match the batches"


def _text(epochs: EpochEntries) -> str:
    """Return the last four epochs as text: ``..., 3 from offset 17, 4 from offset 20``."""
    shown = ", ".join(f"{epoch} from offset {offset}" for epoch, offset in epochs[-4:])
    return f"..., {shown}" if len(epochs) > 4 else shown or "none"


def _list_files(directory: Path, disk: Disk) -> _Files:
    names = disk.names(directory)
    for name in names:
        if name.endswith(_SWAP_SUFFIX):
            raise DamagedLog(
                f"{directory / name} is left over from an interrupted log cleaning",
                offset=None,
                hint="start the Kafka broker that wrote this log; it then completes the cleaning",
            )
    files = [file for file in map(parse_file_name, names) if file]
    base_offsets = [file.base_offset for file in files if file.suffix == LOG_SUFFIX]
    # Kafka renames the .log file of a deleted segment first, whereas klamm renames it last.
    deleted = {name.removesuffix(DELETED_SUFFIX) for name in names}
    orphans = [
        file
        for file in files
        if file.base_offset not in base_offsets
        and file_name(file.base_offset, LOG_SUFFIX) not in deleted
    ]
    # A producer snapshot would be out of date if Kafka loaded this log again.
    stray = (DELETED_SUFFIX, _CLEANED_SUFFIX, _SNAPSHOT_SUFFIX)
    removable = [name for name in names if name.endswith(stray)]
    removable += [
        file_name(*file)
        for file in files
        if file.base_offset not in base_offsets and file not in orphans
    ]
    return _Files(base_offsets, orphans, removable)


def cut_files(directory: Path, end_offset: int, disk: Disk) -> int:
    """Truncate the files of a closed log at ``end_offset``; return the number of bytes removed.

    Only bytes of batches are counted. Also deletes index files without a ``.log`` file, and
    leader-epoch-checkpoint, which is rebuilt when the log is opened.
    """
    files = _list_files(directory, disk)
    cut_bytes = 0
    for base_offset in reversed(files.base_offsets):
        log = BatchFile(str(directory / file_name(base_offset, LOG_SUFFIX)), disk)
        log.load()
        if base_offset < end_offset:
            kept_bytes, next_offset = 0, base_offset
            for position, header in log.readable():
                if header.base_offset != next_offset or header.next_offset > end_offset:
                    break
                kept_bytes, next_offset = position + header.size_bytes, header.next_offset
            cut_bytes += log.size_bytes - kept_bytes
            log.truncate(kept_bytes)
            break
        cut_bytes += log.size_bytes
        for suffix in reversed(SEGMENT_SUFFIXES):
            with suppress(FileNotFoundError):
                disk.remove(directory / file_name(base_offset, suffix))
    for orphan in files.orphans:
        disk.remove(directory / file_name(*orphan))
    with suppress(FileNotFoundError):
        disk.remove(directory / LEADER_EPOCH_CHECKPOINT)
    return cut_bytes


def forget_unflushed(directory: Path, kept_end: int, disk: Disk, *, is_length_kept: bool) -> None:
    """Remove data from the end of a closed log, as if the machine had crashed before a flush.

    Batches that end before ``kept_end``, and the first half of the next batch, are kept. If
    ``is_length_kept`` is True, zeros replace the second half of this batch.
    """
    for base_offset in reversed(_list_files(directory, disk).base_offsets):
        if base_offset > kept_end:
            for suffix in SEGMENT_SUFFIXES:
                disk.remove(directory / file_name(base_offset, suffix))
            continue
        log = BatchFile(str(directory / file_name(base_offset, LOG_SUFFIX)), disk)
        log.load()
        found = log.find(kept_end, 0)
        if found is not None:
            log.truncate(found.position + found.header.size_bytes // 2)
            if is_length_kept:
                log.truncate(found.position + found.header.size_bytes)
        return
