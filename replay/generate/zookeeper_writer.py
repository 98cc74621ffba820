"""Writes a history as ZooKeeper 3.5's transaction logs, with the writes of Kafka 2.8.

As in Kafka, a znode is created before it is changed or deleted, and a controller's transactions
check the version of /controller_epoch. Rows that do not change a znode are left out. Mirrors
kafka/zk/KafkaZkClient.scala.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Final

import numpy as np

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.replay.generate.journal_writer import Places
from klamm.replay.generate.kafka_log_writer import parse_assignment
from klamm.replay.generate.layout import Layout, topic_name
from klamm.replay.generate.rows import DAMAGED, LOST, REPEATED, InWords, RowBlock, in_words
from klamm.replay.generate.tiling import START_MS
from klamm.replay.generate.txn_log_writer import TxnLogWriter, log_name
from klamm.replay.sources.zookeeper_files import VERSION_DIRECTORY
from klamm.statemachines.reassignment import Phase
from klamm.zk.txn_log import TxnOp, TxnType
from klamm.zk.znodes import (
    BrokerIdZNode,
    BrokerInfo,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsTopicZNode,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
    TopicZNode,
)

TXNS_A_FILE: Final = 100_000
"""As ZooKeeper's snapCount."""
_FIRST_ZXID: Final = (1 << 32) + 1
_SESSION: Final = 0x1000_0000_0000_0000
_ADMIN: Final = _SESSION + 0xAD
_TIMEOUT_MS: Final = 18_000
_PERSISTENT: Final = (
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/admin",
    "/admin/delete_topics",
    "/config",
    "/isr_change_notification",
)


def write_zookeeper(layout: Layout, places: Places, blocks: Iterable[RowBlock]) -> None:
    """Write files FOLDER/version-2/log.ZXID with up to TXNS_A_FILE transactions each."""
    with closing(_Writer(layout, places)) as writer:
        for block in blocks:
            writer.write(block)


