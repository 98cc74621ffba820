"""Queries that count the problems of each topic and broker, from the results of other questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.replay.questions.columns import IS_FAILURE, RUN, total

_TROUBLE: Final = ("missing", "illegal", "failed", "unclean", "shrinks", "offlines")
_OF_TOPICS: Final = ("rows", *_TROUBLE, "offline_ms", "leaderless_ms")
_OF_BROKERS: Final = ("missing", "illegal", "failed", "shrinks")


class Found(NamedTuple):
    """Names of the relations in which problems are counted.

    - ``partitions``: number of rows of each partition.
    - ``marked``: illegal and failed transitions, unclean elections.
    - ``gaps``: lost rows of partitions and replicas.
    - ``moved``: ISR changes.
    - ``shrinks``: ISR changes in which replicas left an ISR unexpectedly.
    - ``stays``: intervals in OfflinePartition, with ``offline_ms`` and ``is_counted``.
    - ``leaderless``: intervals without a live leader, with ``leaderless_ms``.
    """

    partitions: str
    marked: str
    gaps: str
    moved: str
    shrinks: str
    stays: str
    leaderless: str


def topics_by_trouble(found: Found) -> str:
    """Return a query that counts the rows and the problems of each topic.

    ``trouble`` is the sum of all problems.
    """
    stayed = {"offlines": "CASE WHEN is_counted THEN 1 ELSE 0 END", "offline_ms": "offline_ms"}
    counts = (
        _counts("topic", _OF_TOPICS, found.partitions, {"rows": "rows"}),
        _counts("topic", _OF_TOPICS, found.gaps, {"missing": "missing"}),
        _counts("topic", _OF_TOPICS, found.marked, {"illegal": "1"}, "is_illegal"),
        _counts("topic", _OF_TOPICS, found.marked, {"failed": "1"}, IS_FAILURE),
        _counts("topic", _OF_TOPICS, found.marked, {"unclean": "1"}, "is_unclean"),
        _counts("topic", _OF_TOPICS, found.shrinks, {"shrinks": "1"}),
        _counts("topic", _OF_TOPICS, found.stays, stayed),
        _counts("topic", _OF_TOPICS, found.leaderless, {"leaderless_ms": "leaderless_ms"}),
    )
    return _ranked("topic", _OF_TOPICS, _TROUBLE, counts)


def brokers_by_trouble(found: Found) -> str:
    """Return a query that counts the problems of each broker's replicas.

    ``trouble`` is the sum of all problems.
    """
    of_replica = "replica >= 0"
    illegal, failed = f"{of_replica} AND is_illegal", f"{of_replica} AND {IS_FAILURE}"
    counts = (
        _counts("replica", _OF_BROKERS, found.gaps, {"missing": "missing"}, of_replica),
        _counts("replica", _OF_BROKERS, found.marked, {"illegal": "1"}, illegal),
        _counts("replica", _OF_BROKERS, found.marked, {"failed": "1"}, failed),
        _counts("replica", _OF_BROKERS, found.shrinks, {"shrinks": "1"}),
    )
    return _ranked("broker", _OF_BROKERS, _OF_BROKERS, counts)


def _counts(
    key: str, names: Sequence[str], relation: str, expressions: dict[str, str], condition: str = ""
) -> str:
    columns = ", ".join(f"{expressions.get(name, '0')} AS {name}" for name in names)
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {RUN}, {key} AS counted_key, {columns} FROM {relation}{where}"


def _ranked(key: str, names: Sequence[str], trouble: Sequence[str], counts: Sequence[str]) -> str:
    sums = ", ".join(f"{total(name)} AS {name}" for name in names)
    return f"""
SELECT *, {" + ".join(trouble)} AS trouble
FROM (
  SELECT {RUN}, counted_key AS {key}, {sums} FROM ({" UNION ALL ".join(counts)})
  GROUP BY {RUN}, counted_key)"""
