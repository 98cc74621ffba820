"""A history as Kafka's state-change.log or controller.log, a folder a broker, in Kafka 2.8's words.

At TRACE, so that transitions of replicas are told; times are UTC. Rows that such a log has no line
for are left out. Mirrors the message texts of kafka/controller/.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from cluster.journal import JournalRow, Kind
from cluster.types import (
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from replay.generate.journal_rows import InWords, in_words
from replay.generate.rows import DAMAGED, LOST, NOBODY, REPEATED, Block
from replay.generate.world import World
from replay.generate.writers import Places
from statemachines.partition_state import PartitionState
from statemachines.reassignment import Phase

STATE_CHANGE_LOG: Final = "state-change.log"
CONTROLLER_LOG: Final = "controller.log"
TIMEZONE: Final = "UTC"
_LOGGERS: Final = {
    STATE_CHANGE_LOG: "state.change.logger",
    CONTROLLER_LOG: "kafka.controller.KafkaController",
}
_EXCEPTION: Final = "kafka.common.StateChangeFailedException"
_NEW: Final = PartitionState.NEW.value
_ONLINE: Final = PartitionState.ONLINE.value

Said = tuple[str, str] | None
"""Level and message; a message may have a throwable's line behind its end."""
_Texts = Mapping[str, Callable[[World, InWords], Said]]


