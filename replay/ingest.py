"""Reads logs of any kind into one event table (`klamm replay ingest`).

Steps: find the kind of each file (sources/registry.py); read, encode and store the rows; add
previous states, leaders and ISRs (predecessors.py); count the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.counting import counted
from klamm.cluster.errors import KlammError
from klamm.replay.coverage import coverage_of
from klamm.replay.engines import Engine, rows
from klamm.replay.event_files import Folders, write_names
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    DAMAGED_SCHEMA,
    NAMES_SCHEMA,
    SCHEMA_VERSION,
    SOURCES,
    code_of,
)
from klamm.replay.event_table import (
    DAMAGED,
    EVENTS,
    MANIFEST,
    NAMES,
    Manifest,
    SourceSummary,
    new_table_folder,
)
from klamm.replay.full_disk import full_disk_errors
from klamm.replay.kafka_order import BOTH, in_one_order, with_deletions
from klamm.replay.locations import remove_tree
from klamm.replay.predecessors import add_predecessors
from klamm.replay.progress import Progress
from klamm.replay.sources import SourceOptions
from klamm.replay.sources.registry import SourceFiles, find_logs

_STAGED: Final = "staged"
_Read = tuple[SourceFiles, float, float | None]
"""Files of one kind, and how many seconds it took to read them and to add previous states."""
_Stored = tuple[SourceFiles, str]
"""Files of one kind, and a query for their events."""


def make_table(
    engine: Engine,
    paths: Sequence[Path],
    folder: Path,
    *,
    options: SourceOptions | None = None,
    overwrite: bool = False,
) -> Manifest:
    """Create the event table ``folder`` from the logs at or below ``paths``.

    Raises UsageError for an invalid path or ``folder``, KlammError if the table cannot be created.
    After an error, ``folder`` is unchanged.
    """
    found = find_logs(paths)
    with new_table_folder(folder, overwrite=overwrite) as partial:
        return ingest(engine, found, partial, options or SourceOptions(), Progress(quiet=True))


def ingest(
    engine: Engine,
    found: Sequence[SourceFiles],
    folder: Path,
    options: SourceOptions,
    progress: Progress,
) -> Manifest:
    """Read the files ``found`` into an event table in the empty directory ``folder``.

    Raises KlammError if the query engine fails, the disk is full, or the files contain no events.
    """
    with full_disk_errors(folder):
        stored = _store_all(engine, found, folder, options, progress)
        with progress.step("write names"):
            write_names(engine, folder / _STAGED / NAMES, folder / NAMES)
        with progress.step("count events"):
            manifest = describe(engine, folder, stored)
    if not manifest.rows:
        raise _nothing_read(manifest)
    remove_tree(folder / _STAGED)
    (folder / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    return manifest


def _store_all(
    engine: Engine,
    found: Sequence[SourceFiles],
    folder: Path,
    options: SourceOptions,
    progress: Progress,
) -> list[_Read]:
    """Read and store all files. To add previous states, events of both Kafka logs are merged."""
    read_s: dict[str, float] = {}
    predecessors_s: dict[str, float] = {}
    groups: dict[bool, list[_Stored]] = {}
    of_kafka = tuple(path for files in found if files.source.name in BOTH for path in files.paths)
    options = msgspec.structs.replace(options, beside=of_kafka)
    for files in found:
        source = files.source
        title = f"read {source.name}"
        with progress.step(title):
            stored = _store(engine, files, folder, options)
        read_s[source.name] = progress.elapsed_s[title]
        if not source.has_predecessors:
            groups.setdefault(source.name in BOTH, []).append((files, stored))
    for group in groups.values():
        names = [files.source.name for files, _ in group]
        title = f"add previous states to {' and '.join(names)}"
        with progress.step(title):
            _complete(engine, group, folder)
        predecessors_s |= dict.fromkeys(names, progress.elapsed_s[title])
    return [
        (files, read_s[files.source.name], predecessors_s.get(files.source.name)) for files in found
    ]


def _folder_of(source: str) -> str:
    return f"source={code_of(source, SOURCES)}"


def _store(engine: Engine, files: SourceFiles, folder: Path, options: SourceOptions) -> str:
    """Read files of one kind, and store their events. Return a query for the events."""
    source = files.source
    parent = folder / EVENTS if source.has_predecessors else folder / _STAGED
    events = parent / _folder_of(source.name)
    folders = Folders(source.name, events, folder / _STAGED / NAMES, folder / DAMAGED)
    return source.store(engine, files.paths, options, folders)


def _complete(engine: Engine, group: Sequence[_Stored], folder: Path) -> None:
    """Add previous states, leaders and ISRs to the events, and write them to the table.

    ``group``: one kind of log, or both of Kafka's.
    """
    columns = ", ".join(name for name in CODED_SCHEMA.names if name != "source")
    if len(group) == 1:
        ((files, stored),) = group
        before = add_predecessors(f"({stored})")
        source = files.source.name
        engine.write(f"SELECT {columns} FROM ({before})", folder / EVENTS / _folder_of(source))
        return
    united = " UNION ALL ".join(f"({stored})" for _, stored in group)
    ordered = engine.keep(in_one_order(f"({united})"), "ordered")
    whole = engine.keep(add_predecessors(f"({with_deletions(ordered)})"), "united")
    for files, _ in group:
        name = files.source.name
        engine.write(
            f"SELECT {columns} FROM {whole} WHERE source = {code_of(name, SOURCES)}",
            folder / EVENTS / _folder_of(name),
        )
    engine.drop([ordered, whole])


def describe(engine: Engine, folder: Path, read: Sequence[_Read]) -> Manifest:
    """Return the manifest of a table, with numbers of events. All other files must be complete."""
    events = engine.files(folder / EVENTS, CODED_SCHEMA)
    covered = coverage_of(engine, events, engine.files(folder / NAMES, NAMES_SCHEMA))
    problems = rows(
        engine,
        "SELECT source, problem, count(*) AS lines "
        f"FROM {engine.files(folder / DAMAGED, DAMAGED_SCHEMA)} "
        "GROUP BY source, problem ORDER BY problem",
    )
    return Manifest(
        SCHEMA_VERSION,
        [
            SourceSummary(
                source=(name := files.source.name),
                files=files.summaries,
                rows=sum(covered.kinds.get(name, {}).values()),
                kinds=covered.kinds.get(name, {}),
                damaged={at["problem"]: at["lines"] for at in problems if at["source"] == name},
                runs=covered.runs.get(name, []),
                read_s=round(read_s, 3),
                predecessors_s=None if predecessors_s is None else round(predecessors_s, 3),
            )
            for files, read_s, predecessors_s in read
        ],
    )


def _nothing_read(manifest: Manifest) -> KlammError:
    files = sum(len(source.files) for source in manifest.sources)
    problems = Counter[str]()
    for source in manifest.sources:
        problems.update(source.damaged)
    said = ", ".join(f"{problem}: {count}" for problem, count in problems.most_common(5))
    return KlammError(
        f"no events found in {counted(files, 'file')}",
        hint=f"damaged lines: {said}" if said else "the files contain nothing about partitions",
    )
