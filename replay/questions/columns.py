"""SQL that all questions share: keys of rows, kinds of rows, and conditions on a single row.

``judged`` adds the conditions to the stored events as columns. Which transitions are legal is taken
from klamm's own state machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import (
    JOURNAL,
    KINDS,
    LEADERSHIP_DELETED,
    LEADERSHIP_WRITTEN,
    SOURCES,
    STATE_CHANGE_LOG,
    STATE_CODES,
    ZOOKEEPER_LOG,
    code_of,
)
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

S = TypeVar("S", bound=Enum)

RUN: Final = "source, run"
PARTITION: Final = f"{RUN}, topic, partition"
REPLICA: Final = f"{PARTITION}, replica"
EPOCH: Final = f"{RUN}, controller, epoch"
HISTORY: Final = f"{REPLICA}, controller, epoch"
"""The columns that identify a partition or replica and a controller epoch. ``key_seq`` counts the
rows in which they are the same."""
AT: Final = "file, line, place, t_ms, controller, epoch, seq"
"""The columns that identify the place and time at which an event was logged."""

LEADERSHIPS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.ISR_REMOVED,
    Kind.ISR_CHANGED,
    Kind.LEADER_EPOCH_BUMPED,
    LEADERSHIP_WRITTEN,
)
"""Kinds of rows that contain a partition's leader and ISR, unless ``leader`` is null."""
OFFLINE: Final = STATE_CODES[PartitionState.OFFLINE.value]
_ONLINE: Final = STATE_CODES[PartitionState.ONLINE.value]
NO_PARTITION: Final = STATE_CODES[PartitionState.NON_EXISTENT.value]
NO_REPLICA: Final = STATE_CODES[ReplicaState.NON_EXISTENT.value]
IS_JOURNAL: Final = f"source = {code_of(JOURNAL, SOURCES)}"
IS_STATE_CHANGE_LOG: Final = f"source = {code_of(STATE_CHANGE_LOG, SOURCES)}"
IS_ZOOKEEPER: Final = f"source = {code_of(ZOOKEEPER_LOG, SOURCES)}"
_PAIR: Final = "CAST(from_state AS INTEGER) * 100 + to_state"


def kind_code(kind: str) -> int:
    """Return the code of a kind of event."""
    return code_of(kind, KINDS)


def is_kind(*kinds: str) -> str:
    """Return an SQL condition that is true for events of the given kinds."""
    return f"kind IN ({', '.join(str(kind_code(kind)) for kind in kinds)})"


def legal_pairs(before: Mapping[S, Iterable[S]]) -> list[int]:
    """Return the legal transitions of a state machine, each as 100 * (old code) + (new code)."""
    return sorted(
        100 * STATE_CODES[source.value] + STATE_CODES[target.value]
        for target, sources in before.items()
        for source in sources
    )


def _is_illegal(kind: str, before: Mapping[S, Iterable[S]]) -> str:
    pairs = ", ".join(map(str, legal_pairs(before)))
    return f"{is_kind(kind)} AND {_PAIR} NOT IN ({pairs})"


