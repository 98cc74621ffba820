"""Writes a history as Kafka's state-change.log or controller.log, with a directory per broker.

Writes the lines that Kafka 2.8 logs at level TRACE, with times in UTC. Events that Kafka does not
log are left out. controller/state_change_log.py formats the lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
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
    id_list,
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
    """Write a log FOLDER/broker-N/NAME for each broker N that was a controller.

    ``name``: STATE_CHANGE_LOG or CONTROLLER_LOG.
    """
    with ExitStack() as files:
        logs = _Logs(places.folder, name, files)
        for words in (words for block in blocks for words in in_words(layout, block)):
            if words.fate not in (LOST, REPEATED):
                file = logs.write(words, layout)
                if words.mark >= 0 and file is not None:
                    places.record(words.mark, file.path, file.line)


class _File:
    """An open log file.

    - ``line``: number of the first line that was written last.
    - ``is_damaged``: whether the next line is cut off before the name of its logger.
    """

    def __init__(self, path: Path, files: ExitStack) -> None:
        path.parent.mkdir(exist_ok=True)
        self.path = path
        self.line = 0
        self.is_damaged = False
        self._next_line = 1
        self._file: TextIO = files.enter_context(path.open("x", encoding="utf-8"))

    def write(self, text: str) -> None:
        """Append complete lines. If ``is_damaged``, it is one line, which is cut off."""
        if self.is_damaged:
            text = text.rpartition(" (")[0] + "\n"
        self.line = self._next_line
        self._next_line += text.count("\n")
        self._file.write(text)


class _Logs:
    """The logs of all controllers. They use this object as their clock."""

    def __init__(self, folder: Path, name: str, files: ExitStack) -> None:
        self._folder = folder
        self._name = name
        self._files = files
        self._t_ms = 0
        self._logs: dict[int, tuple[StateChangeLog, _File]] = {}

    def write(self, words: InWords, layout: Layout) -> _File | None:
        """Log a row. Return the file, or None if Kafka does not log it."""
        row = words.row
        is_state_change = self._name == STATE_CHANGE_LOG
        texts = _STATE_CHANGES if is_state_change else _CONTROLLER
        is_damaged = words.fate == DAMAGED
        missing = _CUT if is_damaged else _NOTHING
        level, text = texts.get((row.kind, row.to)) or texts.get(row.kind) or missing
        if text is None:
            return None
        log, file = self._log(row.controller, is_state_change)
        file.is_damaged = is_damaged
        self._t_ms, log.epoch = row.t_ms, row.epoch
        at = LoggedRow(row, words, layout)
        if row.kind == Kind.PARTITION_FAILED:
            log.state_change_failed([(text(at), f"{STATE_CHANGE_FAILED}: {row.outcome}")])
        elif is_state_change:
            log.state_change(level, [text(at)])
        elif level == "DEBUG":
            log.debug(text(at))
        else:
            log.info(text(at))
        return file

    def now_ms(self) -> int:
        """Return the time of the current row in ms since 1970, as the wall clock of the logs."""
        return self._t_ms

    def monotonic_ms(self) -> float:
        """Return the time of the current row in ms, as the monotonic clock of the logs."""
        return self._t_ms

    def _log(self, broker: int, is_state_change: bool) -> tuple[StateChangeLog, _File]:
        if broker not in self._logs:
            file = _File(self._folder / f"broker-{broker}" / self._name, self._files)
            log = StateChangeLog(
                broker,
                self,
                state_change=file if is_state_change else None,
                controller=None if is_state_change else file,
            )
            self._logs[broker] = log, file
        return self._logs[broker]


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

    @property
    def isr(self) -> str:
        """The ISR in the row."""
        return id_list(self.row.isr or ())

    @property
    def target(self) -> str:
        """The replicas after the reassignment that the row is about."""
        return ", ".join(map(str, parse_assignment(self.row.detail).replicas))

    @property
    def assigned(self) -> str:
        """The assignment of the row's topic, which is new."""
        return ", ".join(
            f"{tp} -> {replicas}"
            for tp, replicas in self.layout.new_topic(self.words.topic).items()
        )


