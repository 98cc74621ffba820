"""klamm up rotates its journal and Kafka's logs, and klamm.log is bounded."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

from klamm.cli import own_log
from klamm.world.journal.rotated_files import LogLines, rotated
from tests.disk_limits import files_limited_to
from tests.serving import klamm_up
from tests.waiting import wait_until


@pytest.mark.slow
def test_what_was_rotated_is_read_by_the_commands_and_the_api(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    log = tmp_path / "logs" / "broker-0" / "state-change.log"
    options = ("--brokers", "1", "--journal-segment-bytes", "1024", "--journal-fsync")
    with klamm_up(tmp_path, *options) as up:
        create = ("topics", "--bootstrap-server", up.url.removeprefix("http://"), "--create")
        up.ok(*create, "--topic", "first", "--partitions", "12", "--replication-factor", "1")
        wait_until(lambda: any(name.is_compressed for name in rotated(path)))
        tail = up.ok("journal", "tail", "-n", "10000", "--json").splitlines()
        assert "\nfirst-3: OnlinePartition, leader 0" in up.ok("explain", "first-3")
        up.end()
    assert rotated(path)
    assert rotated(log)
    rows = [msgspec.json.decode(line) for line in LogLines(path)]
    assert [msgspec.json.decode(line) for line in tail] == rows[: len(tail)]
    assert rows[0]["kind"] == "run_start"
    seqs = [row["seq"] for row in rows if row["epoch"] == 1]
    assert seqs == list(range(1, len(seqs) + 1))


def test_klamm_log_is_bounded_and_complains_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(own_log, "FILE_BYTES", 10_000)
    path = tmp_path / "klamm.log"
    handler = own_log.OwnLog(path)
    for number in range(1_000):
        handler.handle(warning(f"warning {number} {'x' * 90}"))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "klamm.log",
        *(f"klamm.log.{number}" for number in range(1, own_log.OLD_FILES + 1)),
    ]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 41_000
    with files_limited_to(path.stat().st_size):
        for _ in range(3):
            handler.handle(warning("lost"))
    handler.handle(warning("there again"))
    handler.close()
    complaints = capsys.readouterr().err.splitlines()
    assert complaints == [f"warning: {path} cannot be written: File too large"]
    assert path.read_text().splitlines()[-1].endswith(" WARNING klamm: there again")


def warning(text: str) -> logging.LogRecord:
    return logging.LogRecord("klamm", logging.WARNING, __file__, 1, text, None, None)
