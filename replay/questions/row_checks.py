"""Queries for lost rows (gaps in row numbers), and for illegal or failed transitions.

replay/questions/columns.py decides which transitions are illegal.
"""

from __future__ import annotations

from typing import Final

from klamm.replay.questions.columns import (
    AT,
    EPOCH,
    HISTORY,
    IS_FAILURE,
    IS_JOURNAL,
    IS_SNAPSHOT,
    PARTITION,
    REPLICA,
    RUN,
    total,
)

_BLOCK: Final = "seq >> 12"


def doubtful_epochs(found: str) -> str:
    """Return a query for the controller epochs in which row numbers are missing (journals only).

    ``found``: result of ``controllers.epochs`` for all events without duplicates. ``missing``:
    number of missing rows.
    """
    return f"""
SELECT * FROM (
  SELECT {EPOCH}, last_seq - least(first_seq, 1) + 1 - numbered AS missing FROM {found})
WHERE missing > 0"""


def numbered_blocks(events: str) -> str:
    """Return a query that counts the rows of journals in blocks of sequence numbers.

    An epoch may have most rows of a log, too many for one task to sort. Therefore only the rows of
    blocks next to or with a gap are sorted.
    """
    return f"""
SELECT {EPOCH}, {_BLOCK} AS block, min(seq) AS first_seq, max(seq) AS last_seq, count(*) AS rows
FROM {events} WHERE {IS_JOURNAL} GROUP BY {EPOCH}, {_BLOCK}"""


def blocks_beside_gaps(found: str, doubtful: str) -> str:
    """Return a query for the blocks of sequence numbers next to or with a gap.

    ``found``: results of ``numbered_blocks``. ``doubtful``: result of ``doubtful_epochs``.
    ``is_after_gap``: rows are missing before the first row of the block. ``rows``: number of rows.
    """
    by_block = f"PARTITION BY {EPOCH} ORDER BY block"
    return f"""
SELECT {EPOCH}, block, is_after_gap, rows FROM (
  SELECT *, first_seq - coalesce(lag(last_seq) OVER ({by_block}), 0) > 1 AS is_after_gap,
    coalesce(lead(first_seq) OVER ({by_block}) - last_seq, 1) > 1 AS is_before_gap
  FROM (
    SELECT {EPOCH}, block, min(first_seq) AS first_seq, max(last_seq) AS last_seq,
      {total("rows")} AS rows
    FROM {found} SEMI JOIN {doubtful} USING ({EPOCH}) GROUP BY {EPOCH}, block))
WHERE is_after_gap OR is_before_gap OR last_seq - first_seq + 1 > rows"""


def rows_beside_gaps(events: str, beside: str) -> str:
    """Return a query for the rows in some blocks of sequence numbers.

    ``events`` must not contain duplicates. ``beside``: result of ``blocks_beside_gaps``.
    """
    return f"""
SELECT {EPOCH}, seq, file, line, t_ms, block, is_after_gap
FROM (SELECT {EPOCH}, seq, file, line, t_ms, {_BLOCK} AS block FROM {events})
JOIN {beside} USING ({EPOCH}, block)"""


def lost_rows(beside: str) -> str:
    """Return a query for the gaps in the sequence numbers of rows in each controller epoch.

    ``beside``: result of ``rows_beside_gaps`` for whole epochs.

    - ``missing``: number of lost rows.
    - ``after_*``: the row after which rows are missing; null if an epoch's first rows are missing.
    - ``before_*``: the row before which rows are missing.
    """
    places, order = _beside("seq", EPOCH)
    return f"""
SELECT * EXCLUDE (follows) FROM (
  SELECT {EPOCH}, seq - coalesce(lag(seq) OVER ({order}), 0) - 1 AS missing,
    is_after_gap OR block = lag(block) OVER ({order}) AS follows, {places}
  FROM {beside})
WHERE missing > 0 AND follows"""


def _beside(number: str, key: str) -> tuple[str, str]:
    """Return SQL for the columns ``after_*`` and ``before_*``, and for the order of the rows."""
    order = f"PARTITION BY {key} ORDER BY {number}, file, line"
    names = (number, "file", "line", "t_ms")
    after = (f"lag({name}) OVER ({order}) AS after_{name}" for name in names)
    return ", ".join((*after, *(f"{name} AS before_{name}" for name in names))), order


