"""What lines of state-change.log say, in the texts of Kafka 2.0 to 3.8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from klamm.replay.kafka_lines import NOTHING, Fact
from klamm.replay.kafka_state_changes import common_state_change, find_common, state_change

LOGS = Path(__file__).parents[2] / "data" / "kafka_logs"

CONTROLLER = "[Controller id=1 epoch=4] "
FAILED = "Controller 1 epoch 4 failed to change state for partition t-0 from OfflinePartition to"
NOBODY = (
    "kafka.common.StateChangeFailedException: Failed to elect leader for partition t-0 under "
    "strategy OfflinePartitionLeaderElectionStrategy(false)"
)


def fact(text: str, trace: list[str] | None = None) -> Fact:
    said = state_change(CONTROLLER + text, trace or [])
    assert said is not None
    assert (said.controller, said.epoch) == (1, 4)
    [found] = said.facts
    return found


def leadership(**fields: Any) -> dict[str, Any]:
    return {"leader": 1, "leader_epoch": 5, "isr": [1, 20], "zk_version": 7, **fields}


def test_a_transition_of_a_replica_is_read() -> None:
    text = "Changed state of replica 20 for partition a-b.c_d-17 from NewReplica to OnlineReplica"
    assert fact(text) == Fact(
        "replica_transition", "a-b.c_d", 17, 20, "NewReplica", "OnlineReplica"
    )


def test_a_transition_of_a_partition_is_read() -> None:
    text = "Changed partition t-0 state from NonExistentPartition to NewPartition with assigned"
    found = fact(f"{text} replicas 1,20")
    states = ("NonExistentPartition", "NewPartition")
    assert found == Fact("partition_transition", "t", 0, -1, *states, detail="replicas=1,20")
    found = fact("Changed partition t-0 state from OnlinePartition to OfflinePartition")
    states = ("OnlinePartition", "OfflinePartition")
    assert found == Fact("partition_transition", "t", 0, -1, *states)


@pytest.mark.parametrize(
    "state",
    [
        "LeaderAndIsr(leader=1, leaderEpoch=5, isr=List(1, 20), zkVersion=7)",
        "LeaderAndIsr(leader=1, leaderEpoch=5, isr=ArrayBuffer(1, 20), zkVersion=7)",
        "LeaderAndIsr(leader=1, leaderEpoch=5, isr=List(1, 20), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=7)",
        "LeaderAndIsr(leader=1, leaderEpoch=5, isrWithBrokerEpoch=List(BrokerState(brokerId=1, "
        "brokerEpoch=-1), BrokerState(brokerId=20, brokerEpoch=9)), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=7)",
    ],
    ids=["2.0", "another collection", "3.2", "3.4"],
)
def test_elections_are_read_in_the_formats_of_all_versions(state: str) -> None:
    found = fact(f"Changed partition t-0 from NewPartition to OnlinePartition with state {state}")
    states = ("NewPartition", "OnlinePartition")
    assert found == Fact("partition_transition", "t", 0, -1, *states, **leadership())


@pytest.mark.parametrize(
    ("printed", "version"),
    [
        ("(Leader:1,ISR:1,20,LeaderEpoch:5,ZkVersion:7,ControllerEpoch:3)", 7),
        ("(Leader:1,ISR:1,20,LeaderEpoch:5,ControllerEpoch:3)", None),
        (
            "(Leader:1,ISR:1,20,LeaderRecoveryState:RECOVERED,LeaderEpoch:5,ZkVersion:7,"
            "ControllerEpoch:3)",
            7,
        ),
    ],
    ids=["2.8", "2.0", "3.2"],
)
def test_removals_from_isrs_and_reassignments_are_read(printed: str, version: int | None) -> None:
    found = fact(
        f"Partition t-0 state changed to {printed} after removing replica 3 from the ISR as part "
        "of transition to OfflineReplica"
    )
    assert found == Fact("isr_removed", "t", 0, 3, **leadership(zk_version=version))
    assignment = "ReplicaAssignment(replicas=4,1,20, addingReplicas=4, removingReplicas=1)"
    found = fact(
        f"Sent LeaderAndIsr request {printed} with new replica assignment {assignment} to leader 1 "
        "for partition being reassigned t-0"
    )
    expected = Fact("leader_epoch_bumped", "t", 0, **leadership(zk_version=version))
    expected.reassignment, expected.detail = "t-0->4,20", assignment
    assert found == expected


def test_a_reassignment_is_read_in_the_format_of_2_0() -> None:
    found = fact(
        "Sent LeaderAndIsr request (Leader:1,ISR:1,LeaderEpoch:5,ControllerEpoch:3) with new "
        "assigned replica list 4,20 to leader 1 for partition being reassigned t-0"
    )
    assert (found.kind, found.reassignment) == ("leader_epoch_bumped", "t-0->4,20")


def test_a_reassignment_whose_leader_is_unknown() -> None:
    found = fact(
        "Failed to send LeaderAndIsr request with new replica assignment ReplicaAssignment("
        "replicas=2,1, addingReplicas=2, removingReplicas=) to leader for partition being "
        "reassigned t-0"
    )
    assert (found.kind, found.reassignment) == ("reassignment_failed", "t-0->2,1")


def test_failures_have_their_reason_from_the_stack_trace() -> None:
    trace = [NOBODY, "\tat kafka.controller.ZkPartitionStateMachine.x(PartitionStateMachine:1)"]
    found = fact(f"{FAILED} OnlinePartition", trace)
    assert found == Fact(
        "partition_failed",
        "t",
        0,
        -1,
        "OfflinePartition",
        "OnlinePartition",
        election="OfflinePartitionLeaderElectionStrategy(false)",
        outcome=NOBODY.partition(": ")[2],
        detail="\n".join(trace),
    )
    assert fact(f"{FAILED} OnlinePartition").outcome is None
    found = fact(
        "Controller 1 epoch 4 initiated state change of replica 3 for partition t-0 from "
        "OnlineReplica to ReplicaDeletionStarted failed",
        ["java.lang.IllegalStateException: Replica should be elsewhere"],
    )
    states = ("OnlineReplica", "ReplicaDeletionStarted")
    why = "Replica should be elsewhere"
    assert found == Fact("replica_failed", "t", 0, 3, *states, outcome=why)


@pytest.mark.parametrize(
    "message",
    [
        "[Broker id=2] Leader t-0 with topic id Some(x) starts at leader epoch 0 from offset 0",
        "[Controller id=1 epoch=4] Sending UpdateMetadata request to brokers Set(1) for 0",
        "[Controller id=1] Mark replicas t-0 on broker 1 as offline",
        "[Controller id=1 epoch=4] Received response X for request UPDATE_METADATA",
    ],
)
def test_known_lines_without_facts_say_nothing(message: str) -> None:
    assert state_change(message, []) is NOTHING


@pytest.mark.parametrize(
    "message",
    [
        "Controller 1 epoch 1 changed partition [t,0] state from NewPartition to OnlinePartition",
        "[Controller id=1 epoch=4] Changed partition t-0 state from Here to OfflinePartition",
        "[Controller id=1 epoch=4] Changed state of replica x for partition t-0 from A to B",
        "[Controller id=1 epoch=4] Partition t-0 state changed to nothing",
        "[Controller id=1 epoch=4] Sent LeaderAndIsr request (Leader:x) to nobody",
        "[Controller id=1 epoch=4] A new line",
        "free text",
    ],
)
def test_unknown_lines_are_not_read(message: str) -> None:
    assert state_change(message, []) is None


def test_common_records_are_read_in_bulk_as_one_by_one() -> None:
    texts = [path.read_text() for path in sorted(LOGS.rglob("state-change.log"))]
    found = [record for text in texts for record in find_common(text)]
    assert len(found) == sum(text.count("] Changed state of replica ") for text in texts) == 105
    for record in found:
        message = record[0].partition("] ")[2].partition(" ")[2].partition(" (state.change")[0]
        assert common_state_change(record.groups()[4:]) == state_change(message, [])


def test_a_record_that_goes_on_is_not_a_common_one() -> None:
    begin = "[2021-10-31 10:15:42,007] TRACE "
    change = "Changed state of replica 1 for partition t-0 from NewReplica to OnlineReplica"
    line = f"{begin}{CONTROLLER}{change} (state.change.logger)\n"
    assert [at.start() for at in find_common(line + line)] == [0, len(line)]
    assert [at.start() for at in find_common(f"{line}java.io.IOException: x\n{line}")] == [
        len(line) + len("java.io.IOException: x\n")
    ]
    (unknown,) = find_common(line.replace("NewReplica", "NoReplica"))
    assert common_state_change(unknown.groups()[4:]) is None
