"""Queries about controllers: epochs, failovers, epochs with two controllers, late writes.

They work on the result of ``counts.counted_rows``: ``epochs`` yields a row for each controller and
epoch. Only ``late_writes`` reads events.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.questions.columns import (
    AT,
    EPOCH,
    IS_WRITE,
    PARTITION,
    RUN,
    is_kind,
    total,
)
from klamm.replay.questions.counts import ORDERED_AT, TIMES_OF_EPOCHS

IS_START: Final = is_kind(Kind.RUN_START)


def epochs(counted: str) -> str:
    """Return a query with a row for each controller epoch, e.g. with the time of the election.

    ``counted``: result of ``counts.counted_rows``.

    - ``rows``: number of events at or after ``from_ms``; all other columns consider all events.
    - ``last_write_at``: the epoch's last write.
    - ``newer_at``: the first event of a newer epoch.

    For ZooKeeper's logs, the last two are positions (``place``). For other logs they are times,
    because the order of events of different controllers is uncertain.
    """
    marks = ", ".join(f"min({name}) AS {name}" for name in TIMES_OF_EPOCHS)
    return f"""
SELECT {EPOCH}, rows, first_ms, last_ms, {", ".join(TIMES_OF_EPOCHS)}, first_seq, last_seq,
  numbered, last_write_at,
  min(first_at) OVER (PARTITION BY {RUN} ORDER BY epoch
    RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS newer_at
FROM (
  SELECT {EPOCH}, {total("rows")} AS rows, min(first_ms) AS first_ms, max(last_ms) AS last_ms,
    min(first_at) AS first_at, max(last_write_at) AS last_write_at, {marks},
    min(first_seq) AS first_seq, max(last_seq) AS last_seq, {total("numbered")} AS numbered
  FROM {counted} GROUP BY {EPOCH})"""


def failovers(found: str) -> str:
    """Return a query with a row for each controller election. ``found``: result of ``epochs``.

    - ``since_older_epoch_ms``: time from the last event of all older epochs to the election; null
      if an older epoch has later events, and for the second controller of an epoch.
    - ``ready_after_ms``: time from the election until the controller was ready; null if unknown.
    """
    return f"""
SELECT {EPOCH}, elected_ms, ready_ms, ready_ms - elected_ms AS ready_after_ms,
  CASE WHEN elected_ms = first_elected_ms AND elected_ms >= before_ms
    THEN elected_ms - before_ms END AS since_older_epoch_ms, last_ms
FROM (
  SELECT *, min(elected_ms) OVER (PARTITION BY {RUN}, epoch) AS first_elected_ms,
    max(CASE WHEN epoch > 0 THEN last_ms END) OVER (PARTITION BY {RUN} ORDER BY epoch
      RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ms
  FROM {found})
WHERE epoch > 0 AND elected_ms IS NOT NULL"""


def starts(marked: str, found: str) -> str:
    """Return a query for each start of a cluster by `klamm up`: time, run id, controller epochs.

    ``detail`` begins with the run id. ``first_epoch`` and ``last_epoch``: the first and last epoch
    in which a controller was elected until the next start; null if none was elected.
    """
    return f"""
SELECT s.source, s.run, s.t_ms, s.detail, min(e.epoch) AS first_epoch, max(e.epoch) AS last_epoch
FROM (
  SELECT {RUN}, t_ms, detail, lead(t_ms) OVER (PARTITION BY {RUN} ORDER BY t_ms) AS until_ms
  FROM {marked} WHERE {IS_START}) AS s
LEFT JOIN {found} AS e ON s.source = e.source AND s.run = e.run AND e.elected_ms >= s.t_ms
  AND (s.until_ms IS NULL OR e.elected_ms < s.until_ms)
GROUP BY s.source, s.run, s.t_ms, s.detail"""


def shared_epochs(found: str) -> str:
    """Return a query for the epochs that have events of more than one controller."""
    return f"""
SELECT {RUN}, epoch, list_sort(list(DISTINCT controller)) AS controllers,
  min(first_ms) AS first_ms, max(last_ms) AS last_ms
FROM {found} WHERE epoch > 0 AND controller >= 0
GROUP BY {RUN}, epoch HAVING count(DISTINCT controller) > 1"""


def late_writes(events: str, found: str) -> str:
    """Return a query for the writes that a controller made after a newer epoch had begun.

    ZooKeeper's logs order writes by zxid. In other logs, the times of the controllers' clocks are
    compared.
    """
    return f"""
SELECT {PARTITION}, replica, kind, leader, isr, {AT}
FROM {events} JOIN (
  SELECT {EPOCH}, newer_at FROM {found} WHERE last_write_at > newer_at) USING ({EPOCH})
WHERE ({IS_WRITE}) AND {ORDERED_AT} > newer_at"""
