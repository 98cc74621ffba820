"""Schema of journal.jsonl, which records a run: one flat row per change, request or failure.

The schema is public and has a version number.

A row also contains previous values (``from``, ``since_ms``, ``prev_leader``, ``prev_isr``), so that
most questions about a run can be answered from single rows. Fields with default values are omitted
from the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

JOURNAL_FILE: Final = "journal.jsonl"
SCHEMA_VERSION: Final = 1
NOT_JSON: Final = "not json"
NOT_A_ROW: Final = "not a row"
IMPOSSIBLE_TIME: Final = "impossible time"
"""Reasons that ``parse_row`` returns for an invalid line of the journal."""
FIRST_MS: Final = 0
LAST_MS: Final = 7_258_118_399_999
"""The end of the year 2199. A row with a later time, or from before 1970, is damaged."""


class Kind(StrEnum):
    """Kinds of journal rows. The value is the name in the file."""

    RUN_START = "run_start"
    CONTROLLER_ELECTED = "controller_elected"
    CONTROLLER_READY = "controller_ready"
    CONTROLLER_RESIGNED = "controller_resigned"
    CONTROLLER_MOVED = "controller_moved"
    EVENT = "event"
    EVENT_FAILED = "event_failed"
    PARTITION_SNAPSHOT = "partition_snapshot"
    PARTITION_TRANSITION = "partition_transition"
    PARTITION_FAILED = "partition_failed"
    REPLICA_TRANSITION = "replica_transition"
    REPLICA_FAILED = "replica_failed"
    ISR_REMOVED = "isr_removed"
    ISR_CHANGED = "isr_changed"
    ALTER_ISR_REFUSED = "alter_isr_refused"
    LEADER_EPOCH_BUMPED = "leader_epoch_bumped"
    REASSIGNMENT_PHASE = "reassignment_phase"
    REASSIGNMENT_FAILED = "reassignment_failed"
    BROKER_ONLINE = "broker_online"
    BROKER_OFFLINE = "broker_offline"
    BROKER_MODIFIED = "broker_modified"
    TOPIC_CREATED = "topic_created"
    TOPIC_DELETION_STARTED = "topic_deletion_started"
    TOPIC_DELETION_HALTED = "topic_deletion_halted"
    TOPIC_DELETED = "topic_deleted"
    PARTITIONS_ADDED = "partitions_added"
    ZNODE_MALFORMED = "znode_malformed"
    REQUEST_SENT = "request_sent"
    RESPONSE_RECEIVED = "response_received"
    LOG_TRUNCATED = "log_truncated"
    LOG_REPAIRED = "log_repaired"
    LOG_DIR_FAILED = "log_dir_failed"
    CORRUPT_BATCH = "corrupt_batch"
    JOURNAL_REPAIRED = "journal_repaired"
    JOURNAL_ROWS_LOST = "journal_rows_lost"
    BROKER_REGISTERED_AGAIN = "broker_registered_again"


def is_isr_removal_written(
    isr: Sequence[int] | None,
    leader: int | None,
    prev_isr: Sequence[int] | None,
    prev_leader: int | None,
) -> bool:
    """Return True if a row of the kind ISR_REMOVED, with these fields, is about a write.

    As in Kafka's log, the removal of an offline replica from the ISR is journalled even if the
    replica had left the ISR before; then nothing was written.
    """
    return prev_isr is not None and (prev_isr, prev_leader) != (isr, leader)


class JournalRow(msgspec.Struct, omit_defaults=True, gc=False):
    """Journal row about one change, request or failure, such as a state transition.

    - ``t_ms``: wall-clock time in milliseconds since the epoch.
    - ``seq``: position of the row among the rows that one controller writes in one epoch; the first
      row has number 1.
    - ``key_seq``: position of the row among the rows about one partition or replica in one epoch;
      the first row has number 1.
    - ``event_id``: id of the controller event that was being processed.
    - ``cause_id``: id of the controller event that caused the event ``event_id``.

    Rows not written by a controller have controller -1 and epoch 0. Rows about the journal itself
    have controller -2 and epoch 0.
    """

    v: int
    run_id: str
    t_ms: int
    seq: int
    controller: int
    epoch: int
    kind: str
    cluster_id: str | None = None
    event_id: int = 0
    cause_id: int = 0
    topic: str | None = None
    partition: int = -1
    replica: int = -1
    from_: str | None = msgspec.field(default=None, name="from")
    to: str | None = None
    since_ms: int = 0
    key_seq: int = 0
    leader: int | None = None
    prev_leader: int | None = None
    leader_epoch: int | None = None
    isr: tuple[int, ...] | None = None
    prev_isr: tuple[int, ...] | None = None
    election: str | None = None
    reassignment_id: str | None = None
    zk_version: int | None = None
    zxid: int | None = None
    outcome: str | None = None
    detail: str | None = None


_decode = msgspec.json.Decoder(JournalRow).decode


def parse_row(line: bytes) -> JournalRow | str:
    """Return the row in a line of a journal, or the reason why the line is not a valid row.

    All readers of journals use this function, so that they skip the same lines. Rows of later
    schema versions and unknown kinds are valid if their fields have the types of JournalRow.
    """
    try:
        row = _decode(line)
        # msgspec does not validate strings that it skips.
        if not line.isascii():
            line.decode()
    except (msgspec.ValidationError, RecursionError):
        return NOT_A_ROW
    except (msgspec.DecodeError, UnicodeDecodeError):
        return NOT_JSON
    return row if FIRST_MS <= row.t_ms <= LAST_MS else IMPOSSIBLE_TIME
