"""Kafka 2.8.2 and klamm read each other's segments: DumpLogSegments finds no fault in klamm's
files, and klamm reads what Kafka's own log wrote, records and offsets equal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bench.kafka.locate import SKIP_REASON, compile_java, run_tool
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.record_batch import COMPRESSIONS
from klamm.brokers.logs.records import encode_batch
from klamm.brokers.logs.recovery import Known
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.cluster.errors import EnvironmentProblem
from klamm.cluster.records import Record
from klamm.world.kafka.jars import kafka_libs
from tests.unit.brokers.logs.batches import decode_batches

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]
DUMP = "kafka.tools.DumpLogSegments"
SOURCE = Path(__file__).parents[2] / "bench/kafka/segments/KafkaLog.java"
NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=8_000, index_interval_bytes=400, segment_index_bytes=4_096)
KAFKAS = LogConfig(segment_bytes=20_000, index_interval_bytes=1_000, segment_index_bytes=4_096)
SEGMENT_FILE = re.compile(r"\d{20}\.(log|index|timeindex)")
OFFSET = re.compile(r"^\| offset: (\d+) .* payload: (.*)$", re.MULTILINE)


def opened(directory: Path, config: LogConfig = CONFIG, *, is_clean: bool = False) -> SegmentLog:
    return SegmentLog(directory, config, now_ms=NOW_MS, known=Known(is_clean=is_clean))


def fill(log: SegmentLog, batches: int, step_ms: int = 10, first_epoch: int = 0) -> None:
    """Append batches of every compression, one to four records each, in several epochs."""
    for number in range(batches):
        text = f"record-{log.log_end_offset} " * 20
        records = [
            Record(NOW_MS + step_ms * number + one, None, text.encode())
            for one in range(1 + number % 4)
        ]
        produced = encode_batch(records, COMPRESSIONS[number % len(COMPRESSIONS)])
        log.append_as_leader(produced, first_epoch + number // 10, NOW_MS)


def rolled_by_size(directory: Path) -> None:
    log = opened(directory)
    fill(log, 150)
    assert len(log.base_offsets) > 3
    log.close()


def rolled_by_time(directory: Path) -> None:
    log = opened(directory, LogConfig(segment_ms=150, index_interval_bytes=0))
    fill(log, 40)
    assert len(log.base_offsets) > 2
    log.close()


def truncated(directory: Path) -> None:
    log = opened(directory)
    fill(log, 150)
    log.truncate_to(log.log_end_offset // 2)
    fill(log, 20, step_ms=1_000, first_epoch=20)
    log.close()


def recovered(directory: Path) -> None:
    log = opened(directory)
    fill(log, 150)
    path = directory / f"{log.base_offsets[-1]:020d}.log"
    os.truncate(path, path.stat().st_size - 7)
    log = opened(directory)
    assert log.repairs
    fill(log, 5, step_ms=1_000, first_epoch=20)
    log.close()


def replicated(directory: Path) -> None:
    """What a follower fetched, many batches at once."""
    leader = opened(directory.parent / "leader-0")
    fill(leader, 150)
    follower = opened(directory)
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(leader.read(follower.log_end_offset, 3_000))
    follower.close()
    leader.close()


def compressed_anew(directory: Path) -> None:
    """What the leader compresses otherwise than its producers do."""
    compression_id = COMPRESSIONS.index("zstd")
    log = opened(directory, msgspec.structs.replace(CONFIG, compression_id=compression_id))
    fill(log, 50)
    log.close()


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Directories of closed logs, each with another past."""
    folder = tmp_path_factory.mktemp("klamm")
    makers = (rolled_by_size, rolled_by_time, truncated, recovered, replicated, compressed_anew)
    for number, make in enumerate(makers):
        make(folder / f"{make.__name__}-{number}")
    return sorted(path for path in folder.iterdir() if not path.name.startswith("leader"))


