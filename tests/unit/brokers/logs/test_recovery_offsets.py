"""What a log believes of its checkpoints, and what is lost when its files end before them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.logs.checkpoints import LEADER_EPOCH_CHECKPOINT
from klamm.brokers.logs.errors import DamagedLog
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.recovery import Known, RepairKind, cut_files, forget_unflushed
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK
from tests.unit.brokers.logs.batches import FOUR_A_SEGMENT, NOW_MS, ONE, contents, spoil, written

SUFFIXES = (".log", ".index", ".timeindex")
COMPACTED = msgspec.structs.replace(FOUR_A_SEGMENT, cleanup_policy=("compact",))


def opened(directory: Path, known: Known, config: LogConfig = FOUR_A_SEGMENT) -> SegmentLog:
    return SegmentLog(directory, config, now_ms=NOW_MS, known=known)


def outcome(directory: Path, known: Known, config: LogConfig = FOUR_A_SEGMENT) -> object:
    """Start, end, recovery point and repairs; or the offset from which on the log is damaged."""
    try:
        log = opened(directory, known, config)
    except DamagedLog as error:
        return error.offset
    repairs = [(repair.kind, repair.base_offset) for repair in log.repairs]
    offsets = log.log_start_offset, log.log_end_offset, log.recovery_point
    log.close()
    return *offsets, repairs


def file(directory: Path, base_offset: int, suffix: str = ".log") -> Path:
    return directory / f"{base_offset:020d}{suffix}"


def begun_at_5(folder: Path) -> Path:
    directory = written(folder)
    log = opened(directory, Known(0, 10, is_clean=True))
    log.increment_log_start_offset(5)
    log.close()
    return directory


def remove(directory: Path, *base_offsets: int, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    for base_offset in base_offsets:
        for suffix in suffixes:
            file(directory, base_offset, suffix).unlink()


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        pytest.param(Known(0, 0), (0, 0, 0, [(RepairKind.UNFLUSHED_LOST, 0)]), id="no flush"),
        pytest.param(Known(0, None), (0, 0, 0, [(RepairKind.UNFLUSHED_LOST, 0)]), id="unknown"),
        pytest.param(Known(0, 1), 0, id="flushed"),
        pytest.param(Known(0, 0, is_clean=True), (0, 0, 0, []), id="empty at a clean shutdown"),
        pytest.param(Known(None, 0, is_clean=True), (0, 0, 0, []), id="without a log start"),
        pytest.param(Known(0, 1, is_clean=True), 0, id="not empty at a clean shutdown"),
        pytest.param(Known(0, None, is_clean=True), 0, id="unknown after a clean shutdown"),
    ],
)
def test_a_log_without_files_is_empty_if_nothing_was_flushed(
    tmp_path: Path, known: Known, expected: object
) -> None:
    directory = written(tmp_path)
    remove(directory, 0, 4, 8)
    assert outcome(directory, known) == expected


def test_a_log_that_began_later_may_have_been_empty(tmp_path: Path) -> None:
    directory = begun_at_5(tmp_path)
    remove(directory, 0, 4, 8)
    assert outcome(directory, Known(5, 5, is_clean=True)) == (5, 5, 5, [])


def test_an_index_shows_that_there_was_a_log_file(tmp_path: Path) -> None:
    directory = written(tmp_path)
    for path in directory.glob("*.log"):
        path.unlink()
    assert outcome(directory, Known(0, 0)) == 0
    (directory / LEADER_EPOCH_CHECKPOINT).unlink()
    remove(directory, 0, suffixes=(".index", ".timeindex"))
    assert outcome(directory, Known(0, 0)) == 4


@pytest.mark.parametrize(
    ("checkpoint", "first", "start"),
    [
        pytest.param(None, 0, 0, id="unknown"),
        pytest.param(3, 0, 3, id="in the first segment"),
        pytest.param(2, 4, 4, id="before the first segment"),
        pytest.param(6, 4, 6, id="in the first segment that is left"),
    ],
)
def test_without_epochs_the_log_starts_at_the_checkpoint_or_at_its_first_file(
    tmp_path: Path, checkpoint: int | None, first: int, start: int
) -> None:
    directory = written(tmp_path)
    (directory / LEADER_EPOCH_CHECKPOINT).unlink()
    if first:
        remove(directory, 0)
    log = opened(directory, Known(checkpoint, 9))
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (start, 10, 9)
    assert [repair.kind for repair in log.repairs] == [RepairKind.EPOCHS_REBUILT]


def test_a_log_start_that_is_older_than_the_first_file_is_that_of_the_file(tmp_path: Path) -> None:
    directory = begun_at_5(tmp_path)
    remove(directory, 0)
    assert outcome(directory, Known(2, 10)) == (4, 10, 10, [])
    (directory / LEADER_EPOCH_CHECKPOINT).unlink()
    assert outcome(directory, Known(12, 0)) == 10, "it ends before its start"


@pytest.mark.parametrize(
    ("point", "is_clean", "expected"),
    [
        pytest.param(2, False, 5, id="below the log start"),
        pytest.param(7, False, 7, id="in the log"),
        pytest.param(7, True, 10, id="after a clean shutdown"),
        pytest.param(None, True, 10, id="unknown after a clean shutdown"),
        pytest.param(None, False, 5, id="unknown"),
    ],
)
def test_records_below_the_recovery_point_count_as_flushed(
    tmp_path: Path, point: int | None, is_clean: bool, expected: int
) -> None:
    directory = begun_at_5(tmp_path)
    known = Known(5, point, is_clean=is_clean)
    assert outcome(directory, known) == (5, 10, expected, [])
    file(directory, 0, ".index").unlink()
    repaired = expected if not is_clean else max(point or 0, 5)
    repairs = [(RepairKind.INDEX_REBUILT, 0)] if is_clean or point == 7 else []
    assert outcome(directory, known) == (5, 10, repaired, repairs)


def test_after_a_clean_shutdown_only_the_last_segment_can_end_late(tmp_path: Path) -> None:
    directory = written(tmp_path)
    spoil(file(directory, 0), ONE + 65)
    assert outcome(directory, Known(0, 3, is_clean=True)) == (0, 10, 10, [])


def test_without_a_recovery_point_a_clean_log_is_not_searched_for_damage(tmp_path: Path) -> None:
    directory = written(tmp_path)
    spoil(file(directory, 8), -1)
    assert outcome(directory, Known(0, None, is_clean=True)) == (0, 10, 10, [])


def test_a_log_cleaner_may_leave_gaps_between_segments(tmp_path: Path) -> None:
    directory = written(tmp_path, config=COMPACTED)
    os.truncate(file(directory, 4), 3 * ONE)
    for point in (0, 10):
        assert outcome(directory, Known(0, point), COMPACTED) == (0, 10, point, [])
    assert outcome(directory, Known(0, 10)) == 7
    cut = [(RepairKind.SEGMENT_DELETED, 8)]
    assert outcome(directory, Known(0, 0)) == (0, 7, 0, cut)


@pytest.mark.parametrize("config", [FOUR_A_SEGMENT, COMPACTED], ids=["plain", "compacted"])
def test_a_segment_never_begins_before_the_end_of_the_one_before(
    tmp_path: Path, config: LogConfig
) -> None:
    directory = written(tmp_path, config=config)
    with file(directory, 4).open("ab") as longer:
        longer.write(file(directory, 8).read_bytes()[:ONE])
    assert outcome(directory, Known(0, 10), config) == 8


@pytest.mark.parametrize(
    ("orphan", "is_clean", "expected"),
    [
        pytest.param(10, False, 10, id="records after the end are lost"),
        pytest.param(10, True, (0, 10, 10, []), id="after a clean shutdown there were none"),
        pytest.param(9, False, (0, 10, 10, []), id="an index of no segment"),
    ],
)
def test_an_index_without_a_log_file_means_lost_records_unless_the_shutdown_was_clean(
    tmp_path: Path, orphan: int, is_clean: bool, expected: object
) -> None:
    directory = written(tmp_path)
    file(directory, orphan, ".index").write_bytes(b"left over")
    assert outcome(directory, Known(0, 10, is_clean=is_clean)) == expected
    assert file(directory, orphan, ".index").exists() == (expected == orphan)


@pytest.mark.parametrize(
    ("point", "high_watermark", "is_clean", "expected"),
    [
        pytest.param(9, 9, False, (0, 10, 9, [(RepairKind.EPOCHS_REBUILT, 9)]), id="not flushed"),
        pytest.param(9, 10, False, (0, 10, 9, [(RepairKind.EPOCHS_REBUILT, 9)]), id="committed"),
        pytest.param(10, 9, False, 9, id="flushed"),
        pytest.param(9, 10, True, 9, id="committed before a clean shutdown"),
    ],
)
def test_epochs_may_be_missing_only_where_nothing_was_flushed(
    tmp_path: Path, point: int, high_watermark: int, is_clean: bool, expected: object
) -> None:
    directory = written(tmp_path)
    (directory / LEADER_EPOCH_CHECKPOINT).write_text("0\n3\n0 0\n1 3\n2 6\n")
    assert outcome(directory, Known(0, point, high_watermark, is_clean)) == expected


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (0, {0: 0}),
        (1, {0: 1}),
        (4, {0: 4}),
        (5, {0: 4, 4: 1}),
        (8, {0: 4, 4: 4}),
        (9, {0: 4, 4: 4, 8: 1}),
        (10, {0: 4, 4: 4, 8: 2}),
    ],
)
def test_files_are_cut_before_the_offset(tmp_path: Path, end: int, left: dict[int, int]) -> None:
    directory = written(tmp_path)
    file(directory, 77, ".index").write_bytes(b"left over")
    assert cut_files(directory, end, LOCAL_DISK) == (10 - end) * ONE
    files = contents(directory)
    assert {int(name[:20]): len(data) // ONE for name, data in files.items() if "log" in name} == (
        left if end else {}
    )
    assert {int(name[:20]) for name in files} == {*left} - {0 if not end else None}
    assert outcome(directory, Known(0, end))[1] == end  # type: ignore[index]


@pytest.mark.parametrize(
    ("kept_end", "left_bytes"),
    [
        (0, [ONE // 2]),
        (3, [3 * ONE + ONE // 2]),
        (4, [4 * ONE, ONE // 2]),
        (5, [4 * ONE, ONE + ONE // 2]),
        (8, [4 * ONE, 4 * ONE, ONE // 2]),
        (10, [4 * ONE, 4 * ONE, 2 * ONE]),
    ],
)
def test_a_crash_forgets_from_the_middle_of_a_batch_on(
    tmp_path: Path, kept_end: int, left_bytes: list[int]
) -> None:
    directory = written(tmp_path)
    whole = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    forget_unflushed(directory, kept_end, LOCAL_DISK, is_length_kept=False)
    logs = sorted(directory.glob("*.log"))
    assert [path.stat().st_size for path in logs] == left_bytes
    assert len(list(directory.glob("*index"))) == 2 * len(logs)
    assert whole.startswith(b"".join(path.read_bytes() for path in logs))
    assert outcome(directory, Known(0, kept_end))[1] == kept_end  # type: ignore[index]


def test_a_crash_may_keep_the_length_of_the_file(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = file(directory, 4).read_bytes()
    forget_unflushed(directory, 5, LOCAL_DISK, is_length_kept=True)
    kept = before[: ONE + ONE // 2]
    assert file(directory, 4).read_bytes() == kept + bytes(ONE - ONE // 2)
