"""Queries for the intervals in which clients could not use a partition for lack of a live leader.

They use the result of ``questions.lives``, and the events about brokers, controllers and topics,
which are infrequent.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import ADMIN_REQUEST, SESSION_CLOSED_DETAIL
from klamm.replay.questions.columns import (
    IS_STATE_CHANGE_LOG,
    NO_PARTITION,
    OFFLINE,
    PARTITION,
    RUN,
    is_kind,
)

_STARTED: Final = (
    f"({is_kind(Kind.TOPIC_DELETION_STARTED)} OR "
    f"({is_kind(ADMIN_REQUEST)} AND detail = 'delete_topics'))"
)
_SHUTDOWN: Final = "^(?:ControlledShutdown\\(|Shutting down broker )([0-9]+)"
"""Regular expression for a controlled shutdown's text in journals and in controller.log."""
_IS_SHUTDOWN: Final = (
    f"({is_kind(Kind.EVENT)} AND (detail LIKE 'ControlledShutdown(%' "
    "OR detail LIKE 'Shutting down broker %'))"
)
_IS_ORDERLY: Final = f"({is_kind(Kind.BROKER_OFFLINE)} AND detail = '{SESSION_CLOSED_DETAIL}')"
_SHUTDOWN_MS: Final = 60_000
"""Time before a broker closes its ZooKeeper session in which its shutdown may have begun."""
_BROKER: Final = is_kind(Kind.BROKER_OFFLINE, Kind.BROKER_ONLINE)
IS_OF_OUTAGES: Final = (
    f"{is_kind(Kind.TOPIC_CREATED, Kind.CONTROLLER_READY)} OR {_BROKER} OR {_STARTED} "
    f"OR {_IS_SHUTDOWN}"
)
"""SQL condition that selects the infrequent kinds of events used by this module's queries."""
_END: Final = 2**63 - 1
_ORDER: Final = f"PARTITION BY {PARTITION} ORDER BY from_place, until_place"


class Planned(NamedTuple):
    """Names of the relations with deletions of topics and with controlled shutdowns."""

    deleted: str
    shut_down: str


def deletions(marked: str) -> str:
    """Return a query for topic deletions: from the request until the topic is created again.

    ``until_place`` and ``until_ms`` are null for the last deletion of a topic.
    """
    order = f"PARTITION BY {RUN}, topic ORDER BY place"
    return f"""
SELECT {RUN}, topic, place AS from_place, t_ms AS from_ms, until_place, until_ms
FROM (
  SELECT {RUN}, topic, {_STARTED} AS is_start, place, t_ms, lead(place) OVER ({order})
    AS until_place, lead(t_ms) OVER ({order}) AS until_ms
  FROM {marked} WHERE {_STARTED} OR {is_kind(Kind.TOPIC_CREATED)})
WHERE is_start"""


def deaths(marked: str) -> str:
    """Return a query for the intervals in which brokers were dead (not registered in ZooKeeper).

    ``until_place`` and ``until_ms`` are null for a broker that stayed dead. A new controller does
    not log which brokers returned before its election, but it logs the states of all partitions.
    An interval therefore ends, at the latest, when the next controller is ready.
    """
    order = f"PARTITION BY {RUN}, replica ORDER BY place"
    return f"""
SELECT d.source, d.run, broker, from_place, from_ms,
  nullif(least(coalesce(min(d.next_place), {_END}), coalesce(min(r.place), {_END})), {_END})
    AS until_place,
  nullif(least(coalesce(min(d.next_ms), {_END}), coalesce(min(r.t_ms), {_END})), {_END}) AS until_ms
FROM (
  SELECT {RUN}, kind, replica AS broker, place AS from_place, t_ms AS from_ms,
    lead(place) OVER ({order}) AS next_place, lead(t_ms) OVER ({order}) AS next_ms
  FROM {marked} WHERE {_BROKER}) AS d
LEFT JOIN (SELECT {RUN}, place, t_ms FROM {marked} WHERE {is_kind(Kind.CONTROLLER_READY)}) AS r
  ON d.source = r.source AND d.run = r.run AND r.place > from_place
WHERE d.{is_kind(Kind.BROKER_OFFLINE)}
GROUP BY d.source, d.run, broker, from_place, from_ms"""


