"""Reports data loss: damaged lines of logs, and ZooKeeper transactions that no log contains.

The manifest of the event table counts the damaged lines and the ranges of missing transactions.
Only the first few of each are listed. Missing transactions are reported separately from damaged
lines, because the logs contain no trace of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from klamm.replay.engines import rows
from klamm.replay.event_schema import LOST_TRANSACTIONS
from klamm.replay.event_table import EventTable
from klamm.replay.listings import MOST_LISTED, Listing


@dataclass(frozen=True, slots=True)
class DataLoss:
    """Damaged lines and lost ZooKeeper transactions of an event table.

    - ``kinds``: number of damaged lines by problem.
    - ``ranges``: number of ranges of lost transactions.
    - ``damaged``, ``lost``: the first damaged lines, and the first ranges of lost transactions. In
      rows about ZooKeeper's logs, ``line`` is a byte offset.
    """

    kinds: Mapping[str, int]
    ranges: int
    damaged: Listing
    lost: Listing


def data_loss(table: EventTable) -> DataLoss:
    """Return the damaged lines and lost transactions of a table.

    Runs no query if the manifest shows that there are none. Filters do not apply, because it is
    unknown which topic and time a damaged line was about.
    """
    kinds = Counter[str]()
    for source in table.manifest.sources:
        kinds.update(source.damaged)
    ranges = kinds.pop(LOST_TRANSACTIONS, 0)
    listed = []
    for condition, total in (("<>", kinds.total()), ("=", ranges)):
        found = f"SELECT * FROM {table.damaged} WHERE problem {condition} '{LOST_TRANSACTIONS}'"
        order = f"ORDER BY file, line LIMIT {MOST_LISTED}"
        listed.append(
            Listing(tuple(rows(table.engine, f"{found} {order}")) if total else (), total)
        )
    return DataLoss(dict(sorted(kinds.items())), ranges, *listed)


def damaged_lines(manifest_counts: Mapping[str, int]) -> int:
    """Return the total number of damaged lines, not counting ranges of lost transactions.

    ``manifest_counts``: the counts in ``SourceSummary.damaged``.
    """
    return sum(n for problem, n in manifest_counts.items() if problem != LOST_TRANSACTIONS)
