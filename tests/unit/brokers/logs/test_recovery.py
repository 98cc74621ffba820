"""What a log finds when it is opened: torn tails, spoilt batches, indexes that are gone or lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.logs.checkpoints import LEADER_EPOCH_CHECKPOINT
from klamm.brokers.logs.errors import CorruptRecord, DamagedLog
from klamm.brokers.logs.record_batch import check_batches
from klamm.brokers.logs.recovery import Known, RepairKind
from klamm.brokers.logs.segment_log import SegmentLog
from tests.unit.brokers.logs.batches import FOUR_A_SEGMENT as CONFIG
from tests.unit.brokers.logs.batches import (
    NOW_MS,
    ONE,
    append,
    contents,
    old_message,
    open_log,
    spoil,
    values_from,
    written,
)

LOG, INDEX, TIME_INDEX = (f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))


def reopened(
    directory: Path, recovery_point: int | None = None, *, is_clean: bool = False
) -> SegmentLog:
    return open_log(directory.parent, CONFIG, recovery_point=recovery_point, is_clean=is_clean)


def test_a_whole_log_is_not_repaired(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = contents(directory)
    for is_clean in (True, False):
        log = reopened(directory, is_clean=is_clean)
        assert log.repairs == ()
        assert (log.log_end_offset, log.latest_epoch) == (10, 3)
        assert log.recovery_point == (10 if is_clean else 0)
        log.close()
        assert contents(directory) == before


@pytest.mark.parametrize("left", [0, 1, 60, 61, ONE - 1])
def test_a_torn_tail_is_cut(tmp_path: Path, left: int) -> None:
    directory = written(tmp_path)
    os.truncate(directory / f"{8:020d}.log", ONE + left)
    log = reopened(directory, recovery_point=8)
    assert [tuple(repair)[:3] for repair in log.repairs] == (
        [(RepairKind.TAIL_CUT, 8, left)] if left else []
    )
    assert (log.log_end_offset, log.recovery_point) == (9, 8)
    assert values_from(log, 0) == [b"%d" % number for number in range(9)]
    assert append(log, b"new", epoch=7) == 9


def test_a_tail_torn_at_any_byte_leaves_the_batches_before_it(tmp_path: Path) -> None:
    directory = written(tmp_path, batches=3)
    data = (directory / LOG).read_bytes()
    for size in range(len(data) + 1):
        (directory / LOG).write_bytes(data[:size])
        log = reopened(directory)
        assert log.log_end_offset == size // ONE
        assert values_from(log, 0) == [b"0", b"1", b"2"][: size // ONE]


def test_a_corrupt_byte_anywhere_leaves_the_batches_before_it(tmp_path: Path) -> None:
    """Except the leader epoch, which the CRC does not cover."""
    directory = written(tmp_path, batches=3)
    data = (directory / LOG).read_bytes()
    for at in range(len(data)):
        if at % ONE not in (12, 13, 14, 15):
            (directory / LOG).write_bytes(data)
            spoil(directory / LOG, at)
            log = reopened(directory)
            assert values_from(log, 0) == [b"0", b"1", b"2"][: at // ONE]


def test_a_tail_of_zeros_is_cut(tmp_path: Path) -> None:
    """What a file system may leave after the machine lost its power."""
    directory = written(tmp_path)
    with (directory / f"{8:020d}.log").open("ab") as file:
        file.write(bytes(1000))
    (repair,) = reopened(directory, recovery_point=8).repairs
    assert (repair.size_bytes, repair.reason.partition(" (")[0]) == (
        1000,
        "Invalid magic found in record: 0",
    )


def test_batches_after_a_corrupt_batch_are_cut_with_it(tmp_path: Path) -> None:
    directory = written(tmp_path)
    spoil(directory / f"{4:020d}.log", ONE + 65)
    log = reopened(directory, recovery_point=4)
    assert [tuple(repair)[:3] for repair in log.repairs] == [
        (RepairKind.TAIL_CUT, 4, 3 * ONE),
        (RepairKind.SEGMENT_DELETED, 8, 2 * ONE),
    ]
    assert "stored crc" in log.repairs[0].reason
    assert (log.log_end_offset, log.latest_epoch, log.base_offsets) == (5, 1, (0, 4))
    assert not [name for name in contents(directory) if name.startswith(f"{8:020d}")]


def test_flushed_records_are_never_cut(tmp_path: Path) -> None:
    """Damaged records are detected when they are read; other records can be read."""
    directory = written(tmp_path)
    spoil(directory / LOG, ONE + 65)
    before = (directory / LOG).read_bytes()
    for is_clean, recovery_point in ((True, 10), (False, 4), (False, 9)):
        log = reopened(directory, recovery_point, is_clean=is_clean)
        assert log.log_end_offset == 10
        assert (directory / LOG).read_bytes() == before
        with pytest.raises(CorruptRecord, match="stored crc"):
            check_batches(log.read(1, ONE))
        assert values_from(log, 2) == [b"%d" % number for number in range(2, 10)]


@pytest.mark.parametrize("magic", [b"\x00", b"\x01", b"\x03"])
@pytest.mark.parametrize(("is_clean", "point"), [(True, 10), (False, 4), (False, 3)])
def test_a_damaged_magic_byte_takes_the_log_offline(
    tmp_path: Path, magic: bytes, is_clean: bool, point: int
) -> None:
    """Of a batch below the recovery point; format 0 and 1 have it at the same byte."""
    directory = written(tmp_path)
    damage(directory / LOG, ONE + 16, magic)
    before = contents(directory)
    with pytest.raises(DamagedLog, match=rf"magic .* \(file .*{LOG} at byte {ONE}\)") as told:
        reopened(directory, point, is_clean=is_clean)
    assert told.value.offset == 1
    assert contents(directory) == before


def test_a_damaged_magic_byte_above_the_recovery_point_is_cut(tmp_path: Path) -> None:
    directory = written(tmp_path)
    damage(directory / LOG, ONE + 16, b"\x01")
    log = reopened(directory, 0)
    assert [tuple(repair)[:2] for repair in log.repairs] == [
        (RepairKind.TAIL_CUT, 0),
        (RepairKind.SEGMENT_DELETED, 8),
        (RepairKind.SEGMENT_DELETED, 4),
    ]
    assert f"{LOG} at byte {ONE}" in log.repairs[0].reason
    assert values_from(log, 0) == [b"0"]


def test_a_clean_stop_that_was_none_takes_the_log_offline(tmp_path: Path) -> None:
    directory = written(tmp_path)
    os.truncate(directory / f"{8:020d}.log", ONE + 10)
    assert damaged_at(directory, 10, is_clean=True) == 9


def test_bytes_added_after_a_clean_stop_are_cut(tmp_path: Path) -> None:
    directory = written(tmp_path)
    with (directory / f"{8:020d}.log").open("ab") as file:
        file.write(bytes(100))
    log = reopened(directory, 10, is_clean=True)
    assert (log.log_end_offset, [repair.kind for repair in log.repairs]) == (
        10,
        [RepairKind.TAIL_CUT],
    )


@pytest.mark.parametrize("lost", [0, 4, 8])
@pytest.mark.parametrize(("is_clean", "point"), [(True, 10), (False, 10), (False, 0)])
def test_a_missing_log_file_takes_the_log_offline(
    tmp_path: Path, lost: int, is_clean: bool, point: int
) -> None:
    directory = written(tmp_path)
    (directory / f"{lost:020d}.log").unlink()
    before = contents(directory)
    assert damaged_at(directory, point, is_clean=is_clean) == lost
    assert contents(directory).keys() == before.keys()


@pytest.mark.parametrize("lost", [0, 4, 8])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_is_missing_with_its_indexes_takes_the_log_offline(
    tmp_path: Path, lost: int, is_clean: bool
) -> None:
    directory = written(tmp_path)
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{lost:020d}{suffix}").unlink()
    assert damaged_at(directory, 10, is_clean=is_clean) == lost


def test_a_log_that_lost_all_of_its_files_is_offline(tmp_path: Path) -> None:
    directory = written(tmp_path)
    for path in list(directory.iterdir()):
        path.unlink()
    assert damaged_at(directory, 10, is_clean=True) == 0
    assert damaged_at(directory, 10) == 0


def test_an_end_below_the_high_watermark_is_reported(tmp_path: Path) -> None:
    """Unflushed data may be lost, but not silently. After a clean shutdown it must be there."""
    directory = written(tmp_path)
    os.truncate(directory / f"{8:020d}.log", ONE)
    log = SegmentLog(directory, CONFIG, now_ms=NOW_MS, known=Known(0, 8, 10))
    assert [tuple(repair)[:3] for repair in log.repairs] == [(RepairKind.UNFLUSHED_LOST, 9, 0)]
    log.close()
    with pytest.raises(DamagedLog, match="was flushed up to 10"):
        SegmentLog(directory, CONFIG, now_ms=NOW_MS, known=Known(0, 9, 10, is_clean=True))


@pytest.mark.parametrize("at", [7, 15])
def test_an_offset_or_epoch_that_does_not_follow_takes_the_log_offline(
    tmp_path: Path, at: int
) -> None:
    """The CRC covers neither."""
    directory = written(tmp_path)
    spoil(directory / f"{4:020d}.log", 2 * ONE + at, 1)
    assert damaged_at(directory, 10, is_clean=True) == 6
    assert damaged_at(directory, 8) == 6


def test_an_offset_that_no_index_can_hold_takes_the_log_offline(tmp_path: Path) -> None:
    """Such an offset makes the rebuild of the index fail."""
    directory = written(tmp_path)
    spoil(directory / f"{4:020d}.log", 3 * ONE + 1, 1)
    (directory / f"{4:020d}.index").unlink()
    assert damaged_at(directory, 10, is_clean=True) == 7


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_with_one_wrong_entry_is_made_again(tmp_path: Path, suffix: str) -> None:
    config = msgspec.structs.replace(CONFIG, index_interval_bytes=0)
    log = open_log(tmp_path, config)
    for number in range(4):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + 10 * number)
    log.close()
    path = log.directory / f"{0:020d}{suffix}"
    good = path.read_bytes()
    # The entry is still between its neighbours.
    spoil(path, 3 if suffix == ".index" else 7, 1)
    log = open_log(tmp_path, config, recovery_point=4, is_clean=True)
    assert [repair.kind for repair in log.repairs] == [RepairKind.INDEX_REBUILT]
    assert values_from(log, 1) == [b"1", b"2", b"3"]
    log.close()
    assert path.read_bytes() == good


def damaged_at(directory: Path, point: int, *, is_clean: bool = False) -> int | None:
    """The offset from which on a log cannot be trusted."""
    with pytest.raises(DamagedLog) as told:
        reopened(directory, point, is_clean=is_clean)
    return told.value.offset


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 3)


def lengthen_a_little(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(3))


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(24))


def outgrow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x00\x00\x7f\xff" * 6)


def scramble(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX])
@pytest.mark.parametrize(
    "damage", [remove, empty, tear, lengthen_a_little, lengthen, outgrow, scramble]
)
@pytest.mark.parametrize("is_clean", [True, False])
def test_an_index_that_is_damaged_is_made_again(
    tmp_path: Path, name: str, damage: Callable[[Path], None], is_clean: bool
) -> None:
    directory = written(tmp_path)
    before = contents(directory)
    damage(directory / name)
    log = reopened(directory, recovery_point=4, is_clean=is_clean)
    assert [tuple(repair)[:3] for repair in log.repairs] == [(RepairKind.INDEX_REBUILT, 0, 0)]
    log.close()
    assert contents(directory) == before


def test_the_index_of_the_active_segment_is_made_again(tmp_path: Path) -> None:
    """After kill -9 it has room for entries that were never written."""
    log = open_log(tmp_path, CONFIG)
    for number in range(11):
        append(log, b"%d" % (number % 10))
    assert os.path.getsize(log.directory / f"{8:020d}.index") == CONFIG.segment_index_bytes
    log = reopened(log.directory, recovery_point=8)
    assert log.repairs == ()
    assert append(log, b"x") == 11
    log.close()
    assert os.path.getsize(log.directory / f"{8:020d}.index") == 8


def test_files_that_belong_to_no_segment_are_removed(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = contents(directory)
    for is_clean in (True, False):
        for suffix in (".index", ".timeindex", ".log.deleted", ".log.cleaned", ".snapshot"):
            (directory / f"{77:020d}{suffix}").write_bytes(b"left over")
        assert reopened(directory, is_clean=is_clean).repairs == ()
        assert contents(directory).keys() == before.keys()


def test_a_cleaning_that_did_not_end_is_left_to_kafka(tmp_path: Path) -> None:
    directory = written(tmp_path)
    (directory / f"{4:020d}.log.swap").write_bytes(b"")
    with pytest.raises(DamagedLog, match="left over from an interrupted log cleaning") as told:
        reopened(directory)
    assert told.value.offset is None


@pytest.mark.parametrize("size", [1, 40, 9000])
def test_messages_of_old_formats_are_refused_and_kept(tmp_path: Path, size: int) -> None:
    directory = written(tmp_path)
    path = directory / f"{8:020d}.log"
    path.write_bytes(old_message(b"x" * size, offset=8))
    before = contents(directory)
    for is_clean in (False, True):
        with pytest.raises(DamagedLog, match=f"format 1 .*{path.name} at byte 0") as told:
            reopened(directory, is_clean=is_clean)
        assert told.value.offset is None
        assert contents(directory)[path.name] == before[path.name]


def test_epochs_are_found_again_in_the_batches(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = (directory / LEADER_EPOCH_CHECKPOINT).read_bytes()
    assert before == b"0\n4\n0 0\n1 3\n2 6\n3 9\n"
    for text in (None, "", "0\nmany\n"):
        (directory / LEADER_EPOCH_CHECKPOINT).unlink()
        if text is not None:
            (directory / LEADER_EPOCH_CHECKPOINT).write_text(text)
        log = reopened(directory, is_clean=True)
        assert [repair.kind for repair in log.repairs] == [RepairKind.EPOCHS_REBUILT]
        log.close()
        assert (directory / LEADER_EPOCH_CHECKPOINT).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "offset"), [("0\n4\n0 0\n1 3\n2 7\n3 9\n", 6), ("0\n3\n0 0\n1 3\n3 9\n", 6)]
)
def test_epochs_that_contradict_the_batches_take_the_log_offline(
    tmp_path: Path, text: str, offset: int
) -> None:
    directory = written(tmp_path)
    (directory / LEADER_EPOCH_CHECKPOINT).write_text(text)
    assert damaged_at(directory, 10, is_clean=True) == offset
    assert damaged_at(directory, 8) == offset


def test_a_log_start_that_is_ahead_of_the_first_epoch_is_not_believed(tmp_path: Path) -> None:
    """It would hide records."""
    directory = written(tmp_path)
    log = SegmentLog(directory, CONFIG, now_ms=NOW_MS, known=Known(5, 10, 10, is_clean=True))
    assert [repair.kind for repair in log.repairs] == [RepairKind.LOG_START_MOVED]
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)


def test_a_log_start_offset_that_was_not_checkpointed_is_logged_after_a_clean_stop(
    tmp_path: Path,
) -> None:
    directory = written(tmp_path)
    log = reopened(directory)
    log.increment_log_start_offset(5)
    log.close()
    moved = [(RepairKind.LOG_START_MOVED, 0)]
    for is_clean, known_start, start, repairs in (
        (False, None, 5, []),
        (True, 0, 0, moved),
        (False, 0, 0, []),
    ):
        (directory / LEADER_EPOCH_CHECKPOINT).write_text("0\n3\n1 5\n2 6\n3 9\n")
        known = Known(known_start, 10, 10, is_clean=is_clean)
        log = SegmentLog(directory, CONFIG, now_ms=NOW_MS, known=known)
        assert log.log_start_offset == start
        assert [tuple(repair)[:2] for repair in log.repairs] == repairs
        log.close()


def damage(path: Path, at: int, value: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:at] + value + data[at + len(value) :])
