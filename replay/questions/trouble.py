"""Queries that count the problems of each topic and broker, from the results of other questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.replay.questions.columns import IS_FAILURE, RUN, summed
from klamm.replay.questions.lives import UNDATED

_TROUBLE: Final = ("missing", "illegal", "failed", "unclean", "shrinks", "offlines")
_OF_TOPICS: Final = ("rows", *_TROUBLE, "offline_ms", "leaderless_ms", "undated")
_OF_BROKERS: Final = ("missing", "illegal", "failed", "shrinks")


class Problems(NamedTuple):
    """Names of the relations in which problems of partitions are counted.

    - ``marked``: illegal and failed transitions, unclean elections.
    - ``gaps``: lost rows of partitions and replicas.
    - ``moved``: ISR changes.
    - ``shrinks``: ISR changes in which replicas left an ISR unexpectedly.
    - ``stays``: intervals in OfflinePartition, with ``offline_ms`` and ``is_counted``.
    - ``leaderless``: intervals without a live leader, with ``leaderless_ms``.
    """

    marked: str
    gaps: str
    moved: str
    shrinks: str
    stays: str
    leaderless: str


def problems_of_topics(found: Problems) -> str:
    """Return a query that counts the problems of each topic's partitions."""
    stayed = {
        "offlines": "CASE WHEN is_counted THEN 1 ELSE 0 END",
        "offline_ms": "offline_ms",
        "undated": UNDATED,
    }
    counts = (
        _counts("topic", _OF_TOPICS, found.gaps, {"missing": "missing"}),
        _counts("topic", _OF_TOPICS, found.marked, {"illegal": "1"}, "is_illegal"),
        _counts("topic", _OF_TOPICS, found.marked, {"failed": "1"}, IS_FAILURE),
        _counts("topic", _OF_TOPICS, found.marked, {"unclean": "1"}, "is_unclean"),
        _counts("topic", _OF_TOPICS, found.shrinks, {"shrinks": "1"}),
        _counts("topic", _OF_TOPICS, found.stays, stayed),
        _counts("topic", _OF_TOPICS, found.leaderless, {"leaderless_ms": "leaderless_ms"}),
    )
    return _summed("topic", _OF_TOPICS, counts)


def topics_by_trouble(problems: str, counted: str) -> str:
    """Return a query that counts the rows and the problems of each topic.

    ``problems``: results of ``problems_of_topics``. ``counted``: result of
    ``counts.rows_of_topics``. ``trouble`` is the sum of all problems.
    """
    counts = (
        _counts("topic", _OF_TOPICS, problems, {name: name for name in _OF_TOPICS}),
        _counts("topic", _OF_TOPICS, counted, {"rows": "rows"}),
    )
    return _ranked(_summed("topic", _OF_TOPICS, counts), _TROUBLE)


def problems_of_brokers(found: Problems) -> str:
    """Return a query that counts the problems of each broker's replicas."""
    of_replica = "replica >= 0"
    illegal, failed = f"{of_replica} AND is_illegal", f"{of_replica} AND {IS_FAILURE}"
    counts = (
        _counts("replica", _OF_BROKERS, found.gaps, {"missing": "missing"}, of_replica),
        _counts("replica", _OF_BROKERS, found.marked, {"illegal": "1"}, illegal),
        _counts("replica", _OF_BROKERS, found.marked, {"failed": "1"}, failed),
        _counts("replica", _OF_BROKERS, found.shrinks, {"shrinks": "1"}),
    )
    return _summed("broker", _OF_BROKERS, counts)


def brokers_by_trouble(problems: str) -> str:
    """Return a query that adds up the problems of each broker's replicas.

    ``problems``: results of ``problems_of_brokers``. ``trouble`` is the sum of all problems.
    """
    return _ranked(summed(problems, f"{RUN}, broker", _OF_BROKERS), _OF_BROKERS)


def _counts(
    key: str, names: Sequence[str], relation: str, expressions: dict[str, str], condition: str = ""
) -> str:
    columns = ", ".join(f"{expressions.get(name, '0')} AS {name}" for name in names)
    where = f" WHERE {condition}" if condition else ""
    return f"SELECT {RUN}, {key} AS counted_key, {columns} FROM {relation}{where}"


def _summed(key: str, names: Sequence[str], counts: Sequence[str]) -> str:
    renamed = f"SELECT * RENAME (counted_key AS {key}) FROM ({' UNION ALL '.join(counts)})"
    return summed(f"({renamed})", f"{RUN}, {key}", names)


def _ranked(problems: str, trouble: Sequence[str]) -> str:
    return f"SELECT *, {' + '.join(trouble)} AS trouble FROM ({problems})"
