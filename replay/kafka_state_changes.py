"""Parses the messages in state-change.log of Kafka 2.0 to 3.8.

Parses successful and failed transitions of partitions and replicas, removals of replicas from an
ISR, and leader epoch bumps of reassignments. Ignores the messages that brokers log about received
requests. The message formats are taken from kafka/controller/PartitionStateMachine.scala,
ReplicaStateMachine.scala, KafkaController.scala and ControllerChannelManager.scala.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import ELECTIONS, STATE_CODES
from klamm.replay.kafka_lines import (
    ASSIGNMENT,
    BEGIN,
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
from klamm.replay.kafka_messages import Facts, LogMessage, Pattern, Trace, facts_of, one, wanted

LOGGER: Final = "state.change.logger"
_FROM_TO: Final = r"from (?P<from_state>\w+) to (?P<to_state>\w+)"
_CHANGED_REPLICA: Final = (
    rf"Changed state of replica (?P<replica>\d+) for partition {PARTITION} {_FROM_TO}"
)
_NEW_REPLICAS: Final = (
    rf"(?:replica assignment {ASSIGNMENT}|assigned replica list (?P<targets>[\d,]+))"
)
"""Kafka 2.3 and older versions print only the target replicas."""
_speaker = re.compile(r"\[(?:Broker|Controller) id=(\d+)(?: epoch=(\d+))?\] ").match
find_common = re.compile(
    rf"^{BEGIN}\[Controller id=(\d+) epoch=(\d+)\] {_CHANGED_REPLICA} "
    r"\(state\.change\.logger\)\n(?=\[|\Z)".replace(r"\d+", r"\d{1,6}"),
    re.MULTILINE,
).finditer
"""Finds complete records of the most common kind; the text must end with a complete record.

Leaves records with larger numbers to ``state_change``, which checks them. Groups: those of BEGIN,
then the arguments of ``common_state_change``."""
_SENT: Final = Pattern(
    rf"Sent LeaderAndIsr request {LEADER_ISR_AND_EPOCH} with new {_NEW_REPLICAS} to leader -?\d+ "
    rf"for partition being reassigned {PARTITION}"
)
_strategy = re.compile(r" under strategy (\S+?)\.?$").search
_KNOWN: Final = ("Sending ", "Received response ", "Received error ", "Mark replicas ")


def state_change(message: str, trace: Trace) -> LoggedFacts | None:
    """Parse a message and its stack trace. Return None if the message is unknown.

    Raises NumberTooLarge.
    """
    speaker = _speaker(message)
    if speaker is None:
        return None
    if message.startswith("[B"):
        return NOTHING
    controller, epoch = speaker.groups(default="0")
    text = message[speaker.end() :]
    facts = facts_of(_MESSAGES, text, trace)
    if facts is None:
        return NOTHING if text.startswith(_KNOWN) else None
    return LoggedFacts(int32(controller), controller_epoch(epoch), facts)


def common_state_change(groups: Sequence[str]) -> LoggedFacts | None:
    """Build the event of the most common message (a replica's transition) from pattern groups.

    Returns None if the name of a state is unknown.
    """
    controller, epoch, replica, topic, partition, before, after = groups
    if before not in STATE_CODES or after not in STATE_CODES:
        return None
    fact = Fact(_REPLICA_TRANSITION, topic, int(partition), int(replica), before, after)
    return LoggedFacts(int(controller), int(epoch), [fact])


def _with_replicas(text: str, trace: Trace) -> Facts | None:
    facts = _NEW_PARTITION.read(text, trace)
    for fact in facts or ():
        fact.detail = f"replicas={fact.detail}"
    return facts


def _epoch_bumped(text: str, trace: Trace) -> Facts | None:
    found = _SENT.match(text)
    if found is None:
        return None
    detail = str(wanted(found.groupdict()))
    fact = _SENT.fact(Kind.LEADER_EPOCH_BUMPED.value, found, detail=detail)
    return None if fact is None else [fact]


def _election(trace: Trace) -> str | None:
    found = _strategy(reason(trace) or "")
    return found[1] if found and found[1] in ELECTIONS else None


def _whole(trace: Trace) -> str | None:
    return "\n".join(trace) if len(trace) > 1 else None


_REPLICA_TRANSITION: Final = Kind.REPLICA_TRANSITION.value
_CHANGED_PARTITION: Final = rf"Changed partition {PARTITION} (?:state )?{_FROM_TO}"
_NEW_PARTITION: Final = one(
    Kind.PARTITION_TRANSITION,
    rf"{_CHANGED_PARTITION} with assigned replicas (?P<detail>[\d,]*)",
)
_MESSAGES: Final[tuple[LogMessage, ...]] = (
    one(Kind.REPLICA_TRANSITION, _CHANGED_REPLICA),
    one(
        Kind.PARTITION_TRANSITION,
        rf"{_CHANGED_PARTITION}(?: with state {LEADER_AND_ISR})?",
    ),
    LogMessage(("Changed partition ",), _with_replicas),
    one(
        Kind.ISR_REMOVED,
        rf"Partition {PARTITION} state changed to {LEADER_ISR_AND_EPOCH} after removing "
        r"replica (?P<replica>\d+) from the ISR as part of transition to \w+",
    ),
    one(
        Kind.PARTITION_FAILED,
        rf"Controller \d+ epoch \d+ failed to change state for partition {PARTITION} "
        rf"{_FROM_TO}",
        outcome=reason,
        election=_election,
        detail=_whole,
    ),
    one(
        Kind.REPLICA_FAILED,
        r"Controller \d+ epoch \d+ initiated state change of replica (?P<replica>\d+) for "
        rf"partition {PARTITION} {_FROM_TO} failed",
        outcome=reason,
        election=_election,
        detail=_whole,
    ),
    LogMessage(("Sent LeaderAndIsr request ",), _epoch_bumped),
    one(
        Kind.REASSIGNMENT_FAILED,
        rf"Failed to send LeaderAndIsr request with new {_NEW_REPLICAS} to leader for "
        rf"partition being reassigned {PARTITION}",
        outcome="the LeaderAndIsr request was not sent to the leader",
    ),
)
