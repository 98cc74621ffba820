"""Kafka's logs as a source: every row of real ones, in its place, whatever the files are like."""

from __future__ import annotations

import gzip
import itertools
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from klamm.replay.engines import Engine, rows
from klamm.replay.event_schema import EPOCH_SHIFT, LOG_LEVEL
from klamm.replay.event_table import open_table
from klamm.replay.ingest import make_table
from klamm.replay.questions.reassignments import reassignments
from klamm.replay.readings import readings
from klamm.replay.sources import LogSource, SourceOptions
from klamm.replay.sources.file_parts import FilePart
from klamm.replay.sources.kafka_log_files import plan
from klamm.replay.sources.kafka_logs import CONTROLLER, STATE_CHANGES
from klamm.replay.sources.registry import find_logs
from tests.spark.reading import At, read_source

DATA = Path(__file__).parents[1] / "data" / "kafka_logs"
MOVED = DATA / "trace/reassign_move_all/b0"
RESTARTED = DATA / "trace/rolling_restart"
LINE = "[2021-10-31 {time}] {level} [Controller id=1 epoch=2] {text} (state.change.logger)\n"
ONLINE = "Changed state of replica 1 for partition t-0 from NewReplica to OnlineReplica"
Read = Callable[..., tuple[list[At], list[At]]]


@pytest.fixture(scope="module")
def read(duckdb: Engine) -> Read:
    """Events in their order, without rows about levels, and damaged lines."""

    def reading(
        source: LogSource, *paths: Path, **options: str | None
    ) -> tuple[list[At], list[At]]:
        found = read_source(duckdb, source, paths, SourceOptions(**options))
        return [row for row in found.events if row.kind != LOG_LEVEL], found.damaged

    return reading


def log(path: Path, *texts: str, level: str = "TRACE", time: str = "10:15:42,007") -> Path:
    path.write_text("".join(LINE.format(time=time, level=level, text=text) for text in texts))
    return path


def test_every_row_of_real_logs(read: Read) -> None:
    rows, damaged = read(STATE_CHANGES, *sorted(DATA.rglob("state-change.log")))
    assert damaged == []
    assert Counter((row.run.split("/")[0], row.kind) for row in rows) == {
        ("trace", "partition_transition"): 24,
        ("trace", "replica_transition"): 105,
        ("trace", "isr_removed"): 23,
        ("trace", "leader_epoch_bumped"): 1,
        ("info", "partition_transition"): 14,
        ("info", "isr_removed"): 16,
        ("info", "leader_epoch_bumped"): 2,
    }
    assert {row.to_state for row in rows if row.run.startswith("info")} == {
        None,
        "NewPartition",
        "OnlinePartition",
    }
    rows, damaged = read(CONTROLLER, *sorted(DATA.rglob("controller.log")))
    assert damaged == []
    assert Counter(row.kind for row in rows) == {
        "controller_elected": 9,
        "controller_ready": 9,
        "controller_resigned": 2,
        "broker_online": 22,
        "broker_offline": 6,
        "event": 17,
        "isr_changed": 22,
        "leader_epoch_bumped": 3,
        "partition_snapshot": 8,
        "leadership_seen": 18,
        "replica_snapshot": 24,
        "reassignment_phase": 8,
        "topic_created": 6,
        "topic_deleted": 1,
        "topic_deletion_halted": 1,
        "topic_deletion_started": 2,
    }


def test_a_row_says_where_it_stands(read: Read) -> None:
    path = MOVED / "state-change.log"
    rows, _ = read(STATE_CHANGES, path)
    assert len(rows) == 22
    lines = path.read_text().splitlines()
    for row in rows:
        said = f"[Controller id={row.controller} epoch={row.epoch}]"
        assert said in lines[row.line - 1] and f"{row.topic}-{row.partition}" in lines[row.line - 1]
        assert row.file == str(path)
        assert row.place == row.epoch << EPOCH_SHIFT | row.seq
        assert row.seq == sum(len(line) + 1 for line in lines[: row.line - 1])
    elected = next(row for row in rows if row.leader == 2)
    assert (elected.t_ms, elected.isr, elected.zk_version) == (1795247887664, [0, 1, 2, 3], 4)


