"""The log of real files: offsets, rolls, lookups by offset and time, reads, cuts, retention."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import pytest

from klamm.brokers.logs.checkpoints import LEADER_EPOCH_CHECKPOINT
from klamm.brokers.logs.errors import (
    CorruptRecord,
    InvalidRecord,
    LogStorageError,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    RecordTooLarge,
)
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.record_batch import check_batches, place
from klamm.brokers.logs.replica_log import Appended
from klamm.brokers.logs.segment import LogSegment
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.cluster.records import EpochEndOffset, TimestampOffset
from tests.conformance.replica_logs import deleted_bytes
from tests.unit.brokers.logs.batches import (
    EVERY_BATCH_INDEXED,
    NOW_MS,
    append,
    batch,
    open_log,
    values_from,
)

ONE = len(batch(b"v"))


def files(log: SegmentLog) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(log.directory.iterdir())}


def test_consecutive_offsets_are_given_and_records_are_read_back(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert log.append_as_leader(batch(b"a", b"b"), 0, NOW_MS) == Appended(0, 1)
    assert log.append_as_leader(batch(b"c"), 0, NOW_MS) == Appended(2, 2)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (0, 3, 0)
    assert values_from(log, 0) == [b"a", b"b", b"c"]
    assert values_from(log, 1) == [b"b", b"c"]


def test_a_log_gives_the_time_of_appending_if_it_stamps_records(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(is_log_append_time=True))
    appended = log.append_as_leader(batch(b"a"), 0, NOW_MS + 5)
    assert appended == Appended(0, 0, log_append_time_ms=NOW_MS + 5)
    idempotent = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    appended = log.append_as_leader(idempotent, 0, NOW_MS + 6)
    again = log.append_as_leader(idempotent, 0, NOW_MS + 7)
    assert again == appended._replace(is_duplicate=True)
    assert again.log_append_time_ms == NOW_MS + 6


def test_the_index_entry_is_that_of_the_worked_example(tmp_path: Path) -> None:
    """Segment 00000000000000368769, entry (3,497): offset 368772 is found at byte 497."""
    first = batch(b"", b"", b"x" * (497 - len(batch(b"", b"", b"x" * 200)) + 200))
    assert len(first) == 497
    segment = LogSegment(
        str(tmp_path), 368769, LogConfig(index_interval_bytes=400), NOW_MS, LOCAL_DISK
    )
    segment.create()
    for offset, produced in ((368769, first), (368772, batch(b"the one"))):
        placed = place(produced, offset, 0)
        segment.append(placed, check_batches(placed), NOW_MS)
    index = tmp_path / "00000000000000368769.index"
    assert index.read_bytes()[:16] == struct.pack(">iiii", 3, 497, 0, 0)
    assert segment.offset_index.lookup(368772) == (368772, 497)
    found = segment.find(368772)
    assert found is not None
    assert (found.position, found.header.base_offset) == (497, 368772)


def test_index_entries_are_as_far_apart_as_configured(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=3 * ONE))
    for _ in range(12):
        append(log)
    log.close()
    index = (log.directory / "00000000000000000000.index").read_bytes()
    assert list(struct.iter_unpack(">ii", index)) == [(4, 4 * ONE), (8, 8 * ONE)]


def test_an_active_segment_has_room_in_its_indexes_and_a_rolled_one_has_none(
    tmp_path: Path,
) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * ONE, segment_index_bytes=100))
    for number in range(3):
        append(log, timestamp_ms=NOW_MS + number)
    assert files(log) == {
        "00000000000000000000.index": 0,
        "00000000000000000000.log": 2 * ONE,
        "00000000000000000000.timeindex": 12,
        "00000000000000000002.index": 96,
        "00000000000000000002.log": ONE,
        "00000000000000000002.timeindex": 96,
        "leader-epoch-checkpoint": 8,
    }
    assert log.recovery_point == 2
    log.close()
    assert files(log)["00000000000000000002.timeindex"] == 12
    assert log.recovery_point == 3


def test_a_log_rolls_by_time_by_the_batches_own_clock(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    for after_ms in (0, 1000, 1001, 2001, 2002):
        append(log, timestamp_ms=NOW_MS + after_ms)
    assert log.base_offsets == (0, 2, 4)
    log.close()
    log = open_log(tmp_path, LogConfig(segment_ms=1000), is_clean=True)
    append(log, timestamp_ms=NOW_MS + 3003)
    assert log.base_offsets == (0, 2, 4, 5)


def test_a_log_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    """One entry of the time index is kept for the segment's end."""
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=3 * 12))
    for number in range(8):
        append(log, timestamp_ms=NOW_MS + number)
    assert log.base_offsets == (0, 3, 6)


