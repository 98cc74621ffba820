"""Derives events from the changes in ZooKeeper's logs, in SQL.

Adds the values that depend on several transactions:

- which broker owns a session, and which ephemeral znodes end with it (logs of ZooKeeper 3.5 do not
  list them),
- which controller made a write: the write checks a version of /controller_epoch (the fence),
- the controller epoch of changes that do not contain it.

The few rows about controllers and brokers are sorted; rows about partitions are only joined with
them. Unknown values are null; an unknown controller or epoch is -1.
"""

from __future__ import annotations

from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.encode import xxhash64
from klamm.replay.engines import Engine
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    LEADERSHIP_WRITTEN,
    SOURCES,
    WRITE_REFUSED,
    ZK_COUNTER_SHIFT,
    ZK_EPOCH_SHIFT,
    ZOOKEEPER_LOG,
    code_of,
)
from klamm.replay.sources.zookeeper_changes import (
    CONTROLLER_CREATED,
    EPOCH_WRITTEN,
    SESSION_CLOSED,
)
from klamm.replay.sources.zookeeper_rows import CHANGE_KINDS

_UNKNOWN: Final = -1
_COUNTER_MASK: Final = (1 << 32) - 1
_LAST_INDEX: Final = (1 << ZK_COUNTER_SHIFT) - 1
_FENCED_OFF: Final = xxhash64("BADVERSION")
_WRITER: Final = "written by broker "


def _is(*kinds: str) -> str:
    return f"kind IN ({', '.join(str(code_of(kind, CHANGE_KINDS)) for kind in kinds)})"


def _code(kind: str) -> int:
    return code_of(kind, CHANGE_KINDS)


_IS_EPOCH: Final = _is(Kind.CONTROLLER_ELECTED, EPOCH_WRITTEN)
_IS_BIRTH: Final = _is(Kind.CONTROLLER_ELECTED, CONTROLLER_CREATED, Kind.BROKER_ONLINE)
_IS_DEATH: Final = _is(Kind.CONTROLLER_RESIGNED, Kind.BROKER_OFFLINE)
_IS_CLOSED: Final = _is(SESSION_CLOSED)
_IS_FENCED: Final = f"(fence IS NOT NULL OR {_is(LEADERSHIP_WRITTEN)})"
_IS_REFUSED: Final = _is(WRITE_REFUSED)
_PLACE: Final = "file, line, zxid, session, t_ms, op_index"
_CONTENT: Final = (
    "topic, partition, leader, leader_epoch, isr, zk_version, fence, reassignment, outcome"
)
_SAID: Final = f"{_PLACE}, {_CONTENT}, kind, run, broker, epoch, detail, controller"


def events_of(engine: Engine, changes: str) -> str:
    """Return a query for the events (CODED_SCHEMA). ``changes`` must not contain duplicates."""
    few = engine.keep(
        f"SELECT * FROM {changes} WHERE {_IS_BIRTH} OR {_IS_DEATH} OR {_IS_CLOSED} OR {_IS_EPOCH}",
        "few",
    )
    sessions = engine.keep(
        "SELECT session, min(run) AS session_run, max(broker) AS session_broker "
        f"FROM {few} WHERE {_IS_BIRTH} GROUP BY session",
        "sessions",
    )
    named = f"{_with_owners(changes, few, sessions)} UNION ALL {_deaths(few)}"
    return _coded(f"{_fenced(changes, few, sessions)} UNION ALL {_with_epochs(named)}")


def _lasts(beginning: str) -> str:
    """Return a join condition: r.zxid is in the range (from_zxid, until_zxid] of ``beginning``."""
    return (
        f"r.zxid > {beginning}.from_zxid "
        f"AND ({beginning}.until_zxid IS NULL OR r.zxid <= {beginning}.until_zxid)"
    )


def _until(key: str) -> str:
    return f"zxid AS from_zxid, lead(zxid) OVER (PARTITION BY {key} ORDER BY zxid) AS until_zxid"


def _of(alias: str, columns: str) -> str:
    return ", ".join(f"{alias}.{name}" for name in columns.split(", "))