def histories_with_gaps(events: str, doubtful: str) -> str:
    """Return a query for the partitions and replicas whose row numbers (``key_seq``) have gaps.

    There are at most as many of them as lost rows.
    """
    return f"""
SELECT {HISTORY} FROM ({_numbered(events, doubtful)}) GROUP BY {HISTORY}
HAVING max(key_seq) - least(min(key_seq), 1) + 1 > count(*)"""


def gaps(events: str, doubtful: str, found: str) -> str:
    """Return a query for the gaps in the row numbers (``key_seq``) of each partition and replica.

    ``found``: result of ``histories_with_gaps``. The result shows which partitions and replicas the
    lost rows were about. Its columns are those of ``lost_rows``. Lost rows that were not about a
    partition are not included.
    """
    places, order = _beside("key_seq", HISTORY)
    return f"""
SELECT * FROM (
  SELECT {HISTORY}, key_seq - coalesce(lag(key_seq) OVER ({order}), 0) - 1 AS missing,
    {places}
  FROM ({_numbered(events, doubtful)}) JOIN {found} USING ({HISTORY}))
WHERE missing > 0"""


def _numbered(events: str, doubtful: str) -> str:
    """Return a query for the rows about partitions and replicas in these controller epochs."""
    return f"""
SELECT {PARTITION}, key_replica AS replica, controller, epoch, key_seq, file, line, t_ms
FROM {events} JOIN {doubtful} USING ({EPOCH})
WHERE key_seq IS NOT NULL AND topic IS NOT NULL"""


def illegal_transitions(events: str) -> str:
    """Return a query for the transitions that Kafka's state machines do not allow."""
    return f"SELECT {REPLICA}, from_state, to_state, {AT} FROM {events} WHERE is_illegal"


def failed_transitions(events: str) -> str:
    """Return a query for the transitions that failed. ``outcome`` is the reason."""
    return f"""
SELECT {REPLICA}, from_state, to_state, election, outcome, {AT}
FROM {events} WHERE {IS_FAILURE}"""


_FIRST_TAIL: Final = ", ".join(
    f"arg_min({name}, place) AS {name}"
    for name in ("topic", "partition", "leader_epoch", "known", "file", "line", "t_ms")
)


def all_lost_tails(found: str) -> str:
    """Return a query that combines results of ``lost_tails``."""
    return f"""
SELECT {RUN}, epoch, {total("partitions")} AS partitions, {_FIRST_TAIL}
FROM {found} GROUP BY {RUN}, epoch"""


def lost_tails(events: str) -> str:
    """Return a query for the controller epochs in journals whose last rows are lost.

    ``all_lost_tails`` combines the results for different partitions.

    Rows are known to be lost if the next controller read a leader epoch from ZooKeeper that is
    higher than any earlier one of the partition in the journal: only controllers raise leader
    epochs. ``epoch`` is the epoch of the next controller, ``partitions`` the number of such
    partitions; the other columns describe the first of them.
    """
    before = f"PARTITION BY {PARTITION} ORDER BY epoch ROWS BETWEEN UNBOUNDED PRECEDING"
    taken = ", ".join(
        f"arg_min({name}, CASE WHEN {IS_SNAPSHOT} THEN place END) AS {name}"
        for name in ("leader_epoch", "file", "line", "t_ms")
    )
    return f"""
SELECT {RUN}, epoch, count(*) AS partitions, {_FIRST_TAIL}, min(place) AS place
FROM (
  SELECT *, max(reached) OVER ({before} AND 1 PRECEDING) AS known
  FROM (
    SELECT {PARTITION}, epoch, max(leader_epoch) AS reached,
      min(CASE WHEN {IS_SNAPSHOT} THEN place END) AS place, {taken}
    FROM {events} WHERE {IS_JOURNAL} AND is_leadership AND topic IS NOT NULL
    GROUP BY {PARTITION}, epoch))
WHERE leader_epoch > known
GROUP BY {RUN}, epoch"""
