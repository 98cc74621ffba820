"""What a log finds when it is opened: torn tails, spoilt batches, indexes that are gone or lie."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from brokers.logs.errors import CorruptRecord, LogStorageError, UnsupportedMessageFormat
from brokers.logs.log_config import LogConfig
from brokers.logs.recovery import RepairKind
from brokers.logs.segment_log import SegmentLog
from tests.unit.brokers.logs.batches import NOW_MS, append, batch, open_log, values_from

ONE = len(batch(b"0"))
CONFIG = LogConfig(index_interval_bytes=2 * ONE, segment_bytes=4 * ONE)
LOG, INDEX, TIME_INDEX = (f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex"))


def written(folder: Path, batches: int = 10) -> Path:
    """The directory of a closed log: a batch of one record an offset, four batches a segment."""
    log = open_log(folder, CONFIG)
    for number in range(batches):
        append(log, b"%d" % (number % 10), epoch=number // 3, timestamp_ms=NOW_MS + number)
    log.close()
    return log.directory


def reopened(directory: Path, recovery_point: int = 0, *, is_clean: bool = False) -> SegmentLog:
    return open_log(directory.parent, CONFIG, recovery_point=recovery_point, is_clean=is_clean)


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_nothing_is_repaired_that_is_whole(tmp_path: Path) -> None:
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


def test_a_byte_spoilt_anywhere_leaves_the_batches_before_it(tmp_path: Path) -> None:
    """But for an offset that rises as a cleaned log's do, and the leader epoch, which the CRC does
    not cover."""
    directory = written(tmp_path, batches=3)
    data = (directory / LOG).read_bytes()
    for at in range(len(data)):
        if at % ONE not in (5, 6, 7, 12, 13, 14, 15):
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


def test_what_follows_a_spoilt_batch_goes_with_it(tmp_path: Path) -> None:
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


def test_what_was_flushed_is_never_cut(tmp_path: Path) -> None:
    directory = written(tmp_path)
    spoil(directory / LOG, ONE + 16)
    before = (directory / LOG).read_bytes()
    for is_clean, recovery_point in ((True, 10), (False, 4), (False, 9)):
        log = reopened(directory, recovery_point, is_clean=is_clean)
        assert log.log_end_offset == 10
        assert (directory / LOG).read_bytes() == before
        assert len(log.read(0, 10 * ONE)) == ONE
        with pytest.raises(
            CorruptRecord, match=rf"magic .* \(file .*{LOG} at byte {ONE}\)"
        ) as told:
            log.read(1, 10 * ONE)
        assert told.value.hint == "another replica may still have these records"
        assert values_from(log, 4) == [b"4", b"5", b"6", b"7", b"8", b"9"]
        with pytest.raises(CorruptRecord):
            log.intervals()


def test_a_clean_stop_that_was_none_is_repaired_and_told(tmp_path: Path) -> None:
    directory = written(tmp_path)
    os.truncate(directory / f"{8:020d}.log", ONE + 10)
    log = reopened(directory, recovery_point=10, is_clean=True)
    assert [tuple(repair)[:3] for repair in log.repairs] == [
        (RepairKind.INDEX_REBUILT, 8, 0),
        (RepairKind.TAIL_CUT, 8, 10),
    ]
    assert log.log_end_offset == log.recovery_point == 9


def remove(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    os.truncate(path, 0)


def tear(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 3)


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(24))


def outgrow(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\x00\x00\x7f\xff" * 6)


def scramble(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX])
@pytest.mark.parametrize("damage", [remove, empty, tear, lengthen, outgrow, scramble])
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


def test_what_belongs_to_no_segment_is_removed(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = contents(directory)
    for suffix in (".index", ".timeindex", ".log.deleted", ".log.cleaned", ".snapshot"):
        (directory / f"{77:020d}{suffix}").write_bytes(b"left over")
    assert reopened(directory, is_clean=True).repairs == ()
    assert contents(directory).keys() == before.keys()


def test_a_cleaning_that_did_not_end_is_left_to_kafka(tmp_path: Path) -> None:
    directory = written(tmp_path)
    (directory / f"{4:020d}.log.swap").write_bytes(b"")
    with pytest.raises(LogStorageError, match="log cleaning that did not end"):
        reopened(directory)


def test_messages_of_old_formats_are_refused_and_kept(tmp_path: Path) -> None:
    directory = written(tmp_path)
    path = directory / f"{8:020d}.log"
    data = path.read_bytes()
    path.write_bytes(data[:16] + b"\x01" + data[17:])
    before = contents(directory)
    for is_clean in (False, True):
        with pytest.raises(UnsupportedMessageFormat, match="format 1"):
            reopened(directory, is_clean=is_clean)
        assert contents(directory)[path.name] == before[path.name]


def test_epochs_are_found_again_in_the_batches(tmp_path: Path) -> None:
    directory = written(tmp_path)
    before = (directory / "leader-epoch-checkpoint").read_bytes()
    assert before == b"0\n4\n0 0\n1 3\n2 6\n3 9\n"
    (directory / "leader-epoch-checkpoint").unlink()
    reopened(directory, is_clean=True).close()
    assert (directory / "leader-epoch-checkpoint").read_bytes() == before


def test_a_log_that_ends_before_its_start_begins_anew(tmp_path: Path) -> None:
    directory = written(tmp_path)
    log = SegmentLog(directory, CONFIG, now_ms=NOW_MS, log_start_offset=50, is_clean=True)
    assert [repair.kind for repair in log.repairs] == [RepairKind.SEGMENT_DELETED] * 3
    assert (log.log_start_offset, log.log_end_offset, log.base_offsets) == (50, 50, (50,))


def spoil(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
