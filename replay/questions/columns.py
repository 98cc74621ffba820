"""What the questions share: kinds, keys and the conditions that one row alone decides.

Expressions only; nothing is computed here. The legal transitions are those of the product's own
state machines, as bits of one number, so that no row is joined or compared with words.
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
"""Where and when a row stands."""

STATE_KINDS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.REPLICA_TRANSITION,
)
"""Rows after which a key is in ``to_state``."""
TRANSITIONS: Final = (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)
FAILURES: Final = (Kind.PARTITION_FAILED, Kind.REPLICA_FAILED)
REPLICA_KINDS: Final = (Kind.REPLICA_TRANSITION, Kind.REPLICA_FAILED, Kind.ISR_REMOVED)
"""Rows that ``key_seq`` counts for a replica."""
LEADERSHIPS: Final = (
    Kind.PARTITION_SNAPSHOT,
    Kind.PARTITION_TRANSITION,
    Kind.ISR_REMOVED,
    Kind.ISR_CHANGED,
    Kind.LEADER_EPOCH_BUMPED,
    LEADERSHIP_WRITTEN,
)
"""Rows that say what a state znode holds, if they say a leader at all."""

OFFLINE: Final = STATE_CODES[PartitionState.OFFLINE.value]
ONLINE: Final = STATE_CODES[PartitionState.ONLINE.value]
NO_PARTITION: Final = STATE_CODES[PartitionState.NON_EXISTENT.value]
NO_REPLICA: Final = STATE_CODES[ReplicaState.NON_EXISTENT.value]
_NEVER_SET: Final = 63
_FIRST_PARTITION_STATE: Final = STATE_CODES[PartitionState.NON_EXISTENT.value]
_FIRST_REPLICA_STATE: Final = STATE_CODES[ReplicaState.NON_EXISTENT.value]


def kind_code(kind: str) -> int:
    """A kind's number."""
    return code_of(kind, KINDS)


def is_kind(*kinds: str) -> Column:
    """True for rows of one of these kinds."""
    return F.col("kind").isin(*(kind_code(kind) for kind in kinds))


def legal_bits(before: Mapping[S, frozenset[S]], first: int) -> int:
    """Bit (from - first) * states + (to - first) is set for every legal pair of codes."""
    count = len(before)
    return sum(
        1 << (STATE_CODES[source.value] - first) * count + STATE_CODES[target.value] - first
        for target, sources in before.items()
        for source in sources
    )


def is_illegal() -> Column:
    """True for a transition that the state machine has not.

    Judged by what the row itself says it comes from; one that does not say is not judged.
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
    """True for a partition's transition to Offline from another state."""
    return (
        is_kind(Kind.PARTITION_TRANSITION)
        & (F.col("to_state") == OFFLINE)
        & (F.col("from_state") != OFFLINE)
    )


def is_found_offline() -> Column:
    """True for a snapshot's row of a partition whose leader died with the controller: the state
    znode still names it. One that was Offline before has no leader there, and only goes on."""
    is_offline = is_kind(Kind.PARTITION_SNAPSHOT) & (F.col("to_state") == OFFLINE)
    return is_offline & (F.col("leader") > NO_LEADER)


def ends_offline_piece() -> Column:
    """True for a row that says since when a partition was Offline, and leaves it so or not."""
    return is_kind(Kind.PARTITION_TRANSITION) & (F.col("from_state") == OFFLINE)


def replica_key() -> Column:
    """The replica whose history a row belongs to, or -1 for its partition's."""
    return F.when(is_kind(*REPLICA_KINDS), F.col("replica")).otherwise(-1)


def partition_code() -> Column:
    """``code``: a row's partition as one number, to find those of some partitions, and a few more
    where two have one."""
    return F.xxhash64(*PARTITION).alias("code")


def is_leadership() -> Column:
    """True for rows that say what a state znode holds."""
    return is_kind(*LEADERSHIPS) & F.col("leader").isNotNull()


def is_unclean() -> Column:
    """True for an election of a leader that was not in sync."""
    return (
        is_leadership()
        & ~is_kind(Kind.PARTITION_SNAPSHOT)
        & (F.col("leader") > NO_LEADER)
        & (F.col("leader") != F.coalesce("prev_leader", F.lit(NO_LEADER)))
        & F.col("prev_isr").isNotNull()
        & ~F.array_contains("prev_isr", F.col("leader"))
    )


def moves_isr() -> Column:
    """True for rows that say an ISR before and another one after."""
    are_told = F.col("prev_isr").isNotNull() & F.col("isr").isNotNull()
    return is_leadership() & are_told & (F.col("prev_isr") != F.col("isr"))


def isr_removed() -> Column:
    """The replicas that left an ISR."""
    return F.array_except("prev_isr", "isr")


def isr_added(removed: Column) -> Column:
    """The replicas that joined an ISR which ``removed`` left; sizes often tell that there is
    none."""
    grown = F.size("isr") - F.size("prev_isr") + F.size(removed)
    return F.when(grown > 0, F.array_except("isr", "prev_isr")).otherwise(
        F.array().cast("array<int>")
    )


def isr_removed_count() -> Column:
    """How many replicas left an ISR in a row."""
    return F.when(moves_isr(), F.size(isr_removed())).otherwise(0)


def isr_added_count(removed: Column) -> Column:
    """How many replicas joined an ISR in a row that ``removed`` so many."""
    grown = F.size("isr") - F.size("prev_isr")
    return F.when(moves_isr(), grown + removed).otherwise(0)