def _fenced(changes: str, few: str, sessions: str) -> str:
    """Return a query that adds ``controller`` and ``epoch`` to controllers' and leaders' writes.

    A controller's write checks the version of /controller_epoch (the fence), which identifies the
    controller. A leader's write of an ISR has no such check; it contains the controller epoch in
    which the leader was elected. The current epoch is used if it is newer.
    """
    return f"""
SELECT {_of("r", _PLACE)}, {_of("r", _CONTENT)}, r.kind, r.run,
  CAST(NULL AS INTEGER) AS broker,
  coalesce(g.generation, greatest(c.current_epoch, r.epoch)) AS epoch,
  coalesce(r.detail, CASE WHEN r.fence IS NULL
    THEN '{_WRITER}' || CAST(s.session_broker AS VARCHAR) END) AS detail,
  coalesce(g.of_broker, {_UNKNOWN}) AS controller
FROM (SELECT * FROM {changes} WHERE {_IS_FENCED}) AS r
LEFT JOIN (
  SELECT run, zk_version, epoch AS generation, broker AS of_broker, {_until("run, zk_version")}
  FROM {few} WHERE {_IS_EPOCH}
) AS g ON r.run = g.run AND r.fence = g.zk_version AND {_lasts("g")}
LEFT JOIN (
  SELECT run, epoch AS current_epoch, {_until("run")} FROM {few} WHERE {_IS_EPOCH}
) AS c ON r.fence IS NULL AND r.run = c.run AND {_lasts("c")}
LEFT JOIN {sessions} AS s ON r.session = s.session"""


def _with_owners(changes: str, few: str, sessions: str) -> str:
    """Return a query that adds ``controller`` and ``broker`` to changes such as elections.

    These are the changes that neither ``_fenced`` nor ``_deaths`` handles.

    Rejected writes of sessions that never belonged to a Kafka broker are dropped. A rejected multi
    whose first operation failed is logged without paths. If its error is BADVERSION, it is the
    write of a deposed controller, whose first operation checks the controller epoch.
    """
    return f"""
SELECT {_of("r", _PLACE)}, {_of("r", _CONTENT)}, r.kind,
  coalesce(r.run, s.session_run) AS run,
  CASE WHEN r.{_IS_REFUSED} THEN s.session_broker ELSE r.broker END AS broker,
  coalesce(r.epoch, e.elected_epoch) AS epoch, r.detail,
  coalesce(CASE WHEN r.{_is(EPOCH_WRITTEN)} OR e.elected_epoch IS NOT NULL THEN s.session_broker
    WHEN r.{_is(Kind.CONTROLLER_ELECTED)} THEN r.broker END, {_UNKNOWN}) AS controller
FROM (
  SELECT * FROM {changes}
  WHERE NOT ({_IS_DEATH} OR {_IS_CLOSED}) AND NOT {_IS_FENCED}) AS r
LEFT JOIN {sessions} AS s ON r.session = s.session
LEFT JOIN (
  SELECT session, epoch AS elected_epoch, {_until("session")}
  FROM {few} WHERE {_is(Kind.CONTROLLER_ELECTED)}
) AS e ON r.session = e.session AND r.{_IS_REFUSED} AND r.run IS NULL
  AND r.outcome = {_FENCED_OFF} AND {_lasts("e")}
WHERE NOT r.{_IS_REFUSED} OR s.session_run IS NOT NULL"""


