"""Pairs of event tables of equal size that differ in one thing: brokers, or one hot partition.

Each pair shows what the difference costs: 1,000 brokers instead of 12, or 30 % of all rows in one
partition. Tables are made once and kept.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.journal import Kind
from klamm.replay.engines import Engine
from klamm.replay.event_schema import CODED_SCHEMA
from klamm.replay.event_table import DAMAGED, EVENTS, MANIFEST, NAMES
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions
from klamm.replay.questions.columns import is_kind

BROKERS, HOT = "brokers", "hot"
_FEW, _MANY = 12, 1_000
_ROWS_A_PARTITION: Final = 100
_PER_CENT: Final = 30
_MOVED: Final = is_kind(Kind.ISR_CHANGED, Kind.REPLICA_TRANSITION, Kind.REASSIGNMENT_PHASE)
"""Kinds of rows that may become rows of the hot partition. Each of them is complete in itself."""


class Pair(NamedTuple):
    """Two tables, each with its name in the results: one without the difference, one with it."""

    plain: tuple[str, Path]
    special: tuple[str, Path]


def broker_pair(_: Engine, folder: Path, rows: int) -> Pair:
    """The tables of few and of many brokers."""
    made = [
        (f"{brokers:,} brokers", _generated(folder, rows, brokers)) for brokers in (_FEW, _MANY)
    ]
    return Pair(*made)


def hot_pair(engine: Engine, folder: Path, rows: int) -> Pair:
    """The tables with and without a hot partition, made from the same history.

    Neither has row numbers of partitions: rows that change their partition would leave gaps.
    """
    plain = _generated(folder, rows, _FEW)
    made = []
    for what, per_cent in (("no hot partition", 0), ("a hot partition", _PER_CENT)):
        out = folder / f"{plain.name}-hot-{per_cent}"
        if not (out / MANIFEST).exists():
            shutil.rmtree(out, ignore_errors=True)
            _write_hot(engine, plain, out, per_cent)
        made.append((what, out))
    return Pair(*made)


def _write_hot(engine: Engine, plain: Path, out: Path, per_cent: int) -> None:
    events = engine.files(plain / EVENTS, CODED_SCHEMA)
    share = f"SELECT 1.0 * count(*) / count(*) FILTER (WHERE {_MOVED}) AS share FROM {events}"
    ((share_of_moved,),) = engine.fetch(share).rows
    is_hot = f"({_MOVED} AND line % 1000 < {10 * per_cent * float(share_of_moved):.0f})"
    first = engine.keep(
        f"SELECT topic AS hot_topic, partition AS hot_partition FROM {events} "
        "WHERE topic IS NOT NULL AND partition >= 0 LIMIT 1"
    )
    changed = {
        "topic": f"CASE WHEN {is_hot} THEN hot_topic ELSE topic END AS topic",
        "partition": f"CASE WHEN {is_hot} THEN hot_partition ELSE partition END AS partition",
        "key_seq": "CAST(NULL AS BIGINT) AS key_seq",
    }
    source = next((plain / EVENTS).iterdir()).name
    columns = [changed.get(name, name) for name in CODED_SCHEMA.names if name != "source"]
    out.mkdir()
    (out / EVENTS).mkdir()
    engine.write(
        f"SELECT {', '.join(columns)} FROM {events} CROSS JOIN {first}", out / EVENTS / source
    )
    for name in (NAMES, DAMAGED):
        if (plain / name).exists():
            shutil.copytree(plain / name, out / name)
    shutil.copy(plain / MANIFEST, out / MANIFEST)


def _generated(folder: Path, rows: int, brokers: int) -> Path:
    made = folder / f"skew-{rows}-{brokers}"
    if not made.exists():
        folder.mkdir(exist_ok=True)
        history = HistoryOptions(rows // _ROWS_A_PARTITION, rows, brokers=brokers)
        generate(history, Format.PARQUET, made)
    return made
