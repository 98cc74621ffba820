"""An event table of many clusters: copies of one table, each with another cluster id.

Generating so many rows anew would take an hour. Each cluster has its own partitions and epochs, so
that the answers of the copies are those of the original, as many times.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine, literal
from klamm.replay.event_schema import CODED_SCHEMA, NAMES_SCHEMA
from klamm.replay.event_table import DAMAGED, EVENTS, MANIFEST, NAMES, read_manifest

COPIES: Final = 10


def many_clusters(engine: Engine, table: Path, copies: int = COPIES) -> Path:
    """The table of so many copies of a table's only cluster, made if it is not there."""
    out = table.with_name(f"{table.name}-x{copies}")
    if (out / MANIFEST).exists():
        return out
    shutil.rmtree(out, ignore_errors=True)
    manifest = read_manifest(table)
    (source,) = manifest.sources
    (run,) = source.runs
    runs = [msgspec.structs.replace(run, run=f"{run.run}-{n}") for n in range(copies)]
    (folder,) = (table / EVENTS).iterdir()
    columns = ", ".join(name for name in CODED_SCHEMA.names if name not in ("source", "run"))
    (out / EVENTS / folder.name).mkdir(parents=True)
    for n, copied in enumerate(runs):
        sql = f"SELECT CAST({xxhash64(copied.run)} AS BIGINT) AS run, {columns} FROM "
        part = out / f"part-{n}"
        engine.write(f"{sql} {engine.files(folder, CODED_SCHEMA)}", part)
        (file,) = part.glob("*.parquet")
        file.rename(out / EVENTS / folder.name / f"part-{n}.parquet")
        part.rmdir()
    named = " UNION ALL ".join(
        f"SELECT 'run' AS domain, CAST({xxhash64(copied.run)} AS BIGINT) AS code, "
        f"{literal(copied.run)} AS name"
        for copied in runs
    )
    names = engine.files(table / NAMES, NAMES_SCHEMA)
    engine.write(f"SELECT * FROM {names} UNION ALL {named}", out / NAMES)
    (out / DAMAGED).mkdir()
    kinds = {kind: copies * rows for kind, rows in source.kinds.items()}
    source = msgspec.structs.replace(source, rows=copies * source.rows, kinds=kinds, runs=runs)
    manifest = msgspec.structs.replace(manifest, sources=[source])
    (out / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    return out