def test_reads_are_of_whole_batches_and_at_least_of_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    assert len(log.read(0, 1)) == ONE
    assert len(log.read(0, 2 * ONE + ONE // 2)) == 2 * ONE
    assert len(log.read(0, 10 * ONE, end_offset=2)) == 2 * ONE
    assert log.read(2, 10 * ONE, end_offset=2) == log.read(3, 10 * ONE) == b""
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange, match="only have log segments in the range 0 to 3"):
            log.read(offset, ONE)


def test_a_read_stays_in_one_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=2 * ONE))
    for _ in range(5):
        append(log)
    assert [len(log.read(offset, 100 * ONE)) // ONE for offset in range(5)] == [2, 1, 2, 1, 1]


def test_a_record_is_found_by_its_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(index_interval_bytes=0, segment_bytes=3 * ONE))
    for number in range(8):
        append(log, epoch=number // 4, timestamp_ms=NOW_MS + 10 * number)
    assert log.offset_for_time(NOW_MS - 1) == TimestampOffset(NOW_MS, 0, 0)
    assert log.offset_for_time(NOW_MS + 41) == TimestampOffset(NOW_MS + 50, 5, 1)
    assert log.offset_for_time(NOW_MS + 70) == TimestampOffset(NOW_MS + 70, 7, 1)
    assert log.offset_for_time(NOW_MS + 71) is None
    log.increment_log_start_offset(2)
    assert log.offset_for_time(NOW_MS) == TimestampOffset(NOW_MS + 20, 2, 0)


def test_a_record_within_a_batch_is_found_by_its_time(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", timestamp_ms=NOW_MS)
    assert log.offset_for_time(NOW_MS + 1) == TimestampOffset(NOW_MS + 1, 1, 0)


def test_a_batch_that_a_leader_refuses_is_not_in_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=3 * ONE, max_message_bytes=5 * ONE))
    good = batch(b"v")
    refused: list[tuple[bytes, type[Exception], str]] = [
        (b"", InvalidRecord, "no batches at all"),
        (good + good, InvalidRecord, "more than one batch"),
        (good[:-1], CorruptRecord, "is cut off after"),
        (good[:-1] + b"?", CorruptRecord, "stored crc"),
        (place(good, 1, 0), InvalidRecord, "The baseOffset of the record batch .* should be 0"),
        (batch(b"x" * 5 * ONE), RecordTooLarge, "exceeds the maximum configured value"),
        (batch(b"x" * 3 * ONE), RecordBatchTooLarge, "maximum configured segment size"),
        (batch(b"v", producer_id=1, producer_epoch=0), InvalidRecord, "Invalid sequence number -1"),
    ]
    for produced, error, text in refused:
        with pytest.raises(error, match=text):
            log.append_as_leader(produced, 0, NOW_MS)
    assert (log.log_end_offset, log.size_bytes, log.intervals()) == (0, 0, ())


@pytest.mark.parametrize(
    ("at", "field", "text"),
    [
        (21, b"\x00\x20", "Clients are not allowed to write control records"),
        (21, b"\x00\x10", "Transactions are not supported by klamm"),
        (21, b"\x00\x05", "Unknown compression type id: 5"),
        (23, b"\x00\x00\x00\x01", r"offset range \[0, 1\] and count of records 1"),
        (57, b"\x00\x00\x00\x00", "Invalid reported count for record batch: 0"),
    ],
)
def test_a_whole_batch_that_no_producer_may_send_is_refused(
    tmp_path: Path, at: int, field: bytes, text: str
) -> None:
    good = batch(b"v")
    bad = good[:at] + field + good[at + len(field) :]
    bad = bad[:17] + google_crc32c.value(bad[21:]).to_bytes(4, "big") + bad[21:]
    with pytest.raises(InvalidRecord, match=rf"{text} in topic partition t-0\."):
        open_log(tmp_path).append_as_leader(bad, 0, NOW_MS)


