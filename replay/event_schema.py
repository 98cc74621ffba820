"""Schema of the event table: raw columns (words), coded columns (integers), and all codes.

Every source of events yields raw rows in the vocabulary of klamm's journal. Coded rows are stored
and queried, because shuffling words costs three times as much. Codes are part of the stored format:
a list may be extended at its end, and must never change otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

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
SOURCES: Final = (JOURNAL, STATE_CHANGE_LOG, CONTROLLER_LOG, ZOOKEEPER_LOG)

LEADERSHIP_WRITTEN: Final = "leadership_written"
"""A partition's state znode was written; only in ZooKeeper logs, which have no transitions."""
ASSIGNMENT_WRITTEN: Final = "assignment_written"
"""A topic's znode was written: one row per partition, its ReplicaAssignment in ``detail``."""
LEADERSHIP_DELETED: Final = "leadership_deleted"
"""A partition's state znode was deleted."""
WRITE_REFUSED: Final = "write_refused"
"""ZooKeeper rejected a multi: ``outcome`` is its error, BADVERSION if the controller was fenced."""
ADMIN_REQUEST: Final = "admin_request"
"""A request to the controller through a znode below /admin; ``detail`` starts with its name."""
REPLICA_SNAPSHOT: Final = "replica_snapshot"
"""The state of a replica after a failover, from the dump in controller.log."""
LEADERSHIP_SEEN: Final = "leadership_seen"
"""The leadership that a controller knew at a controlled shutdown, from the dump in controller.log.
"""
LOG_LEVEL: Final = "log_level"
"""The most detailed level of a Kafka log, or of a part of it, in ``detail``."""
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
    Kind.BATCH_SPOILT,
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
"""The codes of states and of reassignment phases; 0: no state, -1: an unknown word."""

EPOCH_SHIFT: Final = 40
"""place = epoch << 40 | seq, in the logs of controllers."""
ZK_EPOCH_SHIFT: Final = 44
ZK_COUNTER_SHIFT: Final = 12
"""place = ZooKeeper epoch << 44 | zxid counter << 12 | index in the multi, in transaction logs."""


def code_of(word: object, published: Sequence[object]) -> int:
    """Return the code of a word in a published list, counted from 1."""
    return published.index(word) + 1


_TYPES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "code": ByteType(),
    "hash": LongType(),
    "int": IntegerType(),
    "ints": ArrayType(IntegerType(), containsNull=False),
    "long": LongType(),
    "string": StringType(),
}
_COLUMNS: Final[tuple[tuple[str, str, str], ...]] = (
    ("source", "code", "kind of log"),
    ("run", "hash", "one run of klamm, one directory of Kafka's logs, or one chroot"),
    ("file", "hash", "the log file"),
    (
        "line",
        "long",
        "line number, from 1; in a transaction log the byte offset of the transaction",
    ),
    ("place", "long", "position in the order of the run"),
    ("t_ms", "long", "wall-clock time, milliseconds since 1970 in UTC"),
    ("seq", "long", "in a journal: number of the row in its controller epoch, from 1"),
    ("controller", "int", "broker id of the controller, -1 if unknown"),
    ("epoch", "int", "controller epoch, 0 if unknown"),
    ("kind", "code", "kind of event"),
    ("topic", "hash?", "topic, if the event is about one"),
    ("partition", "int", "partition, or -1"),
    ("replica", "int", "broker id of the replica, or broker, or -1"),
    ("from_state", "code?", "state before the transition"),
    ("to_state", "code?", "state after the transition, or phase of a reassignment"),
    (
        "since_ms",
        "long?",
        "time at which from_state, or in a transaction log the previous leadership, began",
    ),
    (
        "key_seq",
        "long?",
        "in a journal: number of the row of its partition or replica in its controller epoch",
    ),
    ("leader", "int?", "leader, -1 for none, -2 if the topic is being deleted"),
    ("prev_leader", "int?", "previous leader, if known and if the leadership was written"),
    ("leader_epoch", "int?", "leader epoch"),
    ("isr", "ints?", "in-sync replicas"),
    ("prev_isr", "ints?", "previous in-sync replicas"),
    ("election", "code?", "strategy of the leader election"),
    ("reassignment", "hash?", "name of the reassignment"),
    ("zk_version", "int?", "version of the partition's state znode"),
    ("zxid", "long?", "ZooKeeper transaction id"),
    ("event_id", "long", "number of the controller event that caused the row"),
    ("cause_id", "long", "number of the controller event that enqueued that event"),
    ("outcome", "hash?", "reason of a failure, or an error"),
    ("detail", "string?", "further text, depending on the kind"),
    (
        "has_predecessors",
        "boolean",
        "true if since_ms, from_state and prev_* are as complete as possible",
    ),
)
"""Name, type and meaning of each column. ``?``: may be null. ``code``: a word stored as its place
in a published list (0 for null). ``hash``: a word stored as its xxhash64."""


def _field(name: str, kind: str) -> StructField:
    return StructField(name, _TYPES[kind.removesuffix("?")], nullable=kind.endswith("?"))


RAW_SCHEMA: Final = StructType(
    [_field(name, re.sub("code|hash", "string", kind)) for name, kind, _ in _COLUMNS]
)
"""The rows that a source yields. ``line`` counts from 1; in a transaction log, a byte offset.

``partition``, ``replica`` -1: the event is not about one. Unknown values are null.
``has_predecessors`` false: since_ms, from_state and prev_* are filled in later.
"""
CODED_SCHEMA: Final = StructType(
    [_field(name, kind.replace("code?", "code")) for name, kind, _ in _COLUMNS]
)
"""The rows that are stored. Words of fixed lists are stored as their place, from 1, 0 for none;
run, file, topic, reassignment and outcome as xxhash64, which the table of names maps back."""
COLUMN_TEXTS: Final[dict[str, str]] = {name: text for name, _, text in _COLUMNS}
"""The meaning of each column, for the docs."""
NAMED: Final = tuple(name for name, kind, _ in _COLUMNS if kind.startswith("hash"))
NAMES_SCHEMA: Final = StructType(
    [_field("domain", "string"), _field("code", "long"), _field("name", "string")]
)
DAMAGED_SCHEMA: Final = StructType(
    [_field(name, "string") for name in ("source", "file")]
    + [_field("line", "long")]
    + [_field(name, "string") for name in ("problem", "text")]
)
"""Lines that could not be read: the problem in a few words, and the start of the line."""
LOST_TRANSACTIONS: Final = "lost transactions"
"""Problem at a transaction that is readable: transactions before it are missing in all files."""
REST_UNREAD: Final = "rest of the file unread"
"""Suffix of the problem if a file cannot be read from that line on."""
BEGINS_LATE: Final = "begins late"
"""Problem at the first transaction if its zxid is not the first of an epoch: older logs are
missing, and no snapshot replaces them."""
