"""klamm explain on journals of the simulated world: the chain of causes, the rules, the writes."""

from __future__ import annotations

from typing import Any

import pytest

from klamm.cluster.errors import NotFound
from klamm.cluster.journal import JournalRow, Kind, parse_row
from klamm.cluster.requests import CreatableTopic, CreateTopicsRequest, DeleteTopicsRequest
from klamm.cluster.types import TopicPartition
from klamm.statemachines.election import OfflineElection, ReassignElection
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.reassignment import Phase
from klamm.world.explain.explain import Explained, explain_event, explain_partition
from klamm.world.explain.linked_events import LinkedEvent
from klamm.world.explain.rows import NOT_IN_THE_JOURNAL, ZNodeWrite, is_unclean, partition_status
from klamm.world.explain.rules import (
    ELECTION_RULES,
    KIND_RULES,
    PARTITION_RULES,
    PHASE_RULES,
)
from klamm.world.simulated.world import SimulatedWorld
from tests.sim.log_dirs import fail, on_three_dirs
from tests.sim.reassignments import ask, brokers_up, reassign, stored, with_topic

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
STATE = "/brokers/topics/t/partitions/{}/state"
BROKERS_CHANGED = "BrokerChange: The children of /brokers/ids changed."


def why(world: SimulatedWorld, tp: TopicPartition) -> tuple[Explained, LinkedEvent]:
    explained = explain_partition(lambda: world.journal.rows, tp)
    (change,) = explained.changes
    return explained, change


def history(world: SimulatedWorld, tp: TopicPartition) -> list[str]:
    explained = explain_partition(lambda: world.journal.rows, tp, show_all=True)
    return [change.name.partition("(")[0] for change in explained.changes]


def causes(change: LinkedEvent) -> list[tuple[str, str]]:
    return [(cause.relation, cause.text) for cause in change.causes]


def writes(change: LinkedEvent) -> list[ZNodeWrite]:
    return [write for step in change.steps for write in step.znodes]


def rules(change: LinkedEvent) -> set[str]:
    return {rule.text for step in change.steps for rule in step.rules}


@pytest.fixture
def world() -> SimulatedWorld:
    """Four brokers; t-0 is on 0 and 1, t-1 on 1 and 2."""
    world = brokers_up()
    with_topic(world, (0, 1), (1, 2))
    return world


def test_the_loss_of_a_leader(world: SimulatedWorld) -> None:
    world.kill(1)
    world.run_for(10_000)
    explained, change = why(world, T1)
    assert causes(change) == [
        ("done by", BROKERS_CHANGED),
        ("because", "broker 1 disappeared from /brokers/ids"),
    ]
    assert explained.status is not None
    assert explained.status[:3] == ("OnlinePartition", 2, (2,))
    assert explained.status.zk_version == stored(world, T1).state.zk_version
    assert writes(change) == [ZNodeWrite(STATE.format(1), "set", 1)]
    assert ELECTION_RULES[str(OfflineElection())].text in rules(change)
    assert KIND_RULES[Kind.ISR_REMOVED].text in rules(change)
    assert change.requests is None
    _, follower = why(world, T0)
    assert causes(follower) == causes(change)
    assert writes(follower) == [ZNodeWrite(STATE.format(0), "set", 1)]


def test_a_creation_by_znode_and_by_request(world: SimulatedWorld) -> None:
    _, change = why(world, T0)
    assert causes(change) == [
        ("done by", "TopicChange: The children of /brokers/topics changed."),
        ("because", "topic t is new in ZooKeeper, 2 partitions"),
    ]
    assert writes(change) == [ZNodeWrite(STATE.format(0), "created", 0)]
    new_online = PARTITION_RULES[PartitionState.NEW, PartitionState.ONLINE]
    assert new_online.text in rules(change)
    ask(world, CreateTopicsRequest((CreatableTopic("u", 1, 2), CreatableTopic("v", 1, 2)), 5_000))
    _, asked = why(world, TopicPartition("v", 0))
    assert [relation for relation, _ in causes(asked)] == ["done by", "because", "requested by"]
    assert causes(asked)[2][1].startswith("CreateTopicsReceived(u,v): A client requests")


def test_a_reassignment_goes_back_to_who_asked(world: SimulatedWorld) -> None:
    reassign(world, {T0: (2, 3)})
    world.run_for(10_000)
    explained, change = why(world, T0)
    assert causes(change)[0][1].startswith("AlterIsrReceived(")
    assert causes(change)[1] == (
        "continues the reassignment t-0->2,3 begun by",
        "ZkPartitionReassignment: The znode /admin/reassign_partitions was created, "
        "or may have changed since it was read.",
    )
    assert len(causes(change)) == 2
    event = explain_event(lambda: world.journal.rows, change.key.event_id).changes[0]
    assert causes(event)[1] == causes(change)[1]
    assert explained.status is not None
    assert explained.status.replicas == {2: "OnlineReplica", 3: "OnlineReplica"}
    assert ELECTION_RULES[str(ReassignElection())].text in rules(change)
    assert {PHASE_RULES[phase].text for phase in Phase if phase.startswith("B")} <= rules(change)
    found = writes(change)
    assert ZNodeWrite("/brokers/topics/t", "set") in found
    assert found[-1].path == "/admin/reassign_partitions"
    versions = [write.version for write in found if write.path == STATE.format(0)]
    assert versions == list(range(versions[0] or 0, stored(world, T0).state.zk_version + 1))
    assert dict.fromkeys(history(world, T0)[-3:]) == {
        "ZkPartitionReassignment": None,
        "AlterIsrReceived": None,
    }


