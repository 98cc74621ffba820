"""What a single message of Kafka's controller.log says, whatever came before it.

Brokers, topics, deletions, steps of reassignments, ISRs stored for leaders, and the states that a
failover or a controlled shutdown dumps; by the texts of Kafka 2.0 to 3.8. Mirrors the texts of
kafka/controller/KafkaController.scala, TopicDeletionManager.scala and the two state machines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cluster.journal import Kind
from cluster.types import ReplicaAssignment, TopicPartition
from replay.event_schema import LEADERSHIP_SEEN, REPLICA_SNAPSHOT, STATE_CODES
from replay.kafka_lines import (
    LEADER_AND_ISR,
    LEADER_ISR_AND_EPOCH,
    PARTITION,
    Fact,
    ids,
    reason,
)
from statemachines.reassignment import Phase, reassignment_id

Trace = Sequence[str]
Facts = list[Fact]

_moved = re.compile(
    r"Controller moved to another broker when processing (.*)\.", re.DOTALL
).fullmatch
_error = re.compile(r"Error processing event (.*)", re.DOTALL).fullmatch
_brokers = re.compile(
    r"(New broker startup callback|Broker failure callback|Broker info update callback) for "
    r"(\d[\d,]*)"
).fullmatch
_topics = re.compile(
    r"New topics: \[\w+\((.*?)\)\], deleted topics: \[.*?\], "
    r"new partition replica assignment \[(.*)\]"
).fullmatch
_added = re.compile(r"New partitions to be added (.*)").fullmatch
_assigned = re.compile(rf"{PARTITION} -> \w+\(").finditer
_begun = re.compile(r"Deletion of topic ([\w.-]+) \(re\)started").fullmatch
_deleted = re.compile(r"Deletion of topic ([\w.-]+) successfully completed").fullmatch
_halted = re.compile(r"Halted deletion of topics ([\w.,-]+) due to (.*)").fullmatch
_leader = re.compile(
    rf"Leader (-?\d+) for partition {PARTITION} being reassigned, "
    r"(is .*? list of replicas ([\d,]+).*)"
).fullmatch
_listed = re.compile(
    r"Removing partitions (.*) from the list of reassigned partitions in .*"
).fullmatch
_targets = re.compile(rf"{PARTITION} -> \w+\(([\d, ]*)\)").finditer
_refused = re.compile(
    rf"Error completing reassignment of partition {PARTITION}(?:: (.*))?|"
    rf"Failed completing reassignment of partition {PARTITION} because (.*)|"
    rf"Skipping reassignment of {PARTITION} since (.*)"
).fullmatch
_bumped = re.compile(
    rf"Updated leader epoch for partition {PARTITION} to (\d+)(?:, zkVersion=(-?\d+))?"
).fullmatch
_isr = re.compile(
    rf"ISR for partition {PARTITION} updated to "
    rf"(?:\[([\d,]*)\] and zkVersion updated to \[(-?\d+)\]|{LEADER_AND_ISR}\.?)"
).fullmatch
_isr_failed = re.compile(
    rf"Failed to update ISR for partition {PARTITION}(, bad ZK version)?|"
    rf"Failed to update ISR to {LEADER_AND_ISR} for partition {PARTITION}, bad ZK version\."
).fullmatch
_dump = re.compile(
    r"Started (partition|replica) state machine with initial state -> \w+\((.*)\)"
).fullmatch
_partition_states = re.compile(rf"{PARTITION} -> (\w+)").finditer
_replica_states = re.compile(r"\[Topic=([\w.-]+),Partition=(\d+),Replica=(\d+)\] -> (\w+)").finditer
_leaderships = re.compile(rf"\(?{PARTITION}(?: -> |,){LEADER_ISR_AND_EPOCH}").finditer
BAD_VERSION: Final = "INVALID_UPDATE_VERSION"


def facts_of(text: str, trace: Trace) -> Facts | None:
    """What a message says, without its speaker; None if it is none of those read here.

    ``trace``: the lines of the exception that follows it.
    """
    for begin, facts in _READERS:
        if text.startswith(begin):
            return facts(text, trace)
    return None


def _moved_away(text: str, trace: Trace) -> Facts | None:
    found = _moved(text)
    if found is None:
        return None
    return [Fact(Kind.CONTROLLER_MOVED.value, detail=found[1], outcome=reason(trace))]


def _event_failed(text: str, trace: Trace) -> Facts | None:
    found = _error(text)
    detail = found[1] if found else "failover"
    return [Fact(Kind.EVENT_FAILED.value, detail=detail, outcome=trace[0] if trace else None)]


def _event(text: str, trace: Trace) -> Facts | None:
    return [Fact(Kind.EVENT.value, detail=text)]


_BROKER_KINDS: Final = {
    "New broker startup callback": Kind.BROKER_ONLINE.value,
    "Broker failure callback": Kind.BROKER_OFFLINE.value,
    "Broker info update callback": Kind.BROKER_MODIFIED.value,
}


def _broker_changes(text: str, trace: Trace) -> Facts | None:
    found = _brokers(text)
    return found and [Fact(_BROKER_KINDS[found[1]], replica=broker) for broker in ids(found[2])]


def _topics_created(text: str, trace: Trace) -> Facts | None:
    found = _topics(text)
    if found is None:
        return None
    counts = Counter(at[1] for at in _assigned(found[2]))
    topics = [topic for topic in found[1].split(", ") if topic]
    kind = Kind.TOPIC_CREATED.value
    return [Fact(kind, topic, detail=f"{counts[topic]} partitions") for topic in topics]


def _partitions_added(text: str, trace: Trace) -> Facts | None:
    found = _added(text)
    if found is None:
        return None
    counts = Counter(at[1] for at in _assigned(found[1]))
    kind = Kind.PARTITIONS_ADDED.value
    return [Fact(kind, topic, detail=f"{count} partitions") for topic, count in counts.items()]


def _deletion(text: str, trace: Trace) -> Facts | None:
    if found := _begun(text):
        return [Fact(Kind.TOPIC_DELETION_STARTED.value, found[1])]
    if found := _deleted(text):
        return [Fact(Kind.TOPIC_DELETED.value, found[1])]
    return None


def _deletion_halted(text: str, trace: Trace) -> Facts | None:
    found = _halted(text)
    if found is None:
        return None
    kind = Kind.TOPIC_DELETION_HALTED.value
    return [Fact(kind, topic, outcome=found[2]) for topic in found[1].split(",")]


def _leader_moves(text: str, trace: Trace) -> Facts | None:
    found = _leader(text)
    if found is None:
        return None
    _, topic, partition, detail, replicas = found.groups()
    tp = TopicPartition(topic, int(partition))
    return [_reached(tp, Phase.B3, ids(replicas), detail)]


def _off_the_list(text: str, trace: Trace) -> Facts | None:
    found = _listed(text)
    return found and [
        _reached(TopicPartition(at[1], int(at[2])), Phase.B7, ids(at[3]))
        for at in _targets(found[1])
    ]


def _reached(
    tp: TopicPartition, phase: Phase, targets: Iterable[int], detail: str | None = None
) -> Fact:
    return Fact(
        Kind.REASSIGNMENT_PHASE.value,
        *tp,
        to_state=phase.value,
        reassignment=reassignment_id(tp, ReplicaAssignment(tuple(targets))),
        detail=detail,
    )


def _reassignment_failed(text: str, trace: Trace) -> Facts | None:
    found = _refused(text)
    if found is None:
        return None
    topic, partition, *why = (group for group in found.groups() if group is not None)
    outcome = why[0] if why else reason(trace)
    kind = Kind.REASSIGNMENT_FAILED.value
    return [Fact(kind, topic, int(partition), outcome=outcome)]


def _leader_epoch(text: str, trace: Trace) -> Facts | None:
    found = _bumped(text)
    if found is None:
        return None
    version = None if found[4] is None else int(found[4])
    kind = Kind.LEADER_EPOCH_BUMPED.value
    fact = Fact(kind, found[1], int(found[2]), leader_epoch=int(found[3]), zk_version=version)
    return [fact]


def _isr_changed(text: str, trace: Trace) -> Facts | None:
    found = _isr(text)
    if found is None:
        return None
    topic, partition, listed, version, leader, epoch, isr, newer = found.groups()
    fact = Fact(Kind.ISR_CHANGED.value, topic, int(partition))
    fact.isr, fact.zk_version = ids(isr if listed is None else listed), int(version or newer)
    if leader is not None:
        fact.leader, fact.leader_epoch = int(leader), int(epoch)
    return [fact]


def _isr_refused(text: str, trace: Trace) -> Facts | None:
    found = _isr_failed(text)
    if found is None:
        return None
    topic, partition, bad, leader, epoch, isr, version, other, number = found.groups()
    fact = Fact(Kind.ALTER_ISR_REFUSED.value, topic or other, int(partition or number))
    fact.outcome = BAD_VERSION if bad or leader else reason(trace)
    if leader:
        fact.leader, fact.leader_epoch = int(leader), int(epoch)
        fact.isr, fact.zk_version = ids(isr), int(version)
    return [fact]


def _states_at_start(text: str, trace: Trace) -> Facts | None:
    found = _dump(text)
    if found is None:
        return None
    if found[1] == "partition":
        kind = Kind.PARTITION_SNAPSHOT.value
        return [
            Fact(kind, at[1], int(at[2]), to_state=at[3])
            for at in _partition_states(found[2])
            if at[3] in STATE_CODES
        ]
    return [
        Fact(REPLICA_SNAPSHOT, at[1], int(at[2]), int(at[3]), to_state=at[4])
        for at in _replica_states(found[2])
        if at[4] in STATE_CODES
    ]


def _all_leaders(text: str, trace: Trace) -> Facts | None:
    return [
        Fact(
            LEADERSHIP_SEEN,
            at[1],
            int(at[2]),
            leader=int(at[3]),
            leader_epoch=int(at[5]),
            isr=ids(at[4]),
            zk_version=None if at[6] is None else int(at[6]),
        )
        for at in _leaderships(text)
    ]


_READERS: Final[tuple[tuple[str, Callable[[str, Trace], Facts | None]], ...]] = (
    ("ISR for partition ", _isr_changed),
    ("Updated leader epoch for partition ", _leader_epoch),
    ("Leader ", _leader_moves),
    ("Removing partitions ", _off_the_list),
    ("New broker startup callback for ", _broker_changes),
    ("Broker failure callback for ", _broker_changes),
    ("Broker info update callback for ", _broker_changes),
    ("New topics: ", _topics_created),
    ("New partitions to be added ", _partitions_added),
    ("Deletion of topic ", _deletion),
    ("Halted deletion of topics ", _deletion_halted),
    ("Failed to update ISR ", _isr_refused),
    ("Error completing reassignment of partition ", _reassignment_failed),
    ("Failed completing reassignment of partition ", _reassignment_failed),
    ("Skipping reassignment of ", _reassignment_failed),
    ("Controller moved to another broker when processing ", _moved_away),
    ("Error processing event ", _event_failed),
    ("Error while electing or becoming controller on broker ", _event_failed),
    ("Started partition state machine with initial state", _states_at_start),
    ("Started replica state machine with initial state", _states_at_start),
    ("All leaders = ", _all_leaders),
    ("Starting replica leader election ", _event),
    ("Starting preferred replica leader election ", _event),
    ("Shutting down broker ", _event),
    ("Processing automatic preferred replica leader election", _event),
    ("Unclean leader election has been enabled ", _event),
    ("Forcing the controller to resign", _event),
)
"""How a message goes on is read by the function behind its beginning."""
