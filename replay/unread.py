"""Damaged lines and lost ZooKeeper transactions of a table.

Counts come from the manifest; only the first places are collected. Missing zxids are not damaged
lines: the files have no bytes for them.
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
    """The unread parts of a table's logs.

    ``kinds``: number of damaged lines by problem. ``holes``: number of ranges of lost transactions.
    ``damaged`` and ``lost``: one row per place, with source, file, line (in ZooKeeper's logs the
    byte offset), problem and text.
    """

    kinds: Mapping[str, int]
    holes: int
    damaged: Listing
    lost: Listing


def unread(table: EventTable) -> Unread:
    """Return what the manifest counts, with the first places; without a Spark query if all is 0.

    Filters do not apply: a damaged line may be about any topic and time.
    """
    kinds = Counter[str]()
    for source in table.manifest.sources:
        kinds.update(source.damaged)
    holes = kinds.pop(LOST_TRANSACTIONS, 0)
    damaged = _first(table, f"problem != '{LOST_TRANSACTIONS}'", kinds.total())
    lost = _first(table, f"problem = '{LOST_TRANSACTIONS}'", holes)
    return Unread(dict(sorted(kinds.items())), holes, damaged, lost)


def damaged_lines(manifest_counts: Mapping[str, int]) -> int:
    """Return the number of a source's damaged lines, without lost transactions."""
    return sum(n for problem, n in manifest_counts.items() if problem != LOST_TRANSACTIONS)


def _first(table: EventTable, condition: str, total: int) -> Listing:
    if not total:
        return Listing()
    rows = table.damaged.where(condition).orderBy("file", "line").limit(MOST_LISTED).collect()
    return Listing(tuple(row.asDict() for row in rows), total)
