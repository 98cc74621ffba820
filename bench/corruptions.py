"""``python -m bench.corruptions``: damages segment log files and looks for wrong contents.

Each case takes the log directory of a broker that stopped (cleanly or not), damages one file chosen
by its seed, opens the directory again and reads, searches, truncates and appends. Damage may cost
availability, never correctness: reads must return the written records, and flushed records may only
be missing if a repair, an offline replica, an offline directory or an error reports it. Exit code 1
if a case served wrong contents, lost records silently or raised an exception that is not klamm's.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from klamm.brokers.followers.follower import append_fetched
from klamm.brokers.logs.checkpoints import MetaProperties
from klamm.brokers.logs.errors import CorruptRecord
from klamm.brokers.logs.file_log_store import FileLogStore
from klamm.brokers.logs.log_config import LogConfig
from klamm.brokers.logs.log_dirs import LogDirs
from klamm.brokers.logs.log_manager import LogManager, LogsReport
from klamm.brokers.logs.record_batch import checked_batches
from klamm.brokers.logs.records import decode_batch, encode_batch
from klamm.brokers.logs.segment_log import SegmentLog
from klamm.cluster.errors import KlammError
from klamm.cluster.records import EpochEndOffset, Record
from klamm.cluster.types import TopicPartition

NOW_MS = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=1500, segment_index_bytes=1200, index_interval_bytes=200)
OWNER = MetaProperties("a-cluster", 1)
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
SUFFIXES = (".log", ".index", ".timeindex")
FAILURES = ("wrong", "lost", "crashed")
_BATCHES = 40
_DIR = "d0"


class Written(NamedTuple):
    """Expected contents of one log: start, flushed end, records (value, timestamp in ms, leader
    epoch) by offset, all batches as a leader has them, and the end of each epoch."""

    start: int
    flushed_end: int
    records: list[tuple[bytes, int, int]]
    batches: list[bytes]
    epoch_ends: dict[int, EpochEndOffset]


class Template(NamedTuple):
    """A log directory as a broker left it, and its expected contents."""

    folder: Path
    written: dict[TopicPartition, Written]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the verdicts."""
    parser = argparse.ArgumentParser(prog="python -m bench.corruptions", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="(%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (%(default)s)")
    options = parser.parse_args(arguments)
    logging.disable(logging.ERROR)  # a directory that goes offline is a verdict here
    with tempfile.TemporaryDirectory(prefix="klamm-corruptions-") as folder:
        found = run(Path(folder), range(options.first, options.first + options.cases))
    for line in table(found):
        print(line)
    failed = [case for case in found if case.verdict in FAILURES]
    for case in failed:
        print(f"FAILED: seed {case.seed}: {case.target} {case.damage}: {case.verdict}: {case.why}")
    return 1 if failed else 0


class Case(NamedTuple):
    """The result of one case. ``verdict``: see ``table``."""

    seed: int
    target: str
    damage: str
    verdict: str
    why: str


def run(folder: Path, seeds: Sequence[int]) -> list[Case]:
    """Run one case per seed, in ``folder``."""
    templates = [_write(folder / name, is_clean=name == "clean") for name in ("clean", "killed")]
    return [_run_case(folder / "case", templates[seed % 2], seed) for seed in seeds]


def table(found: Sequence[Case]) -> list[str]:
    """Return a text table of verdicts by kind of file and damage.

    same: nothing was noticed and everything is right; repaired: a repair or a complaint was
    reported; offline: the replica was, and its restored log is right; directory: it went offline or
    the broker refused to start; error: reading the damaged place raised CORRUPT_MESSAGE; wrong,
    lost and crashed are failures.
    """
    verdicts = ("same", "repaired", "offline", "directory", "error", *FAILURES)
    counts: Counter[tuple[str, str, str]] = Counter()
    for case in found:
        for row in ((case.target, case.damage), ("all", "")):
            counts[(*row, case.verdict)] += 1
    rows = sorted({key[:2] for key in counts}, key=lambda row: (row[0] == "all", row))
    lines = [f"{'file':34}{'damage':12}" + "".join(f"{name:>10}" for name in verdicts)]
    for row in rows:
        shown = "".join(f"{counts[(*row, name)] or '.':>10}" for name in verdicts)
        lines.append(f"{row[0]:34}{row[1]:12}{shown}")
    return lines


# -- what is damaged