@pytest.mark.parametrize(("source", "part_bytes"), [(STATE_CHANGES, 7_000), (CONTROLLER, 2_000)])
def test_a_log_that_is_read_in_parts_has_the_rows_of_the_whole(
    duckdb: Engine,
    source: LogSource,
    part_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    read: Read,
) -> None:
    paths = sorted(RESTARTED.rglob(source.name))
    whole, _ = read(source, *paths)
    tasks = plan(duckdb, paths, run=None, zone=None, part_bytes=part_bytes)
    parts = [part for task in tasks for part in task]
    assert len(parts) > 12 and len({part.part.file for part in parts}) == 3
    assert all(len(task) == 1 or sum(size(p.part) for p in task) <= part_bytes for task in tasks)
    monkeypatch.setattr("klamm.replay.sources.kafka_logs.part_size", lambda *_: part_bytes)
    cut, damaged = read(source, *paths)
    assert damaged == []
    assert cut == whole


def size(part: FilePart) -> int:
    return part.end - part.begin


@pytest.mark.parametrize("source", [STATE_CHANGES, CONTROLLER], ids=["state changes", "controller"])
def test_rotated_and_compressed_files_are_as_one(
    source: LogSource, tmp_path: Path, read: Read
) -> None:
    whole = RESTARTED / "b0" / source.name
    expected, _ = read(source, whole, run="r")
    lines = whole.read_bytes().splitlines(keepends=True)
    third = len(lines) // 3
    oldest = tmp_path / f"{source.name}.2026-11-21-06.gz"
    oldest.write_bytes(gzip.compress(b"".join(lines[:third])))
    older = tmp_path / f"{source.name}.2026-11-21-07"
    older.write_bytes(b"".join(lines[third : 2 * third]))
    newest = tmp_path / source.name
    newest.write_bytes(b"".join(lines[2 * third :]))
    found, damaged = read(source, newest, older, oldest, run="r")
    assert damaged == []
    lines_before = {str(oldest): 0, str(older): third, str(newest): 2 * third}
    assert [{**row.as_dict(), "file": "", "line": 0} for row in found] == [
        {**row.as_dict(), "file": "", "line": 0} for row in expected
    ]
    assert [row.line + lines_before[row.file] for row in found] == [row.line for row in expected]


def test_brokers_of_a_run_do_not_share_places(read: Read) -> None:
    rows, _ = read(STATE_CHANGES, *sorted(RESTARTED.rglob("state-change.log")))
    assert {row.run for row in rows} == {"rolling_restart"}
    assert len({row.seq for row in rows}) == len(rows) == 73
    assert [(row.epoch, row.controller) for row in rows] == sorted(
        (row.epoch, row.controller) for row in rows
    )


def test_the_time_zone_is_given(tmp_path: Path, read: Read) -> None:
    path = log(tmp_path / "state-change.log", ONLINE, time="01:30:00,007")
    [utc], _ = read(STATE_CHANGES, path)
    [berlin], _ = read(STATE_CHANGES, path, timezone="Europe/Berlin")
    assert utc.t_ms - berlin.t_ms == 2 * 3_600_000 and utc.t_ms % 1000 == 7


