"""Column expressions shared by the questions: kinds, keys, and conditions on a single row.

Legal transitions come from klamm's own state machines. They are encoded as the bits of one number,
so that checking a row needs neither a join nor a string comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

from pyspark.sql import Column
from pyspark.sql import functions as F

from klamm.cluster.journal import Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import (
    KINDS,
    LEADERSHIP_WRITTEN,
    STATE_CODES,
    code_of,
)
from klamm.statemachines import partition_state, replica_state
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState

S = TypeVar("S", bound=Enum)

RUN: Final = ("source", "run")
PARTITION: Final = (*RUN, "topic", "partition")
REPLICA: Final = (*PARTITION, "replica")
HISTORY: Final = (*REPLICA, "controller", "epoch")
"""The key of ``key_seq``: a partition (replica -1) or a replica in one controller's epoch."""
AT: Final = ("file", "line", "place", "t_ms", "controller", "epoch", "seq")
"""Place and time of a row."""

STATE_KINDS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.REPLICA_TRANSITION,
)
"""Kinds of rows after which a partition or replica is in ``to_state``."""
TRANSITIONS: Final = (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)
FAILURES: Final = (Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
REPLICA_KINDS: Final = (Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED, Kind.ISR_REMOVED)
"""Kinds of rows that belong to the history of a replica: ``key_seq`` counts them there."""
LEADERSHIPS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.ISR_REMOVED,
    Kind.ISR_CHANGED,
    Kind.LEADER_EPOCH_BUMPED,
    LEADERSHIP_WRITTEN,
)
"""Kinds of rows that give the content of a state znode, if they have a leader."""

OFFLINE: Final = STATE_CODES[PartitionState.OFFLINE.value]
ONLINE: Final = STATE_CODES[PartitionState.ONLINE.value]
NO_PARTITION: Final = STATE_CODES[PartitionState.NON_EXISTENT.value]
NO_REPLICA: Final = STATE_CODES[ReplicaState.NON_EXISTENT.value]
_NEVER_SET: Final = 63
_FIRST_PARTITION_STATE: Final = STATE_CODES[PartitionState.NON_EXISTENT.value]
_FIRST_REPLICA_STATE: Final = STATE_CODES[ReplicaState.NON_EXISTENT.value]


def kind_code(kind: str) -> int:
    """Return the code of a kind."""
    return code_of(kind, KINDS)


def is_kind(*kinds: str) -> Column:
    """Condition: the row is of one of these kinds."""
    return F.col("kind").isin(*(kind_code(kind) for kind in kinds))


def legal_bits(before: Mapping[S, frozenset[S]], first: int) -> int:
    """Return legal transitions as bits.

    For every legal pair of state codes, bit (from - first) * number of states + (to - first) is
    set; ``first`` is the lowest code.
    """
    count = len(before)
    return sum(
        1 << (STATE_CODES[source.value] - first) * count + STATE_CODES[target.value] - first
        for target, sources in before.items()
        for source in sources
    )


def is_illegal() -> Column:
    """Condition: the row is a transition that Kafka's state machine does not allow.

    Decided by the row's own ``from_state``; a row without one is not illegal.
    """
    partition = _is_legal_pair(
        legal_bits(partition_state.VALID_PREVIOUS, _FIRST_PARTITION_STATE),
        _FIRST_PARTITION_STATE,
        len(PartitionState),
    )
    replica = _is_legal_pair(
        legal_bits(replica_state.VALID_PREVIOUS, _FIRST_REPLICA_STATE),
        _FIRST_REPLICA_STATE,
        len(ReplicaState),
    )
    is_legal = F.when(is_kind(Kind.PARTITION_TRANSITION), partition).otherwise(replica)
    return is_kind(*TRANSITIONS) & (F.col("from_state") != 0) & ~is_legal


def _is_legal_pair(bits: int, first: int, count: int) -> Column:
    before, after = (F.col(name).cast("int") - first for name in ("from_state", "to_state"))
    is_known = before.between(0, count - 1) & after.between(0, count - 1)
    place = F.when(is_known, before * count + after).otherwise(_NEVER_SET)
    return F.getbit(F.lit(bits).cast("bigint"), place) == 1


def goes_offline() -> Column:
    """Condition: a partition's transition to Offline from another state."""
    return (
        is_kind(Kind.PARTITION_TRANSITION)
        & (F.col("to_state") == OFFLINE)
        & (F.col("from_state") != OFFLINE)
    )


def is_found_offline() -> Column:
    """Condition: a snapshot's row of a partition that lost its leader together with the controller.

    Its state znode still names the dead leader. A partition that was Offline before has leader -1
    there, and its Offline state merely continues.
    """
    is_offline = is_kind(Kind.PARTITION_SNAPSHOT) & (F.col("to_state") == OFFLINE)
    return is_offline & (F.col("leader") > NO_LEADER)


def ends_offline_piece() -> Column:
    """Condition: a transition from Offline, to another state or to Offline again."""
    return is_kind(Kind.PARTITION_TRANSITION) & (F.col("from_state") == OFFLINE)


def replica_key() -> Column:
    """Return the replica that a row's history belongs to; -1 for the history of the partition."""
    return F.when(is_kind(*REPLICA_KINDS), F.col("replica")).otherwise(-1)


def partition_code() -> Column:
    """Return ``code``, a hash of the row's partition, to preselect rows of some partitions.

    A collision selects rows of another partition as well.
    """
    return F.xxhash64(*PARTITION).alias("code")


def is_leadership() -> Column:
    """Condition: the row gives the content of a state znode."""
    return is_kind(*LEADERSHIPS) & F.col("leader").isNotNull()


def is_unclean() -> Column:
    """Condition: the election of a leader that was not in the previous ISR."""
    return (
        is_leadership()
        & ~is_kind(Kind.PARTITION_SNAPSHOT)
        & (F.col("leader") > NO_LEADER)
        & (F.col("leader") != F.coalesce("prev_leader", F.lit(NO_LEADER)))
        & F.col("prev_isr").isNotNull()
        & ~F.array_contains("prev_isr", F.col("leader"))
    )


def moves_isr() -> Column:
    """Condition: the row changes the ISR, and has the ISRs before and after."""
    are_known = F.col("prev_isr").isNotNull() & F.col("isr").isNotNull()
    return is_leadership() & are_known & (F.col("prev_isr") != F.col("isr"))


def isr_removed() -> Column:
    """Return the replicas that left the ISR."""
    return F.array_except("prev_isr", "isr")


def isr_added(removed: Column) -> Column:
    """Return the replicas that joined the ISR; ``removed`` are those that left it.

    Often the sizes alone show that no replica joined.
    """
    grown = F.size("isr") - F.size("prev_isr") + F.size(removed)
    return F.when(grown > 0, F.array_except("isr", "prev_isr")).otherwise(
        F.array().cast("array<int>")
    )


def isr_removed_count() -> Column:
    """Return the number of replicas that left the ISR in a row."""
    return F.when(moves_isr(), F.size(isr_removed())).otherwise(0)


def isr_added_count(removed: Column) -> Column:
    """Return the number of replicas that joined the ISR; ``removed`` is the number that left it."""
    grown = F.size("isr") - F.size("prev_isr")
    return F.when(moves_isr(), grown + removed).otherwise(0)
