"""Writes state-change.log and controller.log in the format of Kafka 2.8.

Many lines are combined into one write. Text from outside, such as topic names, is escaped, so that
it cannot break a line or control a terminal. To save time, no text is formatted for a log without a
sink, and lines about single replicas are formatted only if TRACE is logged. Mirrors
kafka/controller/StateChangeLogger.scala and the message texts of kafka/controller/.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Final, Protocol

from klamm.cluster.plain_text import harmless_line
from klamm.cluster.protocols import Clock
from klamm.cluster.types import LeaderIsrAndControllerEpoch, TopicPartition

STATE_CHANGE_FAILED: Final = "kafka.common.StateChangeFailedException"
ILLEGAL_STATE: Final = "java.lang.IllegalStateException"


class Sink(Protocol):
    """Destination of log text, for example an open text file."""

    def write(self, text: str, /) -> object:
        """Write text that ends with a newline."""
        ...


class Source(Enum):
    """Component that logs to controller.log. Each value is (message prefix, logger name)."""

    CONTROLLER = ("[Controller id={}] ", "kafka.controller.KafkaController")
    CHANNEL_MANAGER = (
        "[Channel manager on controller {}]: ",
        "kafka.controller.ControllerChannelManager",
    )
    PARTITION_STATE_MACHINE = (
        "[PartitionStateMachine controllerId={}] ",
        "kafka.controller.ZkPartitionStateMachine",
    )
    REPLICA_STATE_MACHINE = (
        "[ReplicaStateMachine controllerId={}] ",
        "kafka.controller.ZkReplicaStateMachine",
    )
    REQUEST_BATCH = ("", "kafka.controller.ControllerBrokerRequestBatch")
    TOPIC_DELETION_MANAGER = (
        "[Topic Deletion Manager {}] ",
        "kafka.controller.TopicDeletionManager",
    )


class StateChangeLog:
    """Writes the state-change.log and controller.log of one controller.

    - ``is_trace``: True if TRACE lines are written to state-change.log.
    - ``is_debug``: True if DEBUG lines are written to controller.log. Check this before formatting
      text that is costly to build.
    - ``epoch``: controller epoch shown in the lines of state-change.log.
    """

    def __init__(
        self,
        controller_id: int,
        clock: Clock,
        *,
        state_change: Sink | None = None,
        controller: Sink | None = None,
        is_trace: bool = True,
    ) -> None:
        self.controller_id = controller_id
        self.epoch = 0
        self.is_trace = is_trace and state_change is not None
        self._clock = clock
        self._state_change = state_change
        self._controller = controller
        self.is_debug = is_trace and controller is not None
        self._second = -1
        self._second_text = ""

    @property
    def is_on(self) -> bool:
        """True if state-change.log is written."""
        return self._state_change is not None

    def info(self, text: str, source: Source = Source.CONTROLLER) -> None:
        """Write an INFO line to controller.log."""
        self._write_controller("INFO", text, source, None)

    def infos(self, texts: Iterable[str], source: Source = Source.CONTROLLER) -> None:
        """Write several INFO lines with the same timestamp to controller.log."""
        if self._controller is not None:
            before, after = self._around("INFO", source)
            body = (after + before).join(map(harmless_line, texts))
            if body:
                self._controller.write(f"{before}{body}{after}")

    def debug(self, text: str, source: Source = Source.CONTROLLER) -> None:
        """Write a DEBUG line to controller.log."""
        if self.is_debug:
            self._write_controller("DEBUG", text, source, None)

    def warn(self, text: str, source: Source = Source.CONTROLLER) -> None:
        """Write a WARN line to controller.log."""
        self._write_controller("WARN", text, source, None)

    def error(
        self, text: str, source: Source = Source.CONTROLLER, error: BaseException | None = None
    ) -> None:
        """Write an ERROR line to controller.log, followed by a line for ``error`` if given."""
        self._write_controller("ERROR", text, source, error)

    def state_change(self, level: str, texts: Iterable[str], *, with_epoch: bool = True) -> None:
        """Write lines with the same level and timestamp to state-change.log.

        If ``with_epoch`` is False, the controller epoch is omitted, as Kafka does for messages that
        it logs without ``withControllerEpoch``.
        """
        if self._state_change is None:
            return
        epoch = f" epoch={self.epoch}" if with_epoch else ""
        before = f"{self._time()} {level} [Controller id={self.controller_id}{epoch}] "
        after = " (state.change.logger)\n"
        body = (after + before).join(map(harmless_line, texts))
        if body:
            self._state_change.write(f"{before}{body}{after}")

    def state_change_failed(self, texts: Iterable[tuple[str, str]]) -> None:
        """Write ERROR lines to state-change.log. ``texts``: (message, exception line) pairs."""
        if self._state_change is None:
            return
        before = f"{self._time()} ERROR [Controller id={self.controller_id} epoch={self.epoch}] "
        for text, exception in texts:
            line = f"{before}{harmless_line(text)} (state.change.logger)\n"
            self._state_change.write(f"{line}{harmless_line(exception)}\n")

    def _write_controller(
        self, level: str, text: str, source: Source, error: BaseException | None
    ) -> None:
        if self._controller is None:
            return
        before, after = self._around(level, source)
        line = f"{before}{harmless_line(text)}{after}"
        if error is not None:
            line += harmless_line(f"{type(error).__name__}: {error}") + "\n"
        self._controller.write(line)

    def _around(self, level: str, source: Source) -> tuple[str, str]:
        ident, logger = source.value
        before = f"{self._time()} {level} {ident.format(self.controller_id)}"
        return before, f" ({logger})\n"

    def _time(self) -> str:
        second, ms = divmod(self._clock.now_ms(), 1000)
        if second != self._second:
            self._second = second
            self._second_text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%d %H:%M:%S")
        return f"[{self._second_text},{ms:03d}]"


def partition_online_text(
    partition: TopicPartition, from_: str, to: str, leadership: LeaderIsrAndControllerEpoch
) -> str:
    """Return the log message for a partition that moved to Online with a leader and ISR."""
    state = leadership.leader_and_isr
    return f"Changed partition {partition} from {from_} to {to} with state {state}"


def partition_new_text(
    partition: TopicPartition, from_: str, to: str, replicas: Sequence[int]
) -> str:
    """Return the log message for a partition that moved to New."""
    return (
        f"Changed partition {partition} state from {from_} to {to} "
        f"with assigned replicas {id_list(replicas)}"
    )


def partition_failed_text(
    controller_id: int, epoch: int, partition: TopicPartition, from_: str, to: str
) -> str:
    """Return the log message for a partition whose state change failed."""
    return (
        f"Controller {controller_id} epoch {epoch} failed to change state for partition "
        f"{partition} from {from_} to {to}"
    )


def replica_failed_text(
    controller_id: int, epoch: int, partition: TopicPartition, replica: int, from_: str, to: str
) -> str:
    """Return the log message for a replica whose state change failed."""
    return (
        f"Controller {controller_id} epoch {epoch} initiated state change of replica {replica} for "
        f"partition {partition} from {from_} to {to} failed"
    )


def id_list(ids: Iterable[int]) -> str:
    """Format broker ids as Kafka does: ``0,1,2``."""
    return ",".join(map(str, ids))