class KafkaLogWriter:
    """Writes FOLDER/broker-N/NAME, ``name`` being that of one of Kafka's two logs."""

    def __init__(self, world: World, places: Places, name: str) -> None:
        self._world = world
        self._places = places
        self._name = name
        self._is_state_change = name == STATE_CHANGE_LOG
        self._texts = _STATE_CHANGES if self._is_state_change else _CONTROLLER
        self._after = f" ({_LOGGERS[name]})\n"
        self._files: dict[int, TextIO] = {}
        self._lines: dict[int, int] = {}
        self._second = -1
        self._second_text = ""

    def write(self, block: Block) -> None:
        """The next rows."""
        pending: dict[int, list[str]] = {}
        for words in in_words(self._world, block):
            if words.fate in (LOST, REPEATED):
                continue
            text = self._line(words)
            if text is not None:
                broker = words.row.controller
                pending.setdefault(broker, []).append(text)
                self._count(broker, text, words.mark)
        for broker, lines in pending.items():
            self._file(broker).writelines(lines)

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            file.close()

    def _line(self, words: InWords) -> str | None:
        row = words.row
        ident = f"[Controller id={row.controller}"
        ident += f" epoch={row.epoch}] " if self._is_state_change else "] "
        if words.fate == DAMAGED:
            return f"{self._time(row.t_ms)} INFO {ident}Changed part\n"
        say = self._texts.get(row.kind)
        said = None if say is None else say(self._world, words)
        if said is None:
            return None
        level, message = said
        message, _, throwable = message.partition("\n")
        text = f"{self._time(row.t_ms)} {level} {ident}{message}{self._after}"
        return f"{text}{throwable}\n" if throwable else text

    def _count(self, broker: int, text: str, mark: int) -> None:
        line = self._lines.get(broker, 0)
        self._lines[broker] = line + text.count("\n")
        if mark >= 0:
            self._places.tell(mark, self._places.folder / _folder(broker) / self._name, line + 1)

    def _file(self, broker: int) -> TextIO:
        file = self._files.get(broker)
        if file is None:
            folder = self._places.folder / _folder(broker)
            folder.mkdir(exist_ok=True)
            file = self._files[broker] = (folder / self._name).open("x", encoding="utf-8")
        return file

    def _time(self, t_ms: int) -> str:
        second, ms = divmod(t_ms, 1000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"[{self._second_text},{ms:03d}]"


def _folder(broker: int) -> str:
    return f"broker-{broker}"


def _tp(row: JournalRow) -> TopicPartition:
    return TopicPartition(row.topic or "", row.partition)


def _state(row: JournalRow) -> LeaderAndIsr:
    leader, epoch, version = row.leader, row.leader_epoch, row.zk_version
    assert leader is not None and epoch is not None and version is not None
    return LeaderAndIsr(leader, epoch, row.isr or (), version)


def _stored(row: JournalRow) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(_state(row), row.epoch)


# state-change.log


def _partition_transition(world: World, words: InWords) -> Said:
    row = words.row
    changed = f"Changed partition {_tp(row)}"
    if row.to == _NEW:
        replicas = _initial(world, words.p)
        listed = ",".join(map(str, replicas))
        state = f"state from {row.from_} to {row.to} with assigned replicas {listed}"
        return "INFO", f"{changed} {state}"
    if row.to == _ONLINE:
        return "INFO", f"{changed} from {row.from_} to {row.to} with state {_state(row)}"
    return "TRACE", f"{changed} state from {row.from_} to {row.to}"


def _partition_failed(world: World, words: InWords) -> Said:
    row = words.row
    failed = (
        f"Controller {row.controller} epoch {row.epoch} failed to change state for partition "
        f"{_tp(row)} from {row.from_} to {row.to}"
    )
    return "ERROR", f"{failed}\n{_EXCEPTION}: {row.outcome}"


def _replica_transition(world: World, words: InWords) -> Said:
    row = words.row
    moved = f"from {row.from_} to {row.to}"
    return "TRACE", f"Changed state of replica {row.replica} for partition {_tp(row)} {moved}"


def _isr_removed(world: World, words: InWords) -> Said:
    row = words.row
    return "INFO", (
        f"Partition {_tp(row)} state changed to {_stored(row)} after removing replica "
        f"{row.replica} from the ISR as part of transition to OfflineReplica"
    )


def _epoch_sent(world: World, words: InWords) -> Said:
    row = words.row
    return "INFO", (
        f"Sent LeaderAndIsr request {_stored(row)} with new replica assignment {row.detail} "
        f"to leader {row.leader} for partition being reassigned {_tp(row)}"
    )


_STATE_CHANGES: Final[_Texts] = {
    Kind.PARTITION_TRANSITION: _partition_transition,
    Kind.PARTITION_FAILED: _partition_failed,
    Kind.REPLICA_TRANSITION: _replica_transition,
    Kind.ISR_REMOVED: _isr_removed,
    Kind.LEADER_EPOCH_BUMPED: _epoch_sent,
}

# controller.log


def _elected(world: World, words: InWords) -> Said:
    row = words.row
    return "INFO", (
        f"{row.controller} successfully elected as the controller. Epoch incremented to "
        f"{row.epoch} and epoch zk version is now {row.epoch}"
    )


def _ready(world: World, words: InWords) -> Said:
    return "INFO", f"Ready to serve as the new controller with epoch {words.row.epoch}"


def _resigned(world: World, words: InWords) -> Said:
    return "INFO", "Resigned"


def _broker_online(world: World, words: InWords) -> Said:
    return "INFO", f"New broker startup callback for {words.row.replica}"


def _broker_offline(world: World, words: InWords) -> Said:
    return "INFO", f"Broker failure callback for {words.row.replica}"


def _topic_created(world: World, words: InWords) -> Said:
    first, last = world.partitions_of(words.topic)
    assigned = ", ".join(
        f"{world.names[p]} -> {ReplicaAssignment(_initial(world, p))}" for p in range(first, last)
    )
    return "INFO", (
        f"New topics: [Set({words.row.topic})], deleted topics: [HashSet()], "
        f"new partition replica assignment [Map({assigned})]"
    )


def _isr_changed(world: World, words: InWords) -> Said:
    row = words.row
    isr = ",".join(map(str, row.isr or ()))
    return "DEBUG", (
        f"ISR for partition {_tp(row)} updated to [{isr}] and zkVersion updated to "
        f"[{row.zk_version}]"
    )


def _epoch_updated(world: World, words: InWords) -> Said:
    row = words.row
    bumped = f"Updated leader epoch for partition {_tp(row)} to {row.leader_epoch}"
    return "INFO", f"{bumped}, zkVersion={row.zk_version}"


def _phase(world: World, words: InWords) -> Said:
    row, detail = words.row, words.detail
    if row.to in (Phase.U1, Phase.B6):
        assert isinstance(detail, ReplicaAssignment)
        return "INFO", f"Successfully updated assignment of partition {_tp(row)} to {detail}"
    if row.to == Phase.B7:
        assert isinstance(detail, ReplicaAssignment)
        target = ", ".join(map(str, detail.replicas))
        return "INFO", (
            f"Removing partitions Map({_tp(row)} -> List({target})) from the list of reassigned "
            "partitions in zookeeper"
        )
    return None


_CONTROLLER: Final[_Texts] = {
    Kind.CONTROLLER_ELECTED: _elected,
    Kind.CONTROLLER_READY: _ready,
    Kind.CONTROLLER_RESIGNED: _resigned,
    Kind.BROKER_ONLINE: _broker_online,
    Kind.BROKER_OFFLINE: _broker_offline,
    Kind.TOPIC_CREATED: _topic_created,
    Kind.ISR_CHANGED: _isr_changed,
    Kind.LEADER_EPOCH_BUMPED: _epoch_updated,
    Kind.REASSIGNMENT_PHASE: _phase,
}


def _initial(world: World, p: int) -> tuple[Any, ...]:
    return tuple(broker for broker in world.initial_replicas[p].tolist() if broker != NOBODY)
