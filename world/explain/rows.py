"""Interprets journal rows: the rules they follow, the znodes written and the partition's state.

The journal does not record writes to ZooKeeper, so this file derives the writes from the rows. The
version of a znode is given only if the row contains it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from klamm.cluster.journal import JournalRow, Kind, is_isr_removal_written
from klamm.cluster.types import TopicPartition
from klamm.controller import events
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.explain.rules import (
    ELECTION_RULES,
    KIND_RULES,
    PARTITION_RULES,
    PHASE_RULES,
    REPLICA_RULES,
    Rule,
)
from klamm.zk.znodes import (
    BrokerIdsZNode,
    ConfigEntityZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsTopicZNode,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicZNode,
)

NOT_IN_THE_JOURNAL = Rule("Unknown kind of row.", "a journal from another version of klamm")
_LEADERSHIPS = frozenset(
    {
        Kind.PARTITION_SNAPSHOT,
        Kind.PARTITION_TRANSITION,
        Kind.ISR_REMOVED,
        Kind.ISR_CHANGED,
        Kind.LEADER_EPOCH_BUMPED,
    }
)


class _Started(msgspec.Struct):
    controller: int | None = None


class _FailedDir(msgspec.Struct):
    log_dir: str = "?"
    reason: str = "reason not recorded"


class ZNodeWrite(NamedTuple):
    """A write to a znode, derived from a journal row.

    ``version`` is the znode's version after the write, or None if the row does not record it.
    """

    path: str
    action: str
    version: int | None = None


class PartitionStatus(NamedTuple):
    """State of a partition after its last row in the journal.

    A field is None if the journal does not record its value.
    """

    state: str | None
    leader: int | None
    isr: tuple[int, ...] | None
    leader_epoch: int | None
    zk_version: int | None
    replicas: dict[int, str]


def only_controller(row: JournalRow) -> int | None:
    """Return the broker id of the `klamm controller run` whose start a row records, or None."""
    if row.kind != Kind.RUN_START:
        return None
    try:
        return msgspec.json.decode(row.detail or "{}", type=_Started).controller
    except (msgspec.DecodeError, RecursionError):
        return None


def event_name(row: JournalRow) -> str:
    """Return the name of a row's event without its arguments, e.g. ``BrokerChange``."""
    return (row.detail or "").partition("(")[0]


def event_meaning(name: str) -> str | None:
    """Return the one-sentence meaning of a controller event, or None for an unknown name."""
    found = getattr(events, name, None)
    text = found.__doc__ if isinstance(found, type) else None
    return " ".join(text.split()).partition(";")[0].rstrip(".") + "." if text else None


def rules_of(row: JournalRow) -> tuple[Rule, ...]:
    """Return the rules that explain a row, the most specific rule first."""
    rules: list[Rule] = []
    if row.election is not None and row.election in ELECTION_RULES:
        rules.append(ELECTION_RULES[row.election])
    try:
        kind = Kind(row.kind)
        match kind:
            case Kind.PARTITION_TRANSITION:
                rules.append(PARTITION_RULES[PartitionState(row.from_), PartitionState(row.to)])
            case Kind.REPLICA_TRANSITION:
                rules.append(REPLICA_RULES[ReplicaState(row.to)])
            case Kind.REASSIGNMENT_PHASE:
                rules.append(PHASE_RULES[Phase(str(row.to))])
            case _:
                rules.append(KIND_RULES[kind])
    except (KeyError, ValueError):
        rules.append(NOT_IN_THE_JOURNAL)
    return tuple(rules)


def is_unclean(row: JournalRow) -> bool:
    """Return True if a row records the election of a leader that was not in the ISR."""
    return (
        row.election is not None
        and row.prev_isr is not None
        and row.leader is not None
        and row.leader >= 0
        and row.leader not in row.prev_isr
    )