IS_SNAPSHOT: Final = is_kind(Kind.PARTITION_SNAPSHOT)
IS_TRANSITION: Final = is_kind(Kind.PARTITION_TRANSITION)
IS_DELETED: Final = is_kind(LEADERSHIP_DELETED)
IS_FAILURE: Final = is_kind(Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
IS_WRITE: Final = (
    f"{is_kind(LEADERSHIP_WRITTEN)} OR "
    f"(is_leadership AND NOT {IS_SNAPSHOT} AND ({IS_TRANSITION} OR prev_isr IS NOT NULL))"
)
"""SQL condition: the event is a write of a partition's state znode."""
_JUDGED: Final = f"""
SELECT *,
  from_state <> 0 AND (
    ({_is_illegal(Kind.PARTITION_TRANSITION, partition_state.PREVIOUS)})
    OR ({_is_illegal(Kind.REPLICA_TRANSITION, replica_state.PREVIOUS)})
  ) AS is_illegal,
  {is_kind(*LEADERSHIPS)} AND leader IS NOT NULL AS is_leadership,
  CASE WHEN {is_kind(Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED, Kind.ISR_REMOVED)}
    THEN replica ELSE -1 END AS key_replica
FROM {{stored}}
"""
_CONDITIONS: Final = f"""
SELECT *,
  {IS_SNAPSHOT} OR ({IS_TRANSITION} AND NOT is_illegal) AS is_partition_state,
  {is_kind(Kind.REPLICA_TRANSITION)} AND NOT is_illegal AS is_replica_state,
  {IS_TRANSITION} AND NOT is_illegal AND (
    from_state = {NO_PARTITION} OR to_state = {NO_PARTITION}) AS is_birth_or_death,
  CASE WHEN is_leadership AND NOT {IS_SNAPSHOT} AND leader > {NO_LEADER}
      AND leader <> coalesce(prev_leader, {NO_LEADER}) AND prev_isr IS NOT NULL
    THEN NOT list_contains(prev_isr, leader) ELSE false END AS is_unclean,
  is_leadership AND prev_isr IS NOT NULL AND isr IS NOT NULL AND prev_isr <> isr AS moves_isr
FROM ({_JUDGED})
"""


def judged(stored: str) -> str:
    """Return a query for the stored events with these additional columns:

    - ``is_illegal``: the event is a transition that Kafka's state machines do not allow. Rows
      without ``from_state`` are never illegal.
    - ``is_leadership``: the row contains the partition's leader and ISR.
    - ``key_replica``: the replica that the event is about, -1 if it is about the partition.
    - ``is_partition_state``, ``is_replica_state``: ``to_state`` is the new state of a partition or
      replica.
    - ``is_birth_or_death``: a partition is created or deleted.
    - ``is_unclean``: the new leader was not in the previous ISR.
    - ``moves_isr``: the event changes the ISR; the row contains the ISRs before and after.
    """
    return _CONDITIONS.format(stored=stored)


def known_state(state: str) -> str:
    """Return SQL for a partition's state, or 0 (unknown) if Kafka's logs at INFO do not show it.

    At INFO, Kafka does not log the transitions of a partition that loses its leader. Such a
    partition is Offline or being deleted.
    """
    is_unknown = f"{state} = {_ONLINE} AND leader = {NO_LEADER} AND NOT {IS_JOURNAL}"
    return f"CASE WHEN {is_unknown} THEN 0 ELSE {state} END"


def since(relation: str, from_ms: int | None, column: str = "t_ms") -> str:
    """Return a query for the rows at or after ``from_ms``, or for all rows if it is None."""
    return f"SELECT * FROM {relation} WHERE {in_time(from_ms, column)}"


def in_time(from_ms: int | None, column: str = "t_ms") -> str:
    """Return an SQL condition: the time is at or after ``from_ms`` (always true for None)."""
    return "true" if from_ms is None else f"{column} >= {from_ms}"


def total(expression: str) -> str:
    """Return SQL for a sum of integers, with 0 instead of null if there are no rows."""
    return f"CAST(coalesce(sum({expression}), 0) AS BIGINT)"


def summed(relation: str, keys: str, names: Iterable[str]) -> str:
    """Return a query that sums the columns ``names`` over the rows with equal ``keys``.

    It combines results that were counted separately, for example in blocks of partitions.
    """
    sums = ", ".join(f"{total(name)} AS {name}" for name in names)
    return f"SELECT {keys}, {sums} FROM {relation} GROUP BY {keys}"


def equal(left: str, right: str, columns: str) -> str:
    """Return an SQL join condition: the tables ``left`` and ``right`` have equal ``columns``.

    The columns must not be null.
    """
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in columns.split(", "))