def dump(logs: list[Path], *flags: str) -> str:
    """What DumpLogSegments prints of every segment file; it must not complain."""
    files = sorted(
        str(path) for log in logs for path in log.iterdir() if SEGMENT_FILE.fullmatch(path.name)
    )
    done = run_tool(DUMP, [*flags, "--files", ",".join(files)])
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Dumping ") == len(files)
    for complaint in ("invalid bytes", "isvalid: false", "isValid: false", "Exception"):
        assert complaint not in done.stdout
    return done.stdout


def records_of(log: SegmentLog) -> Iterator[tuple[int, str]]:
    offset = log.log_start_offset
    while batches := log.read(offset, 1 << 20):
        for offset, record in decode_batches(batches):
            yield offset, (record.value or b"").decode()
        offset += 1


def test_kafka_finds_no_fault_in_the_indexes(logs: list[Path]) -> None:
    printed = dump(logs, "--deep-iteration", "--index-sanity-check")
    verdicts = printed.count("passed sanity check.") + printed.count(" is empty.")
    assert verdicts == 2 * printed.count("Starting offset: ")
    assert printed.count("passed sanity check.") > 20
    assert "Mismatch" not in dump(logs, "--deep-iteration")


def test_kafka_prints_every_record(logs: list[Path]) -> None:
    printed = dump(logs, "--deep-iteration", "--print-data-log")
    assert {f"compresscodec: {name.upper()}" in printed for name in COMPRESSIONS} == {True}
    expected = [record for path in logs for record in records_of(opened(path, is_clean=True))]
    assert [(int(offset), value) for offset, value in OFFSET.findall(printed)] == expected


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kafka's own log, compiled to be called from here."""
    folder = tmp_path_factory.mktemp("classes")
    try:
        compile_java([SOURCE], folder)
    except EnvironmentProblem as problem:
        pytest.skip(str(problem))
    return folder


def kafka_log(classes: Path, *args: str) -> list[list[str]]:
    done = run_tool("KafkaLog", args, classes=classes)
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def as_kafka_prints(log: SegmentLog) -> Iterator[list[str]]:
    """What KafkaLog.java prints of the same log."""
    epoch = -1 if log.latest_epoch is None else log.latest_epoch
    numbers = (log.log_start_offset, log.log_end_offset, epoch, len(log.base_offsets))
    yield ["log", *map(str, numbers)]
    offset = log.log_start_offset
    while batches := log.read(offset, 1 << 20):
        for offset, (timestamp_ms, key, value, headers) in decode_batches(batches):
            (epochs,) = {
                one.leader_epoch for one in log.intervals() if one.start <= offset < one.end
            }
            fields = [str(offset), str(timestamp_ms), str(epochs), in_hex(key), in_hex(value)]
            pairs = [text for header in headers for text in (header.key, in_hex(header.value))]
            yield ["record", *fields, *pairs]
        offset += 1


def in_hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_klamm_and_kafka_go_on_with_each_others_log(
    tmp_path: Path, classes: Path, stop: str
) -> None:
    directory = tmp_path / "t-0"
    by_kafka = kafka_log(classes, "write", str(directory))
    assert len(by_kafka) == 101
    indexes = {path: path.read_bytes() for path in directory.glob("*index")}
    log = opened(directory, KAFKAS, is_clean=stop == "clean")
    assert log.repairs == ()
    assert list(as_kafka_prints(log)) == by_kafka
    found = log.offset_for_time(NOW_MS + 20_000)
    late = (line[1] for line in by_kafka[1:] if int(line[2]) >= NOW_MS + 20_000)
    assert found is not None
    assert str(found.offset) == next(late)
    log.close()
    assert {path: path.read_bytes() for path in directory.glob("*index")} == indexes
    log = opened(directory, KAFKAS, is_clean=stop == "clean")
    fill(log, 30, step_ms=1_000, first_epoch=4)
    log.close()
    by_klamm = list(as_kafka_prints(log))
    assert kafka_log(classes, "open", str(directory), stop) == by_klamm
    log = opened(directory, KAFKAS, is_clean=stop == "clean")
    assert log.repairs == ()
    assert list(records_of(log))[-1] == (len(by_klamm) - 1, "kafka's")
    assert list(as_kafka_prints(log))[1:-1] == by_klamm[1:]
