"""Writes a history as ZooKeeper 3.5's transaction logs, with the writes of Kafka 2.8.

As in Kafka, a znode is created before it is changed or deleted, and a controller's transactions
check the version of /controller_epoch. Rows that do not change a znode are left out. Mirrors
kafka/zk/KafkaZkClient.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
        for words in (words for block in blocks for words in in_words(layout, block)):
            writer.write(words)


class _Writer:
    """Writes transactions, and keeps track of sessions, controller epochs and znode versions."""

    def __init__(self, layout: Layout, places: Places) -> None:
        self._layout = layout
        self._places = places
        self._folder = places.folder / VERSION_DIRECTORY
        self._folder.mkdir()
        self._zxid = _FIRST_ZXID
        self._t_ms = START_MS
        self._mark = -1
        self._txns = 0
        self._open_log()
        self._sessions: dict[int, int] = {}
        self._incarnations = 0
        self._controller = 0
        self._epoch = 0
        self._fences: dict[tuple[int, int], int] = {}
        """The version of /controller_epoch that a controller checks, by (controller, epoch)."""
        self._versions: dict[str, int] = {}
        """Versions of /controller_epoch and topic znodes that were changed, by path."""
        self._states = np.full(layout.options.partitions, -1, np.int64)
        """For each partition: version of the state znode, -1 if there is none."""
        self._assignments: dict[int, dict[TopicPartition, ReplicaAssignment]] = {}
        self._deleting: set[int] = set()
        self._begin()

    def write(self, words: InWords) -> None:
        """Write the transactions of the next row."""
        row = words.row
        self._t_ms, self._mark = row.t_ms, words.mark
        if words.fate == DAMAGED:
            self._txn(_ADMIN, TxnOp(TxnType.SET_DATA, "/config", b"{}", 1))
            self._log.damage_last()
        elif words.fate == REPEATED:
            return
        elif row.kind in _CHANGES:
            _CHANGES[row.kind](self, words)
        elif row.zk_version is not None and row.zk_version > self._states[words.p]:
            self._store(words)

    def close(self) -> None:
        """Close the current log file."""
        self._log.close()

    # Transactions

    def _open_log(self) -> None:
        self._path = self._folder / log_name(self._zxid)
        self._log = TxnLogWriter(self._path)

    def _txn(self, session: int, *ops: TxnOp) -> None:
        if self._txns == TXNS_A_FILE:
            self._txns = 0
            self._log.close()
            self._open_log()
        if self._mark >= 0:
            self._places.record(self._mark, self._path, self._log.offset)
        self._log.write(self._zxid, self._t_ms, session, ops)
        self._zxid += 1
        self._txns += 1

    def _fenced(self, row: JournalRow, *ops: TxnOp) -> None:
        """Write each operation in a multi that also checks the controller's epoch."""
        version = self._fences[row.controller, row.epoch]
        check = TxnOp(TxnType.CHECK, ControllerEpochZNode.path, version=version + 1)
        for op in ops:
            self._txn(self._sessions.get(row.controller, _ADMIN), check, op)

    def _set(self, path: str, data: bytes) -> TxnOp:
        version = self._versions[path] = self._versions.get(path, 0) + 1
        return TxnOp(TxnType.SET_DATA, path, data, version)

    def _begin(self) -> None:
        self._txn(_ADMIN, TxnOp(TxnType.CREATE_SESSION, number=_TIMEOUT_MS))
        for path in _PERSISTENT:
            self._txn(_ADMIN, TxnOp(TxnType.CREATE, path))
        epoch = ControllerEpochZNode.encode(0)
        self._txn(_ADMIN, TxnOp(TxnType.CREATE, ControllerEpochZNode.path, epoch))
        for broker in range(1, self._layout.options.brokers + 1):
            self._register(broker)

    # Sessions

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
        self._txn(self._sessions.pop(broker), TxnOp(TxnType.CLOSE_SESSION))

    def _start_run(self, _: InWords) -> None:
        """End all sessions of an earlier run. The brokers register one after another."""
        if self._epoch:
            self._controller = 0
            for broker in list(self._sessions):
                self._end_session(broker)

    def _elect(self, words: InWords) -> None:
        row, is_new = words.row, words.row.epoch > self._epoch
        if is_new and self._controller:
            # The previous controller did not resign: its session ends.
            for broker in self._layout.copies_of_broker(self._controller):
                self._end_session(broker)
        for broker in self._layout.copies_of_broker(row.controller):
            self._register(broker)
        znode = ControllerZNode.encode(row.controller, row.t_ms)
        epoch = self._set(ControllerEpochZNode.path, ControllerEpochZNode.encode(row.epoch))
        self._fences[row.controller, row.epoch] = epoch.version
        self._txn(
            self._sessions[row.controller],
            TxnOp(TxnType.CREATE, ControllerZNode.path, znode, is_ephemeral=True),
            epoch,
        )
        if is_new:
            self._epoch, self._controller = row.epoch, row.controller

    def _resign(self, words: InWords) -> None:
        session = self._sessions[words.row.controller]
        self._txn(session, TxnOp(TxnType.DELETE, ControllerZNode.path))
        self._controller = 0

    # Topics and partitions

    def _create_topic(self, words: InWords) -> None:
        topic = topic_name(words.topic)
        assigned = self._assignments[words.topic] = self._layout.new_topic(words.topic)
        data = TopicZNode.encode(None, assigned)
        self._txn(_ADMIN, TxnOp(TxnType.CREATE, TopicZNode.path(topic), data))
        paths = (TopicPartitionsZNode.path(topic), *map(TopicPartitionZNode.path, assigned))
        self._fenced(words.row, *(TxnOp(TxnType.CREATE, path) for path in paths))

    def _ask_deletion(self, words: InWords) -> None:
        # Every controller that resumes the deletion has such a row.
        if words.topic not in self._deleting:
            self._deleting.add(words.topic)
            path = DeleteTopicsTopicZNode.path(topic_name(words.topic))
            self._txn(_ADMIN, TxnOp(TxnType.CREATE, path))

    def _delete_topic(self, words: InWords) -> None:
        topic = topic_name(words.topic)
        paths = [TopicZNode.path(topic), TopicPartitionsZNode.path(topic)]
        self._deleting.remove(words.topic)
        self._versions.pop(paths[0], None)
        for name in self._assignments[words.topic]:
            paths += (TopicPartitionZNode.path(name), TopicPartitionStateZNode.path(name))
        self._states[slice(*self._layout.partitions_of(words.topic))] = -1
        paths = [DeleteTopicsTopicZNode.path(topic), *paths]
        self._fenced(words.row, *(TxnOp(TxnType.DELETE, path) for path in reversed(paths)))

    def _assign(self, words: InWords) -> None:
        if words.row.to in (Phase.U1, Phase.B6):
            topic = int(self._layout.topic[words.p])
            assigned = self._assignments[topic]
            assigned[self._layout.names[words.p]] = parse_assignment(words.row.detail)
            data = TopicZNode.encode(None, assigned)
            self._fenced(words.row, self._set(TopicZNode.path(topic_name(topic)), data))

    def _store(self, words: InWords) -> None:
        row = words.row
        version, leader, epoch = row.zk_version, row.leader, row.leader_epoch
        assert version is not None and leader is not None and epoch is not None
        self._states[words.p] = version
        if words.fate == LOST:
            self._zxid += 1
            return
        data = TopicPartitionStateZNode.encode(
            LeaderAndIsr(leader, epoch, row.isr or ()), row.epoch
        )
        path = TopicPartitionStateZNode.path(self._layout.names[words.p])
        kind = TxnType.CREATE if version == 0 else TxnType.SET_DATA
        self._fenced(row, TxnOp(kind, path, data, version))


_CHANGES: Final[Mapping[str, Callable[[_Writer, InWords], None]]] = {
    Kind.RUN_START: _Writer._start_run,
    Kind.CONTROLLER_ELECTED: _Writer._elect,
    Kind.CONTROLLER_RESIGNED: _Writer._resign,
    Kind.BROKER_ONLINE: lambda writer, words: writer._register(words.row.replica),
    Kind.BROKER_OFFLINE: lambda writer, words: writer._end_session(words.row.replica),
    Kind.TOPIC_CREATED: _Writer._create_topic,
    Kind.TOPIC_DELETION_STARTED: _Writer._ask_deletion,
    Kind.TOPIC_DELETED: _Writer._delete_topic,
    Kind.REASSIGNMENT_PHASE: _Writer._assign,
}
"""The writes of all rows but those with a new leader or ISR, by kind."""
