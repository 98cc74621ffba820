"""The one event table: its columns in words (raw) and in whole numbers (coded), and every code.

Each source of events is brought into raw rows, which speak the journal's vocabulary; coded rows are
what is stored and asked, as comparing words costs a shuffle three times as much. Codes are
published: a list may grow at its end, never change. Nothing is read or computed here.
"""

from __future__ import annotations

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

from cluster.journal import Kind
from statemachines.election import (
    ControlledShutdownElection,
    OfflineElection,
    PreferredReplicaElection,
    ReassignElection,
)
from statemachines.partition_state import PartitionState
from statemachines.reassignment import Phase
from statemachines.replica_state import ReplicaState

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
    PartitionState.NON_EXISTENT.value: 1,
    PartitionState.NEW.value: 2,
    PartitionState.ONLINE.value: 3,
    PartitionState.OFFLINE.value: 4,
    ReplicaState.NON_EXISTENT.value: 11,
    ReplicaState.NEW.value: 12,
    ReplicaState.ONLINE.value: 13,
    ReplicaState.OFFLINE.value: 14,
    ReplicaState.DELETION_STARTED.value: 15,
    ReplicaState.DELETION_SUCCESSFUL.value: 16,
    ReplicaState.DELETION_INELIGIBLE.value: 17,
    Phase.U1.value: 21,
    Phase.U2.value: 22,
    Phase.U3.value: 23,
    Phase.A1.value: 24,
    Phase.A2.value: 25,
    Phase.B1.value: 26,
    Phase.B2.value: 27,
    Phase.B3.value: 28,
    Phase.B4.value: 29,
    Phase.B5.value: 30,
    Phase.B6.value: 31,
    Phase.B7.value: 32,
    Phase.B8.value: 33,
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


_KEY: Final = (("partition", IntegerType(), False), ("replica", IntegerType(), False))
_PLACE: Final = (
    ("line", LongType(), False),
    ("place", LongType(), False),
    ("t_ms", LongType(), False),
    ("seq", LongType(), False),
    ("controller", IntegerType(), False),
    ("epoch", IntegerType(), False),
)
_LEADERSHIP: Final = (
    ("since_ms", LongType(), True),
    ("key_seq", LongType(), True),
    ("leader", IntegerType(), True),
    ("prev_leader", IntegerType(), True),
    ("leader_epoch", IntegerType(), True),
    ("isr", ArrayType(IntegerType(), containsNull=False), True),
    ("prev_isr", ArrayType(IntegerType(), containsNull=False), True),
)
_REST: Final = (
    ("zk_version", IntegerType(), True),
    ("zxid", LongType(), True),
    ("event_id", LongType(), False),
    ("cause_id", LongType(), False),
)
_Column = tuple[str, DataType, bool]


def _schema(*columns: _Column) -> StructType:
    return StructType([StructField(name, kind, nullable) for name, kind, nullable in columns])


RAW_SCHEMA: Final = _schema(
    ("source", StringType(), False),
    ("run", StringType(), False),
    ("file", StringType(), False),
    *_PLACE,
    ("kind", StringType(), False),
    ("topic", StringType(), True),
    *_KEY,
    ("from_state", StringType(), True),
    ("to_state", StringType(), True),
    *_LEADERSHIP,
    ("election", StringType(), True),
    ("reassignment", StringType(), True),
    *_REST,
    ("outcome", StringType(), True),
    ("detail", StringType(), True),
    ("has_predecessors", BooleanType(), False),
)
"""What a source yields. ``line`` counts from 1; in a transaction log it is the byte offset.

``partition``, ``replica`` -1: not about one. What the source does not know is null;
``has_predecessors`` false: since_ms, from_state and prev_* are still to be found.
"""

CODED_SCHEMA: Final = _schema(
    ("source", ByteType(), False),
    ("run", LongType(), False),
    ("file", LongType(), False),
    *_PLACE,
    ("kind", ByteType(), False),
    ("topic", LongType(), True),
    *_KEY,
    ("from_state", ByteType(), False),
    ("to_state", ByteType(), False),
    *_LEADERSHIP,
    ("election", ByteType(), False),
    ("reassignment", LongType(), True),
    *_REST,
    ("outcome", LongType(), True),
    ("detail", StringType(), True),
    ("has_predecessors", BooleanType(), False),
)
"""What is stored. Words of fixed lists are places in them, from 1, 0 for none; run, file, topic,
reassignment and outcome are xxhash64 of the word, told again by the table of names."""

COLUMN_TEXTS: Final[dict[str, str]] = {
    "source": "which kind of log",
    "run": "one run of klamm, one folder of Kafka's logs, or one chroot",
    "file": "where the row stands",
    "line": "its line, from 1; in a transaction log the byte where its transaction begins",
    "place": "its place in the order of its run",
    "t_ms": "wall clock, milliseconds since 1970 in UTC",
    "seq": "counts the rows of a controller's epoch in a journal, from 1",
    "controller": "broker id of the controller, -1 if none is told",
    "epoch": "the controller's epoch, 0 if none is told",
    "kind": "what happened",
    "topic": "about which topic, if about one",
    "partition": "about which partition, or -1",
    "replica": "about which replica or broker, or -1",
    "from_state": "the state that was left",
    "to_state": "the state that was entered, or a reassignment's phase",
    "since_ms": "when from_state was entered; in a transaction log when the leadership before was",
    "key_seq": "counts the rows of a partition or replica in a controller epoch, in a journal",
    "leader": "the leader, -1 for none, -2 for one of a topic being deleted",
    "prev_leader": "the leader before, where it is known and there was a change",
    "leader_epoch": "the leader's epoch",
    "isr": "the in-sync replicas",
    "prev_isr": "those before",
    "election": "the rule by which the leader was elected",
    "reassignment": "the name of a reassignment",
    "zk_version": "version of the partition's state znode",
    "zxid": "ZooKeeper's transaction",
    "event_id": "which event of the controller did it",
    "cause_id": "which event of the controller put that one into the queue",
    "outcome": "why it failed, or an error",
    "detail": "more, in words that depend on the kind",
    "has_predecessors": "true when since_ms, from_state and prev_* are as complete as they can be",
}
"""What the columns of CODED_SCHEMA say."""
NAMED: Final = ("run", "file", "topic", "reassignment", "outcome")
NAMES_SCHEMA: Final = _schema(
    ("domain", StringType(), False), ("code", LongType(), False), ("name", StringType(), False)
)
DAMAGED_SCHEMA: Final = _schema(
    ("source", StringType(), False),
    ("file", StringType(), False),
    ("line", LongType(), False),
    ("problem", StringType(), False),
    ("text", StringType(), False),
)
"""Lines that could not be read: what is wrong in a word or two, and their beginning."""
LOST_TRANSACTIONS: Final = "lost transactions"
"""The problem of a place where no line is damaged: transactions before it are in no file."""
REST_UNREAD: Final = "rest of the file unread"
"""How the problem of a file ends that cannot be read from that line on."""
BEGINS_LATE: Final = "begins late"
"""The problem of a first transaction with which ZooKeeper's numbers do not begin: older logs were
taken away, and no snapshot stands for them."""
