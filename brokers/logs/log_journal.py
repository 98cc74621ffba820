"""Journal rows that brokers write: truncations, repairs, failed directories, corrupt batches.

One LogJournal numbers these rows for all brokers of a cluster. Because no controller writes the
rows, they have controller -1 and epoch 0, like the first row of the run.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from klamm.brokers.logs.corrupt_batch import CorruptBatch
from klamm.brokers.logs.errors import DamagedLog
from klamm.brokers.logs.recovery import Repair, RepairKind
from klamm.cluster.errors import JournalUnwritable
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.cluster.protocols import Clock, Journal
from klamm.cluster.types import NO_CONTROLLER, TopicPartition

logger = logging.getLogger(__name__)

_REPAIR_TEXTS: Final[Mapping[RepairKind, str]] = {
    RepairKind.INDEX_REBUILT: "rebuilt the indexes of the segment at offset {0}",
    RepairKind.TAIL_CUT: "truncated the segment at offset {0} by {1} bytes",
    RepairKind.SEGMENT_DELETED: "deleted the segment at offset {0} ({1} bytes)",
    RepairKind.UNFLUSHED_LOST: "unflushed records from offset {0} onward are missing",
    RepairKind.EPOCHS_REBUILT: "rebuilt leader-epoch-checkpoint from offset {0} onward",
    RepairKind.LOG_START_MOVED: "the log now starts at offset {0}",
    RepairKind.TOPIC_ID_FORGOTTEN: "the topic id is unknown until the next LeaderAndIsr request",
    RepairKind.CUT_TO_RESTORE: "truncated {1} bytes; fetching again from offset {0}",
}
"""Log message for each kind of repair: {0} is an offset, {1} the number of removed bytes.

TAKEN_OFFLINE is missing, because ``log_damage`` reports it.
"""


class Truncation(msgspec.Struct, frozen=True):
    """Truncation of a follower's log from the end offset ``from_offset`` to ``to_offset``.

    ``leader`` is the broker whose response caused the truncation.
    """

    from_offset: int
    to_offset: int
    size_bytes: int
    leader: int
    leader_epoch: int


class FetchedCorruptBatch(NamedTuple):
    """A corrupt batch that a follower or consumer has fetched from ``leader``."""

    topic_partition: TopicPartition
    leader: int
    leader_epoch: int
    batch: CorruptBatch


def log_repair(
    broker_id: int, tp: TopicPartition, repair: Repair, journal: LogJournal | None
) -> None:
    """Report a repair in klamm's own log, and in the journal if there is one."""
    text = _REPAIR_TEXTS[repair.kind].format(repair.base_offset, repair.size_bytes)
    logger.warning("broker %d: log %s: %s: %s", broker_id, tp, text, repair.reason)
    if journal is not None:
        journal.repaired(broker_id, tp, repair)


class LogJournal:
    """Writes journal rows for all brokers of a cluster. Only one thread may use it at a time."""

    def __init__(self, journal: Journal, clock: Clock, run_id: str) -> None:
        self._journal = journal
        self._clock = clock
        self._run_id = run_id
        self._count = 0

    def truncated(self, broker_id: int, tp: TopicPartition, cut: Truncation) -> None:
        """Record that a follower truncated its log."""
        detail = {
            "from_offset": cut.from_offset,
            "to_offset": cut.to_offset,
            "size_bytes": cut.size_bytes,
        }
        epochs = {"leader": cut.leader, "leader_epoch": cut.leader_epoch}
        self._write(Kind.LOG_TRUNCATED, broker_id, detail, tp, **epochs)

    def repaired(self, broker_id: int, tp: TopicPartition, repair: Repair) -> None:
        """Record that a broker repaired a log."""
        kind, base_offset, size_bytes, reason = repair
        detail = {"base_offset": base_offset, "size_bytes": size_bytes, "reason": reason}
        self._write(Kind.LOG_REPAIRED, broker_id, detail, tp, outcome=kind)

    def dir_failed(self, broker_id: int, path: str, reason: str) -> None:
        """Record that a log directory went offline."""
        self._write(Kind.LOG_DIR_FAILED, broker_id, {"log_dir": path, "reason": reason})

    def registered_again(self, broker_id: int, epoch_before: int, epoch: int) -> None:
        """Record that a broker registered again after its registration znode was deleted."""
        detail = {"broker_epoch_before": epoch_before, "broker_epoch": epoch}
        self._write(Kind.BROKER_REGISTERED_AGAIN, broker_id, detail)

    def corrupt(self, found: FetchedCorruptBatch, fetched_by: str) -> None:
        """Record that a follower or consumer fetched a corrupt batch.

        ``fetched_by`` names the follower or consumer, for example "broker 2".
        """
        tp, leader, leader_epoch, batch = found
        detail = {**batch._asdict(), "fetched_by": fetched_by}
        epochs = {"leader": leader, "leader_epoch": leader_epoch}
        self._write(Kind.CORRUPT_BATCH, leader, detail, tp, **epochs)

    def _write(
        self,
        kind: Kind,
        broker_id: int,
        detail: Mapping[str, object],
        tp: TopicPartition | None = None,
        **fields: Any,
    ) -> None:
        self._count += 1
        row = JournalRow(
            SCHEMA_VERSION,
            self._run_id,
            self._clock.now_ms(),
            self._count,
            NO_CONTROLLER,
            0,
            kind,
            topic=None if tp is None else tp.topic,
            partition=-1 if tp is None else tp.partition,
            replica=broker_id,
            detail=msgspec.json.encode(detail).decode(),
            **fields,
        )
        # The journal keeps the row until it can be written; the broker must not wait for that.
        with contextlib.suppress(JournalUnwritable):
            self._journal.append([row])
            self._journal.flush()


def log_damage(
    broker_id: int, tp: TopicPartition, error: DamagedLog, journal: LogJournal | None
) -> None:
    """Report that a replica is offline because its log is damaged.

    The report is written to klamm's own log, and to the journal if there is one.
    """
    offset = -1 if error.offset is None else error.offset
    logger.error(
        "broker %d: log %s is damaged at offset %d and offline: %s%s",
        broker_id,
        tp,
        offset,
        error.message,
        f" ({error.hint})" if error.hint else "",
    )
    if journal is not None:
        repair = Repair(RepairKind.TAKEN_OFFLINE, offset, 0, error.message)
        journal.repaired(broker_id, tp, repair)
