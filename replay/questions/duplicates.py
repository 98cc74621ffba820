"""Finds and removes duplicate rows: rows with equal source, run, controller, epoch and seq.

Duplicates are found only among the rows that controllers wrote to a journal, because no other rows
have a sequence number. The first copy by file and line is kept.
"""

from __future__ import annotations

from typing import Final

from klamm.replay.event_schema import CODED_SCHEMA
from klamm.replay.questions.columns import EPOCH, IS_JOURNAL, equal

_IDENTITY: Final = f"{EPOCH}, seq"
_SAID: Final = ", ".join(
    f"'{name}': {name}"
    for name in CODED_SCHEMA.names
    if name not in ("file", "line", *_IDENTITY.split(", "))
)
_BLOCK: Final = "seq >> 5"


def duplicates(events: str) -> str:
    """Return a query with a row for each sequence number that occurs more than once.

    - ``copies``: number of rows with this sequence number.
    - ``file``, ``line``: place of the first of these rows.
    - ``copy_file``, ``copy_line``: place of the last of them.
    - ``is_contradiction``: these rows have different contents.
    """
    # For each block of 32 sequence numbers, the number of distinct ones (a bit set) is compared
    # with the number of rows. Only the few blocks with duplicates are grouped by number.
    return f"""
SELECT {_IDENTITY}, copies, is_contradiction, first_copy.file AS file, first_copy.line AS line,
  last_copy.file AS copy_file, last_copy.line AS copy_line
FROM (
  SELECT {_IDENTITY}, count(*) AS copies, min(said) <> max(said) AS is_contradiction,
    min({{'file': file, 'line': line}}) AS first_copy,
    max({{'file': file, 'line': line}}) AS last_copy
  FROM (
    SELECT {_IDENTITY}, file, line, CAST({{{_SAID}}} AS VARCHAR) AS said
    FROM (SELECT *, {_BLOCK} AS block FROM {events})
    JOIN (
      SELECT {EPOCH}, {_BLOCK} AS block FROM {events} WHERE {IS_JOURNAL} AND epoch > 0
      GROUP BY {EPOCH}, {_BLOCK}
      HAVING count(*) > bit_count(bit_or(CAST(1 AS BIGINT) << CAST(seq & 31 AS INTEGER)))
    ) USING ({EPOCH}, block))
  GROUP BY {_IDENTITY} HAVING count(*) > 1)"""


def without(events: str, repeated: str) -> str:
    """Return a query for the events without duplicates (``repeated``: result of ``duplicates``)."""
    return f"""
SELECT e.* FROM {events} AS e LEFT JOIN {repeated} AS r ON {equal("e", "r", _IDENTITY)}
WHERE r.seq IS NULL OR (r.file = e.file AND r.line = e.line)"""