def test_the_hour_that_the_end_of_summer_time_repeats_is_told_apart(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state-change.log"
    texts = [
        LINE.format(time=f"{hour:02}:{minute:02}:00,000", level="TRACE", text=ONLINE)
        for hour in (1, 2, 2, 3)
        for minute in range(60)
    ]
    path.write_text("".join(texts))
    # However small parts are, none begins within the hour.
    monkeypatch.setattr("klamm.replay.sources.kafka_logs.part_size", lambda *_: 3_000)
    rows, damaged = read(STATE_CHANGES, path, timezone="Europe/Berlin")
    assert damaged == []
    steps = {after.t_ms - row.t_ms for row, after in itertools.pairwise(rows)}
    assert (len(rows), steps) == (240, {60_000})
    path.write_text("".join(texts[:90]))
    rows, [doubt] = read(STATE_CHANGES, path, timezone="Europe/Berlin")
    assert len(rows) == 90
    assert (doubt.line, doubt.problem) == (61, "ambiguous local time")


def damages(damaged: list[At]) -> list[tuple[int, str]]:
    return [(row.line, row.problem) for row in damaged]


def test_damaged_lines_are_reported_and_the_rest_is_read(tmp_path: Path, read: Read) -> None:
    path = log(tmp_path / "state-change.log", *[ONLINE] * 8)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[0] = lines[0][60:]
    lines[1] = lines[1][:60] + b"\n"
    lines[3] = lines[3].replace(b"Changed state", b"Altered state")
    lines[4] = lines[4].replace(b"t-0", b"t-0\xff")
    lines[5] = lines[5].replace(b"10-31", b"13-31")
    lines[6] = b"\x00\x01\x02\n"
    lines[7] = lines[7][:-20]
    path.write_bytes(b"".join(lines).replace(b"\n", b"\r\n"))
    rows, damaged = read(STATE_CHANGES, path)
    assert [row.line for row in rows] == [3]
    assert damages(damaged) == [
        (1, "cut line"),
        (2, "cut line"),
        (4, "unknown line: Controller Altered state of replica"),
        (5, "not utf-8"),
        (5, "unknown line: Controller Changed state of replica"),
        (6, "no such local time"),
        (7, "not a log line"),
        (8, "cut line"),
    ]
    assert all(row.source == "state-change.log" and row.file == str(path) for row in damaged)


@pytest.mark.parametrize("digits", [f"{2**31}", "9" * 5000])
def test_a_line_with_a_number_that_is_too_large_is_damaged(
    tmp_path: Path, read: Read, digits: str
) -> None:
    path = log(tmp_path / "state-change.log", *[ONLINE] * 5)
    lines = path.read_text().splitlines(keepends=True)
    for number, text in enumerate(["id=", "epoch=", "replica ", "t-"]):
        lines[number] = re.sub(rf"(?<={text})\d", digits, lines[number])
    path.write_text("".join(lines))
    rows, damaged = read(STATE_CHANGES, path)
    assert [row.line for row in rows] == [5]
    assert damages(damaged) == [(line, "number too large") for line in range(1, 5)]


def test_a_truncated_gzip_file(tmp_path: Path, read: Read) -> None:
    texts = [f"{ONLINE[:-13]}{'Online' * (n % 7)}Replica" for n in range(3000)]
    data = gzip.compress(log(tmp_path / "x", *texts, ONLINE).read_bytes())
    path = tmp_path / "state-change.log.2021-10-31-10.gz"
    path.write_bytes(gzip.compress(log(tmp_path / "y", *[ONLINE] * 5000).read_bytes())[:-200])
    rows, damaged = read(STATE_CHANGES, path)
    assert 0 < len(rows) < 5000 and {row.line for row in rows} == set(range(1, len(rows) + 1))
    assert damages(damaged)[-1] == (len(rows) + 1, "truncated gzip, rest of the file unread")
    path.write_bytes(data[: len(data) // 2] + b"garbage" + data[len(data) // 2 :])
    _, damaged = read(STATE_CHANGES, path)
    assert "damaged gzip, rest of the file unread" in {row.problem for row in damaged}


def test_a_log_in_utf_8_with_a_mark_is_read_and_one_in_utf_16_is_damaged(
    tmp_path: Path, read: Read
) -> None:
    path = log(tmp_path / "state-change.log", ONLINE)
    text = path.read_text()
    path.write_text(text, encoding="utf-8-sig")
    assert len(read(STATE_CHANGES, path)[0]) == 1
    path.write_text(text, encoding="utf-16")
    rows, damaged = read(STATE_CHANGES, path)
    assert (rows, damages(damaged)) == ([], [(1, "utf-16")])


def test_another_version_and_another_log(tmp_path: Path, read: Read) -> None:
    old = (
        "[2016-01-02 10:00:00,000] TRACE Controller 1 epoch 1 changed partition [t,0] state from "
        "NewPartition to OnlinePartition with leader 1 (state.change.logger)\n"
    )
    path = tmp_path / "state-change.log"
    path.write_text(old * 3)
    rows, damaged = read(STATE_CHANGES, path)
    assert rows == []
    assert Counter(row.problem for row in damaged) == {"unknown line: Controller": 3}
    path.write_text("[2021-09-01 10:00:00,000] INFO started (kafka.server.KafkaServer)\n" * 3)
    rows, damaged = read(STATE_CHANGES, path)
    assert (rows, damages(damaged)) == ([], [(1, "other logger")])


def test_an_empty_log_beside_others(tmp_path: Path, read: Read) -> None:
    path = log(tmp_path / "state-change.log.1", ONLINE)
    empty = tmp_path / "state-change.log"
    empty.touch()
    rows, damaged = read(STATE_CHANGES, empty, path)
    assert (len(rows), damaged) == (1, [])


def test_the_registry_finds_them_by_name_or_content(tmp_path: Path) -> None:
    shutil.copytree(MOVED, tmp_path / "b0")
    (tmp_path / "b0" / "state-change.log").rename(tmp_path / "b0" / "copied.txt")
    (tmp_path / "b0" / "server.log").write_text("[2021-09-01 10:00:00,000] INFO x (kafka.X)\n")
    found = {files.source.name: [p.name for p in files.paths] for files in find_logs([tmp_path])}
    assert found == {"state-change.log": ["copied.txt"], "controller.log": ["controller.log"]}


BOTH = {
    "info": "both Kafka logs, state-change.log at INFO",
    "trace": "both Kafka logs, at TRACE",
}


@pytest.mark.parametrize("level", BOTH)
def test_both_logs_of_a_run_have_one_level(level: str, duckdb: Engine, tmp_path: Path) -> None:
    make_table(duckdb, [DATA / level / "rolling_restart/b0"], tmp_path / "table")
    assert readings(open_table(duckdb, tmp_path / "table")) == {"kafka logs": {BOTH[level]}}


def test_the_level_of_each_log_says_what_it_can_tell(engine: Engine, tmp_path: Path) -> None:
    names = ("state-change.log", "controller.log")
    paths = [
        DATA / level / "rolling_restart/b0" / name for name in names for level in ("info", "trace")
    ]
    make_table(engine, paths, tmp_path / "table")
    assert readings(open_table(engine, tmp_path / "table")) == {"kafka logs": set(BOTH.values())}
    for number, level in ((0, "INFO"), (1, "TRACE")):
        folder = tmp_path / level
        make_table(engine, [paths[number], paths[2 + 1 - number]], folder)
        assert readings(open_table(engine, folder)) == {
            "state-change.log": {f"state-change.log at {level}"},
            "controller.log": {"controller.log at DEBUG or TRACE"},
        }


def test_reassignments_of_real_logs_end(duckdb: Engine, tmp_path: Path) -> None:
    paths = [MOVED / "controller.log", DATA / "info/api_reassign_cancel/b0/controller.log"]
    make_table(duckdb, paths, tmp_path / "table")
    found = reassignments(open_table(duckdb, tmp_path / "table").events)
    ordered = rows(duckdb, f"SELECT * FROM ({found}) ORDER BY start_ms")
    assert [(row["status"], row["end_ms"] - row["start_ms"]) for row in ordered] == [
        ("done", 672),
        ("cancelled", 15_816),
    ]
