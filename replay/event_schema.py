"""The one event table: its columns in words (raw) and in whole numbers (coded), and every code.

Each source of events is brought into raw rows, which speak the journal's vocabulary; coded rows are
what is stored and asked, as comparing words costs a shuffle three times as much. Codes are
published: a list may grow at its end, never change. Nothing is read or computed here.
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
"""A partition's state znode was written: in a ZooKeeper log, where no transition is named."""
ASSIGNMENT_WRITTEN: Final = "assignment_written"
"""A topic's znode was written: one row a partition, its ReplicaAssignment in ``detail``."""
LEADERSHIP_DELETED: Final = "leadership_deleted"
"""A partition's state znode was deleted."""
WRITE_REFUSED: Final = "write_refused"
"""ZooKeeper refused a multi: ``outcome`` is its error, BADVERSION where a fence failed."""
ADMIN_REQUEST: Final = "admin_request"
"""A znode asked the controller for something: ``detail`` begins with the znode's name."""
REPLICA_SNAPSHOT: Final = "replica_snapshot"
"""The state of a replica when a failover was done: in controller.log, which dumps them all."""
LEADERSHIP_SEEN: Final = "leadership_seen"
"""The leadership that a controller knew when a broker was shut down: controller.log dumps all."""
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
"""The code of a state, or of the phase that a reassignment came to; 0 stands for none, -1 for a
word that is neither."""

EPOCH_SHIFT: Final = 40
"""place = epoch << 40 | seq in the logs of controllers."""
ZK_EPOCH_SHIFT: Final = 44
ZK_COUNTER_SHIFT: Final = 12
"""place = ZooKeeper's epoch << 44 | counter << 12 | index in its multi, in transaction logs."""


def code_of(word: object, published: Sequence[object]) -> int:
    """A word's code in a published list, counted from 1."""
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
    ("source", "code", "which kind of log"),
    ("run", "hash", "one run of klamm, one folder of Kafka's logs, or one chroot"),
    ("file", "hash", "where the row stands"),
    (
        "line",
        "long",
        "its line, from 1; in a transaction log the byte where its transaction begins",
    ),
    ("place", "long", "its place in the order of its run"),
    ("t_ms", "long", "wall clock, milliseconds since 1970 in UTC"),
    ("seq", "long", "counts the rows of a controller's epoch in a journal, from 1"),
    ("controller", "int", "broker id of the controller, -1 if none is told"),
    ("epoch", "int", "the controller's epoch, 0 if none is told"),
    ("kind", "code", "what happened"),
    ("topic", "hash?", "about which topic, if about one"),
    ("partition", "int", "about which partition, or -1"),
    ("replica", "int", "about which replica or broker, or -1"),
    ("from_state", "code?", "the state that was left"),
    ("to_state", "code?", "the state that was entered, or a reassignment's phase"),
    (
        "since_ms",
        "long?",
        "when from_state was entered; in a transaction log when the leadership before was",
    ),
    (
        "key_seq",
        "long?",
        "counts the rows of a partition or replica in a controller epoch, in a journal",
    ),
    ("leader", "int?", "the leader, -1 for none, -2 for one of a topic being deleted"),
    ("prev_leader", "int?", "the leader before, where it is known and there was a change"),
    ("leader_epoch", "int?", "the leader's epoch"),
    ("isr", "ints?", "the in-sync replicas"),
    ("prev_isr", "ints?", "those before"),
    ("election", "code?", "the rule by which the leader was elected"),
    ("reassignment", "hash?", "the name of a reassignment"),
    ("zk_version", "int?", "version of the partition's state znode"),
    ("zxid", "long?", "ZooKeeper's transaction"),
    ("event_id", "long", "which event of the controller did it"),
    ("cause_id", "long", "which event of the controller put that one into the queue"),
    ("outcome", "hash?", "why it failed, or an error"),
    ("detail", "string?", "more, in words that depend on the kind"),
    (
        "has_predecessors",
        "boolean",
        "true when since_ms, from_state and prev_* are as complete as they can be",
    ),
)
"""Name, type and meaning. ``?``: may be null. Words are stored as ``code``, their place in a
published list (0 for null), or as ``hash``, their xxhash64."""


def _field(name: str, kind: str) -> StructField:
    return StructField(name, _TYPES[kind.removesuffix("?")], nullable=kind.endswith("?"))


RAW_SCHEMA: Final = StructType(
    [_field(name, re.sub("code|hash", "string", kind)) for name, kind, _ in _COLUMNS]
)
"""What a source yields. ``line`` counts from 1; in a transaction log it is the byte offset.

``partition``, ``replica`` -1: not about one. What the source does not know is null;
``has_predecessors`` false: since_ms, from_state and prev_* are still to be found.
"""
CODED_SCHEMA: Final = StructType(
    [_field(name, kind.replace("code?", "code")) for name, kind, _ in _COLUMNS]
)
"""What is stored. Words of fixed lists are places in them, from 1, 0 for none; run, file, topic,
reassignment and outcome are xxhash64 of the word, told again by the table of names."""
COLUMN_TEXTS: Final[dict[str, str]] = {name: text for name, _, text in _COLUMNS}
"""What the columns of CODED_SCHEMA say."""
NAMED: Final = tuple(name for name, kind, _ in _COLUMNS if kind.startswith("hash"))
NAMES_SCHEMA: Final = StructType(
    [_field("domain", "string"), _field("code", "long"), _field("name", "string")]
)
DAMAGED_SCHEMA: Final = StructType(
    [_field(name, "string") for name in ("source", "file")]
    + [_field("line", "long")]
    + [_field(name, "string") for name in ("problem", "text")]
)
"""Lines that could not be read: what is wrong in a word or two, and their beginning."""
LOST_TRANSACTIONS: Final = "lost transactions"
"""The problem of a place where no line is damaged: transactions before it are in no file."""
REST_UNREAD: Final = "rest of the file unread"
"""How the problem of a file ends that cannot be read from that line on."""
BEGINS_LATE: Final = "begins late"
"""The problem of a first transaction with which ZooKeeper's numbers do not begin: older logs were
taken away, and no snapshot stands for them."""
