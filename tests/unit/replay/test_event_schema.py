"""Published codes: what has been stored once is read with the same meaning for ever."""

from __future__ import annotations

from klamm.cluster.journal import Kind
from klamm.replay.event_schema import (
    CODED_SCHEMA,
    COLUMN_TEXTS,
    ELECTIONS,
    KINDS,
    SCHEMA_VERSION,
    SOURCES,
    STATE_CODES,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.statemachines.replica_state import ReplicaState

FIRST_KINDS = """
    run_start controller_elected controller_ready controller_resigned
    controller_moved event event_failed partition_snapshot
    partition_transition partition_failed replica_transition replica_failed
    isr_removed isr_changed alter_isr_refused leader_epoch_bumped
    reassignment_phase reassignment_failed broker_online broker_offline
    broker_modified topic_created topic_deletion_started topic_deletion_halted
    topic_deleted partitions_added znode_malformed request_sent
    response_received leadership_written assignment_written leadership_deleted
    write_refused admin_request replica_snapshot log_level
"""
FIRST_ELECTIONS = """
    OfflinePartitionLeaderElectionStrategy(false)
    OfflinePartitionLeaderElectionStrategy(true)
    ReassignPartitionLeaderElectionStrategy
    PreferredReplicaPartitionLeaderElectionStrategy
    ControlledShutdownPartitionLeaderElectionStrategy
"""


def test_published_lists_grow_only_at_their_ends() -> None:
    kinds, elections = FIRST_KINDS.split(), FIRST_ELECTIONS.split()
    assert [str(kind) for kind in KINDS[: len(kinds)]] == kinds
    assert list(ELECTIONS[: len(elections)]) == elections
    assert SOURCES[:4] == ("journal", "state-change.log", "controller.log", "zookeeper")
    assert len(set(KINDS)) == len(KINDS) and set(Kind) <= set(KINDS)


def test_codes_of_states_do_not_change() -> None:
    states = [state.value for state in (*PartitionState, *ReplicaState, *Phase)]
    assert sorted(STATE_CODES) == sorted(states)
    partition = ["NonExistentPartition", "NewPartition", "OnlinePartition", "OfflinePartition"]
    assert [STATE_CODES[state] for state in partition] == [1, 2, 3, 4]
    replica = ["NonExistentReplica", "NewReplica", "OnlineReplica", "OfflineReplica"]
    deletion = ["ReplicaDeletion" + end for end in ("Started", "Successful", "Ineligible")]
    assert [STATE_CODES[state] for state in (*replica, *deletion)] == list(range(11, 18))
    phases = ["U1", "U2", "U3", "A1", "A2", *(f"B{n}" for n in range(1, 9))]
    assert [STATE_CODES[phase] for phase in phases] == list(range(21, 34))


def test_the_columns_stay_and_are_described() -> None:
    names = CODED_SCHEMA.names
    assert names == list(COLUMN_TEXTS)
    assert (SCHEMA_VERSION, len(names)) == (1, 31)