def shutdowns(marked: str) -> str:
    """Return a query for the intervals from a broker's controlled shutdown to its next start.

    ``until_place`` is null for a broker that was not started again. ZooKeeper's logs do not have
    the request for a shutdown, but a broker that shuts down closes its session. Its interval begins
    when the broker registered, but not before ``from_ms``, which is null in other logs.
    """
    broker = f"CASE WHEN {_BROKER} THEN replica ELSE " + (
        f"CAST(regexp_extract(detail, '{_SHUTDOWN}', 1) AS INTEGER) END"
    )
    starts = f"lead(CASE WHEN {is_kind(Kind.BROKER_ONLINE)} THEN place END IGNORE NULLS)"
    return f"""
SELECT {RUN}, broker, CASE WHEN {_IS_ORDERLY} THEN coalesce(born_place, -1) ELSE place END
  AS from_place, until_place, CASE WHEN {_IS_ORDERLY} THEN t_ms - {_SHUTDOWN_MS} END AS from_ms
FROM (
  SELECT {RUN}, kind, detail, broker, place, t_ms,
    {starts} OVER (PARTITION BY {RUN}, broker ORDER BY place) AS until_place,
    max(CASE WHEN {is_kind(Kind.BROKER_ONLINE)} THEN place END) OVER (
      PARTITION BY {RUN}, broker ORDER BY place) AS born_place
  FROM (SELECT *, {broker} AS broker FROM {marked} WHERE {_BROKER} OR {_IS_SHUTDOWN}))
WHERE {is_kind(Kind.EVENT)} OR {_IS_ORDERLY}"""


def unplanned_shrinks(moved: str, dead: str, planned: Planned) -> str:
    """Return a query for the ISR changes in which replicas left an ISR unexpectedly.

    Replicas are expected to leave ISRs at topic deletions, controlled shutdowns and reassignments,
    but not if their broker died during a reassignment. ``moved``: result of ``while_reassigned``.
    state-change.log alone does not show why a replica left an ISR.
    """
    of_run = "m.source = {0}.source AND m.run = {0}.run"
    of_topic = f"{of_run} AND m.topic = {{0}}.topic"
    until = "({0}.until_place IS NULL OR m.place < {0}.until_place)"
    return f"""
SELECT m.* FROM (
  SELECT m.*, x.broker IS NOT NULL AS is_dead
  FROM (SELECT * FROM {moved} WHERE has_left AND NOT {IS_STATE_CHANGE_LOG}) AS m
  LEFT JOIN {dead} AS x ON {of_run.format("x")} AND m.replica = x.broker
    AND m.place > x.from_place AND {until.format("x")}) AS m
ANTI JOIN {planned.deleted} AS d ON {of_topic.format("d")}
  AND m.place > d.from_place AND {until.format("d")}
ANTI JOIN {planned.shut_down} AS s ON {of_run.format("s")} AND m.replica = s.broker
  AND m.place > s.from_place AND {until.format("s")}
  AND (s.from_ms IS NULL OR m.t_ms >= s.from_ms)
WHERE is_dead OR NOT is_reassigned"""


def while_reassigned(moved: str, reassigned: str) -> str:
    """Return a query that adds the column ``is_reassigned`` to the ISR changes ``moved``.

    ``is_reassigned``: a reassignment of the partition was in progress.
    """
    # A join would compare all changes of a partition with all of its reassignments.
    return f"""
SELECT {PARTITION}, place, t_ms, replica, has_left,
  coalesce(reassigned_until_ms >= t_ms, false) AS is_reassigned
FROM (
  SELECT *, max(end_ms) OVER (PARTITION BY {PARTITION} ORDER BY t_ms
    RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS reassigned_until_ms
  FROM (
    SELECT {PARTITION}, t_ms, place, replica, has_left, NULL AS end_ms
    FROM {moved}
    UNION ALL
    SELECT {PARTITION}, start_ms AS t_ms, NULL AS place, NULL AS replica, NULL AS has_left,
      coalesce(end_ms, {_END}) AS end_ms
    FROM {reassigned}))
WHERE replica IS NOT NULL"""


