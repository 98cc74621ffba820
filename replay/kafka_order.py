"""Merges the rows of a cluster's state-change.log and controller.log into one order.

The controller writes both logs, with times in milliseconds. Within a controller epoch, the rows of
both logs are merged by time. Rows of the same file keep their order, even if the clock was set
back.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.encode import xxhash64
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    CONTROLLER_LOG,
    EPOCH_SHIFT,
    KAFKA_LOGS,
    LEADERSHIP_DELETED,
    SOURCES,
    STATE_CHANGE_LOG,
    code_of,
)
from klamm.replay.event_table import EventTable, Manifest
from klamm.replay.questions.columns import NO_PARTITION, is_kind, kind_code

BOTH: Final = (STATE_CHANGE_LOG, CONTROLLER_LOG)
_CODES: Final = tuple(code_of(source, SOURCES) for source in BOTH)
_CAUSES: Final = is_kind(
    *(Kind.CONTROLLER_ELECTED, Kind.BROKER_ONLINE, Kind.BROKER_OFFLINE),
    *(Kind.TOPIC_CREATED, Kind.PARTITIONS_ADDED, Kind.TOPIC_DELETION_STARTED),
)
"""Rows of controller.log that Kafka logs before the state transitions that they cause. All other
rows, such as the states logged at a failover, are logged after the transitions."""
_TURN: Final = f"CASE WHEN {_CAUSES} THEN 0 WHEN source = {_CODES[0]} THEN 1 ELSE 2 END"
_SECOND_MS: Final = 1_000
_SO_FAR: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def in_one_order(events: str) -> str:
    """Return a query that sets ``place`` so that it orders the rows of both logs of a run.

    Runs with only one log keep their ``place``. Rows are sorted and numbered within each second, so
    that no sort has to hold a whole epoch.
    """
    by_second = "run, epoch, second"
    columns = ", ".join(
        f"CASE WHEN has_both THEN (CAST(epoch AS BIGINT) << {EPOCH_SHIFT}) + before + number "
        "ELSE place END AS place"
        if name == "place"
        else name
        for name in CODED_SCHEMA.names
    )
    return f"""
WITH timed AS (
  SELECT *, CAST(floor(at_ms / {_SECOND_MS}) AS BIGINT) AS second, {_TURN} AS turn
  FROM (
    SELECT *, max(t_ms) OVER (PARTITION BY source, file, epoch ORDER BY place {_SO_FAR}) AS at_ms
    FROM {events})),
seconds AS (
  SELECT {by_second}, CAST(sum(rows) OVER (PARTITION BY run, epoch ORDER BY second {_SO_FAR}) - rows
    AS BIGINT) AS before
  FROM (SELECT {by_second}, count(*) AS rows FROM timed GROUP BY {by_second})),
runs AS (SELECT run, count(DISTINCT source) > 1 AS has_both FROM timed GROUP BY run)
SELECT {columns}
FROM (
  SELECT *, row_number() OVER (PARTITION BY {by_second} ORDER BY at_ms, turn, source, place)
    AS number
  FROM timed)
JOIN seconds USING ({by_second}) JOIN runs USING (run)"""


def with_deletions(events: str) -> str:
    """Return a query that adds a row for each partition that is deleted together with its topic.

    At INFO, state-change.log does not log the end of a partition, but controller.log logs that the
    deletion of its topic is completed.
    """
    states = is_kind(Kind.PARTITION_TRANSITION, Kind.PARTITION_SNAPSHOT, Kind.ISR_REMOVED)
    columns = ", ".join(
        {
            "kind": f"CAST({kind_code(LEADERSHIP_DELETED)} AS TINYINT) AS kind",
            "partition": "s.partition",
        }.get(name, f"e.{name}")
        for name in CODED_SCHEMA.names
    )
    return f"""
SELECT {", ".join(CODED_SCHEMA.names)} FROM {events}
UNION ALL
SELECT {columns}
FROM (
  SELECT *, lag(place) OVER (PARTITION BY run, topic ORDER BY place) AS last_place
  FROM {events} WHERE {is_kind(Kind.TOPIC_DELETED)}) AS e
JOIN (
  SELECT run, topic, partition, place, coalesce(lead(place) OVER (
    PARTITION BY run, topic, partition ORDER BY place), {2**63 - 1}) AS next_place, to_state
  FROM {events} WHERE {states}) AS s
ON e.run = s.run AND e.topic = s.topic AND s.place < e.place AND s.next_place > e.place
  AND s.place > coalesce(e.last_place, -1) AND s.to_state <> {NO_PARTITION}"""


def runs_with_both(manifest: Manifest) -> list[str]:
    """Return the names of the runs that have both logs."""
    runs = [
        {covered.run for covered in summary.runs}
        for summary in manifest.sources
        if summary.source in BOTH
    ]
    return sorted(runs[0] & runs[1]) if len(runs) == len(BOTH) else []


def as_one_log(table: EventTable) -> str:
    """Return the name of a relation with a table's events, in which both Kafka logs are one source.

    In runs that have both logs, the source is KAFKA_LOGS. In other runs, it is unchanged.
    """
    runs = ", ".join(str(xxhash64(run)) for run in runs_with_both(table.manifest))
    if not runs:
        return table.events
    one = code_of(KAFKA_LOGS, SOURCES)
    source = f"CASE WHEN source IN {_CODES} AND run IN ({runs}) THEN {one} ELSE source END"
    columns = f"* EXCLUDE (source), CAST({source} AS TINYINT) AS source"
    return table.engine.view(f"SELECT {columns} FROM {table.events}", "events")
