"""Files of Kafka's logs: grouping by broker and cluster, order of rotation, and parts for tasks.

A part begins with a record, so that stack traces stay with their records. It knows its first line
number, the bytes of the run before it and, in controller.log, the broker's controller epoch at its
start. To find these, each file is read once; most of its lines are not parsed.
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
    """A part of one file. ``before``: uncompressed bytes of the run before it.

    ``epoch`` and ``names_updates``: initial arguments of ControllerLines.
    """

    part: FilePart
    run: str
    before: int
    epoch: int
    names_updates: bool


class _Cut(NamedTuple):
    """The start of a part: byte, lines before it, epoch (None: as at the start of the file)."""

    begin: int
    lines: int
    epoch: int | None


class _Scan(NamedTuple):
    """Result of scanning a file.

    ``size``: uncompressed bytes. ``cuts``: where parts begin. ``last_epoch``: the epoch at its end
    (None: as at its start). ``names_updates``: whether new assignments are announced.
    """

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
    """Divide files into parts, in the order in which they were written, grouped by task.

    Raises UsageError if the logs of a run are longer than 1 TiB, the range of ``place``.
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
            raise UsageError(
                f"the logs of {name} are longer than 1 TiB", hint="replay fewer files at a time"
            )
    return list(_packed(parts, part_bytes))


def files_of_brokers(paths: Iterable[Path]) -> dict[tuple[str, str], list[Path]]:
    """Group files by directory and name without rotation suffix, the oldest file first."""
    groups: dict[tuple[str, str], list[tuple[tuple[int, str, int], Path]]] = {}
    for path in paths:
        stem, order = _rotation(path.name)
        groups.setdefault((str(path.parent), stem), []).append((order, path))
    return {key: [path for _, path in sorted(group)] for key, group in groups.items()}


def _rotation(name: str) -> tuple[str, tuple[int, str, int]]:
    """Split the rotation suffix off a file name; return the stem and a sort key by age.

    Dates, and numbers after a date, ascend with time; so do klamm's own suffixes. Plain numbers
    descend: .1 is the newest rotated file. The file without a suffix is the newest.
    """
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
    """Return the run of each file: the end of its cluster's directory path, as short as is unique.

    If directories of several brokers are siblings, the cluster's directory is their parent; else it
    is the broker's directory.
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
        # read_part itself counts the line that ends at the start of the part.
        lines = cut.lines - 1 if cut.begin else 0
        yield FilePart(file, cut.begin, following.begin, None, lines), cut


def _packed(parts: Iterable[LogPart], part_bytes: int) -> Iterator[list[LogPart]]:
    """Group parts into tasks of up to ``part_bytes`` bytes, so that small files share a task."""
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
    """Return the start of the first record after ``begin`` at which a part may begin; None if none.

    Not at a line that may complete an announcement of the previous line, and not in an hour that
    occurs twice: only earlier lines show which of the two it is.
    """
    for found in _record.finditer(data, begin + 1):
        if not is_ambiguous(zone, found[1].decode()):
            return found.start()
    return None


def _last_epoch(data: bytes) -> int | None:
    """Return the epoch after the last line that changes it, 0 if it ended; None: no such line."""
    last = max((data.rfind(mark) for mark in _MARKS), default=-1)
    while last >= 0:
        begin = data.rfind(b"\n", 0, last) + 1
        if found := _epoch.match(data, begin):
            return int(found[1] or found[2] or found[3] or 0)
        last = max((data.rfind(mark, 0, begin) for mark in _MARKS), default=-1)
    return None
