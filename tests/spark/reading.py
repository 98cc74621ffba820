"""Events and damaged lines of logs, in words, as a source reads them: without predecessors."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from klamm.replay.engines import Engine, rows
from klamm.replay.event_files import Folders
from klamm.replay.event_schema import DAMAGED_SCHEMA, NAMES_SCHEMA, SCHEMA_VERSION, SOURCES, code_of
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.sources import LogSource, SourceOptions


class At(SimpleNamespace):
    """A row with its columns as attributes."""

    def as_dict(self) -> dict[str, Any]:
        return vars(self)


class Told(NamedTuple):
    """What was read, in the order of its places."""

    events: list[At]
    damaged: list[At]

    def of(self, run: str, *kinds: str) -> list[At]:
        """Events of a run, of some kinds or of all."""
        return [row for row in self.events if row.run == run and (not kinds or row.kind in kinds)]


def read_source(
    engine: Engine, source: LogSource, paths: Sequence[Path], options: SourceOptions | None = None
) -> Told:
    """What a source reads in some files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = folder / "staged" / f"source={code_of(source.name, SOURCES)}"
        folders = Folders(source.name, events, folder / "names", folder / "damaged")
        stored = source.store(engine, paths, options or SourceOptions(), folders)
        names = engine.view(f"SELECT DISTINCT * FROM {engine.files(folders.names, NAMES_SCHEMA)}")
        damaged = engine.files(folders.damaged, DAMAGED_SCHEMA)
        table = EventTable(engine, "", names, damaged, Manifest(SCHEMA_VERSION, []))
        found = rows(engine, table.in_words(stored))
        bad = rows(engine, f"SELECT * FROM {damaged}")
    in_order = sorted(
        (At(**row) for row in found),
        key=lambda row: (row.run, row.place, row.kind, row.partition, row.replica),
    )
    return Told(in_order, sorted((At(**row) for row in bad), key=lambda row: (row.file, row.line)))
