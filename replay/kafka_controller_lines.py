"""Parses the messages in controller.log of Kafka 2.0 to 3.8.

A message does not contain the controller epoch, which is remembered from the last election line.
Messages about assignments also depend on earlier lines. Every other message is parsed on its own.
The message formats are taken from kafka/controller/KafkaController.scala,
TopicDeletionManager.scala, PartitionStateMachine.scala and ReplicaStateMachine.scala.
"""

from __future__ import annotations

import re
from collections import Counter
from importlib.resources import files
from typing import Final

from klamm.cluster.journal import Kind
from klamm.cluster.types import ReplicaAssignment, TopicPartition
from klamm.replay.event_schema import LEADERSHIP_SEEN, REPLICA_SNAPSHOT
from klamm.replay.kafka_lines import (
    ASSIGNMENT,
    LEADER_AND_ISR,
    LEADER_ISR_AND_EPOCH,
    NOTHING,
    PARTITION,
    Fact,
    LoggedFacts,
    controller_epoch,
    int32,
    reason,
)
from klamm.replay.kafka_messages import Facts, LogMessage, Trace, each, facts_of, one, wanted
from klamm.statemachines.reassignment import Phase, reassignment_id

LOGGER_PREFIX: Final = "kafka.controller."
BAD_VERSION: Final = "INVALID_UPDATE_VERSION"
KNOWN: Final = tuple(
    line.replace("…", " ")
    for line in (files("klamm.replay") / "controller_log_messages.txt").read_text().splitlines()
)
"""Messages that begin with one of these texts, after the component's name, are ignored."""
KNOWN_WITHOUT_COMPONENT: Final = (
    "Leader not yet assigned for partition ",
    "Haven't been able to send ",
    "Retrying leader election with strategy ",
)
"""Messages without a component's name that begin with one of these texts are ignored."""
_IGNORED_COMPONENTS: Final = (
    "ControllerEventThread controllerId=",
    "RequestSendThread controllerId=",
    "Channel manager on controller ",
)
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
    rf"Updating assignment of partition {PARTITION} from ReplicaAssignment\(.*?\) to {ASSIGNMENT}"
).fullmatch
_updated = re.compile(
    rf"Successfully updated assignment of partition {PARTITION} to {ASSIGNMENT}"
).fullmatch
_topics = re.compile(
    r"New topics: \[\w+\((.*?)\)\], deleted topics: \[.*?\], "
    r"new partition replica assignment \[(.*)\]"
).fullmatch
_added = re.compile(r"New partitions to be added (.*)").fullmatch
_assigned = re.compile(rf"{PARTITION} -> \w+\(").finditer


class ControllerLines:
    """Parses the messages of one broker's controller.log in order.

    ``epoch``: current controller epoch; 0 if unknown or if the broker is not the controller.
    ``names_updates``: the log contains DEBUG lines such as "Updating assignment", which precedes
    the first write of a reassignment (phase U1) but not the last one (B6).
    """

    def __init__(self, epoch: int = 0, *, names_updates: bool = False) -> None:
        self.epoch = epoch
        self._names_updates = names_updates
        self._announced: dict[TopicPartition, ReplicaAssignment] = {}
        self._started: dict[TopicPartition, str] = {}

    def facts(self, message: str, trace: Trace) -> LoggedFacts | None:
        """Parse a message. Return None if it is not a message of Kafka that klamm knows.

        Raises NumberTooLarge.
        """
        speaker = _speaker(message)
        if speaker is None:
            return NOTHING if message.startswith(KNOWN_WITHOUT_COMPONENT) else None
        text = message[speaker.end() :]
        if speaker[1] in _IGNORED_COMPONENTS:
            if text == "Starting" and speaker[1].startswith("ControllerEventThread"):
                # The broker was restarted: it is not the controller until elected again.
                self.epoch = 0
            return NOTHING
        controller_id, facts = int32(speaker[2]), self._facts_of(text, trace)
        if facts is None:
            return NOTHING if text.startswith(KNOWN) else None
        logged = LoggedFacts(controller_id, self.epoch, facts)
        if text == "Resigned":
            self.epoch = 0
        return logged

    def _facts_of(self, text: str, trace: Trace) -> Facts | None:
        if found := _elected(text):
            self.epoch = controller_epoch(found[1])
            return [Fact(Kind.CONTROLLER_ELECTED.value, detail=f"epoch zk version {found[2]}")]
        if found := _epoch_only(text):
            self.epoch = controller_epoch(found[1])
            return [Fact(Kind.CONTROLLER_ELECTED.value)]
        if found := _ready(text):
            self.epoch = controller_epoch(found[1])
            return [Fact(Kind.CONTROLLER_READY.value)]
        if text == "Resigned":
            # Brokers that are not the controller log this, too, when they are stopped.
            return [Fact(Kind.CONTROLLER_RESIGNED.value)] if self.epoch else []
        if found := _updating(text):
            tp = TopicPartition(found["topic"], int32(found["partition"]))
            self._announced[tp] = wanted(found.groupdict())
            return []
        if found := _updated(text):
            return [self._assignment_written(found)]
        return facts_of(_MESSAGES, text, trace)

    def _assignment_written(self, found: re.Match[str]) -> Fact:
        """Return an event for a line that reports the write of an assignment to ZooKeeper.

        Kafka logs the same text in phases U1 and B6 of a reassignment (the phases are defined at
        KafkaController.onPartitionReassignment). Earlier lines show which of the two it is.
        """
        tp = TopicPartition(found["topic"], int32(found["partition"]))
        written = wanted(found.groupdict())
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


