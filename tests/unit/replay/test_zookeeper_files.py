"""Which ZooKeeper files there are, what they lack, and which snapshot is a start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.sources.zookeeper_files import (
    ZxidRange,
    find_gaps,
    find_zookeeper_files,
    has_overlap,
    is_snapshot,
    is_txn_log,
    start_snapshot,
)

DATA = Path(__file__).parents[2] / "data/kafka_logs/trace/zookeeper"
VERSION_2 = DATA / "version-2"
EPOCH = 1 << 32


def stretch(first: int, last: int, file: str = "log.1") -> ZxidRange:
    return ZxidRange(first, last, file, 16)


def test_a_servers_directory_means_its_logs_and_snapshots() -> None:
    expected = ((VERSION_2 / "log.1",), (VERSION_2 / "snapshot.0",))
    assert find_zookeeper_files([DATA]) == expected
    assert find_zookeeper_files([VERSION_2]) == expected
    assert find_zookeeper_files([VERSION_2 / "snapshot.0", VERSION_2 / "log.1"]) == expected


def test_a_file_is_read_once_however_it_is_named() -> None:
    twice = [DATA, VERSION_2 / "log.1", VERSION_2 / ".." / "version-2" / "log.1"]
    assert find_zookeeper_files(twice).logs == (VERSION_2 / "log.1",)


def test_missing_files_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        find_zookeeper_files([tmp_path / "none"])
    with pytest.raises(UsageError, match="has no ZooKeeper transaction logs"):
        find_zookeeper_files([tmp_path])


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[2021-09-01 10:00:00,000] INFO", "is not a ZooK"), (b"ZKLG\0\0\0\x03", "is not a ZooK")],
)
def test_a_file_that_is_neither_log_nor_snapshot_is_refused(
    tmp_path: Path, content: bytes, words: str
) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=words):
        find_zookeeper_files([path])


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(b"ZKLG\0\0\0\x03" + b"\0" * 8)
    with pytest.raises(EnvironmentProblem, match="version 3"):
        find_zookeeper_files([path])


def test_an_empty_log_is_a_transaction_log(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(b"\0" * 1000)
    assert find_zookeeper_files([tmp_path]).logs == (path,)


def test_logs_and_snapshots_are_recognized(tmp_path: Path) -> None:
    log, snapshot = (VERSION_2 / name for name in ("log.1", "snapshot.0"))
    assert is_txn_log(log, log.read_bytes()[:100])
    assert not is_snapshot(log, log.read_bytes()[:100])
    assert is_snapshot(snapshot, snapshot.read_bytes()[:100])
    assert is_snapshot(tmp_path / "snapshot.4e.gz", b"\x1f\x8b\x08")
    assert is_snapshot(tmp_path / "snapshot.4e.snappy", b"\x82SNAPPY\0\0\0\0\1")
    assert not is_snapshot(tmp_path / "journal.jsonl.gz", b"\x1f\x8b\x08")
    assert is_txn_log(tmp_path / "log.4e", b"")
    assert not is_txn_log(tmp_path / "notes", b"")


def test_a_snapshot_may_have_another_name(tmp_path: Path) -> None:
    path = tmp_path / "backup"
    shutil.copy(VERSION_2 / "snapshot.0", path)
    assert find_zookeeper_files([path]).snapshots == (path,)


@pytest.mark.parametrize(
    ("stretches", "start", "missing"),
    [
        ([stretch(1, 10)], None, []),
        ([stretch(5, 10)], None, [(1, 4)]),
        ([stretch(5, 10)], 4, []),
        ([stretch(5, 10)], 7, []),
        ([stretch(5, 10)], 2, [(3, 4)]),
        ([stretch(1, 3), stretch(7, 9)], None, [(4, 6)]),
        ([stretch(7, 9), stretch(1, 3), stretch(2, 6)], None, []),
        ([stretch(1, 9), stretch(2, 3), stretch(11, 12)], None, [(10, 10)]),
        ([stretch(1, 9), stretch(EPOCH + 1, EPOCH + 4)], None, []),
        ([stretch(1, 9), stretch(EPOCH + 3, EPOCH + 4)], None, [(EPOCH + 1, EPOCH + 2)]),
        ([stretch(3 * EPOCH + 1, 3 * EPOCH + 4)], EPOCH, []),
        ([], None, []),
    ],
)
def test_missing_transactions_are_gaps(
    stretches: list[ZxidRange], start: int | None, missing: list[tuple[int, int]]
) -> None:
    gaps = find_gaps(stretches, start)
    assert [(gap.first_zxid, gap.last_zxid) for gap in gaps] == missing
    # Before the first of all nothing is known: older logs may have been taken away.
    assert [gap.is_between for gap in gaps] == [
        start is not None or first > 1 for first, _ in missing
    ]


def test_a_gap_is_described_in_words() -> None:
    (gap,) = find_gaps([stretch(1, 3), stretch(0x1F, 0x20, "log.1f")], None)
    assert (gap.file, gap.offset) == ("log.1f", 16)
    assert gap.text == "zxid 0x4 to 0x1e: 27 transactions"
    (gap,) = find_gaps([stretch(1, 3), stretch(5, 5)], None)
    assert gap.text == "zxid 0x4: 1 transaction"


@pytest.mark.parametrize(
    ("stretches", "expected"),
    [
        ([stretch(1, 3), stretch(4, 6)], False),
        ([stretch(4, 6), stretch(1, 4)], True),
        ([stretch(1, 9), stretch(2, 3), stretch(12, 13)], True),
        ([stretch(1, 3), stretch(1, 3)], True),
        ([], False),
    ],
)
def test_logs_with_common_transactions_overlap(stretches: list[ZxidRange], expected: bool) -> None:
    assert has_overlap(stretches) is expected


@pytest.mark.parametrize(
    ("first_zxid", "start"),
    [(1, "snapshot.0"), (0x11, "snapshot.10"), (0x12, "snapshot.2f"), (0x99, "snapshot.2f")],
)
def test_the_oldest_snapshot_that_holds_all_before_is_the_start(
    first_zxid: int, start: str
) -> None:
    snapshots = [Path("snapshot.2f"), Path("snapshot.0"), Path("snapshot.10")]
    assert start_snapshot(snapshots, first_zxid) == Path(start)
    assert start_snapshot(snapshots, None) == Path("snapshot.2f")
    assert start_snapshot([], first_zxid) is None