def parse_assignment(text: str | None) -> ReplicaAssignment:
    """Parse the assignment in the column ``detail`` of a row."""
    found = re.fullmatch(ASSIGNMENT, text or "")
    assert found is not None, text
    return assignment(*found.groups())


def _partition_changed(at: LoggedRow) -> str:
    from_, to = at.row.from_ or "", at.row.to or ""
    if to == PartitionState.NEW.value:
        return partition_new_text(at.name, from_, to, at.layout.assignment(at.words.p))
    if to == PartitionState.ONLINE.value:
        return partition_online_text(at.name, from_, to, at.stored)
    return f"Changed partition {at.name} state from {from_} to {to}"


def _partition_failed(at: LoggedRow) -> str:
    row = at.row
    by = (row.controller, row.epoch)
    return partition_failed_text(*by, at.name, row.from_ or "", row.to or "")


_Texts = Mapping[str | tuple[str, str | None], tuple[str, Callable[[LoggedRow], str] | None]]
"""For a kind of rows, or a kind and a state: level and text of the line."""
_NOTHING: Final = ("", None)
_CUT: Final = ("TRACE", "Changed state of replica".format)
"""What is left of a damaged line if Kafka does not log the row."""
_STATE_CHANGES: Final[_Texts] = {
    Kind.PARTITION_TRANSITION: ("INFO", _partition_changed),
    (Kind.PARTITION_TRANSITION, PartitionState.OFFLINE.value): ("TRACE", _partition_changed),
    (Kind.PARTITION_TRANSITION, PartitionState.NON_EXISTENT.value): ("TRACE", _partition_changed),
    Kind.PARTITION_FAILED: ("ERROR", _partition_failed),
    Kind.REPLICA_TRANSITION: (
        "TRACE",
        "Changed state of replica {0.row.replica} for partition {0.name} from {0.row.from_} to "
        "{0.row.to}".format,
    ),
    Kind.ISR_REMOVED: (
        "INFO",
        "Partition {0.name} state changed to {0.stored} after removing replica {0.row.replica} "
        "from the ISR as part of transition to OfflineReplica".format,
    ),
    Kind.LEADER_EPOCH_BUMPED: (
        "INFO",
        "Sent LeaderAndIsr request {0.stored} with new replica assignment {0.row.detail} to leader "
        "{0.row.leader} for partition being reassigned {0.name}".format,
    ),
}
_ASSIGNED: Final = (
    "INFO",
    "Successfully updated assignment of partition {0.name} to {0.row.detail}".format,
)
_CONTROLLER: Final[_Texts] = {
    Kind.CONTROLLER_ELECTED: (
        "INFO",
        "{0.row.controller} successfully elected as the controller. Epoch incremented to "
        "{0.row.epoch} and epoch zk version is now {0.row.epoch}".format,
    ),
    Kind.CONTROLLER_READY: (
        "INFO",
        "Ready to serve as the new controller with epoch {0.row.epoch}".format,
    ),
    Kind.CONTROLLER_RESIGNED: ("INFO", "Resigned".format),
    Kind.BROKER_ONLINE: ("INFO", "New broker startup callback for {0.row.replica}".format),
    Kind.BROKER_OFFLINE: ("INFO", "Broker failure callback for {0.row.replica}".format),
    Kind.TOPIC_CREATED: (
        "INFO",
        "New topics: [Set({0.row.topic})], deleted topics: [HashSet()], "
        "new partition replica assignment [Map({0.assigned})]".format,
    ),
    Kind.ISR_CHANGED: (
        "DEBUG",
        "ISR for partition {0.name} updated to [{0.isr}] and zkVersion updated to "
        "[{0.row.zk_version}]".format,
    ),
    Kind.LEADER_EPOCH_BUMPED: (
        "INFO",
        "Updated leader epoch for partition {0.name} to {0.row.leader_epoch}, "
        "zkVersion={0.row.zk_version}".format,
    ),
    (Kind.REASSIGNMENT_PHASE, Phase.U1): _ASSIGNED,
    (Kind.REASSIGNMENT_PHASE, Phase.B6): _ASSIGNED,
    (Kind.REASSIGNMENT_PHASE, Phase.B7): (
        "INFO",
        "Removing partitions Map({0.name} -> List({0.target})) from the list of reassigned "
        "partitions in zookeeper".format,
    ),
}
