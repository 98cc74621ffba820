"""Writes a history as Kafka's state-change.log or controller.log, with a directory per broker.

Writes the lines that Kafka 2.8 logs at level TRACE, with times in UTC. Events that Kafka does not
log are left out. controller/state_change_log.py formats the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.controller.state_change_log import (
    STATE_CHANGE_FAILED,
    StateChangeLog,
    partition_failed_text,
    partition_new_text,
    partition_online_text,
)
from klamm.replay.event_schema import STATE_CHANGE_LOG
from klamm.replay.generate.journal_writer import Places
from klamm.replay.generate.layout import Layout
from klamm.replay.generate.rows import DAMAGED, LOST, REPEATED, InWords, RowBlock, in_words
from klamm.replay.kafka_lines import ASSIGNMENT, assignment
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase


def write_kafka_logs(
    layout: Layout, places: Places, blocks: Iterable[RowBlock], *, name: str
) -> None:
    """Write a log FOLDER/broker-N/NAME for each broker N.

    ``name``: STATE_CHANGE_LOG or CONTROLLER_LOG.
    """
    with closing(_Writer(layout, places, name)) as writer:
        for block in blocks:
            writer.write(block)


class _Writer:
    """Writes a log for each broker that was a controller.

    The logs use this object as their clock: its time is that of the row being written.
    """

    def __init__(self, layout: Layout, places: Places, name: str) -> None:
        self._layout = layout
        self._places = places
        self._name = name
        self._texts = _STATE_CHANGES if name == STATE_CHANGE_LOG else _CONTROLLER
        self._t_ms = 0
        self._logs: dict[int, tuple[StateChangeLog, _File]] = {}

    def write(self, block: RowBlock) -> None:
        """Write the lines of the next rows."""
        for words in in_words(self._layout, block):
            if words.fate in (LOST, REPEATED):
                continue
            row = words.row
            write = _write_damaged if words.fate == DAMAGED else self._texts.get(row.kind)
            if write is None:
                continue
            log, file = self._log(row.controller)
            self._t_ms, log.epoch = row.t_ms, row.epoch
            line = file.lines + 1
            file.is_damaged = words.fate == DAMAGED
            write(log, LoggedRow(row, words, self._layout))
            if words.mark >= 0 and file.lines >= line:
                self._places.record(words.mark, file.path, line)

    def now_ms(self) -> int:
        """Return the time of the current row in ms since 1970, as the wall clock of the logs."""
        return self._t_ms

    def monotonic_ms(self) -> float:
        """Return the time of the current row in ms, as the monotonic clock of the logs."""
        return self._t_ms

    def close(self) -> None:
        """Close all files."""
        for _, file in self._logs.values():
            file.close()

    def _log(self, broker: int) -> tuple[StateChangeLog, _File]:
        if broker not in self._logs:
            file = _File(self._places.folder / f"broker-{broker}" / self._name)
            is_state_change = self._name == STATE_CHANGE_LOG
            log = StateChangeLog(
                broker,
                self,
                state_change=file if is_state_change else None,
                controller=None if is_state_change else file,
            )
            self._logs[broker] = log, file
        return self._logs[broker]


class _File:
    """A log file that counts its lines. ``is_damaged``: write only the start of the next line."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self.lines = 0
        self.is_damaged = False
        self._file: TextIO = path.open("x", encoding="utf-8")
        self.close = self._file.close

    def write(self, text: str) -> None:
        """Append complete lines."""
        if self.is_damaged:
            text = text.rpartition(" (")[0] + "\n"
        self.lines += text.count("\n")
        self._file.write(text)


class LoggedRow(NamedTuple):
    """A row to log, with the cluster's layout, which provides the assignments in log lines."""

    row: JournalRow
    words: InWords
    layout: Layout

    @property
    def name(self) -> TopicPartition:
        """The partition of the row."""
        return TopicPartition(self.row.topic or "", self.row.partition)

    @property
    def stored(self) -> LeaderIsrAndControllerEpoch:
        """The leader, ISR and epochs in the row."""
        row = self.row
        leader, epoch, version = row.leader, row.leader_epoch, row.zk_version
        assert leader is not None and epoch is not None and version is not None
        at = LeaderAndIsr(leader, epoch, row.isr or (), version)
        return LeaderIsrAndControllerEpoch(at, row.epoch)


_Write = Callable[[StateChangeLog, LoggedRow], None]


def _write_damaged(log: StateChangeLog, logged: LoggedRow) -> None:
    log.state_change("INFO", ["Changed part"])
    log.info("Changed part")


# state-change.log