def test_a_deletion_ends_with_an_answer_and_began_with_a_request(world: SimulatedWorld) -> None:
    ask(world, DeleteTopicsRequest(("t",), 20_000), timeout_ms=20_000)
    world.run_for(5_000)
    explained, change = why(world, T1)
    assert explained.status is not None
    assert explained.status == ("NonExistentPartition", None, None, None, None, {})
    shown = causes(change)
    assert shown[0] == ("done by", "response of a broker")
    assert shown[1][0] == "continues the deletion of topic t begun by"
    assert shown[1][1].startswith("TopicDeletion: The children of /admin/delete_topics")
    assert shown[2] == ("because", "topic t is queued for deletion")
    assert shown[3][0] == "requested by"
    assert shown[3][1].startswith("DeleteTopicsReceived(t)")
    event = explain_event(lambda: world.journal.rows, change.key.event_id).changes[0]
    deleted = [write.path for write in writes(event)]
    assert deleted == ["/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"]


def test_work_on_a_topic_of_the_same_name_is_not_linked_to_the_old_ones_deletion(
    world: SimulatedWorld,
) -> None:
    ask(world, DeleteTopicsRequest(("t",), 20_000), timeout_ms=20_000)
    world.run_for(5_000)
    with_topic(world, (0, 1))
    reassign(world, {T0: (0,)})
    world.run_for(10_000)
    _, change = why(world, T0)
    assert [relation for relation, _ in causes(change)] == ["done by"]
    assert change.name == "ZkPartitionReassignment"
    with_topic(world, (0, 1), topic="u")
    ask(world, DeleteTopicsRequest(("t",), 20_000), timeout_ms=20_000)
    world.run_for(5_000)
    _, deleted = why(world, T0)
    began = deleted.causes[1]
    assert began.relation == "continues the deletion of topic t begun by"
    assert began.event_id > change.key.event_id


def test_a_failover_reads_and_changes_what_the_dead_controller_led(world: SimulatedWorld) -> None:
    world.kill(0)
    world.run_for(20_000)
    explained, change = why(world, T0)
    assert change.key.epoch == 2
    assert ("because", f"broker {change.key.controller} became the controller, epoch 2") in causes(
        change
    )
    assert explained.status is not None
    assert explained.status[:3] == ("OnlinePartition", 1, (1,))
    elected = explain_event(lambda: world.journal.rows, change.key.event_id, epoch=2).changes[0]
    assert ZNodeWrite("/controller_epoch", "set to 2") in writes(elected)
    # t-1 was only read: its last change is older than the failover.
    _, untouched = why(world, T1)
    assert untouched.key.epoch == 1


def test_an_unclean_election_is_reported() -> None:
    world = brokers_up(
        config={
            "auto.leader.rebalance.enable": "false",
            "unclean.leader.election.enable": "true",
        }
    )
    with_topic(world, (1, 2))
    world.kill(2)
    world.run_for(10_000)
    world.kill(1)
    world.run_for(10_000)
    world.start(2)
    world.run_for(5_000)
    explained, _ = why(world, T0)
    assert explained.status is not None
    assert explained.status.leader == 2
    told = explain_partition(lambda: world.journal.rows, T0, show_all=True)
    unclean = [s.row.leader for c in told.changes for s in c.steps if is_unclean(s.row)]
    assert unclean == [2]


def test_an_event_shows_what_it_did_sent_and_caused() -> None:
    world = brokers_up(journal_messages=True)
    with_topic(world, (0, 1), (1, 2))
    world.kill(1)
    world.run_for(10_000)
    _, of_partition = why(world, T1)
    explained = explain_event(lambda: world.journal.rows, of_partition.key.event_id)
    (change,) = explained.changes
    assert change.name == "BrokerChange"
    assert {write.path for write in writes(change)} == {STATE.format(0), STATE.format(1)}
    assert change.requests is not None
    assert {(row.replica, row.detail) for row in change.requests} >= {
        (2, "LEADER_AND_ISR for 1"),
        (0, "LEADER_AND_ISR for 1"),
    }
    assert all(cause.text.startswith("response of broker") for cause in change.followed)
    assert len(change.followed) == len(change.requests)
    answer = explain_event(lambda: world.journal.rows, change.followed[0].event_id).changes[0]
    assert causes(answer)[1:] == [
        ("caused by", BROKERS_CHANGED),
        ("because", "broker 1 disappeared from /brokers/ids"),
    ]


