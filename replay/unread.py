"""What the logs of a table do not say: lines that cannot be read, and transactions that are lost.

Counts are those of the manifest, places are collected up to an end. A run of missing transaction
ids is no damaged line: nothing is there that could be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from klamm.replay.event_schema import LOST_TRANSACTIONS
from klamm.replay.event_table import EventTable
from klamm.replay.listings import MOST_LISTED, Listing


@dataclass(frozen=True, slots=True)
class Unread:
    """``damaged`` and ``lost`` have a row a place: source, file, line (ZooKeeper: byte), problem,
    text; ``kinds`` says how many damaged lines there are of each problem, ``holes`` how many runs
    of transactions are lost."""

    kinds: Mapping[str, int]
    holes: int
    damaged: Listing
    lost: Listing


def unread(table: EventTable) -> Unread:
    """What a table's manifest counts, with the first places of each; nothing is asked of Spark
    where there is nothing. Filters leave nothing out: a lost line may be of any topic and time."""
    kinds = Counter[str]()
    for source in table.manifest.sources:
        kinds.update(source.damaged)
    holes = kinds.pop(LOST_TRANSACTIONS, 0)
    damaged = _first(table, f"problem != '{LOST_TRANSACTIONS}'", kinds.total())
    lost = _first(table, f"problem = '{LOST_TRANSACTIONS}'", holes)
    return Unread(dict(sorted(kinds.items())), holes, damaged, lost)


def damaged_lines(manifest_counts: Mapping[str, int]) -> int:
    """How many of a source's problems are lines that could not be read."""
    return sum(n for problem, n in manifest_counts.items() if problem != LOST_TRANSACTIONS)


def _first(table: EventTable, condition: str, total: int) -> Listing:
    if not total:
        return Listing()
    rows = table.damaged.where(condition).orderBy("file", "line").limit(MOST_LISTED).collect()
    return Listing(tuple(row.asDict() for row in rows), total)
