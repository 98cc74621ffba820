"""What a message of Kafka's state-change.log says, by the texts of Kafka 2.0 to 3.8.

Transitions of partitions and replicas, those that failed, replicas that left an ISR, leader epochs
raised for reassignments. What brokers say of requests they got is known and left out.
Mirrors the texts of kafka/controller/PartitionStateMachine.scala, ReplicaStateMachine.scala,
KafkaController.scala and ControllerChannelManager.scala.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cluster.journal import Kind
from cluster.types import ReplicaAssignment, TopicPartition
from replay.event_schema import ELECTIONS, STATE_CODES
from replay.kafka_lines import (
    ASSIGNMENT,
    BEGIN,
    LEADER_AND_ISR,
    LEADER_ISR_AND_EPOCH,
    NOTHING,
    PARTITION,
    Fact,
    Said,
    assignment,
    ids,
    reason,
)
from statemachines.reassignment import reassignment_id

LOGGER: Final = "state.change.logger"
_REPLICA_TRANSITION: Final = Kind.REPLICA_TRANSITION.value
_PARTITION_TRANSITION: Final = Kind.PARTITION_TRANSITION.value
_STATES: Final = frozenset(STATE_CODES)
_NEW_REPLICAS: Final = rf"(?:replica assignment {ASSIGNMENT}|assigned replica list ([\d,]+))"
_speaker = re.compile(r"\[(?:Broker|Controller) id=(\d+)(?: epoch=(\d+))?\] ").match
_CHANGED_REPLICA: Final = (
    rf"Changed state of replica (\d+) for partition {PARTITION} from (\w+) to (\w+)"
)
_replica = re.compile(_CHANGED_REPLICA).fullmatch
find_common = re.compile(
    rf"^{BEGIN}\[Controller id=(\d+) epoch=(\d+)\] {_CHANGED_REPLICA} "
    r"\(state\.change\.logger\)\n(?=\[|\Z)",
    re.MULTILINE,
).finditer
"""Whole records of the commonest kind, in text that ends with a whole one. Groups: those of BEGIN,
and those for ``common_state_change``."""
_partition = re.compile(
    rf"Changed partition {PARTITION} (?:state )?from (\w+) to (\w+)"
    rf"(?: with state {LEADER_AND_ISR}| with assigned replicas ([\d,]*))?"
).fullmatch
_removed = re.compile(
    rf"Partition {PARTITION} state changed to {LEADER_ISR_AND_EPOCH} after removing replica (\d+) "
    r"from the ISR as part of transition to \w+"
).fullmatch
_failed_partition = re.compile(
    rf"Controller \d+ epoch (\d+) failed to change state for partition {PARTITION} "
    r"from (\w+) to (\w+)"
).fullmatch
_failed_replica = re.compile(
    rf"Controller \d+ epoch (\d+) initiated state change of replica (\d+) for partition "
    rf"{PARTITION} from (\w+) to (\w+) failed"
).fullmatch
_sent = re.compile(
    rf"Sent LeaderAndIsr request {LEADER_ISR_AND_EPOCH} with new {_NEW_REPLICAS} to leader -?\d+ "
    rf"for partition being reassigned {PARTITION}"
).fullmatch
_not_sent = re.compile(
    rf"Failed to send LeaderAndIsr request with new {_NEW_REPLICAS} to leader for partition being "
    rf"reassigned {PARTITION}"
).fullmatch
_strategy = re.compile(r" under strategy (\S+?)\.?$").search
_KNOWN: Final = ("Sending ", "Received response ", "Received error ", "Mark replicas ")


def state_change(message: str, trace: Sequence[str]) -> Said | None:
    """What a message says; None if it is none of Kafka's. ``trace`` is the throwable's lines."""
    speaker = _speaker(message)
    if speaker is None:
        return None
    if message.startswith("[B"):
        return NOTHING
    controller, epoch = speaker.groups(default="0")
    text = message[speaker.end() :]
    fact = _fact(text, trace)
    if fact is None:
        return NOTHING if text.startswith(_KNOWN) else None
    return Said(int(controller), int(epoch), (fact,))


def common_state_change(groups: Sequence[str]) -> Said | None:
    """What a record says that ``find_common`` found; None for states that are none of Kafka's."""
    controller, epoch, *change = groups
    fact = _replica_fact(change)
    return None if fact is None else Said(int(controller), int(epoch), (fact,))


