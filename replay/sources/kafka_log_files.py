"""Kafka's log files: which belong to one broker and one cluster, in which order they were written,
and where they can be cut for Spark's tasks.

A part begins with a record, so that stack traces stay with their lines; it knows the number of its
first line, how much of the run precedes it and, in controller.log, the epoch that its broker was in
charge of. Finding that out reads each file once, without a look at most of its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from klamm.cluster.errors import UsageError
from klamm.cluster.rotated_names import parse_rotated
from klamm.replay.event_schema import EPOCH_SHIFT
from klamm.replay.local_time import is_ambiguous
from klamm.replay.sources.file_parts import CutShort, FilePart, compression_of, read_part

NAMES: Final = ("state-change.log", "controller.log")
_SCANS_AT_ONCE: Final = 64
_date = re.compile(
    r"[._-]?(\d{4}-\d\d-\d\d(?:[-_T]\d\d(?:[-_:]?\d\d)?)?)(?:[.-](\d{1,4}))?(?=\.|$)"
).search
_number = re.compile(r"\.(\d{1,4})$").search
_record = re.compile(
    rb"^\[(\d{4}-\d\d-\d\d \d\d:\d\d):\d\d,\d{3}\] "
    rb"(?![A-Z]+ \[Controller id=\d+\] Successfully updated assignment)",
    re.MULTILINE,
)
_epoch = re.compile(
    rb"^\[[^]\n]+\] [A-Z]+ \[(?:Controller id|ControllerEventThread controllerId)=\d+\] (?:"
    rb"\d+ successfully elected as the controller\. Epoch incremented to (\d+) |"
    rb"Epoch incremented to (\d+) |Ready to serve as the new controller with epoch (\d+) |"
    rb"Resigned \(|Starting \()",
    re.MULTILINE,
)
_MARKS: Final = (
    b"poch incremented to ",
    b"] Ready to serve ",
    b"] Resigned (",
    b"] Starting (kafka.controller.ControllerEventManager",
)
_UPDATING: Final = b"] Updating assignment of partition "


class LogPart(NamedTuple):
    """A part of one file. ``before``: bytes of the run that precede it, uncompressed. ``epoch``:
    what ControllerLines begins with, as is ``names_updates``."""

    part: FilePart
    run: str
    before: int
    epoch: int
    names_updates: bool


class _Cut(NamedTuple):
    """Where a part begins: the byte, the lines before it, the epoch there (None: as the file
    began)."""

    begin: int
    lines: int
    epoch: int | None


class _Scan(NamedTuple):
    """What a file is like: its size without compression, where it can be cut, the epoch at its
    end (None: as it began), whether new assignments are announced."""

    size: int
    cuts: tuple[_Cut, ...]
    last_epoch: int | None
    names_updates: bool


def plan(
    spark: SparkSession,
    paths: Sequence[Path],
    *,
    run: str | None,
    zone: str | None,
    part_bytes: int,
) -> list[list[LogPart]]:
    """Files in parts, those of one task together, in the order in which they were written.

    Raises UsageError for more logs of a run than places can tell apart.
    """
    groups = [group for _, group in sorted(files_of_brokers(paths).items())]
    names = dict(zip(paths, run_names(paths), strict=True))
    ordered = [path for group in groups for path in group]
    tasks = spark.sparkContext.parallelize(ordered, min(len(ordered), _SCANS_AT_ONCE) or 1)
    scanned = tasks.map(lambda path: _scan(path, zone, part_bytes)).collect()
    scans = dict(zip(ordered, scanned, strict=True))
    parts = []
    before: dict[str, int] = {}
    for group in groups:
        epoch = 0
        names_updates = any(scans[path].names_updates for path in group)
        for path in group:
            scan, name = scans[path], run or names[path]
            begun = before.setdefault(name, 0)
            for file_part, cut in _parts(path, scan):
                at = epoch if cut.epoch is None else cut.epoch
                parts.append(LogPart(file_part, name, begun + cut.begin, at, names_updates))
            before[name] += scan.size
            epoch = epoch if scan.last_epoch is None else scan.last_epoch
    for name, size in before.items():
        if size >= 1 << EPOCH_SHIFT:
            raise UsageError(f"the logs of {name} are longer than 1 TiB", hint="take some of them")
    return list(_packed(parts, part_bytes))


def files_of_brokers(paths: Iterable[Path]) -> dict[tuple[str, str], list[Path]]:
    """Files by folder and name without what rotation adds, the oldest first."""
    groups: dict[tuple[str, str], list[tuple[tuple[int, str, int], Path]]] = {}
    for path in paths:
        stem, order = _rotation(path.name)
        groups.setdefault((str(path.parent), stem), []).append((order, path))
    return {key: [path for _, path in sorted(group)] for key, group in groups.items()}


def _rotation(name: str) -> tuple[str, tuple[int, str, int]]:
    """A name without what rotation adds, and how old that says the file is: dates grow, and numbers
    behind them; plain numbers count into the past; klamm's grow; the file without any of these
    is being written."""
    if rotated := parse_rotated(name):
        return rotated.live, (1, "", rotated.end)
    stem = name
    for ending in (".gz", ".zst"):
        stem = stem.removesuffix(ending)
    if found := _date(stem):
        return stem.replace(found[0], ""), (0, found[1], int(found[2] or 0))
    if found := _number(stem):
        return stem[: found.start()], (1, "", -int(found[1]))
    return stem, (2, "", 0)


def run_names(paths: Sequence[Path]) -> list[str]:
    """The run of each file: the folder of its cluster by as much of its path as tells it apart.

    Where folders of several brokers stand beside one another, that is the folder they are in; else
    the broker's own.
    """
    folders = {path: _cluster_folder(path.parent) for path in paths}
    different = set(folders.values())
    depth = 1
    while len({folder.parts[-depth:] for folder in different}) < len(different):
        depth += 1
    return ["/".join(folders[path].parts[-depth:]) for path in paths]


def _cluster_folder(folder: Path) -> Path:
    try:
        beside = [other for other in folder.parent.iterdir() if other.is_dir() and other != folder]
    except PermissionError:
        return folder
    logs = (name for other in beside for name in NAMES if any(other.glob(f"{name}*")))
    return folder.parent if next(logs, None) else folder


def _parts(path: Path, scan: _Scan) -> Iterator[tuple[FilePart, _Cut]]:
    file = str(path.absolute())
    with path.open("rb") as opened:
        compression = compression_of(opened.read(4))
        own_size = opened.seek(0, 2)
    if compression is not None:
        yield FilePart(file, 0, own_size, compression), scan.cuts[0]
        return
    for cut, following in pairwise((*scan.cuts, _Cut(own_size, 0, None))):
        # read_part counts the end of the line before the part itself.
        lines = cut.lines - 1 if cut.begin else 0
        yield FilePart(file, cut.begin, following.begin, None, lines), cut


def _packed(parts: Iterable[LogPart], part_bytes: int) -> Iterator[list[LogPart]]:
    """Small files share a task."""
    task: list[LogPart] = []
    size = 0
    for part in parts:
        length = part.part.end - part.part.begin
        if task and size + length > part_bytes:
            yield task
            task, size = [], 0
        task.append(part)
        size += length
    if task:
        yield task


def _scan(path: Path, zone: str | None, part_bytes: int) -> _Scan:
    with path.open("rb") as opened:
        compression = compression_of(opened.read(4))
        end = opened.seek(0, 2)
    cuts = [_Cut(0, 0, None)]
    size = lines = 0
    epoch: int | None = None
    names_updates = False
    for block in read_part(FilePart(str(path), 0, end, compression)):
        if isinstance(block, CutShort):
            break
        data = block.data
        while compression is None and size + len(data) > cuts[-1].begin + part_bytes:
            at = _cut_in(data, max(cuts[-1].begin + part_bytes - size, 0), zone)
            if at is None:
                break
            marked = _last_epoch(data[:at])
            before = epoch if marked is None else marked
            cuts.append(_Cut(size + at, lines + data.count(b"\n", 0, at), before))
        marked = _last_epoch(data)
        epoch = epoch if marked is None else marked
        names_updates = names_updates or _UPDATING in data
        lines += data.count(b"\n")
        size += len(data)
    return _Scan(size, tuple(cuts), epoch, names_updates)


def _cut_in(data: bytes, begin: int, zone: str | None) -> int | None:
    """Where the first record behind ``begin`` stands. Not where a line may be the second half of
    what the one before announced, and not in an hour that is there twice, which only the lines
    before can tell."""
    for found in _record.finditer(data, begin + 1):
        if not is_ambiguous(zone, found[1].decode()):
            return found.start()
    return None


def _last_epoch(data: bytes) -> int | None:
    """The epoch of the last line that changes it; 0 where it ended; None: no such line."""
    last = max((data.rfind(mark) for mark in _MARKS), default=-1)
    while last >= 0:
        begin = data.rfind(b"\n", 0, last) + 1
        if found := _epoch.match(data, begin):
            return int(found[1] or found[2] or found[3] or 0)
        last = max((data.rfind(mark, 0, begin) for mark in _MARKS), default=-1)
    return None
