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
from replay.kafka_lines import (
    ASSIGNMENT,
    NOTHING,
    PARTITION,
    Fact,
    Said,
    assignment,
)
from statemachines.reassignment import Phase, reassignment_id

KNOWN: Final = (
    "A controller has been elected but just resigned",
    "Adding replica ",
    "All shutting down brokers: ",
    "Broker ",
    "Checking need to trigger auto leader balancing",
    "Controller failed to elect leader for partition ",
    "Controller failed to remove replica ",
    "Controller has already moved when trying to trigger controller movement",
    "Controller moved to another broker when ",
    "Creating FeatureZNode at path: ",
    "Current list of topics in the cluster: ",
    "Currently active brokers in the cluster: ",
    "Currently shutting brokers in the cluster: ",
    "Dead Replicas ",
    "Delete topic callback invoked ",
    "Delete topics listener fired for topics ",
    "Deleting isr change notifications",
    "Deleting log dir event notifications",
    "Deletion failed for replicas ",
    "Deletion for replicas ",
    "Deletion successfully completed for replicas ",
    "Error completing preferred replica leader election ",
    "Error completing replica leader election ",
    "Error when processing Alter",
    "Error while deleting topic ",
    "Error while incrementing controller epoch",
    "Error while moving some ",
    "Failed reassignment through zk with the following errors: ",
    "FeatureZNode at path: ",
    "Fetching topic deletions in progress",
    "Handling deletion for topics ",
    "Handling log directory failure for brokers ",
    "Handling reassignment of partition ",
    "Ignoring Alter",
    "Ignoring partition change during topic deletion",
    "Ignoring registration of ",
    "Ignoring request to delete non-existing topics ",
    "Incrementing controller epoch in ZooKeeper",
    "Initialized broker epochs cache: ",
    "Initialized controller epoch to ",
    "Initializing controller context",
    "Initializing manager with initial deletions: ",
    "Initializing partition state",
    "Initializing replica state",
    "Initializing topic deletion manager",
    "Leader imbalance ratio for broker ",
    "Leader not yet assigned for partition ",
    "List of topics ",
    "Live brokers: ",
    "New partition creation callback for ",
    "New replicas ",
    "Newly added brokers: ",
    "No more partitions need to be reassigned. ",
    "Partition ",
    "Partitions being reassigned: ",
    "Partitions that completed preferred replica election: ",
    "Partitions undergoing preferred replica election: ",
    "Processing of feature updates: ",
    "Reading controller epoch from ZooKeeper",
    "Reassignment of partition ",
    "Received controlled shutdown request from an old broker epoch ",
    "Register BrokerModifications handler for ",
    "Registering handlers",
    "Rejecting AlterPartition request ",
    "Removed ",
    "Removing ",
    "Resigning",
    "Restoring the partition replica assignment for topic ",
    "Resuming preferred replica election for partitions: ",
    "Retrying deletion of topics ",
    "Sending MetadataRequest to Brokers: ",
    "Sending update metadata request",
    "Skipping adding partitions ",
    "Skipping preferred replica election for partitions ",
    "Skipping replica leader election ",
    "Some replicas ",
    "Starting the controller scheduler",
    "Starting topic deletion for topics ",
    "Stopped partition state machine",
    "Stopped replica state machine",
    "Target replicas ",
    "Topics not in preferred replica for broker ",
    "Triggering offline replica state changes",
    "Triggering online partition state changes",
    "Triggering online replica state changes",
    "Unregister BrokerModifications handler for ",
    "Updated assigned replicas for partition ",
    "Updated broker epochs cache: ",
    "Updated broker metadata: ",
    "Updating FeatureZNode at path: ",
    "Updating ISRs for partitions: ",
    "Updating leader epoch for partition ",
    "Waiting for any successful result for election type ",
    "Waiting for new replicas ",
    "starting the token expiry check scheduler",
)
"""Behind the name of the one that speaks."""
KNOWN_OF_NOBODY: Final = (
    "Leader not yet assigned for partition ",
    "Haven't been able to send ",
    "Retrying leader election with strategy ",
)
"""Without such a name."""


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