def _partition_transition(log: StateChangeLog, logged: LoggedRow) -> None:
    row, name = logged.row, logged.name
    from_, to = row.from_ or "", row.to or ""
    if to == PartitionState.NEW.value:
        replicas = logged.layout.assignment(logged.words.p)
        log.state_change("INFO", [partition_new_text(name, from_, to, replicas)])
    elif to == PartitionState.ONLINE.value:
        log.state_change("INFO", [partition_online_text(name, from_, to, logged.stored)])
    else:
        log.state_change("TRACE", [f"Changed partition {name} state from {from_} to {to}"])


def _partition_failed(log: StateChangeLog, logged: LoggedRow) -> None:
    row = logged.row
    text = partition_failed_text(
        row.controller, row.epoch, logged.name, row.from_ or "", row.to or ""
    )
    log.state_change_failed([(text, f"{STATE_CHANGE_FAILED}: {row.outcome}")])


def _state_change(level: str, text: str) -> _Write:
    """Return a function that formats ``text`` for a row and writes it to state-change.log.

    ``text``: format string with the fields ``row`` and ``logged``.
    """
    return lambda log, logged: log.state_change(level, [text.format(logged=logged, row=logged.row)])


_STATE_CHANGES: Final[Mapping[str, _Write]] = {
    Kind.PARTITION_TRANSITION: _partition_transition,
    Kind.PARTITION_FAILED: _partition_failed,
    Kind.REPLICA_TRANSITION: _state_change(
        "TRACE",
        "Changed state of replica {row.replica} for partition {logged.name} from {row.from_} to "
        "{row.to}",
    ),
    Kind.ISR_REMOVED: _state_change(
        "INFO",
        "Partition {logged.name} state changed to {logged.stored} after removing replica "
        "{row.replica} from the ISR as part of transition to OfflineReplica",
    ),
    Kind.LEADER_EPOCH_BUMPED: _state_change(
        "INFO",
        "Sent LeaderAndIsr request {logged.stored} with new replica assignment {row.detail} to "
        "leader {row.leader} for partition being reassigned {logged.name}",
    ),
}

# controller.log


def _topic_created(log: StateChangeLog, logged: LoggedRow) -> None:
    layout = logged.layout
    assigned = ", ".join(
        f"{layout.names[p]} -> {ReplicaAssignment(layout.assignment(p))}"
        for p in range(*layout.partitions_of(logged.words.topic))
    )
    log.info(
        f"New topics: [Set({logged.row.topic})], deleted topics: [HashSet()], "
        f"new partition replica assignment [Map({assigned})]"
    )


def _isr_changed(log: StateChangeLog, logged: LoggedRow) -> None:
    isr = ",".join(map(str, logged.row.isr or ()))
    version = f"zkVersion updated to [{logged.row.zk_version}]"
    log.debug(f"ISR for partition {logged.name} updated to [{isr}] and {version}")


def _phase(log: StateChangeLog, logged: LoggedRow) -> None:
    row, name = logged.row, logged.name
    if row.to in (Phase.U1, Phase.B6):
        log.info(f"Successfully updated assignment of partition {name} to {row.detail}")
    elif row.to == Phase.B7:
        target = ", ".join(map(str, parse_assignment(row.detail).replicas))
        log.info(
            f"Removing partitions Map({name} -> List({target})) from the list of reassigned "
            "partitions in zookeeper"
        )


def parse_assignment(text: str | None) -> ReplicaAssignment:
    """Parse the assignment in the column ``detail`` of a row."""
    found = re.fullmatch(ASSIGNMENT, text or "")
    assert found is not None, text
    return assignment(*found.groups())


def _info(text: str) -> _Write:
    return lambda log, logged: log.info(text.format(logged=logged, row=logged.row))


_CONTROLLER: Final[Mapping[str, _Write]] = {
    Kind.CONTROLLER_ELECTED: _info(
        "{row.controller} successfully elected as the controller. Epoch incremented to "
        "{row.epoch} and epoch zk version is now {row.epoch}"
    ),
    Kind.CONTROLLER_READY: _info("Ready to serve as the new controller with epoch {row.epoch}"),
    Kind.CONTROLLER_RESIGNED: _info("Resigned"),
    Kind.BROKER_ONLINE: _info("New broker startup callback for {row.replica}"),
    Kind.BROKER_OFFLINE: _info("Broker failure callback for {row.replica}"),
    Kind.TOPIC_CREATED: _topic_created,
    Kind.ISR_CHANGED: _isr_changed,
    Kind.LEADER_EPOCH_BUMPED: _info(
        "Updated leader epoch for partition {logged.name} to {row.leader_epoch}, "
        "zkVersion={row.zk_version}"
    ),
    Kind.REASSIGNMENT_PHASE: _phase,
}