def _write(folder: Path, *, is_clean: bool) -> Template:
    manager = _manager(folder)
    manager.startup(OWNER, NOW_MS)
    dice = random.Random(7)
    contents: dict[TopicPartition, list[bytes]] = {tp: [] for tp in PARTITIONS}
    high_watermarks: dict[TopicPartition, int] = {}
    flushed: dict[TopicPartition, int] = {}
    for number in range(_BATCHES):
        for tp in PARTITIONS:
            log = manager.get_or_create(tp, NOW_MS, is_new=True)
            assert isinstance(log, SegmentLog)
            if number == 0:
                log.assign_topic_id("KCQ2jcUUQY2hcpS0zUO8Yg")
            end = log.log_end_offset
            log.append_as_leader(_batch(dice, tp, number), number // 7, NOW_MS + number)
            contents[tp].append(log.read(end, 1))
            if tp.partition == 2 and number == _BATCHES // 2:
                log.increment_log_start_offset(end - 3)
            high_watermarks[tp] = end
        if number == _BATCHES - 4:
            manager.checkpoint_logs()
            manager.checkpoint_high_watermarks(high_watermarks)
            flushed = {tp: _current(manager, tp).recovery_point for tp in PARTITIONS}
    written = {
        tp: _written(_current(manager, tp), contents[tp], None if is_clean else flushed[tp])
        for tp in PARTITIONS
    }
    if is_clean:
        manager.checkpoint_high_watermarks(high_watermarks)
        manager.shutdown()
    else:
        manager.abandon()
    return Template(folder, written)


def _batch(dice: random.Random, tp: TopicPartition, number: int) -> bytes:
    count = 1 + number % 5
    records = [
        Record(NOW_MS + 10 * number + at, b"k", b"%s %d %d " % (str(tp).encode(), number, at) * 4)
        for at in range(count)
    ]
    if tp.partition == 1:
        base_sequence = sum(1 + before % 5 for before in range(number))
        return encode_batch(
            records, "gzip", producer_id=5, producer_epoch=0, base_sequence=base_sequence
        )
    return encode_batch(records, dice.choice(("none", "none", "gzip")))


def _written(log: SegmentLog, batches: list[bytes], flushed_end: int | None) -> Written:
    records = [
        (record.value or b"", record.timestamp_ms, header.leader_epoch)
        for batch in batches
        for _, header in checked_batches(batch)
        for _, record in decode_batch(batch, header)
    ]
    ends = {epoch: log.end_offset_for(epoch) for epoch in range(-1, 8)}
    end = log.log_end_offset if flushed_end is None else flushed_end
    return Written(log.log_start_offset, end, records, batches, ends)


# -- damage


def _damage(folder: Path, dice: random.Random) -> tuple[str, str]:
    """Damage one file; return the kind of file and of damage."""
    kinds = sorted({_kind(path) for path in folder.rglob("*") if _is_target(path)})
    # As many cases for .log files as for all other files together.
    kind = dice.choice([*kinds, *[".log"] * len(kinds)])
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and _kind(path) == kind)
    path = dice.choice([one for one in paths if _is_target(one)])
    name = dice.choice(sorted(_DAMAGES))
    _DAMAGES[name](path, dice)
    return kind, name


def _is_target(path: Path) -> bool:
    return path.is_file() and path.name != ".lock"


def _kind(path: Path) -> str:
    return path.suffix if path.suffix in SUFFIXES else path.name


def _flip(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(dice.choice((1, 1, 1, 3)) if data else 0):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def _flip_header(path: Path, dice: random.Random) -> None:
    """Damage bytes of a batch that no CRC covers; in other files the first bytes."""
    data = bytearray(path.read_bytes())
    position, starts = 0, []
    while path.suffix == ".log" and position + 61 <= len(data):
        starts.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    if data:
        at = dice.choice(starts or [0]) + dice.randrange(17)
        data[min(at, len(data) - 1)] ^= 1 << dice.randrange(8)
    path.write_bytes(data)


def _zero(path: Path, dice: random.Random) -> None:
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data) + 1)
    length = min(dice.choice((1, 16, 512)), len(data) - at)
    data[at : at + length] = bytes(length)
    path.write_bytes(data)


def _truncate(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: dice.randrange(len(data) + 1)])


