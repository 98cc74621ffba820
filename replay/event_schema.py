"""Schema of the event table, and the codes that stand for strings in it.

Readers of logs yield raw rows, which contain strings as in klamm's journal. Stored rows contain
integers instead, because shuffling strings takes three times as long. Codes are part of the stored
format: lists of codes may be extended at the end, and must never change otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from klamm.cluster.journal import Kind
from klamm.statemachines.election import (
    ControlledShutdownElection,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState

SCHEMA_VERSION: Final = 1

JOURNAL: Final = "journal"
STATE_CHANGE_LOG: Final = "state-change.log"
CONTROLLER_LOG: Final = "controller.log"
ZOOKEEPER_LOG: Final = "zookeeper"
KAFKA_LOGS: Final = "kafka logs"
"""The source of answers that combine state-change.log and controller.log; not stored in events."""
SOURCES: Final = (JOURNAL, STATE_CHANGE_LOG, CONTROLLER_LOG, ZOOKEEPER_LOG, KAFKA_LOGS)

LEADERSHIP_WRITTEN: Final = "leadership_written"
"""A partition's state znode was written; only in ZooKeeper logs, which have no transitions."""
ASSIGNMENT_WRITTEN: Final = "assignment_written"
"""A topic's znode was written. One row per partition, with its ReplicaAssignment in ``detail``."""
LEADERSHIP_DELETED: Final = "leadership_deleted"
"""A partition's state znode was deleted."""
WRITE_REFUSED: Final = "write_refused"
"""ZooKeeper rejected a multi. ``outcome``: error code, BADVERSION if the controller was fenced."""
ADMIN_REQUEST: Final = "admin_request"
"""A request to the controller, in a znode below /admin. ``detail`` begins with its kind."""
REPLICA_SNAPSHOT: Final = "replica_snapshot"
"""A replica's state after a failover, from the list of initial states in controller.log."""
LEADERSHIP_SEEN: Final = "leadership_seen"
"""A partition's leader and ISR in the controller's cache, as logged at a controlled shutdown."""
LOG_LEVEL: Final = "log_level"
"""Not an event: ``detail`` is the most detailed log level in a Kafka log, or in a part of it."""
SESSION_CLOSED_DETAIL: Final = "session closed"
"""``detail`` of a broker's end in ZooKeeper's logs: the broker closed its session, as a broker does
that shuts down."""
SESSION_EXPIRED_DETAIL: Final = "session expired"
"""``detail`` of a broker's end in ZooKeeper's logs: ZooKeeper had not heard from the broker."""
KINDS: Final = (
    Kind.RUN_START,
    Kind.CONTROLLER_ELECTED,
    Kind.CONTROLLER_READY,
    Kind.CONTROLLER_RESIGNED,
    Kind.CONTROLLER_MOVED,
    Kind.EVENT,
    Kind.EVENT_FAILED,
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.PARTITION_FAILED,
    Kind.REPLICA_TRANSITION,
    Kind.REPLICA_FAILED,
    Kind.ISR_REMOVED,
    Kind.ISR_CHANGED,
    Kind.ALTER_ISR_REFUSED,
    Kind.LEADER_EPOCH_BUMPED,
    Kind.REASSIGNMENT_PHASE,
    Kind.REASSIGNMENT_FAILED,
    Kind.BROKER_ONLINE,
    Kind.BROKER_OFFLINE,
    Kind.BROKER_MODIFIED,
    Kind.TOPIC_CREATED,
    Kind.TOPIC_DELETION_STARTED,
    Kind.TOPIC_DELETION_HALTED,
    Kind.TOPIC_DELETED,
    Kind.PARTITIONS_ADDED,
    Kind.ZNODE_MALFORMED,
    Kind.REQUEST_SENT,
    Kind.RESPONSE_RECEIVED,
    LEADERSHIP_WRITTEN,
    ASSIGNMENT_WRITTEN,
    LEADERSHIP_DELETED,
    WRITE_REFUSED,
    ADMIN_REQUEST,
    REPLICA_SNAPSHOT,
    LOG_LEVEL,
    LEADERSHIP_SEEN,
    Kind.LOG_TRUNCATED,
    Kind.LOG_REPAIRED,
    Kind.LOG_DIR_FAILED,
    Kind.CORRUPT_BATCH,
    Kind.JOURNAL_REPAIRED,
    Kind.JOURNAL_ROWS_LOST,
    Kind.BROKER_REGISTERED_AGAIN,
)
ELECTIONS: Final = tuple(
    str(strategy)
    for strategy in (
        OfflineElection(allow_unclean=False),
        OfflineElection(allow_unclean=True),
        ReassignElection(),
        PreferredReplicaElection(),
        ControlledShutdownElection(),
    )
)
STATE_CODES: Final[dict[str, int]] = {
    str(state.value): code
    for first, states in (
        (1, (PartitionState.NON_EXISTENT, *PartitionState)),
        (11, (ReplicaState.NON_EXISTENT, *ReplicaState)),
        (21, Phase),
    )
    for code, state in enumerate(dict.fromkeys(states), first)
}
"""The codes of states and of reassignment phases. 0 means no state, -1 an unknown state."""