def _deaths(few: str) -> str:
    """Return a query for the ends of broker registrations and of controllers.

    An ephemeral znode ends when it is deleted, or when the session that created it is closed.
    """
    of_broker = _is(Kind.BROKER_ONLINE, Kind.BROKER_OFFLINE)
    znode = f"PARTITION BY run, CASE WHEN {of_broker} THEN broker END ORDER BY zxid, op_index"
    lives = f"""
  SELECT *, lag(CASE WHEN NOT {of_broker} THEN broker END) OVER ({znode}) AS holder,
    lead(zxid) OVER ({znode}) AS next_zxid
  FROM {few} WHERE {_IS_BIRTH} OR {_IS_DEATH}"""
    content = ", ".join(f"r.{name}" for name in _CONTENT.split(", "))
    return f"""
SELECT {_PLACE}, {_CONTENT}, kind, run, broker, epoch, detail,
  coalesce(holder, {_UNKNOWN}) AS controller
FROM ({lives}) WHERE {_IS_DEATH}
UNION ALL
SELECT {_of("r", _PLACE)}, {content},
  CASE WHEN c.was_broker THEN {_code(Kind.BROKER_OFFLINE)}
    ELSE {_code(Kind.CONTROLLER_RESIGNED)} END AS kind,
  c.run, CASE WHEN c.was_broker THEN c.broker ELSE {_UNKNOWN} END AS broker, r.epoch,
  r.detail,
  CASE WHEN c.was_broker THEN {_UNKNOWN} ELSE c.broker END AS controller
FROM (SELECT * FROM {few} WHERE {_IS_CLOSED}) AS r JOIN (
  SELECT session, zxid AS born_zxid, next_zxid, run, broker, {_is(Kind.BROKER_ONLINE)} AS was_broker
  FROM ({lives}) WHERE {_IS_BIRTH}
) AS c ON r.session = c.session AND c.born_zxid < r.zxid
  AND (c.next_zxid IS NULL OR c.next_zxid > r.zxid)"""


def _with_epochs(rows: str) -> str:
    """Return a query that sets a missing ``epoch`` to the controller epoch at that time."""
    return f"""
SELECT {_SAID.replace("epoch, detail", "coalesce(epoch, current_epoch) AS epoch, detail")}
FROM (
  SELECT *, last_value(CASE WHEN {_IS_EPOCH} THEN epoch END IGNORE NULLS) OVER (
    PARTITION BY run ORDER BY zxid, op_index
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS current_epoch
  FROM ({rows}))"""


def _coded(rows: str) -> str:
    """Return a query that converts rows to CODED_SCHEMA."""
    # A write of the epoch in a separate transaction is an election before Kafka 2.2 or a manual
    # change. The first write only creates the znode.
    is_election = f"{_is(EPOCH_WRITTEN)} AND zk_version > 0"
    controllers = _is(Kind.CONTROLLER_ELECTED, Kind.CONTROLLER_RESIGNED)
    columns = {
        "source": f"CAST({code_of(ZOOKEEPER_LOG, SOURCES)} AS TINYINT)",
        "place": f"""((zxid >> 32) << {ZK_EPOCH_SHIFT})
    + ((zxid & {_COUNTER_MASK}) << {ZK_COUNTER_SHIFT}) + least(op_index, {_LAST_INDEX})""",
        "epoch": f"coalesce(epoch, {_UNKNOWN})",
        "replica": f"CASE WHEN {controllers} THEN {_UNKNOWN} ELSE coalesce(broker, {_UNKNOWN}) END",
        "from_state": "CAST(0 AS TINYINT)",
        "to_state": "CAST(0 AS TINYINT)",
        "election": "CAST(0 AS TINYINT)",
        **dict.fromkeys(("seq", "event_id", "cause_id"), "CAST(0 AS BIGINT)"),
        **dict.fromkeys(("since_ms", "key_seq"), "CAST(NULL AS BIGINT)"),
        "prev_leader": "CAST(NULL AS INTEGER)",
        "prev_isr": "CAST(NULL AS INTEGER[])",
        "has_predecessors": "false",
    }
    shown = ", ".join(
        f"{columns[name]} AS {name}" if name in columns else name for name in CODED_SCHEMA.names
    )
    elected = f"CASE WHEN {is_election} THEN {_code(Kind.CONTROLLER_ELECTED)} ELSE kind END"
    return f"""
SELECT {shown}
FROM (
  SELECT * EXCLUDE (kind), CAST({elected} AS TINYINT) AS kind FROM ({rows})
  WHERE {is_election} OR NOT {_is(CONTROLLER_CREATED, EPOCH_WRITTEN, SESSION_CLOSED)})"""