def leaderless_intervals(found: str, dead: str, deleted: str) -> str:
    """Return a query for the intervals in which a partition had no live leader.

    A partition has no live leader while its state znode has leader -1, while it is Offline, and
    while its leader is dead (``dead``: the result of ``deaths``). The deletion of a partition ends
    its interval. No interval begins:

    - while the topic is being deleted, according to any log of the run (``deleted``: the result of
      ``deletions``), or
    - if the partition loses its leader because it is being deleted.

    ``lost``: the previous leader; null if unknown. ``end_ms``: null if the interval has not ended.
    """
    columns = ", ".join(f"i.{name}" for name in PARTITION.split(", "))
    # Places of different logs cannot be compared.
    return f"""
SELECT {columns}, i.epoch, i.lost, i.start_ms, i.end_ms
FROM ({_joined(_parts(found, dead))}) AS i
ANTI JOIN {deleted} AS d ON i.run = d.run AND i.topic = d.topic AND CASE
  WHEN i.source = d.source
    THEN i.from_place > d.from_place AND (d.until_place IS NULL OR i.from_place < d.until_place)
  ELSE i.start_ms >= d.from_ms AND (d.until_ms IS NULL OR i.start_ms < d.until_ms) END"""


def _parts(found: str, dead: str) -> str:
    """Return a query for intervals without a live leader, which may touch or overlap.

    ``is_outage``: false if the partition may have lost its leader because of its deletion.
    """
    columns = ", ".join(f"l.{name}" for name in PARTITION.split(", "))
    order = f"PARTITION BY {PARTITION} ORDER BY place, controller"
    lived = f"""
  SELECT {PARTITION}, epoch, place, t_ms, leader,
    coalesce(state = {OFFLINE}, false) AS is_offline, was_offline, ends_next,
    coalesce(leader = {NO_LEADER}, false) AS is_leaderless,
    CASE WHEN leader > {NO_LEADER} THEN leader WHEN said_leader > {NO_LEADER} THEN said_leader END
      AS lost,
    coalesce(lead(state) OVER ({order}) = {NO_PARTITION}, false) AS is_last,
    coalesce(lead(place) OVER ({order}), {_END}) AS next_place,
    coalesce(lead(t_ms) OVER ({order}), {_END}) AS next_ms
  FROM {found}"""
    return f"""
SELECT {PARTITION}, epoch, lost, place AS from_place, t_ms AS from_ms, next_place AS until_place,
  next_ms AS until_ms, is_last, is_offline AND (was_offline OR NOT ends_next) AS is_outage
FROM ({lived}) WHERE is_offline OR is_leaderless
UNION ALL
SELECT {columns}, l.epoch, l.lost, greatest(d.from_place, l.place), greatest(d.from_ms, l.t_ms),
  least(coalesce(d.until_place, {_END}), l.next_place),
  least(coalesce(d.until_ms, {_END}), l.next_ms), l.is_last, true
FROM ({lived}) AS l JOIN {dead} AS d
  ON l.source = d.source AND l.run = d.run AND l.leader = d.broker
  AND d.from_place < l.next_place AND coalesce(d.until_place, {_END}) > l.place
WHERE NOT l.is_offline"""


def _joined(parts: str) -> str:
    """Return a query that merges the intervals of a partition that touch or overlap."""
    before = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
    until_now = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    return f"""
SELECT {PARTITION}, min(from_place) AS from_place, arg_min(epoch, from_place) AS epoch,
  arg_min(lost, from_place) AS lost, min(from_ms) AS start_ms,
  nullif(max(until_ms), {_END}) AS end_ms
FROM (
  SELECT *, sum(CASE WHEN from_place <= reached THEN 0 ELSE 1 END) OVER ({_ORDER} {until_now})
    AS number
  FROM (SELECT *, max(until_place) OVER ({_ORDER} {before}) AS reached FROM ({parts})))
GROUP BY {PARTITION}, number
HAVING bool_or(is_outage) OR NOT bool_or(is_last)"""
