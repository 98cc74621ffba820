"""What lines of controller.log say, and in which epoch."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.replay.kafka_controller_lines import ControllerLines
from klamm.replay.kafka_lines import NOTHING, Fact

ELECTED = (
    "1 successfully elected as the controller. Epoch incremented to 7 and epoch zk version is now 9"
)
WAS = "ReplicaAssignment(replicas=0,1, addingReplicas=, removingReplicas=)"
MOVING = "ReplicaAssignment(replicas=2,0,1, addingReplicas=2, removingReplicas=1)"
MOVED = "ReplicaAssignment(replicas=2,0, addingReplicas=, removingReplicas=)"
STORED = "Successfully updated assignment of partition t-0 to "
MOVED_AWAY = "Controller moved to another broker when processing Expire."


def facts(*texts: str, trace: list[str] | None = None, **options: Any) -> list[Fact]:
    """What the last of some messages says."""
    lines = ControllerLines(**options)
    for text in texts:
        said = lines.facts(f"[Controller id=1] {text}", trace or [])
    assert said is not None, texts
    return list(said.facts)


def kinds(*texts: str) -> list[str]:
    return [fact.kind for fact in facts(*texts)]


def test_the_epoch_is_that_of_the_election_before() -> None:
    lines = ControllerLines()
    told = []
    for text in (
        "[Controller id=1] Broker failure callback for 2",
        f"[Controller id=1] {ELECTED}",
        "[Controller id=1] Broker failure callback for 2",
        "[Controller id=1] Resigned",
        "[Controller id=1] Resigned",
        "[Controller id=1] Epoch incremented to 8",
        "[Controller id=1] Ready to serve as the new controller with epoch 9",
        "[ControllerEventThread controllerId=1] Starting",
        "[Controller id=1] Broker failure callback for 2",
    ):
        said = lines.facts(text, [])
        assert said is not None
        told.append((said.epoch, [fact.kind for fact in said.facts]))
    assert told == [
        (0, ["broker_offline"]),
        (7, ["controller_elected"]),
        (7, ["broker_offline"]),
        (7, ["controller_resigned"]),
        (0, []),
        (8, ["controller_elected"]),
        (9, ["controller_ready"]),
        (0, []),
        (0, ["broker_offline"]),
    ]


def test_lines_about_brokers_are_read() -> None:
    assert facts("New broker startup callback for 1,20") == [
        Fact("broker_online", replica=1),
        Fact("broker_online", replica=20),
    ]
    assert facts("Broker failure callback for 3") == [Fact("broker_offline", replica=3)]
    assert facts("Broker info update callback for 3") == [Fact("broker_modified", replica=3)]


def test_lines_about_topics_are_read() -> None:
    text = (
        "New topics: [Set(a-1, b)], deleted topics: [HashSet(c)], new partition replica assignment "
        f"[Set(TopicIdReplicaAssignment(a-1,None,Map(a-1-0 -> {WAS}, a-1-1 -> {WAS})), "
        f"TopicIdReplicaAssignment(b,None,Map(b-0 -> {WAS})))]"
    )
    assert facts(text) == [
        Fact("topic_created", "a-1", detail="2 partitions"),
        Fact("topic_created", "b", detail="1 partitions"),
    ]
    old = "New topics: [Set()], deleted topics: [Set()], new partition replica assignment [Map()]"
    assert facts(old) == []
    assert facts("New partitions to be added Map(t-1 -> Vector(0, 1), t-2 -> Vector(1, 0))") == [
        Fact("partitions_added", "t", detail="2 partitions")
    ]
    assert facts("Deletion of topic a-1 (re)started") == [Fact("topic_deletion_started", "a-1")]
    assert facts("Deletion of topic a-1 successfully completed") == [Fact("topic_deleted", "a-1")]
    assert facts("Halted deletion of topics a,b due to offline replicas") == [
        Fact("topic_deletion_halted", "a", outcome="offline replicas"),
        Fact("topic_deletion_halted", "b", outcome="offline replicas"),
    ]


def phases(*texts: str, **options: Any) -> list[str | None]:
    lines = ControllerLines(**options)
    told = [lines.facts(f"[Controller id=1] {text}", []) for text in texts]
    return [fact.to_state for said in told if said is not None for fact in said.facts]


def test_lines_about_a_reassignment_name_its_phases() -> None:
    announced = f"Updating assignment of partition t-0 from {WAS} to {MOVING}"
    moves = "Leader 1 for partition t-0 being reassigned, is not in the new list of replicas 2,0."
    listed = "Removing partitions Map(t-0 -> Buffer(2, 0)) from the list of reassigned partitions"
    texts = (
        announced,
        f"{STORED}{MOVING}",
        f"{moves} Re-electing leader",
        f"{STORED}{MOVED}",
        f"{listed} in zookeeper",
    )
    assert phases(*texts) == ["U1", "B3", "B6", "B7"]
    [fact] = facts(f"{STORED}{MOVING}")
    assert (fact.topic, fact.partition) == ("t", 0)
    assert (fact.reassignment, fact.detail) == ("t-0->2,0", MOVING)
    [fact] = facts(f"{STORED}{MOVED}", names_updates=True)
    assert (fact.reassignment, fact.to_state) == ("t-0->2,0", "B6")


def test_the_beginning_and_the_end_of_a_reassignment_have_one_text() -> None:
    cancel = f"Updating assignment of partition t-0 from {MOVING} to {WAS}"
    assert phases(cancel, f"{STORED}{WAS}", f"{STORED}{WAS}", names_updates=True) == ["U1", "B6"]
    # Without what announces it, what was stored before tells; at the beginning of a log, nothing.
    assert phases(f"{STORED}{MOVING}", f"{STORED}{WAS}", f"{STORED}{WAS}") == ["U1", "U1", "B6"]
    assert phases(f"{STORED}{MOVED}") == [None]


def test_lines_about_failed_reassignments_name_the_reason() -> None:
    why = ["java.lang.IllegalStateException: it is gone", "\tat x"]
    [fact] = facts("Error completing reassignment of partition t-0", trace=why)
    assert fact == Fact("reassignment_failed", "t", 0, outcome="it is gone")
    [fact] = facts("Skipping reassignment of t-0 since the topic is currently being deleted")
    assert fact.outcome == "the topic is currently being deleted"
    text = "Failed completing reassignment of partition t-0 because controller has moved to"
    [fact] = facts(f"{text} another broker")
    assert fact.outcome == "controller has moved to another broker"


def test_lines_about_isrs_and_leader_epochs_are_read() -> None:
    [fact] = facts("ISR for partition t-0 updated to [1,20] and zkVersion updated to [4]")
    assert fact == Fact("isr_changed", "t", 0, isr=[1, 20], zk_version=4)
    state = (
        "LeaderAndIsr(leader=1, leaderEpoch=5, isr=List(1, 20), leaderRecoveryState=RECOVERED, "
        "partitionEpoch=4)"
    )
    known: dict[str, Any] = {"leader": 1, "leader_epoch": 5, "isr": [1, 20], "zk_version": 4}
    [fact] = facts(f"ISR for partition t-0 updated to {state}.")
    assert fact == Fact("isr_changed", "t", 0, **known)
    [fact] = facts(f"Failed to update ISR to {state} for partition t-0, bad ZK version.")
    refused = "INVALID_UPDATE_VERSION"
    assert fact == Fact("alter_isr_refused", "t", 0, outcome=refused, **known)
    [fact] = facts("Failed to update ISR for partition t-0, bad ZK version")
    assert fact == Fact("alter_isr_refused", "t", 0, outcome=refused)
    [fact] = facts("Failed to update ISR for partition t-0", trace=["a.B: c"])
    assert fact == Fact("alter_isr_refused", "t", 0, outcome="c")
    [fact] = facts("Updated leader epoch for partition t-0 to 5, zkVersion=6")
    assert fact == Fact("leader_epoch_bumped", "t", 0, leader_epoch=5, zk_version=6)
    [fact] = facts("Updated leader epoch for partition t-0 to 5")
    assert fact == Fact("leader_epoch_bumped", "t", 0, leader_epoch=5)


def test_lines_that_dump_initial_states_are_read() -> None:
    states = "Map(a-1-0 -> OnlinePartition, b-0 -> OfflinePartition)"
    assert facts(f"Started partition state machine with initial state -> {states}") == [
        Fact("partition_snapshot", "a-1", 0, to_state="OnlinePartition"),
        Fact("partition_snapshot", "b", 0, to_state="OfflinePartition"),
    ]
    states = "HashMap([Topic=a-1,Partition=0,Replica=20] -> OfflineReplica)"
    assert facts(f"Started replica state machine with initial state -> {states}") == [
        Fact("replica_snapshot", "a-1", 0, 20, to_state="OfflineReplica")
    ]
    assert facts("Started replica state machine with initial state -> HashMap()") == []
    one = "(Leader:1,ISR:1,20,LeaderEpoch:2,ZkVersion:3,ControllerEpoch:1)"
    known: dict[str, Any] = {"leader": 1, "leader_epoch": 2, "isr": [1, 20], "zk_version": 3}
    assert facts(f"All leaders = a-1-0 -> {one},b-7 -> {one}") == [
        Fact("leadership_seen", "a-1", 0, **known),
        Fact("leadership_seen", "b", 7, **known),
    ]
    assert facts(f"All leaders = (b-7,{one})") == [Fact("leadership_seen", "b", 7, **known)]


def test_lines_about_failures_name_the_reason() -> None:
    why = ["org.apache.kafka.ControllerMovedException: moved on", "\tat x"]
    [fact] = facts(MOVED_AWAY, trace=why)
    assert fact == Fact("controller_moved", detail="Expire", outcome="moved on")
    [fact] = facts("Error processing event TopicChange", trace=why)
    assert fact == Fact("event_failed", detail="TopicChange", outcome=why[0])
    text = "Error while electing or becoming controller on broker 1. Trigger controller movement"
    assert [fact.detail for fact in facts(f"{text} immediately")] == ["failover"]
    assert kinds("Shutting down broker 2") == ["event"]


@pytest.mark.parametrize(
    "message",
    [
        "[RequestSendThread controllerId=1] anything",
        "[Channel manager on controller 1]: anything",
        "Leader not yet assigned for partition t-0. Skip sending UpdateMetadataRequest.",
        "[Controller id=1] Live brokers: 1,2",
        "[Topic Deletion Manager 1] Handling deletion for topics t",
    ],
)
def test_known_lines_without_facts_say_nothing(message: str) -> None:
    assert ControllerLines(epoch=1).facts(message, []) is NOTHING


@pytest.mark.parametrize("message", ["free text", "[Controller id=1] A new text", "[Other] x"])
def test_unknown_lines_are_not_read(message: str) -> None:
    assert ControllerLines().facts(message, []) is None
