"""The same questions in DuckDB, over the same files: one process without Java, as a measure.

Needs the optional package duckdb (`pip install klamm[bench]`). SQL of its own: the sums must come
out as those of replay/run.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import KINDS, STATE_CODES, code_of
from klamm.replay.event_table import EVENTS
from klamm.replay.questions.columns import (
    FAILURES,
    LEADERSHIPS,
    OFFLINE,
    REPLICA_KINDS,
    STATE_KINDS,
    legal_bits,
)
from klamm.statemachines import partition_state, replica_state

SKIP_REASON: Final = "duckdb is not installed (pip install 'klamm[bench]')"
SUMS: Final = (
    "rows",
    "illegal",
    "failed",
    "unclean",
    "shrinks",
    "expands",
    "offlines",
    "missing",
)
"""What is compared with replay/run.py, by its names."""
_MEMORY: Final = "3GB"


def is_there() -> bool:
    """True if DuckDB can be asked."""
    return find_spec("duckdb") is not None


class Answer(NamedTuple):
    """Sums of the pass by key, and the seconds of the pass, of its processors, of everything."""

    sums: dict[str, int]
    pass_s: float
    pass_cpu_s: float
    all_s: float


def ask(table: Path, cores: int, scratch: Path) -> Answer:
    """Every question of an event table, the pass by key first."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET threads = {cores}")
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute(f"SET temp_directory = '{scratch}'")
        files = table / EVENTS / "*" / "*.parquet"
        connection.execute(f"CREATE VIEW stored AS SELECT * FROM read_parquet('{files}')")
        connection.execute(f"CREATE VIEW events AS {_EVENTS}")
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        connection.execute(f"CREATE TEMP TABLE histories AS {_HISTORIES}")
        row = connection.execute(
            f"SELECT {', '.join(f'sum({name})::BIGINT' for name in SUMS)} FROM histories"
        ).fetchone()
        pass_s, pass_cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
        for query in _questions():
            connection.execute(query).fetchall()
        all_s = time.perf_counter() - start_s
    assert row is not None
    return Answer(dict(zip(SUMS, row, strict=True)), pass_s, pass_cpu_s, all_s)


def _in(*kinds: str) -> str:
    return f"kind IN ({', '.join(str(code_of(kind, KINDS)) for kind in kinds)})"


def _legal(before: Any, states: type[StrEnum]) -> str:
    first = min(STATE_CODES[state.value] for state in states)
    place = f"(from_state - {first}) * {len(states)} + to_state - {first}"
    return f"(({legal_bits(before, first)}::BIGINT >> ({place})::BIGINT) & 1) = 1"


_PARTITION_MOVE: Final = _in(Kind.PARTITION_TRANSITION)
_MOVE: Final = _in(Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)
_LED: Final = f"({_in(*LEADERSHIPS)} AND leader IS NOT NULL)"
_SNAPSHOT: Final = _in(Kind.PARTITION_SNAPSHOT)
_WENT_OFFLINE: Final = (
    f"to_state = {OFFLINE} AND CASE WHEN {_SNAPSHOT} THEN leader > -1 "
    f"ELSE {_PARTITION_MOVE} AND from_state != {OFFLINE} END"
)
_EVENTS: Final = f"""
SELECT *,
  CASE WHEN {_in(*REPLICA_KINDS)} THEN replica ELSE -1 END AS key,
  {_MOVE} AND from_state != 0 AND NOT CASE WHEN {_PARTITION_MOVE}
    THEN {_legal(partition_state.VALID_PREVIOUS, partition_state.PartitionState)}
    ELSE {_legal(replica_state.VALID_PREVIOUS, replica_state.ReplicaState)} END AS is_illegal,
  {_LED} AS is_led,
  {_LED} AND NOT {_SNAPSHOT} AND leader > -1 AND leader != coalesce(prev_leader, -1)
    AND prev_isr IS NOT NULL AND NOT list_contains(prev_isr, leader) AS is_unclean,
  CASE WHEN {_LED} THEN list_filter(prev_isr, lambda x: NOT list_contains(isr, x)) END AS isr_out,
  CASE WHEN {_LED} THEN list_filter(isr, lambda x: NOT list_contains(prev_isr, x)) END AS isr_in
FROM stored
"""
_HISTORIES: Final = f"""
SELECT run, topic, "partition", key, controller, epoch,
  count(*) AS rows,
  count(*) FILTER (is_illegal) AS illegal,
  count(*) FILTER ({_in(*FAILURES)}) AS failed,
  count(*) FILTER (is_unclean) AS unclean,
  count(*) FILTER (len(isr_out) > 0) AS shrinks,
  count(*) FILTER (len(isr_in) > 0) AS expands,
  count(*) FILTER (is_led AND leader != prev_leader) AS leader_changes,
  count(*) FILTER ({_WENT_OFFLINE} AND NOT is_illegal) AS offlines,
  max(key_seq) - least(min(key_seq), 1) + 1 - count(key_seq) AS missing,
  arg_max(to_state, place) FILTER ({_in(*STATE_KINDS)} AND NOT is_illegal) AS state,
  arg_max(t_ms, place) FILTER ({_in(*STATE_KINDS)} AND NOT is_illegal) AS state_ms,
  max(place) AS state_place,
  arg_max(leader, place) FILTER (is_led) AS leader,
  arg_max(leader_epoch, place) FILTER (is_led) AS leader_epoch,
  arg_max(zk_version, place) FILTER (is_led) AS zk_version,
  sum(t_ms - since_ms) FILTER ({_PARTITION_MOVE} AND from_state = {OFFLINE}) AS offline_ms
FROM events WHERE topic IS NOT NULL GROUP BY ALL
"""