def _extend(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    tail = dice.choice((bytes(100), dice.randbytes(100), data[: dice.randrange(len(data) + 1)]))
    path.write_bytes(data + tail)


def _swap(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    first, middle, last = sorted(dice.randrange(len(data) + 1) for _ in range(3))
    path.write_bytes(data[:first] + data[middle:last] + data[first:middle] + data[last:])


def _duplicate(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    first, last = sorted(dice.randrange(len(data) + 1) for _ in range(2))
    path.write_bytes(data[:last] + data[first:last] + data[last:])


def _delete(path: Path, _: random.Random) -> None:
    path.unlink()


def _rename(path: Path, dice: random.Random) -> None:
    digits = path.name.partition(".")[0]
    shifted = f"{int(digits) + dice.randrange(1, 9):020d}{path.suffix}" if digits.isdigit() else ""
    path.rename(path.with_name(dice.choice((path.name + ".bak", shifted or path.name + "~"))))


def _empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "bits": _flip,
    "header": _flip_header,
    "zeros": _zero,
    "truncated": _truncate,
    "extended": _extend,
    "swapped": _swap,
    "duplicated": _duplicate,
    "deleted": _delete,
    "renamed": _rename,
    "emptied": _empty,
}


# -- what is served


class _Untrue(Exception):
    """A case failed: its verdict and why."""


def _run_case(folder: Path, template: Template, seed: int) -> Case:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template.folder, folder)
    target, damage = _damage(folder, random.Random(seed))
    try:
        verdict, why = _judge(folder, template), ""
    except _Untrue as error:
        verdict, why = error.args
    except Exception as error:  # any exception is the result of this case
        verdict, why = "crashed", f"{type(error).__name__}: {error}"
    return Case(seed, target, damage, verdict, why)


def _manager(folder: Path) -> LogManager:
    return LogManager(LogDirs([_DIR]), FileLogStore(folder), lambda topic: CONFIG)


def _current(manager: LogManager, tp: TopicPartition) -> SegmentLog:
    log = manager.dirs.current(tp)
    assert isinstance(log, SegmentLog)
    return log


def _judge(folder: Path, template: Template) -> str:
    manager = _manager(folder)
    try:
        report = manager.startup(OWNER, NOW_MS)
    except KlammError:
        return "directory"
    verdicts = set()
    try:
        for tp, written in template.written.items():
            verdicts.add(_judge_log(manager, report, tp, written))
    finally:
        manager.abandon()
    order = ("error", "offline", "repaired", "same")
    return next(verdict for verdict in order if verdict in verdicts)


def _judge_log(
    manager: LogManager, report: LogsReport, tp: TopicPartition, written: Written
) -> str:
    if tp in report.damaged:
        if manager.dirs.current(tp) is not None:
            raise _Untrue("wrong", f"{tp} is damaged and served")
        manager.restore(tp, NOW_MS)
        log = _current(manager, tp)
        _check_reads(log, written)
        _check_refetch(log, written)
        return "offline"
    log = manager.dirs.current(tp)
    repairs = [repair for partition, repair in report.repairs if partition == tp]
    is_reported = bool(repairs or report.complaints)
    if not isinstance(log, SegmentLog):
        raise _Untrue("lost", f"{tp} is gone")
    if not is_reported and log.log_start_offset > written.start:
        raise _Untrue("lost", f"{tp} starts at {log.log_start_offset}, not {written.start}")
    if not is_reported and log.log_end_offset < written.flushed_end:
        raise _Untrue("lost", f"{tp} ends at {log.log_end_offset}, not {written.flushed_end}")
    has_errors = _check_reads(log, written)
    if not has_errors:
        _check_searches(log, written, is_reported=is_reported)
        _check_refetch(log, written)
    return "error" if has_errors else "repaired" if is_reported else "same"


def _check_reads(log: SegmentLog, written: Written) -> bool:
    """Read everything; True if a read or a CRC said that something is corrupt."""
    has_errors, offset = False, log.log_start_offset
    if log.log_end_offset > len(written.records):
        raise _Untrue("wrong", f"{log.name} ends at {log.log_end_offset}")
    while offset < log.log_end_offset:
        try:
            records = log.read(offset, 300)
            for position, header in checked_batches(records):
                if not header.base_offset <= offset:
                    raise _Untrue("wrong", f"{log.name} skips {offset}")
                batch = records[position : position + header.size_bytes]
                for stored in decode_batch(batch, header):
                    value, ms, epoch = written.records[stored.offset]
                    found = (stored.record.value, stored.record.timestamp_ms, header.leader_epoch)
                    if found != (value, ms, epoch):
                        raise _Untrue("wrong", f"{log.name} at {stored.offset}: {found}")
                offset = header.next_offset
        except CorruptRecord:
            has_errors = True
            offset += 1
    return has_errors


def _check_searches(log: SegmentLog, written: Written, *, is_reported: bool) -> None:
    for offset in range(log.log_start_offset, log.log_end_offset, 5):
        ms = written.records[offset][1]
        found = log.offset_for_time(ms)
        first = next(
            at
            for at in range(log.log_start_offset, log.log_end_offset)
            if written.records[at][1] >= ms
        )
        if found is None or found.offset != first:
            raise _Untrue("wrong", f"{log.name}: time of {offset} is found at {found}, not {first}")
    is_whole = log.log_end_offset == len(written.records)
    if is_whole and log.log_start_offset == written.start and not is_reported:
        for epoch, expected in written.epoch_ends.items():
            if log.end_offset_for(epoch) != expected:
                raise _Untrue("wrong", f"{log.name}: epoch {epoch}: {log.end_offset_for(epoch)}")


def _check_refetch(log: SegmentLog, written: Written) -> None:
    """Truncate as a follower does, and fetch the rest from the leader."""
    end, start = log.log_end_offset, log.log_start_offset
    log.truncate_to(start + (end - start) * 2 // 3)
    for batch in written.batches:
        ((_, header),) = checked_batches(batch)
        if header.next_offset > log.log_end_offset:
            append_fetched(log, batch)
    _check_whole(log, written)


def _check_whole(log: SegmentLog, written: Written) -> None:
    if _check_reads(log, written) or log.log_end_offset != len(written.records):
        raise _Untrue("wrong", f"{log.name} ends at {log.log_end_offset} after a refetch")
    if (epoch := log.latest_epoch) != written.records[-1][2]:
        raise _Untrue("wrong", f"{log.name} has epoch {epoch} after a refetch")


if __name__ == "__main__":
    sys.exit(main())
