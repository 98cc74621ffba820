"""Queries for the final states of partitions and replicas, and for final leaders and ISRs.

With ``--as-of``, only events up to that moment are read, and the result is the states as of that
moment. ``by_replica`` finds only the position of the last row with a partition's leader and ISR;
this module joins the row itself.
"""

from __future__ import annotations

from typing import Final

from klamm.replay.engines import Engine
from klamm.replay.questions.columns import (
    NO_PARTITION,
    NO_REPLICA,
    PARTITION,
    REPLICA,
    judged,
    known_state,
)
from klamm.replay.questions.histories import by_partition, by_replica

LEADERSHIP: Final = "leader, leader_epoch, isr, zk_version"


def final_partitions(partitions: str, events: str) -> str:
    """Return a query for the final state, leader and ISR of each partition.

    ``partitions`` is the result of ``by_partition``. ``state`` is 0 if the log does not have the
    last state: Kafka's logs at INFO do not show whether a partition that lost its leader is Offline
    or being deleted. Deleted partitions are left out.
    """
    # If an epoch has two controllers, both may have a row at the same place.
    return f"""
SELECT {PARTITION}, {known_state("coalesce(state, 0)")} AS state, {LEADERSHIP}, state_place,
  leadership_place
FROM (
  SELECT *, row_number() OVER (PARTITION BY {PARTITION} ORDER BY controller DESC) AS number
  FROM {partitions} LEFT JOIN (
    SELECT {PARTITION}, place AS leadership_place, controller, {LEADERSHIP}
    FROM {events} WHERE is_leadership AND NOT is_birth_or_death AND topic IS NOT NULL
  ) USING ({PARTITION}, leadership_place))
WHERE number = 1 AND coalesce(state <> {NO_PARTITION}, leader IS NOT NULL)
  AND (leader IS NOT NULL OR leadership_place IS NULL OR leadership_place <= state_place)"""


def final_replicas(replicas: str) -> str:
    """Return a query for the final state of each replica that exists.

    ``replicas`` is the result of ``by_replica``.
    """
    return f"""
SELECT {REPLICA}, state, state_place FROM {replicas}
WHERE replica >= 0 AND state <> {NO_REPLICA}"""


def final_tables(engine: Engine, events: str, cluster: str = "") -> tuple[str, str]:
    """Compute the final states in stored events.

    Returns the names of two relations: the final states of partitions, and those of replicas.
    ``cluster``: names of the columns that distinguish clusters, which become the first columns of
    the relations. If empty, all events belong to one cluster.
    """
    if not cluster:
        events = f"(SELECT * EXCLUDE (run), CAST(0 AS BIGINT) AS run FROM {events})"
    found = engine.view(judged(events), "judged")
    replicas = engine.keep(by_replica(found), "replicas")
    partitions = final_partitions(f"({by_partition(replicas)})", found)
    key = f"{cluster}, topic, partition" if cluster else "topic, partition"
    return (
        engine.keep(f"SELECT {key}, state, {LEADERSHIP} FROM ({partitions})", "partitions"),
        engine.keep(f"SELECT {key}, replica, state FROM ({final_replicas(replicas)})", "replicas"),
    )