class _Writer:
    """Writes transactions, and keeps track of sessions, controller epochs and znode versions."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self._layout = layout
        self._places = places
        self._folder = places.folder / VERSION_DIRECTORY
        self._folder.mkdir()
        self._zxid = _FIRST_ZXID
        self._t_ms = START_MS
        self._log: TxnLogWriter | None = None
        self._in_file = 0
        self._sessions: dict[int, int] = {}
        self._incarnations = 0
        self._controller = 0
        self._epoch = 0
        self._epoch_version = 0
        self._fences: dict[tuple[int, int], int] = {}
        """The version of /controller_epoch that a controller checks, by (controller, epoch)."""
        self._versions = np.full(layout.options.partitions, -1, np.int64)
        self._assignments: dict[int, dict[TopicPartition, ReplicaAssignment]] = {}
        self._topic_versions: dict[int, int] = {}
        self._deleting: set[str] = set()
        self._begin()

    def write(self, block: RowBlock) -> None:
        """Write the transactions of the next rows."""
        for words in in_words(self._layout, block):
            if words.fate != REPEATED:
                self._t_ms = words.row.t_ms
                self._write_row(words)

    def close(self) -> None:
        """Close the current log file."""
        if self._log is not None:
            self._log.close()
            self._log = None

    # Transactions

    def _txn(self, session: int, *ops: TxnOp, mark: int = -1) -> None:
        if self._log is None or self._in_file >= TXNS_A_FILE:
            if self._log is not None:
                self._log.close()
            self._path = self._folder / log_name(self._zxid)
            self._log = TxnLogWriter(self._path)
            self._in_file = 0
        if mark >= 0:
            self._places.record(mark, self._path, self._log.offset)
        self._log.write(self._zxid, self._t_ms, session, ops)
        self._zxid += 1
        self._in_file += 1

    def _fenced(self, row: JournalRow, *ops: TxnOp, mark: int = -1) -> None:
        """Write each operation in a multi that also checks the controller's epoch."""
        version = self._fences[row.controller, row.epoch]
        check = TxnOp(TxnType.CHECK, ControllerEpochZNode.path, version=version + 1)
        session = self._sessions.get(row.controller, _ADMIN)
        for op in ops:
            self._txn(session, check, op, mark=mark)

    def _begin(self) -> None:
        self._txn(_ADMIN, TxnOp(TxnType.CREATE_SESSION, number=_TIMEOUT_MS))
        for path in _PERSISTENT:
            self._txn(_ADMIN, TxnOp(TxnType.CREATE, path))
        self._txn(
            _ADMIN, TxnOp(TxnType.CREATE, ControllerEpochZNode.path, ControllerEpochZNode.encode(0))
        )
        for broker in range(1, self._layout.options.brokers + 1):
            self._register(broker)

    # Rows

    def _write_row(self, words: InWords) -> None:
        row = words.row
        if words.fate == DAMAGED:
            self._write_damaged(words.mark)
        elif row.kind == Kind.RUN_START:
            self._restart()
        elif row.kind == Kind.CONTROLLER_ELECTED:
            self._elect(row, words.mark)
        elif row.kind == Kind.CONTROLLER_RESIGNED:
            self._txn(self._sessions[row.controller], TxnOp(TxnType.DELETE, ControllerZNode.path))
            self._controller = 0
        elif row.kind == Kind.BROKER_ONLINE:
            self._register(row.replica)
        elif row.kind == Kind.BROKER_OFFLINE:
            self._end_session(row.replica)
        elif row.kind == Kind.TOPIC_CREATED:
            self._create_topic(words)
        elif row.kind == Kind.TOPIC_DELETION_STARTED:
            self._ask_deletion(topic_name(words.topic))
        elif row.kind == Kind.TOPIC_DELETED:
            self._delete_topic(words)
        elif row.kind == Kind.REASSIGNMENT_PHASE and row.to in (Phase.U1, Phase.B6):
            self._assign(words)
        elif row.zk_version is not None and row.zk_version > self._versions[words.p]:
            self._store(words)

    def _write_damaged(self, mark: int) -> None:
        self._txn(_ADMIN, TxnOp(TxnType.SET_DATA, "/config", b"{}", 1), mark=mark)
        assert self._log is not None
        self._log.damage_last()

    def _restart(self) -> None:
        """End all sessions. The brokers of the new run register one after another."""
        if self._epoch:
            self._controller = 0
            for broker in list(self._sessions):
                self._end_session(broker)

    def _elect(self, row: JournalRow, mark: int) -> None:
        if row.epoch > self._epoch and self._controller:
            # The previous controller did not resign: its session ends.
            for broker in self._layout.copies_of_broker(self._controller):
                self._end_session(broker)
        for broker in self._layout.copies_of_broker(row.controller):
            self._register(broker)
        self._epoch_version += 1
        self._fences[row.controller, row.epoch] = self._epoch_version
        znode = ControllerZNode.encode(row.controller, row.t_ms)
        epoch = ControllerEpochZNode.encode(row.epoch)
        self._txn(
            self._sessions[row.controller],
            TxnOp(TxnType.CREATE, ControllerZNode.path, znode, is_ephemeral=True),
            TxnOp(TxnType.SET_DATA, ControllerEpochZNode.path, epoch, self._epoch_version),
            mark=mark,
        )
        if row.epoch > self._epoch:
            self._epoch, self._controller = row.epoch, row.controller

    def _register(self, broker: int) -> None:
        if broker in self._sessions:
            return
        self._incarnations += 1
        session = self._sessions[broker] = _SESSION + (self._incarnations << 16) + broker
        self._txn(session, TxnOp(TxnType.CREATE_SESSION, number=_TIMEOUT_MS))
        end_point = EndPoint(f"host-{broker}", 9092, "PLAINTEXT", "PLAINTEXT")
        info = BrokerIdZNode.encode(BrokerInfo(Broker(broker, (end_point,))), self._t_ms)
        path = BrokerIdZNode.path(broker)
        self._txn(
            session,
            TxnOp(TxnType.CREATE, path, None, is_ephemeral=True),
            TxnOp(TxnType.SET_DATA, path, info, 1),
        )

    def _end_session(self, broker: int) -> None:
        session = self._sessions.pop(broker)
        self._txn(session, TxnOp(TxnType.CLOSE_SESSION))

    def _create_topic(self, words: InWords) -> None:
        layout = self._layout
        assigned = {
            layout.names[p]: ReplicaAssignment(layout.assignment(p))
            for p in range(*layout.partitions_of(words.topic))
        }
        self._assignments[words.topic] = assigned
        self._topic_versions[words.topic] = 0
        topic = topic_name(words.topic)
        data = TopicZNode.encode(None, assigned)
        self._txn(_ADMIN, TxnOp(TxnType.CREATE, TopicZNode.path(topic), data))
        self._fenced(words.row, TxnOp(TxnType.CREATE, TopicPartitionsZNode.path(topic)))
        paths = map(TopicPartitionZNode.path, assigned)
        self._fenced(words.row, *(TxnOp(TxnType.CREATE, path) for path in paths))

    def _ask_deletion(self, topic: str) -> None:
        # Every controller that resumes the deletion has such a row.
        if topic not in self._deleting:
            self._deleting.add(topic)
            self._txn(_ADMIN, TxnOp(TxnType.CREATE, DeleteTopicsTopicZNode.path(topic)))

    def _delete_topic(self, words: InWords) -> None:
        topic = topic_name(words.topic)
        self._deleting.remove(topic)
        paths = [TopicZNode.path(topic), TopicPartitionsZNode.path(topic)]
        for p in range(*self._layout.partitions_of(words.topic)):
            name = self._layout.names[p]
            paths += (TopicPartitionZNode.path(name), TopicPartitionStateZNode.path(name))
            self._versions[p] = -1
        paths = [DeleteTopicsTopicZNode.path(topic), *paths]
        self._fenced(words.row, *(TxnOp(TxnType.DELETE, path) for path in reversed(paths)))

    def _assign(self, words: InWords) -> None:
        topic = int(self._layout.topic[words.p])
        assigned = parse_assignment(words.row.detail)
        self._assignments[topic][self._layout.names[words.p]] = assigned
        version = self._topic_versions[topic] = self._topic_versions[topic] + 1
        data = TopicZNode.encode(None, self._assignments[topic])
        path = TopicZNode.path(topic_name(topic))
        op = TxnOp(TxnType.SET_DATA, path, data, version)
        self._fenced(words.row, op, mark=words.mark)

    def _store(self, words: InWords) -> None:
        row = words.row
        version, leader, epoch = row.zk_version, row.leader, row.leader_epoch
        assert version is not None and leader is not None and epoch is not None
        self._versions[words.p] = version
        if words.fate == LOST:
            self._zxid += 1
            return
        data = TopicPartitionStateZNode.encode(
            LeaderAndIsr(leader, epoch, row.isr or ()), row.epoch
        )
        path = TopicPartitionStateZNode.path(self._layout.names[words.p])
        kind = TxnType.CREATE if version == 0 else TxnType.SET_DATA
        self._fenced(row, TxnOp(kind, path, data, version), mark=words.mark)