def test_a_batch_that_is_sent_again_is_not_appended_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    first = batch(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    second = batch(b"c", producer_id=1, producer_epoch=0, base_sequence=2)
    third = batch(b"d", producer_id=1, producer_epoch=0, base_sequence=4)
    assert log.append_as_leader(first, 0, NOW_MS) == Appended(0, 1)
    assert log.append_as_leader(second, 0, NOW_MS) == Appended(2, 2)
    log = open_log(tmp_path)
    assert log.append_as_leader(first, 1, NOW_MS) == Appended(0, 1, is_duplicate=True)
    with pytest.raises(OutOfOrderSequence, match=r"4 \(incoming seq. number\), 2"):
        log.append_as_leader(third, 1, NOW_MS)
    log.truncate_to(2)
    assert log.append_as_leader(second, 1, NOW_MS) == Appended(2, 2)


def test_a_follower_stores_the_bytes_of_its_leader(tmp_path: Path) -> None:
    leader, follower = open_log(tmp_path / "1"), open_log(tmp_path / "2")
    for epoch, value in ((0, b"a"), (0, b"b"), (3, b"c")):
        append(leader, value, epoch=epoch)
    records = leader.read(0, 10 * ONE)
    with pytest.raises(CorruptRecord):
        follower.append_as_follower(records[:-1])
    follower.append_as_follower(b"")
    follower.append_as_follower(records)
    assert follower.read(0, 10 * ONE) == records


def test_a_log_is_truncated_across_segments_and_continues(tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=0, segment_bytes=2 * ONE)
    log = open_log(tmp_path, config)
    for number in range(7):
        append(log, str(number).encode(), epoch=number // 3, timestamp_ms=NOW_MS + number)
    log.flush()
    assert log.truncate_to(3) == 4
    assert (log.log_end_offset, log.recovery_point, log.base_offsets) == (3, 3, (0, 2))
    assert log.latest_epoch == 0
    assert log.offset_for_time(NOW_MS + 3) is None
    append(log, b"new", epoch=5, timestamp_ms=NOW_MS + 3)
    log.close()
    log = open_log(tmp_path, config, is_clean=True)
    assert log.repairs == ()
    assert values_from(log, 0) == [b"0", b"1", b"2", b"new"]
    assert log.offset_for_time(NOW_MS + 3) == TimestampOffset(NOW_MS + 3, 3, 5)
    assert log.truncate_to(4) == 0


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_cut_mends_the_indexes_of_its_segment(tmp_path: Path, suffix: str) -> None:
    config = LogConfig(index_interval_bytes=0, segment_bytes=4 * ONE)
    log = open_log(tmp_path, config)
    for number in range(5):
        append(log, b"%d" % number, timestamp_ms=NOW_MS + number)
    (log.directory / f"{0:020d}{suffix}").write_bytes(b"")
    log.truncate_to(3)
    append(log, b"new", timestamp_ms=NOW_MS + 9)
    log.close()
    log = open_log(tmp_path, config, is_clean=True)
    assert log.repairs == ()
    assert values_from(log, 0) == [b"0", b"1", b"2", b"new"]
    assert log.offset_for_time(NOW_MS + 3) == TimestampOffset(NOW_MS + 9, 3, 0)


def test_a_cut_within_a_batch_takes_all_of_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b", b"c", b"d")
    assert log.truncate_to(2) == 3
    assert log.log_end_offset == 1


@pytest.mark.parametrize("is_compacted", [False, True])
def test_only_a_compacted_log_may_lack_an_offset(tmp_path: Path, is_compacted: bool) -> None:
    policy = ("compact" if is_compacted else "delete",)
    config = LogConfig(segment_bytes=3 * ONE, cleanup_policy=policy)
    log = open_log(tmp_path, config)
    for value in (b"a", b"b", b"c", b"d"):
        append(log, value)
    file = min(log.directory.glob("*.log"))
    stored = file.read_bytes()
    file.write_bytes(stored[:ONE] + stored[2 * ONE :])
    assert values_from(log, 2) == [b"c", b"d"]
    if is_compacted:
        assert values_from(log, 1) == [b"c", b"d"]
    else:
        with pytest.raises(CorruptRecord, match="Offset 1 is missing"):
            log.read(1, 10 * ONE)


def test_a_log_can_restart_at_another_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", epoch=1)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (100, 100, 0)
    assert (log.size_bytes, log.latest_epoch, log.base_offsets) == (0, None, (100,))
    assert append(log, b"b", epoch=2) == 100
    assert log.truncate_to(50) == 51
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)


def test_recovery_points_are_lowered_before_records_are_removed(tmp_path: Path) -> None:
    """A crash between the two leaves no log that ends before its recovery point."""
    log = open_log(tmp_path)
    for number in range(3):
        append(log, b"a", b"b", epoch=number)
    log.flush()
    lowered: list[tuple[int, int, int]] = []

    def lower() -> None:
        size_bytes = (log.directory / f"{0:020d}.log").stat().st_size
        lowered.append((log.log_start_offset, log.recovery_point, size_bytes))

    log.on_recovery_point_lowered = lower
    size_bytes = log.size_bytes
    log.truncate_to(5)
    assert (log.log_end_offset, lowered) == (4, [(0, 4, size_bytes)])
    left_bytes = log.size_bytes
    append(log, b"c")
    log.truncate_to(4)
    assert len(lowered) == 1, "nothing above 4 had been flushed"
    log.truncate_fully_and_start_at(9)
    assert lowered[1:] == [(0, 0, left_bytes)]


def test_a_log_start_is_no_lower_bound_within_a_batch(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a", b"b", b"c", epoch=1)
    append(log, b"d", epoch=2)
    assert log.increment_log_start_offset(2)
    assert [(one.leader_epoch, one.start, one.end) for one in log.intervals()] == [
        (1, 2, 3),
        (2, 3, 4),
    ]
    assert log.recovery_point == 2, "what lies before the start needs no recovery"


def test_the_log_start_rises_before_its_first_files_are_removed(tmp_path: Path) -> None:
    """After a crash between the two, the missing files would count as lost."""
    log = open_log(tmp_path, LogConfig(segment_bytes=ONE, retention_bytes=0))
    for number in range(3):
        append(log, epoch=number)
    (log.directory / f"{0:020d}.timeindex.deleted").mkdir()
    with pytest.raises(LogStorageError):
        log.delete_old(NOW_MS, 2)
    assert (log.directory / f"{0:020d}.log").exists()
    assert (log.directory / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n1\n2 2\n"


def test_old_segments_are_deleted_up_to_the_high_watermark(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2 * ONE, retention_ms=1000, file_delete_delay_ms=500)
    log = open_log(tmp_path, config)
    for number in range(6):
        append(log, timestamp_ms=NOW_MS + 100 * number, epoch=number)
    late_ms = NOW_MS + 10_000
    assert log.delete_old(NOW_MS + 1100, 6) == NOW_MS + 1101
    assert deleted_bytes(log, late_ms, 3) == 2 * ONE
    assert (log.log_start_offset, log.base_offsets) == (2, (2, 4))
    assert log.end_offset_for(1) == EpochEndOffset(1, 2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, ONE)
    assert "00000000000000000000.log.deleted" in files(log)
    assert deleted_bytes(log, late_ms + 500, 6) == 4 * ONE
    assert "00000000000000000000.log.deleted" not in files(log)
    assert (log.log_start_offset, log.log_end_offset, log.base_offsets) == (6, 6, (6,))
    assert deleted_bytes(log, late_ms * 2, 6) == 0


def test_a_renamed_log_continues(tmp_path: Path) -> None:
    log = open_log(tmp_path, EVERY_BATCH_INDEXED)
    append(log, b"a")
    log.rename_dir("t-0." + "0" * 32 + "-delete")
    append(log, b"b", epoch=1)
    assert values_from(log, 0) == [b"a", b"b"]
    assert [path.name for path in tmp_path.iterdir()] == ["t-0." + "0" * 32 + "-delete"]
    assert log.truncate_to(1) == 1
    append(log, b"c", epoch=2)
    assert (log.directory / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n2\n0 0\n2 1\n"
    log.config = LogConfig(retention_bytes=0, file_delete_delay_ms=100)
    assert deleted_bytes(log, NOW_MS, 2) == 2 * ONE
    log.rename_dir("t-0")
    log.delete_old(NOW_MS + 100, 2)
    assert [name for name in files(log) if name.endswith(".deleted")] == []


def test_an_epoch_that_cannot_be_written_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.directory.rename(tmp_path / "moved away")
    with pytest.raises(LogStorageError, match=str(log.directory / LEADER_EPOCH_CHECKPOINT)):
        log.start_epoch(1)


def test_a_log_keeps_no_file_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    logs = [open_log(tmp_path / str(number)) for number in range(20)]
    for log in logs:
        append(log)
        values_from(log, 0)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
