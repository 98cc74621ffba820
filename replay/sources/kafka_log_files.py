"""Groups the files of Kafka's logs by broker and cluster, and divides them into parts.

A part begins with a log record, so that stack traces are not separated from their records. Each
file is first scanned to find the state at the start of each part: the line number, the number of
bytes before it and, in controller.log, the controller epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import UsageError
from klamm.cluster.rotated_names import parse_rotated
from klamm.replay.engines import Engine
from klamm.replay.event_schema import CONTROLLER_LOG, EPOCH_SHIFT, STATE_CHANGE_LOG, DamagedLine
from klamm.replay.kafka_lines import NumberTooLarge, controller_epoch
from klamm.replay.local_time import is_ambiguous
from klamm.replay.sources.file_parts import FilePart, read_part, whole_file

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
    """A part of a log file.

    - ``run``: name of the cluster, see ``run_names``.
    - ``before``: number of uncompressed bytes that precede this part in the logs of the run.
    - ``epoch``, ``names_updates``: arguments for ControllerLines, which parses the part.
    """

    part: FilePart
    run: str
    before: int
    epoch: int
    names_updates: bool


class _Cut(NamedTuple):
    """The start of a part of a file.

    - ``begin``: byte at which the part begins.
    - ``lines``: number of lines before that byte.
    - ``epoch``: controller epoch at that byte; None: the same as at the start of the file.
    """

    begin: int
    lines: int
    epoch: int | None


class _Scan(NamedTuple):
    """Result of scanning a file for the positions at which it can be divided.

    - ``size``: uncompressed size in bytes.
    - ``cuts``: where the parts begin.
    - ``last_epoch``: controller epoch at the end of the file; None: the same as at its start.
    - ``names_updates``: the file contains DEBUG lines that announce new assignments.
    """

    size: int
    cuts: tuple[_Cut, ...]
    last_epoch: int | None
    names_updates: bool


def plan(
    engine: Engine,
    paths: Sequence[Path],
    *,
    run: str | None,
    zone: str | None,
    part_bytes: int,
    beside: Sequence[Path] = (),
) -> list[list[LogPart]]:
    """Divide files into parts, in the order in which they were written, and assign parts to tasks.

    Each inner list is a task. ``run``: name of the run; None: derived from directories. ``zone``:
    IANA time zone. ``beside``: other logs; each directory of logs gets a different run name.
    Raises UsageError if the logs of a run are longer than 1 TiB, because ``place`` has 40 bits for
    the position.
    """
    groups = [group for _, group in sorted(files_of_brokers(paths).items())]
    everything = [*paths, *beside]
    names = dict(zip(everything, run_names(everything), strict=True))
    ordered = [path for group in groups for path in group]
    scanned = engine.map(partial(_scan, zone=zone, part_bytes=part_bytes), ordered)
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
    """Group files by directory and name (without rotation suffix), each group oldest first."""
    groups: dict[tuple[str, str], list[tuple[tuple[int, str, int], Path]]] = {}
    for path in paths:
        stem, order = _rotation(path.name)
        groups.setdefault((str(path.parent), stem), []).append((order, path))
    return {key: [path for _, path in sorted(group)] for key, group in groups.items()}


def _rotation(name: str) -> tuple[str, tuple[int, str, int]]:
    """Return a file name without its rotation suffix, and a key that sorts files by age.

    Suffixes with dates, and klamm's own suffixes, are higher for newer files. Suffixes that are
    only a number are lower for newer files: .1 is the newest rotated file. The file without a
    suffix is the newest of all.
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
    """Return the run name of each file: the name of its cluster's directory.

    If several brokers have sibling directories, the cluster's directory is their parent; otherwise
    it is the broker's directory. Parent directories are added if names would not be unique.
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
    logs = (
        name
        for other in beside
        for name in (STATE_CHANGE_LOG, CONTROLLER_LOG)
        if any(other.glob(f"{name}*"))
    )
    return folder.parent if next(logs, None) else folder


def _parts(path: Path, scan: _Scan) -> Iterator[tuple[FilePart, _Cut]]:
    whole = whole_file(path)
    if whole.compression is not None:
        yield whole, scan.cuts[0]
        return
    for cut, following in pairwise((*scan.cuts, _Cut(whole.end, 0, None))):
        # read_part itself counts the line that ends just before the part.
        lines = cut.lines - 1 if cut.begin else 0
        yield whole._replace(begin=cut.begin, end=following.begin, lines_before=lines), cut


def _packed(parts: Iterable[LogPart], part_bytes: int) -> Iterator[list[LogPart]]:
    """Group parts into tasks of up to ``part_bytes`` bytes; several small files share a task."""
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
    whole = whole_file(path)
    cuts = [_Cut(0, 0, None)]
    size = lines = 0
    epoch: int | None = None
    names_updates = False
    for block in read_part(whole):
        if isinstance(block, DamagedLine):
            break
        data = block.data
        while whole.compression is None and size + len(data) > cuts[-1].begin + part_bytes:
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
    """Return the first byte after ``begin`` at which a part may start, or None.

    A part starts with a log record, but not with a record whose meaning depends on earlier ones: a
    line about an assignment that an earlier line announces, or a line in an hour that occurs twice.
    """
    for found in _record.finditer(data, begin + 1):
        if not is_ambiguous(zone, found[1].decode()):
            return found.start()
    return None


def _last_epoch(data: bytes) -> int | None:
    """Return the controller epoch at the end of some lines, or None if no line changes it.

    The epoch is 0 if the broker is no longer the controller.
    """
    last = max((data.rfind(mark) for mark in _MARKS), default=-1)
    while last >= 0:
        begin = data.rfind(b"\n", 0, last) + 1
        if found := _epoch.match(data, begin):
            # Readers of the lines ignore an epoch that is too large.
            with suppress(NumberTooLarge):
                return controller_epoch((found[1] or found[2] or found[3] or b"0").decode())
        last = max((data.rfind(mark, 0, begin) for mark in _MARKS), default=-1)
    return None
