"""world/journal/: disks that refuse, torn last lines, kill -9."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from klamm.brokers.storage.disk import LOCAL_DISK
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import JournalRow, Kind
from klamm.world.clock import WallClock
from klamm.world.journal import line_file
from klamm.world.journal.journal import FileJournal, MemoryJournal, read_journal
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.journal.line_file import LineFile
from tests.disk_limits import files_limited_to
from tests.waiting import wait_until

WRITER = """
import sys
from pathlib import Path
from klamm.cluster.journal import JournalRow
from klamm.world.journal.journal import FileJournal

journal = FileJournal(Path(sys.argv[1]))
rows = [JournalRow(1, "run", 5, seq, 1, 2, "event", detail="x" * 300) for seq in range(3000)]
while True:
    journal.append(rows)
    journal.flush()
"""


def a_row(seq: int, kind: str = Kind.EVENT, size: int = 40) -> JournalRow:
    return JournalRow(1, "run", 1_000 + seq, seq, 1, 2, kind, detail="d" * size)


def seqs(path: Path) -> list[int]:
    return [row.seq for row in read_journal(path) if row.kind == Kind.EVENT]


def test_rows_that_the_disk_refuses_are_kept_and_neither_torn_nor_doubled(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    journal.append([a_row(1)])
    journal.flush()
    limit = path.stat().st_size * 3 // 2
    with files_limited_to(limit):
        journal.append([a_row(2), a_row(3)])
        with pytest.raises(JournalUnwritable, match=r"journal\.jsonl cannot be written") as raised:
            journal.flush()
        assert raised.value.hint is not None and str(tmp_path) in raised.value.hint
        assert path.stat().st_size == limit  # half a row is there
        with pytest.raises(JournalUnwritable):
            journal.append([a_row(4)])
        assert journal.failure is not None
        assert not journal.retry()
    assert journal.retry()
    assert journal.failure is None
    journal.append([a_row(5)])
    journal.close()
    assert seqs(path) == [1, 2, 3, 4, 5]


def test_rows_beyond_the_limit_are_counted_in_a_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path, max_pending_bytes=1_000)
    journal.append([a_row(1)])
    journal.flush()
    with files_limited_to(path.stat().st_size):
        journal.append([a_row(2)])
        refused_flush(journal)
        for seq in range(3, 50):
            # After the first lost row smaller ones would fit, but leave a second gap.
            refused(journal, a_row(seq, size=900 if seq == 5 else 40))
        with pytest.raises(JournalUnwritable):
            journal.append([a_row(50), a_row(51)])
    assert journal.retry()
    journal.append([a_row(52)])
    journal.flush()
    with files_limited_to(path.stat().st_size):
        journal.append([a_row(53)])
        refused_flush(journal)
        refused(journal, a_row(54))
    assert journal.retry()
    journal.close()
    rows = read_journal(path)
    lost = next(row for row in rows if row.kind == Kind.JOURNAL_ROWS_LOST)
    count = msgspec.json.decode(str(lost.detail))["rows"]
    kept = [row.seq for row in rows[: rows.index(lost)]]
    assert (kept, count) == ([1, 2, 3, 4], 47)
    # The next failure has room for as many rows again.
    assert [row.seq for row in rows[rows.index(lost) + 1 :]] == [52, 53, 54]
    assert (lost.run_id, lost.t_ms) == ("run", 1_051)


def refused_flush(file: FileJournal | LineFile) -> None:
    with pytest.raises(JournalUnwritable):
        file.flush()


def refused(journal: FileJournal, row: JournalRow) -> None:
    with pytest.raises(JournalUnwritable):
        journal.append([row])


def test_a_journal_that_stays_unwritable_is_closed_and_says_what_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    with files_limited_to(10):
        journal.append([a_row(1), a_row(2)])
        refused_flush(journal)
        journal.close()
        journal.close()
    assert caplog.text.count("journal.jsonl: 2 lines are lost") == 1
    assert path.stat().st_size == 10
    again = FileJournal(path)
    again.append([a_row(3)])
    again.close()
    assert [row.kind for row in read_journal(path)] == [Kind.EVENT, Kind.JOURNAL_REPAIRED]


def test_a_journal_that_is_closed_when_the_disk_works_again_has_what_was_pending(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path, max_pending_bytes=500)
    with files_limited_to(10):
        journal.append([a_row(1), a_row(2)])
        refused_flush(journal)
        refused(journal, a_row(3, size=500))
    journal.close()
    kinds = [row.kind for row in read_journal(path)]
    assert kinds == [Kind.EVENT, Kind.EVENT, Kind.JOURNAL_ROWS_LOST]


def test_a_torn_last_row_is_cut_and_reported_by_a_row(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    row = msgspec.json.encode(a_row(1))
    path.write_bytes(row + b"\n" + row[:30])
    journal = FileJournal(path)
    journal.append([msgspec.structs.replace(a_row(2, Kind.RUN_START), cluster_id="c")])
    journal.close()
    first, start, repaired = read_journal(path)
    assert (first.kind, start.kind) == (Kind.EVENT, Kind.RUN_START)
    assert (repaired.kind, repaired.detail) == (Kind.JOURNAL_REPAIRED, '{"cut_bytes":30}')
    assert (repaired.run_id, repaired.t_ms, repaired.controller) == ("run", 1_002, -2)
    assert (repaired.seq, repaired.epoch, repaired.cluster_id) == (1, 0, "c")


def test_a_last_row_that_lacks_only_its_newline_is_completed(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_bytes(msgspec.json.encode(a_row(1)))
    journal = FileJournal(path)
    journal.append([a_row(2)])
    journal.close()
    assert [row.seq for row in read_journal(path)] == [1, 2]


def test_a_last_line_that_is_too_long_to_be_read_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "some.log"
    for limit, left in ((5, b"line\nwhole\n"), (4, b"line\n")):
        path.write_bytes(b"line\nwhole")
        monkeypatch.setattr(line_file, "_MAX_TAIL_BYTES", limit)
        LineFile(path, is_whole=lambda _: True).close()
        assert path.read_bytes() == left


def test_a_closed_file_takes_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    file = LineFile(path)
    file.append(b"before\n")
    file.close()
    file.append(b"after\n")
    file.flush()
    file.close()
    assert path.read_bytes() == b"before\n"


def test_rows_survive_a_disk_that_does_not_take_them_at_an_fsync(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path, is_fsynced=True)
    journal.append([a_row(1)])
    journal.flush()
    with files_limited_to(path.stat().st_size + 20):
        journal.append([a_row(2)])
        refused_flush(journal)
    assert journal.retry()
    journal.close()
    assert seqs(path) == [1, 2]


def test_kill_9_in_the_middle_of_a_write_leaves_whole_rows(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    for kill in range(1, 4):
        before = path.stat().st_size if path.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        try:
            grows_beyond(path, before + 2_000_000)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        journal = FileJournal(path)
        journal.append([a_row(kill, Kind.RUN_START)])
        journal.close()
        rows = read_journal(path)
        assert len(rows) == path.read_bytes().count(b"\n")
        assert len([row for row in rows if row.kind == Kind.RUN_START]) == kill


def test_a_truncated_file_is_appended_to_nevertheless(tmp_path: Path) -> None:
    path = tmp_path / "some.log"
    file = LineFile(path)
    file.append(b"one\ntwo\n")
    file.flush()
    with files_limited_to(path.stat().st_size + 2):
        file.append(b"three\n")
        refused_flush(file)
        path.write_bytes(b"one\ntw")
    assert file.retry()
    file.close()
    assert path.read_bytes() == b"one\nthree\n"


def test_kafka_logs_keep_their_lines_and_the_controller_its_thread(tmp_path: Path) -> None:
    logs = KafkaLogs(tmp_path, WallClock(), "INFO")
    log = logs.open(1)
    log.info("first")
    path = tmp_path / "broker-1" / "controller.log"
    with files_limited_to(path.stat().st_size + 5):
        log.info("second")
        log.info("third")
        assert logs.failure is not None and "controller.log" in str(logs.failure)
        assert not logs.retry()
    assert logs.retry()
    assert logs.failure is None
    logs.close()
    lines = path.read_text().splitlines()
    assert [line.split("] ")[-1].split(" ")[0] for line in lines] == ["first", "second", "third"]


def test_rows_in_memory_are_kept_while_they_are_refused() -> None:
    journal = MemoryJournal()
    journal.append([a_row(1)])
    journal.flush()
    for number in (2, 3):
        journal.refuse("no space")
        for write in (lambda number=number: journal.append([a_row(number)]), journal.flush):
            with pytest.raises(JournalUnwritable, match="the journal cannot be written: no space"):
                write()
        assert not journal.retry()
        journal.accept()
        assert journal.failure is not None, "it is over with the next retry"
        assert len(journal.rows) == number - 1
        assert journal.retry()
        assert journal.failure is None
        assert [row.seq for row in journal.rows] == [*range(1, number + 1)]
    journal.append([a_row(4)])
    assert [row.seq for row in journal.rows] == [1, 2, 3, 4]


def test_damaged_rows_are_skipped_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = FileJournal(path)
    journal.append([])
    journal.append([a_row(1), a_row(2)])
    journal.close()
    assert seqs(path) == [1, 2]
    assert caplog.text == ""
    path.write_bytes(b"{\n" + path.read_bytes() + b"\xff\n")
    assert seqs(path) == [1, 2]
    assert "2 damaged lines are skipped" in caplog.text


@pytest.mark.parametrize("level", ["INFO", "TRACE"])
def test_kafka_logs_take_any_text_of_their_level(tmp_path: Path, level: str) -> None:
    logs = KafkaLogs(tmp_path, WallClock(), level)
    log = logs.open(1)
    assert log.is_trace == (level == "TRACE")
    log.info("a\ud800b")
    logs.close()
    log.info("after")
    text = (tmp_path / "broker-1" / "controller.log").read_text()
    assert text.endswith("a\\ud800b (kafka.controller.KafkaController)\n")


def test_each_log_is_written_as_soon_as_its_own_disk_works(tmp_path: Path) -> None:
    disk = FaultyDisk(LOCAL_DISK, random.Random(0))
    logs = KafkaLogs(tmp_path, WallClock(), "INFO", disk=disk)
    paths = [tmp_path / f"broker-{broker_id}" / "controller.log" for broker_id in (1, 2)]
    opened = [logs.open(broker_id) for broker_id in (1, 2)]
    for path, log in zip(paths, opened, strict=True):
        disk.arm(path, DiskFault(FaultKind.EIO))
        log.info("late")
    disk.heal(paths[1])
    assert not logs.retry()
    assert logs.failure is not None and str(paths[0]) in logs.failure.message
    assert "late" in paths[1].read_text()
    disk.heal_all()
    assert logs.retry() and "late" in paths[0].read_text()
    logs.close()


def test_kafka_logs_without_a_usable_folder_report_it(tmp_path: Path) -> None:
    (tmp_path / "broker-1").write_text("a file")
    with pytest.raises(JournalUnwritable, match=r"cannot create .*broker-1: File exists"):
        KafkaLogs(tmp_path, WallClock(), "INFO").open(1)


def grows_beyond(path: Path, size_bytes: int) -> None:
    wait_until(lambda: path.exists() and path.stat().st_size > size_bytes)