def test_a_new_controller_knows_the_replicas_it_read() -> None:
    def row(seq: int, kind: Kind, **fields: Any) -> JournalRow:
        return JournalRow(1, "run", seq, seq, 0, 1, kind, topic="t", partition=0, **fields)

    online = "OnlineReplica"
    rows = [
        row(1, Kind.PARTITION_SNAPSHOT, to="OnlinePartition", leader=0, isr=(0, 1), leader_epoch=7),
        row(2, Kind.REPLICA_TRANSITION, replica=0, to=online),
        row(3, Kind.REPLICA_TRANSITION, replica=1, to=online),
    ]
    assert partition_status(rows).replicas == {0: online, 1: online}
    assert partition_status([*rows, rows[0], rows[1]]).replicas == {0: online}
    refused = row(4, Kind.ALTER_ISR_REFUSED, leader=0, isr=(0,), leader_epoch=9)
    assert partition_status([*rows, refused]).isr == (0, 1)
    # A transition without a leader leaves the one that is stored; a deletion does not.
    offline = row(5, Kind.PARTITION_TRANSITION, to="OfflinePartition")
    gone = row(6, Kind.REPLICA_TRANSITION, replica=1, to="NonExistentReplica")
    status = partition_status([*rows, offline, gone])
    assert status == ("OfflinePartition", 0, (0, 1), 7, None, {0: online})
    deleted = row(7, Kind.PARTITION_TRANSITION, to="NonExistentPartition")
    status = partition_status([*rows, offline, gone, deleted])
    assert status == ("NonExistentPartition", *[None] * 4, {0: online})


def test_one_change_is_picked(world: SimulatedWorld) -> None:
    world.kill(1)
    world.run_for(10_000)

    assert len(history(world, T1)) == 2
    explained = explain_partition(lambda: world.journal.rows, T1, lambda changes: 0)
    assert [change.name for change in explained.changes] == ["TopicChange"]
    assert explained.status is not None
    assert explained.status.leader == 1
    with pytest.raises(NotFound, match="no change to t-1 that matches --at"):
        explain_partition(lambda: world.journal.rows, T1, lambda changes: None)


@pytest.mark.parametrize(
    ("tp", "hint"),
    [
        (TopicPartition("t", 7), "partitions of t: 0 to 1"),
        (TopicPartition("tt", 0), "did you mean t-0?"),
        (TopicPartition("other", 0), "topics: t"),
    ],
)
def test_a_partition_that_is_not_there(
    world: SimulatedWorld, tp: TopicPartition, hint: str
) -> None:
    with pytest.raises(NotFound) as refused:
        explain_partition(lambda: world.journal.rows, tp)
    assert refused.value.hint == hint


def test_an_event_that_is_not_there(world: SimulatedWorld) -> None:
    with pytest.raises(NotFound, match=r"the journal has no event 99999$"):
        explain_event(lambda: world.journal.rows, 99_999)
    with pytest.raises(NotFound, match="no event 2 of controller epoch 9") as refused:
        explain_event(lambda: world.journal.rows, 2, 9)
    assert refused.value.hint == "controller epochs recorded: 1 to 1"


def test_a_row_of_another_version(world: SimulatedWorld) -> None:
    later = parse_row(
        b'{"v":9,"run_id":"run","t_ms":1,"seq":9999,"controller":0,"epoch":1,"event_id":900,'
        b'"cause_id":900,"kind":"something_new","topic":"t","partition":0,"unheard_of":1}'
    )
    assert isinstance(later, JournalRow)
    explained = explain_partition(lambda: [*world.journal.rows, later], T0)
    assert explained.changes[0].steps[-1].rules == (NOT_IN_THE_JOURNAL,)


def test_a_log_directory_that_failed_is_why_its_replicas_went_offline() -> None:
    world = on_three_dirs(1, 0)
    fail(world, 1, "d0")
    explained, change = why(world, T0)
    (row,) = [row for row in world.journal.rows if row.kind == Kind.LOG_DIR_FAILED]
    assert explained.logs == (row,)
    lost = ("because", "log directory d0 of broker 1 failed: injected failure of d0")
    assert causes(change)[-1] == lost
    assert why(world, T1)[0].logs == (), "it is in another directory"
    fail(world, 1, "d1", "d2")
    explained, change = why(world, T1)
    assert [(log.replica, log.detail) for log in explained.logs] == [
        (1, '{"log_dir":"d1","reason":"injected failure of d1"}')
    ]
    world.run_for(10_000)
    explained, change = why(world, TopicPartition("t", 2))
    assert causes(change)[-2:] == [
        ("because", "broker 1 disappeared from /brokers/ids"),
        ("because", "log directory d2 of broker 1 failed: injected failure of d2"),
    ], "a broker without a directory left halts and tells nobody"
    assert [log.replica for log in explained.logs] == [1]