def znodes_of(row: JournalRow) -> tuple[ZNodeWrite, ...]:
    """Return the writes to ZooKeeper derived from a row."""
    match row.kind:
        case Kind.PARTITION_TRANSITION | Kind.ISR_REMOVED if _is_written(row):
            action = "created" if row.from_ == PartitionState.NEW.value else "set"
            return (_state_write(row, action),)
        case Kind.ISR_CHANGED | Kind.LEADER_EPOCH_BUMPED:
            return (_state_write(row, "set"),)
        case Kind.REASSIGNMENT_PHASE if row.to in (Phase.U1, Phase.B6):
            return (ZNodeWrite(TopicZNode.path(row.topic or ""), "set"),)
        case Kind.REASSIGNMENT_PHASE if row.to == Phase.B7:
            return (ZNodeWrite(ReassignPartitionsZNode.path, "entry removed, if present"),)
        case Kind.CONTROLLER_ELECTED:
            return (
                ZNodeWrite(ControllerZNode.path, f"created for broker {row.controller}"),
                ZNodeWrite(ControllerEpochZNode.path, f"set to {row.epoch}"),
            )
        case Kind.TOPIC_DELETED:
            topic = row.topic or ""
            return (
                ZNodeWrite(TopicZNode.path(topic), "deleted with everything below it"),
                ZNodeWrite(ConfigEntityZNode.path("topics", topic), "deleted"),
                ZNodeWrite(DeleteTopicsTopicZNode.path(topic), "deleted"),
            )
    return ()


def trigger_of(row: JournalRow) -> str | None:
    """Describe what the controller detected, e.g. a failed broker; return None for other rows."""
    match row.kind:
        case Kind.BROKER_ONLINE:
            return f"broker {row.replica} registered in {BrokerIdsZNode.path}"
        case Kind.BROKER_OFFLINE:
            return f"broker {row.replica} disappeared from {BrokerIdsZNode.path}"
        case Kind.BROKER_MODIFIED:
            return f"broker {row.replica} changed its registration: {row.detail}"
        case Kind.TOPIC_CREATED:
            return f"topic {row.topic} is new in ZooKeeper, {row.detail}"
        case Kind.PARTITIONS_ADDED:
            return f"topic {row.topic} gained {row.detail}"
        case Kind.TOPIC_DELETION_STARTED:
            return f"topic {row.topic} is queued for deletion"
        case Kind.CONTROLLER_ELECTED:
            return f"broker {row.controller} became the controller, epoch {row.epoch}"
    return None


def failed_dir_text(row: JournalRow) -> str:
    """Describe the failed log directory of a broker, with the reason if the row has it."""
    try:
        detail = msgspec.json.decode(row.detail or "{}", type=_FailedDir)
    except (msgspec.DecodeError, RecursionError):
        detail = _FailedDir()
    return f"log directory {detail.log_dir} of broker {row.replica} failed: {detail.reason}"


def partition_status(rows: Iterable[JournalRow]) -> PartitionStatus:
    """Return a partition's state after ``rows``, which are in the journal's order."""
    state, at, replicas = None, None, dict[int, str]()
    for row in rows:
        if row.kind in (Kind.PARTITION_SNAPSHOT, Kind.PARTITION_TRANSITION):
            state = row.to
        if row.kind == Kind.PARTITION_SNAPSHOT:
            replicas.clear()
        if row.kind in _LEADERSHIPS and row.leader is not None:
            at = row
        if row.kind == Kind.REPLICA_TRANSITION and row.to is not None:
            replicas[row.replica] = row.to
    if state == PartitionState.NON_EXISTENT.value:
        at = None
    gone = ReplicaState.NON_EXISTENT.value
    left = {id_: replicas[id_] for id_ in sorted(replicas) if replicas[id_] != gone}
    if at is None:
        return PartitionStatus(state, None, None, None, None, left)
    return PartitionStatus(state, at.leader, at.isr, at.leader_epoch, at.zk_version, left)


def _is_written(row: JournalRow) -> bool:
    """Return True if the controller wrote the partition's state znode in this step.

    An election always writes it, because the leader epoch increases.
    """
    if row.kind == Kind.ISR_REMOVED:
        return is_isr_removal_written(row.isr, row.leader, row.prev_isr, row.prev_leader)
    is_first = row.from_ == PartitionState.NEW.value and row.leader is not None
    return is_first or row.prev_isr is not None


def _state_write(row: JournalRow, action: str) -> ZNodeWrite:
    path = TopicPartitionStateZNode.path(TopicPartition(row.topic or "", row.partition))
    return ZNodeWrite(path, action, row.zk_version)