EPOCH_SHIFT: Final = 40
"""In journals and Kafka's logs, place = controller epoch << 40 | position in the epoch or log."""
ZK_EPOCH_SHIFT: Final = 44
ZK_COUNTER_SHIFT: Final = 12
"""In transaction logs, place = ZooKeeper epoch << 44 | zxid counter << 12 | index in the multi."""


def code_of(word: object, published: Sequence[object]) -> int:
    """Return the code of a string: its position in a list of codes, counted from 1."""
    return published.index(word) + 1


TYPES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "code": pa.int8(),
    "hash": pa.int64(),
    "int": pa.int32(),
    "ints": pa.list_(pa.field("element", pa.int32(), False)),
    "long": pa.int64(),
    "string": pa.string(),
}
"""Types of columns; a code or hash stands for a string."""
_COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("source", "code", "kind of log"),
    ("run", "hash", "klamm's cluster id, directory of Kafka's logs, or chroot in ZooKeeper"),
    ("file", "hash", "the log file"),
    (
        "line",
        "long",
        "line number, from 1; in a transaction log the byte offset of the transaction",
    ),
    ("place", "long", "position of the event; sorts the events of a run"),
    ("t_ms", "long", "wall-clock time, milliseconds since 1970 in UTC"),
    ("seq", "long", "in a journal: row number in the controller epoch, from 1"),
    ("controller", "int", "broker id of the controller, -1 if unknown"),
    ("epoch", "int", "controller epoch, 0 if unknown"),
    ("kind", "code", "kind of event"),
    ("topic", "hash?", "topic that the event is about, null for none"),
    ("partition", "int", "partition that the event is about, -1 for none"),
    ("replica", "int", "broker id of the replica or broker that the event is about, -1 for none"),
    ("from_state", "code?", "state before the transition"),
    ("to_state", "code?", "state after the transition, or phase of a reassignment"),
    (
        "since_ms",
        "long?",
        "time at which from_state began; in a transaction log, when the previous leader and ISR "
        "were written",
    ),
    (
        "key_seq",
        "long?",
        "in a journal: row number in the controller epoch, separate for each partition and replica",
    ),
    ("leader", "int?", "leader, -1 for none, -2 if the topic is being deleted"),
    ("prev_leader", "int?", "previous leader, if known and if the event wrote a leader and ISR"),
    ("leader_epoch", "int?", "leader epoch"),
    ("isr", "ints?", "in-sync replicas"),
    ("prev_isr", "ints?", "previous in-sync replicas"),
    ("election", "code?", "strategy of the leader election"),
    ("reassignment", "hash?", "name of the reassignment"),
    ("zk_version", "int?", "version of the partition's state znode"),
    ("zxid", "long?", "ZooKeeper transaction id"),
    ("event_id", "long", "number of the controller event that caused the row"),
    ("cause_id", "long", "number of the controller event that enqueued the event event_id"),
    ("outcome", "hash?", "reason for a failure, or an error"),
    ("detail", "string?", "additional text, which depends on the kind of event"),
    (
        "has_predecessors",
        "boolean",
        "whether since_ms, from_state and prev_* have been filled in as far as possible",
    ),
)
"""Name, type and meaning of each column. ``?``: may be null. ``code``: a string stored as its
position in a list (0 for null). ``hash``: a string stored as its xxhash64."""


def _field(name: str, kind: str) -> pa.Field:
    return pa.field(name, TYPES[kind.removesuffix("?")], kind.endswith("?"))


RAW_SCHEMA: Final = pa.schema(
    [_field(name, re.sub("code|hash", "string", kind)) for name, kind, _ in _COLUMNS]
)
"""The rows that a reader of logs yields.

``line`` counts from 1; in a transaction log it is a byte offset. ``partition`` and ``replica`` are
-1 if the event is not about a partition or replica. Unknown values are null. If
``has_predecessors`` is false, since_ms, from_state and prev_* are filled in later.
"""
CODED_SCHEMA: Final = pa.schema(
    [_field(name, kind.replace("code?", "code")) for name, kind, _ in _COLUMNS]
)
"""The rows that are stored. Strings from fixed lists are stored as their position, from 1, 0 for
none; run, file, topic, reassignment and outcome as xxhash64, which the table of names maps back."""
COLUMN_TEXTS: Final[dict[str, str]] = {name: text for name, _, text in _COLUMNS}
"""The meaning of each column of the event table, for the docs."""
NAMED: Final = tuple(name for name, kind, _ in _COLUMNS if kind.startswith("hash"))
NAMES_SCHEMA: Final = pa.schema(
    [_field("domain", "string"), _field("code", "long"), _field("name", "string")]
)
DAMAGED_SCHEMA: Final = pa.schema(
    [_field(name, "string") for name in ("source", "file")]
    + [_field("line", "long")]
    + [_field(name, "string") for name in ("problem", "text")]
)
"""Lines that could not be read. ``problem``: short reason. ``text``: start of the line."""


class DamagedLine(NamedTuple):
    """A line that could not be read, or the first of several. ``text``: the line or its start."""

    line: int
    problem: str
    text: str


LOST_TRANSACTIONS: Final = "lost transactions"
"""Problem reported at the first readable transaction after transactions that no file contains."""
REST_UNREAD: Final = "rest of the file unread"
"""Suffix of a problem that made the rest of the file unreadable."""
BEGINS_LATE: Final = "begins late"
"""Problem at the first transaction if its zxid is not the first of an epoch: older logs are
missing, and no snapshot replaces them."""