def _questions() -> Iterator[str]:
    """What is not in the pass by key, one query a question."""
    bucket = "t_ms // 60000"
    yield (
        "SELECT controller, epoch, count(*), min(t_ms), max(t_ms), min(seq), max(seq), sum(seq), "
        "bit_xor(seq) FROM stored GROUP BY ALL"
    )
    yield 'SELECT run, topic, "partition", key, arg_max(state, state_place) FROM histories ' + (
        "GROUP BY ALL ORDER BY ALL LIMIT 100"
    )
    for condition in ("is_illegal", "is_unclean"):
        yield f"SELECT * FROM events WHERE {condition} ORDER BY t_ms LIMIT 101"
    yield (
        'SELECT topic, "partition", since_ms, t_ms FROM stored '
        f"WHERE {_PARTITION_MOVE} AND from_state = {OFFLINE} AND to_state != {OFFLINE} "
        "ORDER BY t_ms - since_ms DESC LIMIT 101"
    )
    yield (
        'SELECT topic, "partition", t_ms, lead(t_ms) OVER (PARTITION BY topic, "partition" '
        "ORDER BY place) AS ended FROM events "
        "WHERE is_led AND (leader = -1) != (coalesce(prev_leader, 0) = -1) ORDER BY ended LIMIT 101"
    )
    yield (
        f"SELECT {bucket}, count(*) FILTER ({_WENT_OFFLINE}), "
        f"count(*) FILTER ({_PARTITION_MOVE} AND from_state = {OFFLINE}) FROM stored GROUP BY ALL"
    )
    yield (
        f"SELECT {bucket}, prev_leader, leader, count(*) FROM events "
        "WHERE is_led AND leader IS DISTINCT FROM prev_leader GROUP BY ALL"
    )
    moved = "unnest(list_concat(isr_out, isr_in)) AS broker FROM events WHERE prev_isr IS NOT NULL"
    yield f"SELECT minute, broker, count(*) FROM (SELECT {bucket} AS minute, {moved}) GROUP BY ALL"
    yield (
        f'SELECT topic, "partition", broker, count(*) AS n '
        f'FROM (SELECT topic, "partition", {moved}) GROUP BY ALL ORDER BY n DESC LIMIT 101'
    )
    yield (
        "SELECT reassignment, min(t_ms), max(t_ms), arg_max(to_state, place) FROM stored "
        f"WHERE {_in(Kind.REASSIGNMENT_PHASE)} GROUP BY ALL ORDER BY 3 LIMIT 101"
    )
    yield "SELECT topic, sum(shrinks + failed) AS n FROM histories GROUP BY ALL ORDER BY n"