def _fact(text: str, trace: Sequence[str]) -> Fact | None:
    if text.startswith("Changed state of"):
        return _replica_transition(text)
    if text.startswith("Changed"):
        return _partition_transition(text)
    if text.startswith("Partition"):
        return _isr_removed(text)
    if text.startswith("Controller"):
        return _failure(text, trace)
    if text.startswith("Sent"):
        return _epoch_bumped(text)
    if found := _not_sent(text):
        *replicas, topic, partition = found.groups()
        tp = TopicPartition(topic, int(partition))
        return Fact(
            Kind.REASSIGNMENT_FAILED.value,
            *tp,
            reassignment=reassignment_id(tp, _assignment(*replicas)),
            outcome="the LeaderAndIsr request was not sent to the leader",
        )
    return None


def _replica_transition(text: str) -> Fact | None:
    found = _replica(text)
    return None if found is None else _replica_fact(found.groups())


def _replica_fact(groups: Sequence[str]) -> Fact | None:
    replica, topic, partition, before, after = groups
    if before not in _STATES or after not in _STATES:
        return None
    return Fact(_REPLICA_TRANSITION, topic, int(partition), int(replica), before, after)


def _partition_transition(text: str) -> Fact | None:
    found = _partition(text)
    if found is None:
        return None
    topic, partition, before, after, leader, epoch, isr, version, replicas = found.groups()
    if before not in _STATES or after not in _STATES:
        return None
    fact = Fact(_PARTITION_TRANSITION, topic, int(partition), -1, before, after)
    if leader is not None:
        fact.leader, fact.leader_epoch = int(leader), int(epoch)
        fact.isr, fact.zk_version = ids(isr), int(version)
    elif replicas is not None:
        fact.detail = f"replicas={replicas}"
    return fact


def _isr_removed(text: str) -> Fact | None:
    found = _removed(text)
    if found is None:
        return None
    topic, partition, leader, isr, epoch, version, replica = found.groups()
    return Fact(
        Kind.ISR_REMOVED.value,
        topic,
        int(partition),
        int(replica),
        leader=int(leader),
        leader_epoch=int(epoch),
        isr=ids(isr),
        zk_version=None if version is None else int(version),
    )


def _failure(text: str, trace: Sequence[str]) -> Fact | None:
    kind, replica = Kind.PARTITION_FAILED, "-1"
    if found := _failed_partition(text):
        _, topic, partition, before, after = found.groups()
    elif found := _failed_replica(text):
        kind = Kind.REPLICA_FAILED
        _, replica, topic, partition, before, after = found.groups()
    else:
        return None
    if before not in _STATES or after not in _STATES:
        return None
    why = reason(trace)
    strategy = _strategy(why) if why else None
    return Fact(
        kind.value,
        topic,
        int(partition),
        int(replica),
        before,
        after,
        election=strategy[1] if strategy and strategy[1] in ELECTIONS else None,
        outcome=why,
        detail="\n".join(trace) if len(trace) > 1 else None,
    )


def _epoch_bumped(text: str) -> Fact | None:
    found = _sent(text)
    if found is None:
        return None
    leader, isr, epoch, version, *replicas, topic, partition = found.groups()
    tp = TopicPartition(topic, int(partition))
    wanted = _assignment(*replicas)
    return Fact(
        Kind.LEADER_EPOCH_BUMPED.value,
        *tp,
        leader=int(leader),
        leader_epoch=int(epoch),
        isr=ids(isr),
        reassignment=reassignment_id(tp, wanted),
        zk_version=None if version is None else int(version),
        detail=str(wanted),
    )


def _assignment(
    replicas: str | None, adding: str | None, removing: str | None, targets: str | None
) -> ReplicaAssignment:
    """Kafka 2.3 and older name the target replicas alone."""
    return assignment(replicas or targets or "", adding or "", removing or "")