def _topics_created(text: str, trace: Trace) -> Facts | None:
    found = _topics(text)
    if found is None:
        return None
    counts = Counter(at["topic"] for at in _assigned(found[2]))
    topics = [topic for topic in found[1].split(", ") if topic]
    kind = Kind.TOPIC_CREATED.value
    return [Fact(kind, topic, detail=f"{counts[topic]} partitions") for topic in topics]


def _partitions_added(text: str, trace: Trace) -> Facts | None:
    found = _added(text)
    if found is None:
        return None
    counts = Counter(at["topic"] for at in _assigned(found[1]))
    kind = Kind.PARTITIONS_ADDED.value
    return [Fact(kind, topic, detail=f"{count} partitions") for topic, count in counts.items()]


def _first_line(trace: Trace) -> str | None:
    return trace[0] if trace else None


def _broker(kind: Kind, callback: str) -> LogMessage:
    return each(kind, rf"{callback} for (?P<all>\d[\d,]*)", r"(?P<replica>\d+)")


_MESSAGES: Final[tuple[LogMessage, ...]] = (
    one(
        Kind.ISR_CHANGED,
        rf"ISR for partition {PARTITION} updated to \[(?P<isr>[\d,]*)\] and zkVersion updated "
        r"to \[(?P<zk_version>-?\d+)\]",
        rf"ISR for partition {PARTITION} updated to {LEADER_AND_ISR}\.?",
    ),
    one(
        Kind.LEADER_EPOCH_BUMPED,
        rf"Updated leader epoch for partition {PARTITION} to (?P<leader_epoch>\d+)"
        r"(?:, zkVersion=(?P<zk_version>-?\d+))?",
    ),
    one(
        Kind.REASSIGNMENT_PHASE,
        rf"Leader -?\d+ for partition {PARTITION} being reassigned, "
        r"(?P<detail>is .*? list of replicas (?P<targets>[\d,]+).*)",
        to_state=Phase.B3.value,
    ),
    each(
        Kind.REASSIGNMENT_PHASE,
        "Removing partitions (?P<all>.*) from the list of reassigned partitions in .*",
        rf"{PARTITION} -> \w+\((?P<targets>[\d, ]*)\)",
        to_state=Phase.B7.value,
    ),
    _broker(Kind.BROKER_ONLINE, "New broker startup callback"),
    _broker(Kind.BROKER_OFFLINE, "Broker failure callback"),
    _broker(Kind.BROKER_MODIFIED, "Broker info update callback"),
    LogMessage(("New topics: ",), _topics_created),
    LogMessage(("New partitions to be added ",), _partitions_added),
    one(Kind.TOPIC_DELETION_STARTED, r"Deletion of topic (?P<topic>[\w.-]+) \(re\)started"),
    one(Kind.TOPIC_DELETED, r"Deletion of topic (?P<topic>[\w.-]+) successfully completed"),
    each(
        Kind.TOPIC_DELETION_HALTED,
        r"Halted deletion of topics (?P<all>[\w.,-]+) due to (?P<outcome>.*)",
        "(?P<topic>[^,]+)",
    ),
    one(
        Kind.ALTER_ISR_REFUSED,
        rf"Failed to update ISR for partition {PARTITION}, bad ZK version",
        rf"Failed to update ISR to {LEADER_AND_ISR} for partition {PARTITION}, "
        r"bad ZK version\.",
        outcome=BAD_VERSION,
    ),
    one(
        Kind.ALTER_ISR_REFUSED,
        rf"Failed to update ISR for partition {PARTITION}",
        outcome=reason,
    ),
    one(
        Kind.REASSIGNMENT_FAILED,
        rf"Error completing reassignment of partition {PARTITION}(?:: (?P<outcome>.*))?",
        rf"Failed completing reassignment of partition {PARTITION} because (?P<outcome>.*)",
        rf"Skipping reassignment of {PARTITION} since (?P<outcome>.*)",
        outcome=reason,
    ),
    one(
        Kind.CONTROLLER_MOVED,
        r"Controller moved to another broker when processing (?P<detail>.*)\.",
        outcome=reason,
    ),
    one(Kind.EVENT_FAILED, "Error processing event (?P<detail>.*)", outcome=_first_line),
    one(
        Kind.EVENT_FAILED,
        "Error while electing or becoming controller on broker .*",
        detail="failover",
        outcome=_first_line,
    ),
    each(
        Kind.PARTITION_SNAPSHOT,
        r"Started partition state machine with initial state -> \w+\((?P<all>.*)\)",
        rf"{PARTITION} -> (?P<to_state>\w+)",
    ),
    each(
        REPLICA_SNAPSHOT,
        r"Started replica state machine with initial state -> \w+\((?P<all>.*)\)",
        r"\[Topic=(?P<topic>[\w.-]+),Partition=(?P<partition>\d+),Replica=(?P<replica>\d+)\]"
        r" -> (?P<to_state>\w+)",
    ),
    each(
        LEADERSHIP_SEEN,
        "(?P<all>All leaders = .*)",
        rf"\(?{PARTITION}(?: -> |,){LEADER_ISR_AND_EPOCH}",
    ),
    one(
        Kind.EVENT,
        "(?P<detail>Starting replica leader election .*)",
        "(?P<detail>Starting preferred replica leader election .*)",
        "(?P<detail>Shutting down broker .*)",
        "(?P<detail>Processing automatic preferred replica leader election.*)",
        "(?P<detail>Unclean leader election has been enabled .*)",
        "(?P<detail>Forcing the controller to resign.*)",
    ),
)
