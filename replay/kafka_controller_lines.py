"""What the messages of Kafka's controller.log say one after the other, by Kafka 2.0 to 3.8.

Elections, failovers, resignations and the assignments that reassignments write: what these mean
depends on what came before. Lines name no epoch: that is carried from the line of the election.
What a message says by itself is read in kafka_controller_messages.py. Mirrors the texts of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

import re
from typing import Final

from cluster.journal import Kind
from cluster.types import ReplicaAssignment, TopicPartition
from replay.kafka_controller_messages import Facts, Trace, facts_of
from replay.kafka_known_lines import KNOWN, KNOWN_OF_NOBODY
from replay.kafka_lines import (
    ASSIGNMENT,
    NOTHING,
    PARTITION,
    Fact,
    Said,
    assignment,
)
from statemachines.reassignment import Phase, reassignment_id

LOGGER_PREFIX: Final = "kafka.controller."

_speaker = re.compile(
    r"\[(Controller id=|PartitionStateMachine controllerId=|ReplicaStateMachine controllerId=|"
    r"Topic Deletion Manager |ControllerEventThread controllerId=|RequestSendThread controllerId=|"
    r"Channel manager on controller )(\d+)\]:? "
).match
_elected = re.compile(
    r"\d+ successfully elected as the controller\. Epoch incremented to (\d+) and "
    r"epoch zk version is now (\d+)"
).fullmatch
_epoch_only = re.compile(r"Epoch incremented to (\d+)").fullmatch
_ready = re.compile(r"Ready to serve as the new controller with epoch (\d+)").fullmatch
_updating = re.compile(
    rf"Updating assignment of partition {PARTITION} from {ASSIGNMENT} to {ASSIGNMENT}"
).fullmatch
_updated = re.compile(
    rf"Successfully updated assignment of partition {PARTITION} to {ASSIGNMENT}"
).fullmatch
_UNHEARD: Final = (
    "ControllerEventThread controllerId=",
    "RequestSendThread controllerId=",
    "Channel manager on controller ",
)


class ControllerLines:
    """Reads the messages of one broker's controller.log one after the other.

    ``epoch`` is the controller epoch that the broker is in charge of; 0 while that is not known,
    and while it is not the controller. ``names_updates``: this log has DEBUG lines that announce
    new assignments, so that one without an announcement completes a reassignment.
    """

    def __init__(self, epoch: int = 0, *, names_updates: bool = False) -> None:
        self.epoch = epoch
        self._names_updates = names_updates
        self._announced: dict[TopicPartition, ReplicaAssignment] = {}
        self._started: dict[TopicPartition, str] = {}

    def facts(self, message: str, trace: Trace) -> Said | None:
        """What a message says; None if it is none of Kafka's."""
        speaker = _speaker(message)
        if speaker is None:
            return NOTHING if message.startswith(KNOWN_OF_NOBODY) else None
        text = message[speaker.end() :]
        if speaker[1] in _UNHEARD:
            if text == "Starting" and speaker[1].startswith("ControllerEventThread"):
                # The broker was started: what it was before it does not say.
                self.epoch = 0
            return NOTHING
        facts = self._said(text, trace)
        if facts is None:
            return NOTHING if text.startswith(KNOWN) else None
        said = Said(int(speaker[2]), self.epoch, facts)
        if text == "Resigned":
            self.epoch = 0
        return said

    def _said(self, text: str, trace: Trace) -> Facts | None:
        if found := _elected(text):
            self.epoch = int(found[1])
            return [Fact(Kind.CONTROLLER_ELECTED.value, detail=f"epoch zk version {found[2]}")]
        if found := _epoch_only(text):
            self.epoch = int(found[1])
            return [Fact(Kind.CONTROLLER_ELECTED.value)]
        if found := _ready(text):
            self.epoch = int(found[1])
            return [Fact(Kind.CONTROLLER_READY.value)]
        if text == "Resigned":
            # A broker that was not the controller says it too, when it is stopped.
            return [Fact(Kind.CONTROLLER_RESIGNED.value)] if self.epoch else []
        if found := _updating(text):
            tp = TopicPartition(found[1], int(found[2]))
            self._announced[tp] = assignment(found[6], found[7], found[8])
            return []
        if found := _updated(text):
            return [self._assignment_written(found)]
        return facts_of(text, trace)

    def _assignment_written(self, found: re.Match[str]) -> Fact:
        """U1 or B6, which have the same text: told apart by what came before."""
        tp = TopicPartition(found[1], int(found[2]))
        written = assignment(found[3], found[4], found[5])
        named = reassignment_id(tp, written)
        phase = self._phase(tp, written, named)
        if phase is Phase.B6:
            self._started.pop(tp, None)
        elif phase is not None:
            self._started[tp] = named
        return Fact(
            Kind.REASSIGNMENT_PHASE.value,
            *tp,
            to_state=None if phase is None else phase.value,
            reassignment=named,
            detail=str(written),
        )

    def _phase(self, tp: TopicPartition, written: ReplicaAssignment, named: str) -> Phase | None:
        if self._announced.pop(tp, None) == written or written.is_being_reassigned:
            return Phase.U1
        if self._names_updates or self._started.get(tp) == named:
            return Phase.B6
        return Phase.U1 if tp in self._started else None
