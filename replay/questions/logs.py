"""Counts the events, violations and outages of each log, from the results of other questions.

Several logs may describe the same cluster, so that sums over all logs mean little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from klamm.replay.questions.columns import RUN, summed
from klamm.replay.questions.lives import UNDATED
from klamm.replay.questions.reassignments import OPEN

_COUNTED: Final[dict[str, tuple[str, str]]] = {
    "events": ("epochs", "rows"),
    "partitions": ("counted", "partitions"),
    "elections": ("failovers", "1"),
    "illegal": ("marked", "CASE WHEN is_illegal THEN 1 ELSE 0 END"),
    "missing": ("lost_rows", "missing"),
    "lost_tails": ("lost_tails", "1"),
    "unclean": ("marked", "CASE WHEN is_unclean THEN 1 ELSE 0 END"),
    "repeated": ("duplicates", "copies - 1"),
    "late_writes": ("late_writes", "1"),
    "shared_epochs": ("shared_epochs", "1"),
    "leaderless_ms": ("leaderless", "leaderless_ms"),
    "offline_ms": ("stays", "offline_ms"),
    "undated": ("stays", UNDATED),
    "open_reassignments": ("reassignments", f"CASE WHEN status = '{OPEN}' THEN 1 ELSE 0 END"),
}
"""Columns of the result, each with a relation and the expression that is summed over its rows."""


def counts_by_log(relations: Mapping[str, str]) -> str:
    """Return a query with a row for each log (source and run) and the columns of ``_COUNTED``.

    ``relations``: relations or queries in parentheses, by the names that ``_COUNTED`` has for them.
    Columns that need other relations are 0; ``all_counts_by_log`` adds them up. Durations are in ms
    and summed over partitions.
    """
    counts = " UNION ALL ".join(
        f"SELECT {RUN}, {_columns(name, expression)} FROM {relations[relation]}"
        for name, (relation, expression) in _COUNTED.items()
        if relation in relations
    )
    return summed(f"({counts})", RUN, _COUNTED)


def all_counts_by_log(found: Iterable[str]) -> str:
    """Return a query that adds up results of ``counts_by_log``, given as queries."""
    return summed(f"({' UNION ALL '.join(found)})", RUN, _COUNTED)


def _columns(counted: str, expression: str) -> str:
    return ", ".join(f"{expression if name == counted else '0'} AS {name}" for name in _COUNTED)
