"""Counts the problems of each topic, broker and log, from the results of other questions.

Each count has a relation and the expression that is summed over its rows. Counts by log stand for
the sums over everything: several logs may describe the same cluster, so that such sums mean little.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from klamm.replay.questions.columns import IS_FAILURE, RUN, summed
from klamm.replay.questions.lives import UNDATED
from klamm.replay.questions.reassignments import OPEN

_Counts = Mapping[str, tuple[str, str]]


def _rows_with(condition: str) -> str:
    return f"CASE WHEN {condition} THEN 1 ELSE 0 END"


_PROBLEMS: Final[_Counts] = {
    "missing": ("gaps", "missing"),
    "illegal": ("marked", _rows_with("is_illegal")),
    "failed": ("marked", _rows_with(IS_FAILURE)),
    "unclean": ("marked", _rows_with("is_unclean")),
    "shrinks": ("shrinks", "1"),
    "offlines": ("stays", _rows_with("is_counted")),
}
_TIMES: Final[_Counts] = {
    "offline_ms": ("stays", "offline_ms"),
    "leaderless_ms": ("leaderless", "leaderless_ms"),
    "undated": ("stays", UNDATED),
}
_OF_TOPICS: Final[_Counts] = {"rows": ("counted", "rows"), **_PROBLEMS, **_TIMES}
_OF_BROKERS: Final[_Counts] = {
    name: _PROBLEMS[name] for name in ("missing", "illegal", "failed", "shrinks")
}
_OF_LOGS: Final[_Counts] = {
    "events": ("epochs", "rows"),
    "partitions": ("counted", "partitions"),
    "elections": ("failovers", "1"),
    "illegal": _PROBLEMS["illegal"],
    "missing": ("lost_rows", "missing"),
    "lost_tails": ("lost_tails", "1"),
    "unclean": _PROBLEMS["unclean"],
    "repeated": ("duplicates", "copies - 1"),
    "late_writes": ("late_writes", "1"),
    "shared_epochs": ("shared_epochs", "1"),
    "leaderless_ms": _TIMES["leaderless_ms"],
    "offline_ms": _TIMES["offline_ms"],
    "undated": _TIMES["undated"],
    "open_reassignments": ("reassignments", _rows_with(f"status = '{OPEN}'")),
}
_TOPIC: Final = f"{RUN}, topic"
_REPLICA: Final = f"{RUN}, replica"


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
    return _counts(_TOPIC, _OF_TOPICS, found._asdict())


def topics_by_trouble(problems: str, counted: str) -> str:
    """Return a query that counts the rows and the problems of each topic.

    ``problems``: results of ``problems_of_topics``. ``counted``: result of
    ``counts.rows_of_topics``. ``trouble`` is the sum of all problems.
    """
    rows = _counts(_TOPIC, _OF_TOPICS, {"counted": counted})
    return _ranked(_added_up(_TOPIC, _OF_TOPICS, (f"SELECT * FROM {problems}", rows)), _PROBLEMS)


def problems_of_brokers(found: Problems) -> str:
    """Return a query that counts the problems of each broker's replicas, and those of none."""
    return _counts(_REPLICA, _OF_BROKERS, found._asdict())


def brokers_by_trouble(problems: str) -> str:
    """Return a query that adds up the problems of each broker's replicas, if there are any.

    ``problems``: results of ``problems_of_brokers``. ``trouble`` is the sum of all problems.
    """
    ranked = _ranked(summed(problems, _REPLICA, _OF_BROKERS), _OF_BROKERS)
    found = f"SELECT * FROM ({ranked}) WHERE replica >= 0 AND trouble > 0"
    return f"SELECT * RENAME (replica AS broker) FROM ({found})"


def counts_by_log(relations: Mapping[str, str]) -> str:
    """Return a query with a row for each log (source and run) and the columns of ``_OF_LOGS``.

    ``relations``: relations or queries in parentheses, by the names that ``_OF_LOGS`` has for them.
    Columns that need other relations are 0; ``all_counts_by_log`` adds them up. Durations are in ms
    and summed over partitions.
    """
    return _counts(RUN, _OF_LOGS, relations)


def all_counts_by_log(found: Iterable[str]) -> str:
    """Return a query that adds up results of ``counts_by_log``, given as queries."""
    return _added_up(RUN, _OF_LOGS, found)


def _counts(key: str, counts: _Counts, relations: Mapping[str, str]) -> str:
    """Return a query with a row for each ``key``. Counts in other relations are 0."""
    parts = []
    for relation in {of: None for of, _ in counts.values() if of in relations}:
        columns = (
            f"{expression if of == relation else '0'} AS {name}"
            for name, (of, expression) in counts.items()
        )
        parts.append(f"SELECT {key}, {', '.join(columns)} FROM {relations[relation]}")
    return _added_up(key, counts, parts)


def _added_up(key: str, counts: _Counts, found: Iterable[str]) -> str:
    return summed(f"({' UNION ALL '.join(found)})", key, counts)


def _ranked(problems: str, trouble: Iterable[str]) -> str:
    return f"SELECT *, {' + '.join(trouble)} AS trouble FROM ({problems})"
